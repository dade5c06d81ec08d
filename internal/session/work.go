package session

import (
	"context"
	"slices"
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/workstream"
)

// result is the last text and the merged files of a workstream whose turn ends.
type result struct {
	said  *said
	files []string
}

// workTurnEnded ends or continues a workstream after its turn has ended.
func (d *decision) workTurnEnded(w *chat.Workstream, outcome chat.Outcome, cause, text string, files []string) {
	d.work = true
	waits := d.state.Line(w.ID).Next() != 0
	switch {
	case w.State == chat.WorkCanceling:
		d.endWork(w, chat.WorkstreamCanceled{ID: w.ID, Reason: w.Reason, Files: files})
	case outcome == chat.Failed || outcome == chat.Interrupted:
		if cause == "" {
			cause = "its agent could not continue"
		}
		d.endWork(w, chat.WorkstreamFailed{ID: w.ID, Error: clip(cause), Files: files})
	case w.Interactive:
		p := chat.WorkstreamProgress{ID: w.ID, Phase: chat.PhaseDone, Iteration: w.Iteration, Share: workstream.Share(w, d.now), Summary: text}
		if outcome == chat.Stopped { // there is no answer, but the parent waits for an end
			p.Summary, p.Message = "", "It was stopped."
		}
		if outcome == chat.Done || !waits {
			d.addSystem(p, w.Parent, "")
		}
		d.advance(w.ID)
		d.advance(w.Parent)
	case waits:
		d.advance(w.ID)
	case outcome == chat.Stopped:
		d.endWork(w, chat.WorkstreamCanceled{ID: w.ID, Reason: "it was stopped", Files: files})
	case d.waitsForChildren(w):
		// The results of its children start its next turn.
	default:
		d.endWork(w, chat.WorkstreamCompleted{ID: w.ID, Summary: text, Files: files})
	}
}

// waitsForChildren reports whether a workstream has children that will end without a new
// message. If so, it adds a progress event.
func (d *decision) waitsForChildren(w *chat.Workstream) bool {
	n := 0
	for _, c := range workstream.Live(d.state, w.ID) {
		if !c.Interactive || c.State == chat.WorkCanceling || d.state.Line(c.ID).Turn != nil {
			n++
		}
	}
	if n > 0 {
		d.addSystem(chat.WorkstreamProgress{
			ID: w.ID, Phase: chat.PhaseBlocked, Iteration: w.Iteration, Share: workstream.Share(w, d.now),
			Message: "Waiting for " + strconv.Itoa(n) + " workstreams.",
		}, w.Parent, "")
	}
	return n > 0
}

// endWork ends a workstream that has no running turn; end is its last event.
func (d *decision) endWork(w *chat.Workstream, end chat.Body) {
	d.work = true
	d.withdrawQueued(w.ID)
	if b, ok := end.(chat.WorkstreamCanceled); ok && b.Files == nil {
		b.Files = d.files[w.ID]
		end = b
	}
	d.addSystem(end, w.Parent, "")
	// Stop the children after the end event, so that their events start no turn on the
	// ended line.
	for _, c := range workstream.Live(d.state, w.ID) {
		d.stopWork(c, chat.System, "the workstream that launched it has ended", 0, "")
	}
	d.advance(w.Parent)
}

// withdrawQueued withdraws the queued messages of a line that ends.
func (d *decision) withdrawQueued(line string) {
	for _, seq := range slices.Clone(d.state.Line(line).Queue) {
		d.addSystem(chat.UserMessageWithdrawn{Sequence: seq}, line, "")
	}
}

// stopWork requests the end of a workstream and its descendants. until is the deadline
// for its agent, 0 for the default; ack is the acknowledgement for the caller.
func (d *decision) stopWork(w *chat.Workstream, by chat.Actor, reason string, until chat.At, ack string) {
	d.work = true
	if w.State == chat.WorkRunning {
		grace := d.now + chat.At(workstream.Grace.Microseconds())
		d.addSystem(chat.WorkstreamCanceling{ID: w.ID, By: &by, Reason: reason, Deadline: grace}, w.Parent, "")
	}
	for _, c := range workstream.Live(d.state, w.ID) {
		d.stopWork(c, by, "the workstream that launched it ends", until, "")
	}
	if !d.stopTurn(w.ID, by, reason, until, ack).Stopped {
		d.endWork(w, chat.WorkstreamCanceled{ID: w.ID, Reason: reason})
	}
}

// addPhase adds a progress event if body, which was just added on the line, moves the
// workstream to another phase. before is the number of events before body was added.
func (d *decision) addPhase(line string, body chat.Body, before int) {
	if len(d.events) == before {
		return // body was refused
	}
	w := d.state.Workstream(line)
	if w == nil || w.State != chat.WorkRunning || d.state.Line(line).Turn == nil {
		return
	}
	p := chat.WorkstreamProgress{ID: w.ID, Iteration: w.Iteration, Share: workstream.Share(w, d.now)}
	switch b := body.(type) {
	case chat.AgentToolCall:
		p.Phase, p.Tool = chat.PhaseTool, b.Tool
		if w.Phase != chat.PhaseTool {
			p.Iteration++
		}
	case chat.AgentInputRequest:
		if b.InputType == chat.InputNotification {
			return
		}
		p.Phase = chat.PhaseBlocked
	case chat.AgentApprovalRequest, chat.AgentPermissionRequest:
		if !slices.ContainsFunc(d.state.Prompts, func(p *chat.Prompt) bool { return p.Workstream == line }) {
			return // it was approved automatically
		}
		p.Phase = chat.PhaseBlocked
	case chat.AgentText:
		if b.Partial {
			return
		}
		p.Phase = chat.PhaseSynthesizing
	case chat.UserInputResponse, chat.UserApprovalResponse, chat.UserPermissionResponse:
		if w.Phase != chat.PhaseBlocked {
			return
		}
		p.Phase = chat.PhasePlanning
	default:
		return
	}
	if p.Phase != w.Phase || p.Tool != w.Tool {
		d.addSystem(p, w.Parent, "")
	}
}

// said is the last text of an agent in a turn, read from the log.
type said struct {
	seq   chat.Seq
	words string
}

func (q *said) read(ctx context.Context, r *sequencer, seq chat.Seq) error {
	*q = said{}
	if seq == 0 {
		return nil
	}
	e, err := r.sessions.event(ctx, r.id, seq)
	if chat.CodeOf(err) == chat.NotFound {
		return nil // the event is in this batch and not stored yet
	}
	if b, ok := e.Body.(chat.AgentText); ok && err == nil {
		q.seq, q.words = seq, b.Text
	}
	return err
}

// text returns the text of the event seq, shortened so that it fits into an event.
func (q *said) text(d *decision, seq chat.Seq) string {
	if (q == nil || q.seq != seq) && seq > d.after && len(d.events) > 0 && int(seq-d.after) <= len(d.events) {
		if b, ok := d.events[seq-d.after-1].Body.(chat.AgentText); ok {
			return clip(b.Text)
		}
	}
	if q == nil || q.seq != seq || seq == 0 {
		return ""
	}
	return clip(q.words)
}

// look calls f with the committed state of a session.
func (s *Sessions) look(ctx context.Context, id chat.SessionID, f func(st *chat.State)) error {
	r := s.acquire(id)
	defer r.release()
	return r.do(ctx, &request{unbounded: true, look: func(st *chat.State) error { f(st); return nil }})
}
