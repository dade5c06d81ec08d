package vertesia

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
)

// marks are the events that say whether a run has ended.
var marks = []string{"session.completed", "session.failed", typeRestarted}

// ended fills in how a run has ended, unless it was opened again since.
func (d *Dialect) ended(ctx context.Context, c chat.Caller, s *chat.Session, r *agentRun) error {
	facts, _, err := d.opt.Sessions.Read(ctx, c, s.ID, chat.Range{Types: marks, Limit: 1, Desc: true})
	if err != nil || len(facts) == 0 {
		return err
	}
	e, err := facts[0].Event()
	if err != nil {
		return err
	}
	if r.end(e.Body, e.At) {
		r.closer = &e
	}
	return nil
}

// end says of a run how it has ended; false for what is no end.
func (r *agentRun) end(body chat.Body, at chat.At) bool {
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

// closerFor is the message that ended the run, when a reader has it or something
// later already: it is said again, so that the client's wait comes to its end.
func (d *Dialect) closerFor(ctx context.Context, c chat.Caller, sess run, enc coding, at chat.At) ([]byte, error) {
	if sess.line != "" {
		return d.childCloser(ctx, c, sess, enc, at)
	}
	if sess.Status != chat.Completed && sess.Status != chat.FailedState {
		return nil, nil
	}
	var r agentRun
	if err := d.ended(ctx, c, &sess.Session, &r); err != nil || r.closer == nil || r.closer.At > at {
		return nil, err
	}
	return enc.appendMessages(nil, r.closer, 0), nil
}

// settle completes a run that was to end by itself and has nothing more to do.
func (d *Dialect) settle(ctx context.Context, c chat.Caller, id chat.SessionID) error {
	body, last, err := d.atRest(ctx, c, id)
	if body == nil || err != nil {
		return err
	}
	draft := chat.NewDraft(body).As("vertesia:end:" + string(last.ID))
	draft.Via = via
	_, err = d.opt.Sessions.Append(ctx, chat.Trusted, id, []chat.Draft{draft})
	return err
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
	facts, _, err := d.opt.Sessions.Read(ctx, c, id, chat.Range{Types: []string{"turn.completed", "user.message"}, Limit: 1, Desc: true, Workstream: new(string)})
	if err != nil || len(facts) == 0 {
		return nil, nil, err
	}
	e, err := facts[0].Event()
	if err != nil {
		return nil, nil, err
	}
	b, ok := e.Body.(chat.TurnCompleted)
	if !ok {
		return nil, nil, nil // nobody answers here
	}
	switch b.Outcome {
	case chat.Done:
		return chat.SessionCompleted{}, &e, nil
	case chat.Stopped:
		return chat.SessionCompleted{Outcome: outcomeCancelled}, &e, nil
	}
	return chat.SessionFailed{ErrorMessage: first(b.Error, "the agent could not go on")}, &e, nil
}

// describeListed is describe for one of many. A run that was to end by itself is
// shown as it will be once somebody looks at it: a list changes nothing, because
// what changes moves to its top, and the next page would lack it.
func (d *Dialect) describeListed(ctx context.Context, c chat.Caller, s *chat.Session) (agentRun, error) {
	r, err := d.describe(ctx, c, s)
	if err != nil || r.Interactive || s.Status != chat.Idle {
		return r, err
	}
	body, last, err := d.atRest(ctx, c, s.ID)
	if body != nil && err == nil {
		r.end(body, last.At)
	}
	return r, err
}
