package chat

import (
	"cmp"
	"slices"
)

// Transcript returns a transcript that continues the snapshot: events and previews after its cursor change it as they
// change the fold of the whole log. Of the session's state it has what View shows.
func (s *Snapshot) Transcript() *Transcript {
	t := &Transcript{State: s.state(), Items: slices.Clone(s.Items), Open: slices.Clone(s.Open), last: s.Cursor.Seq}
	t.reset()
	for _, turn := range s.State.Turns {
		t.turn(turn.ID).began = !s.More || len(s.Items) > 0 && s.Items[0].Seq <= turn.Trigger
	}
	for i := range t.Items {
		it := &t.Items[i]
		t.index[it.ID] = i
		switch {
		case it.Tool != nil && it.Tool.Status == ToolRunning:
			key := callKey{turn: it.Turn, line: it.Workstream, call: cmp.Or(it.Tool.CallID, it.Tool.BatchID)}
			if key.call == "" {
				key.tool = it.Tool.Tool
			}
			t.runs(key, i)
		case it.File != nil && it.File.Change == "uploaded" && !it.File.Removed:
			t.files[it.File.Path] = i
		}
	}
	return t
}

// state makes the state of a transcript from the session and the view.
func (s *Snapshot) state() State {
	v := &s.State
	st := State{Session: s.Session, Last: s.Cursor.Seq, LastAt: s.Session.UpdatedAt, Plan: v.Plan, Usage: v.Usage}
	for _, p := range v.Prompts {
		st.Prompts = append(st.Prompts, &p)
	}
	for _, w := range v.Workstreams {
		st.Workstreams = append(st.Workstreams, &w)
	}
	for _, t := range v.Turns {
		st.line(t.Workstream).Turn = &Turn{
			ID: t.ID, Trigger: t.Trigger, Agent: t.Agent, Attempt: t.Attempt, StartedAt: t.StartedAt, Stopping: t.Stopping, Usage: t.Usage,
		}
	}
	lines := map[Seq]string{}
	for i := range s.Items {
		lines[s.Items[i].Seq] = s.Items[i].Workstream
	}
	for _, seq := range v.Queued {
		l := st.line(lines[seq])
		if l.Turn != nil && !l.Turn.Stopping && s.Session.Policy == Steer {
			l.Turn.Steered = append(l.Turn.Steered, seq)
		} else {
			l.Queue = append(l.Queue, seq)
		}
	}
	return st
}
