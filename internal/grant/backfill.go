package grant

import (
	"context"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// maxBackfilled bounds the sessions whose position is remembered.
const maxBackfilled = 10_000

// backfill reads events that were committed but not handled, such as before a crash. It remembers how far it has read,
// so that a long log is read once.
type backfill struct {
	sessions sessions
	typ      string                                   // of the events
	handle   func(context.Context, *chat.Event) error // may get an event again

	mu   sync.Mutex
	upTo map[chat.SessionID]chat.Seq
}

// run handles the events of a session.
func (b *backfill) run(ctx context.Context, id chat.SessionID) error {
	sess, err := b.sessions.Get(ctx, chat.Trusted, id)
	if err != nil {
		return err
	}
	b.mu.Lock()
	after := b.upTo[sess.ID]
	b.mu.Unlock()
	if after >= sess.Last {
		return nil
	}
	for e, err := range b.sessions.Events(ctx, chat.Trusted, sess.ID, chat.Range{After: after, Types: []string{b.typ}}) {
		if err == nil {
			err = b.handle(ctx, &e)
		}
		if err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.upTo == nil || len(b.upTo) >= maxBackfilled {
		b.upTo = map[chat.SessionID]chat.Seq{}
	}
	b.upTo[sess.ID] = max(b.upTo[sess.ID], sess.Last)
	return nil
}
