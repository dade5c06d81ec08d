package agui

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/turnlog"
)

// As returns an event as clients of this dialect see it: a list of frames, empty when nothing of the event is shown. The caller has
// checked access to the event.
func (d *Dialect) As(ctx context.Context, fact chat.Fact) (any, error) {
	e, err := fact.Event()
	if err != nil {
		return nil, err
	}
	frames := []json.RawMessage{}
	sess, err := d.Sessions.Get(ctx, chat.Trusted, e.Session)
	if err != nil {
		return nil, err
	}
	t := &target{caller: chat.Trusted, session: e.Session, thread: threadOf(&sess), variant: variant{v1: true}}
	if t.base, err = turnlog.Last(ctx, d.Sessions, t.caller, t.session, e.Seq); err != nil || t.base == nil {
		return frames, err
	}
	enc := newEncoder(t.variant, t.thread)
	if err := d.prime(ctx, t, enc); err != nil {
		return nil, err
	}
	for one, err := range d.Sessions.Events(ctx, t.caller, t.session, chat.Range{After: t.base.Seq - 1, Before: e.Seq + 1}) {
		if err != nil {
			return nil, err
		}
		made := enc.take(turnlog.Entry{At: one.At, Event: &one})
		if one.Seq < e.Seq {
			continue
		}
		for _, f := range made {
			frames = append(frames, f.data)
		}
	}
	return frames, nil
}
