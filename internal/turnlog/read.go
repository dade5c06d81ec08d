package turnlog

import (
	"context"
	"slices"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// Entry is an event or a piece of a block.
type Entry struct {
	At    chat.At
	Event *chat.Event   // nil for a piece
	Piece *chat.Preview // nil for an event
}

// Read calls take with the entries that [Follow] yields, decoded, until take returns true. live says that all stored entries
// were taken. idle, unless it is nil, is called each time that nothing has happened for so long.
func Read(ctx context.Context, log Log, c chat.Caller, id chat.SessionID, after chat.Seq, silence time.Duration, idle func() error, take func(entries []Entry, live bool) (done bool, err error)) error {
	for batch, err := range Follow(ctx, log, c, id, after, silence) {
		if err != nil {
			return err
		}
		if batch.Idle && idle != nil {
			if err := idle(); err != nil {
				return err
			}
		}
		entries := make([]Entry, len(batch.Entries))
		for i := range batch.Entries {
			if entries[i], err = decode(&batch.Entries[i]); err != nil {
				return err
			}
		}
		if done, err := take(entries, batch.Live); done || err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// decode copies an entry, which is valid only until the next batch.
func decode(e *core.Entry) (Entry, error) {
	if e.Piece != nil {
		p := *e.Piece
		return Entry{At: e.At, Piece: &p}, nil
	}
	ev, err := chat.Fact{Seq: e.Fact.Seq, JSON: slices.Clone(e.Fact.JSON)}.Event()
	return Entry{At: e.At, Event: &ev}, err
}
