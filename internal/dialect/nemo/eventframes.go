package nemo

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// maxLookBack bounds how far As reads back for an event that belongs to no turn.
const maxLookBack = 200

// As gives the frames that a socket would have been sent for an event: none
// when the protocol has no words for it. The caller of As has made sure that the
// event may be seen. The frames depend on what went before, so the turn is
// folded from its beginning; a text is shown whole, as for a reader that saw none
// of its pieces.
func (d *Dialect) As(ctx context.Context, fact chat.Fact) (any, error) {
	e, err := fact.Event()
	if err != nil {
		return nil, err
	}
	after, err := d.turnStart(ctx, &e)
	if err != nil {
		return nil, err
	}
	f := newFold(e.Session, chat.Cursor{Seq: e.Seq - 1})
	frames := []json.RawMessage{}
	v := encoder{schema: d.schema, conversation: string(e.Session), thread: placeholder}
	for after < e.Seq {
		facts, _, err := d.opt.Sessions.Read(ctx, chat.Trusted, e.Session, chat.Range{After: after, Limit: int(min(500, e.Seq-after))})
		if err != nil {
			return nil, err
		}
		if len(facts) == 0 {
			break
		}
		for _, fact := range facts {
			after = fact.Seq
			items, err := f.take(&chat.Entry{Fact: fact})
			if err != nil {
				return nil, err
			}
			for i := range items {
				if b := v.appendItem(nil, &items[i], e.At); len(b) > 0 {
					frames = append(frames, b)
				}
			}
		}
	}
	if asks, ok := chat.AsPrompt(&e); ok {
		for _, p := range f.prompts {
			if p.RequestID == asks.RequestID {
				frames = append(frames, v.appendPrompt(nil, p, e.At))
			}
		}
	}
	return frames, nil
}

// turnStart finds the event before the message that began an event's turn.
func (d *Dialect) turnStart(ctx context.Context, e *chat.Event) (chat.Seq, error) {
	if id, ok := chat.ParseID(chat.TurnPrefix, string(e.Turn)); ok {
		sess, seq, err := d.opt.Sessions.ByID(ctx, chat.Trusted, id)
		if err == nil && sess.ID == e.Session && seq <= e.Seq {
			fact, err := d.opt.Sessions.Event(ctx, chat.Trusted, e.Session, seq)
			if err != nil {
				return 0, err
			}
			started, err := fact.Event()
			if err != nil {
				return 0, err
			}
			if b, ok := started.Body.(chat.TurnStarted); ok && b.Trigger > 0 {
				return b.Trigger - 1, nil
			}
			return seq - 1, nil
		}
		if err != nil && chat.CodeOf(err) != chat.NotFound {
			return 0, err
		}
	}
	if e.Seq <= maxLookBack {
		return 0, nil
	}
	return e.Seq - maxLookBack - 1, nil
}
