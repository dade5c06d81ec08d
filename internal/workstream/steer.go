package workstream

import (
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/text"
)

// Steered checks a directive to a workstream.
func Steered(w *chat.Workstream, s chat.Steering) (chat.WorkstreamSteered, error) {
	b := chat.WorkstreamSteered{ID: w.ID, Command: s.Command, Text: s.Text}
	if w.State != chat.WorkRunning {
		return b, ended(w)
	}
	if len(s.Text) > maxText {
		return b, chat.Errorf(chat.TooLarge, "a directive has at most %d KiB", maxText>>10).With("field", "text")
	}
	switch s.Command {
	case chat.SteerAdd, chat.SteerPriority, chat.SteerConstraint:
		if s.Text == "" {
			return b, chat.Errorf(chat.Invalid, "%s needs a text that says what", s.Command).With("field", "text")
		}
	case chat.SteerPause, chat.SteerResume:
	default:
		return b, chat.Errorf(chat.Invalid, "command %q is not one of add_instruction, set_priority, add_constraint, pause_requested, resume_requested", text.Clip(s.Command, 64)).
			With("field", "command")
	}
	return b, nil
}

// Messaged checks a follow-up to a workstream.
func Messaged(w *chat.Workstream, s chat.Steering) (chat.WorkstreamMessage, error) {
	b := chat.WorkstreamMessage{ID: w.ID, Text: s.Text}
	switch {
	case w.State != chat.WorkRunning:
		return b, ended(w)
	case s.Text == "":
		return b, chat.Errorf(chat.Invalid, "a message needs a text").With("field", "message")
	case len(s.Text) > maxText:
		return b, chat.Errorf(chat.TooLarge, "a message has at most %d KiB", maxText>>10).With("field", "message")
	}
	return b, nil
}

// AcceptsMessages reports why a person cannot send a message to the workstream.
func AcceptsMessages(w *chat.Workstream) error {
	if w.State != chat.WorkRunning {
		return ended(w)
	}
	return nil
}

// Find returns the workstream with this id or launch id.
func Find(st *chat.State, name string) (*chat.Workstream, error) {
	if w := st.WorkstreamBy(name); w != nil {
		return w, nil
	}
	return nil, notFound(text.Clip(name, 64))
}

// Progressed checks a progress report of the workstream's agent.
func Progressed(w *chat.Workstream, p chat.WorkstreamProgress, now chat.At) (chat.WorkstreamProgress, error) {
	switch p.Phase {
	case "", chat.PhasePlanning, chat.PhaseTool, chat.PhaseSynthesizing, chat.PhaseBlocked:
	case chat.PhaseDone:
		if w.Interactive {
			p.Phase = "" // the server sets it when the workstream waits, together with its answer
		}
	default:
		return p, chat.Errorf(chat.Invalid, "phase %q is not one of planning, executing_tool, synthesizing, blocked, done", text.Clip(p.Phase, 64)).With("field", "phase")
	}
	if len(p.Message) > maxText || len(p.Tool) > 256 || p.Iteration < 0 {
		return p, chat.Errorf(chat.Invalid, "progress has a message of at most %d KiB, a tool of at most 256 bytes and an iteration from 0 on", maxText>>10)
	}
	p.ID, p.Share, p.Summary = w.ID, Share(w, now), ""
	if p.Iteration == 0 {
		p.Iteration = w.Iteration
	}
	return p, nil
}

// Live returns the workstreams that a line launched and that have not ended.
func Live(st *chat.State, parent string) []*chat.Workstream {
	var live []*chat.Workstream
	for _, w := range st.Workstreams {
		if w.Parent == parent && !w.Ended() {
			live = append(live, w)
		}
	}
	return live
}

// Merges reports whether the files of the workstream are merged into those of the line that launched it.
func Merges(w *chat.Workstream) bool { return w.MergeArtifacts == nil || *w.MergeArtifacts }
