package nemo

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
)

// maxLookBack bounds how far As reads back for an event that belongs to no turn.
const maxLookBack = 200

// As returns the frames that a socket would have sent for an event, none when the protocol has no frame for it. The
// caller has checked access. The frames depend on the events before, so the turn is folded from its start; a text is
// whole, as for a reader that saw no previews.
func (d *Dialect) As(ctx context.Context, fact chat.Fact) (any, error) {
	e, err := fact.Event()
	if err != nil {
		return nil, err
	}
	start, err := d.turnStart(ctx, &e)
	if err != nil {
		return nil, err
	}
	f := newFold(e.Session, chat.Cursor{Seq: e.Seq - 1})
	frames := []json.RawMessage{}
	enc := encoder{schema: d.schema, conversation: string(e.Session), thread: placeholder}
	for fact, err := range d.opt.Sessions.Facts(ctx, chat.Trusted, e.Session, chat.Range{After: start - 1, Before: e.Seq + 1}) {
		if err != nil {
			return nil, err
		}
		items, err := f.take(&core.Entry{Fact: fact})
		if err != nil {
			return nil, err
		}
		for i := range items {
			if b := enc.appendItem(nil, &items[i], e.At); len(b) > 0 {
				frames = append(frames, b)
			}
		}
	}
	if prompt, ok := chat.AsPrompt(&e); ok {
		for _, p := range f.prompts {
			if p.RequestID == prompt.RequestID {
				frames = append(frames, enc.appendPrompt(nil, p, e.At))
			}
		}
	}
	return frames, nil
}

// turnStart finds the message that started the turn of an event.
func (d *Dialect) turnStart(ctx context.Context, e *chat.Event) (chat.Seq, error) {
	if id, ok := chat.ParseID(chat.TurnPrefix, string(e.Turn)); ok {
		sess, seq, err := d.opt.Sessions.ByID(ctx, chat.Trusted, id)
		if err == nil && sess.ID == e.Session && seq <= e.Seq {
			started, err := d.opt.Sessions.Event(ctx, chat.Trusted, e.Session, seq)
			if b, ok := started.Body.(chat.TurnStarted); ok && b.Trigger > 0 {
				seq = b.Trigger
			}
			return seq, err
		}
		if err != nil && chat.CodeOf(err) != chat.NotFound {
			return 0, err
		}
	}
	return max(e.Seq, maxLookBack+1) - maxLookBack, nil
}
