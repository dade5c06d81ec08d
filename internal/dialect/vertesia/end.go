package vertesia

import (
	"context"

	"github.com/parley-hq/parley/chat"
)

// ended fills in how a run ended, unless it was opened again since.
func (d *Dialect) ended(ctx context.Context, c chat.Caller, s *chat.Session, r *agentRun) error {
	e, err := d.lastEvent(ctx, c, s.ID, chat.Range{Types: []string{"session.completed", "session.failed", typeRestarted}})
	if err != nil || e == nil {
		return err
	}
	switch b := e.Body.(type) {
	case chat.SessionCompleted:
		r.Status = runCompleted
		if b.Outcome == outcomeCancelled {
			r.Status = runCancelled
		}
	case chat.SessionFailed:
		r.Status, r.failed = runFailed, b.ErrorMessage
	default:
		return nil
	}
	r.CompletedAt, r.end = &e.At, e
	return nil
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
