package workstream

import "github.com/parley-hq/parley/chat"

// Status describes a workstream at a time.
func Status(st *chat.State, w *chat.Workstream, now chat.At) chat.WorkstreamStatus {
	s := chat.WorkstreamStatus{
		LaunchID: w.LaunchID, ID: w.ID, Name: w.Name, Task: w.Task, Agent: w.Agent, Parent: w.Parent, Sequence: w.Sequence,
		State: w.State, Phase: w.Phase, Tool: w.Tool, Iteration: w.Iteration, Message: w.Message, ProgressAt: w.ProgressAt,
		Share: Share(w, now), ElapsedMS: elapsed(w, now).Milliseconds(), StartedAt: w.LaunchedAt, EndedAt: w.EndedAt,
		Deadline: deadlineAt(w), DeadlineSeconds: w.DeadlineSeconds, Interactive: w.Interactive, Paused: w.Paused && !w.Ended(),
		WrappingUp: w.WrappingUp && !w.Ended(), Warned: w.Warned, Summary: w.Summary, Error: w.Error, Reason: w.Reason, Files: w.Files,
	}
	if w.Ended() {
		s.DurationMS = int64(w.EndedAt-w.LaunchedAt) / 1000
	}
	if t := st.Line(w.ID).Turn; t != nil {
		s.Turn = t.ID
	}
	s.Waiting = w.Interactive && w.State == chat.WorkRunning && s.Turn == "" && st.Line(w.ID).Next() == 0
	for _, c := range st.Workstreams {
		if c.Parent == w.ID {
			s.Children = append(s.Children, c.ID)
		}
	}
	return s
}
