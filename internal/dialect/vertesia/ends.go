package vertesia

import (
	"cmp"
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
)

// ended fills in how a run ended, unless it was opened again since.
func (d *Dialect) ended(ctx context.Context, c chat.Caller, s *chat.Session, r *agentRun) error {
	e, err := d.lastEvent(ctx, c, s.ID, chat.Range{Types: []string{"session.completed", "session.failed", typeRestarted}})
	if err != nil || e == nil {
		return err
	}
	if r.setEnd(e.Body, e.At) {
		r.end = e
	}
	return nil
}

// setEnd fills in how a run ended; it returns false for an event that ends none.
func (r *agentRun) setEnd(body chat.Body, at chat.At) bool {
	switch b := body.(type) {
	case chat.SessionCompleted:
		r.Status = runCompleted
		if b.Outcome == outcomeCancelled {
			r.Status = runCancelled
		}
	case chat.SessionFailed:
		r.Status, r.failed = runFailed, b.ErrorMessage
	default:
		return false
	}
	r.CompletedAt = &at
	return true
}

// endMessage is the message that ended a run, for a reader that has it already. It
// is sent again, because the client waits until a stream brings it.
func (d *Dialect) endMessage(ctx context.Context, c chat.Caller, sess run, enc coding, at chat.At) ([]byte, error) {
	if sess.workstream != "" {
		return d.workstreamEnd(ctx, c, sess, enc, at)
	}
	if sess.Status != chat.Completed && sess.Status != chat.FailedState {
		return nil, nil
	}
	var r agentRun
	if err := d.ended(ctx, c, &sess.Session, &r); err != nil || r.end == nil || r.end.At > at {
		return nil, err
	}
	return enc.appendMessages(nil, r.end, 0), nil
}

// settle completes a run that was to end by itself and has nothing more to do.
func (d *Dialect) settle(ctx context.Context, c chat.Caller, id chat.SessionID) error {
	body, last, err := d.atRest(ctx, c, id)
	if body == nil || err != nil {
		return err
	}
	return d.append(ctx, chat.Trusted, id, chat.NewDraft(body).As("vertesia:end:"+string(last.ID)))
}

// atRest returns what is to end a run that has nothing more to do, and its last
// event; nil while there is something to do.
func (d *Dialect) atRest(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Body, *chat.Event, error) {
	st, err := d.opt.Sessions.State(ctx, c, id)
	if err != nil {
		return nil, nil, err
	}
	if st.Session.Status != chat.Idle || st.Busy() || slices.ContainsFunc(st.Workstreams, func(w *chat.Workstream) bool {
		return w.State == "running" || w.State == "canceling"
	}) {
		return nil, nil, nil
	}
	e, err := d.lastEvent(ctx, c, id, chat.Range{Types: []string{"turn.completed", "user.message"}, Workstream: new(string)})
	if err != nil || e == nil {
		return nil, nil, err
	}
	b, ok := e.Body.(chat.TurnCompleted)
	if !ok {
		return nil, nil, nil // the run has no agent here
	}
	switch b.Outcome {
	case chat.Done:
		return chat.SessionCompleted{}, e, nil
	case chat.Stopped:
		return chat.SessionCompleted{Outcome: outcomeCancelled}, e, nil
	}
	return chat.SessionFailed{ErrorMessage: cmp.Or(b.Error, "the agent could not go on")}, e, nil
}

// describeListed is describe for one of many. A run that was to end by itself is
// shown as it will be once a reader opens it: a list changes nothing, because a
// changed run moves to the top of the list, and the next page would lack it.
func (d *Dialect) describeListed(ctx context.Context, c chat.Caller, s *chat.Session) (agentRun, error) {
	r, err := d.describe(ctx, c, s)
	if err != nil || r.Interactive || s.Status != chat.Idle {
		return r, err
	}
	body, last, err := d.atRest(ctx, c, s.ID)
	if body != nil && err == nil {
		r.setEnd(body, last.At)
	}
	return r, err
}
