package session

import (
	"context"
	"slices"
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/workstream"
)

// result is what a workstream leaves when its turn ends.
type result struct {
	said  *said
	files []string
}

// workTurnEnded decides what becomes of a workstream whose turn has ended.
func (d *decision) workTurnEnded(w *chat.Workstream, outcome chat.Outcome, cause, text string, files []string) {
	d.work = true
	waits := d.state.Line(w.ID).Next() != 0
	switch {
	case w.State == chat.WorkCanceling:
		d.endWork(w, chat.WorkstreamCanceled{ID: w.ID, Reason: w.Reason, Files: files})
	case outcome == chat.Failed || outcome == chat.Interrupted:
		if cause == "" {
			cause = "its agent could not go on"
		}
		d.endWork(w, chat.WorkstreamFailed{ID: w.ID, Error: clip(cause), Files: files})
	case w.Interactive:
		p := chat.WorkstreamProgress{ID: w.ID, Phase: chat.PhaseDone, Iteration: w.Iteration, Share: workstream.Share(w, d.now), Summary: text}
		if outcome == chat.Stopped { // it has no answer, but the parent waits for its end
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
	case d.awaits(w):
		// Its children's results wake it.
	default:
		d.endWork(w, chat.WorkstreamCompleted{ID: w.ID, Summary: text, Files: files})
	}
}

// awaits reports whether a workstream has children that will end by themselves,
// and says so when it has.
func (d *decision) awaits(w *chat.Workstream) bool {
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

// endWork ends a workstream whose turn has ended, with the event that says how.
func (d *decision) endWork(w *chat.Workstream, end chat.Body) {
	d.work = true
	d.withdrawQueued(w.ID)
	if b, ok := end.(chat.WorkstreamCanceled); ok && b.Files == nil {
		b.Files = d.files[w.ID]
		end = b
	}
	d.addSystem(end, w.Parent, "")
	// After it: what becomes of its children must not begin anything there.
	for _, c := range workstream.Live(d.state, w.ID) {
		d.stopWork(c, chat.System, "the workstream that launched it has ended", 0, "")
	}
	d.advance(w.Parent)
}

// withdrawQueued takes back the messages that wait for a line that ends.
func (d *decision) withdrawQueued(line string) {
	for _, seq := range slices.Clone(d.state.Line(line).Queue) {
		d.addSystem(chat.UserMessageWithdrawn{Sequence: seq}, line, "")
	}
}

// stopWork tells a workstream, and those it launched, to end; until is how long
// its agent may take, 0 for a moment; ack is what its caller calls the request.
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

// advanced adds that a workstream has entered another phase, when what was just
// added on its line shows it. before is how many events there were.
func (d *decision) advanced(line string, body chat.Body, before int) {
	if len(d.events) == before {
		return // it was refused
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
			return // it is settled
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

// said is what an agent last said in a turn, read from the log.
type said struct {
	seq   chat.Seq
	words string
}

func (q *said) read(ctx context.Context, r *sequencer, seq chat.Seq) error {
	*q = said{}
	if seq == 0 {
		return nil
	}
	fact, err := r.sessions.log.Get(ctx, r.id, seq)
	if chat.CodeOf(err) == chat.NotFound {
		return nil // it is decided and not stored yet
	}
	if err != nil {
		return err
	}
	e, err := fact.Event()
	if b, ok := e.Body.(chat.AgentText); ok && err == nil {
		q.seq, q.words = seq, b.Text
	}
	return err
}

// text returns what was said at seq, bounded so that it fits into an event.
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

// look shows f the state of a session as it is committed.
func (s *Sessions) look(ctx context.Context, id chat.SessionID, f func(st *chat.State)) error {
	r := s.acquire(id)
	defer r.release()
	return r.do(ctx, &request{unbounded: true, look: func(st *chat.State) error { f(st); return nil }})
}
