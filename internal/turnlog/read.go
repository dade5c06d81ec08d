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

// Read calls take with the entries of a session after an event, and then with new ones as they happen, until take returns true; see
// [Decoder]. live says that all stored entries were taken. idle, unless it is nil, is called each time that nothing has happened for
// the time of silence.
func Read(ctx context.Context, sessions Sessions, c chat.Caller, id chat.SessionID, after chat.Seq, silence time.Duration, idle func() error, take func(entries []Entry, live bool) (done bool, err error)) error {
	d := NewDecoder(sessions, c, id)
	for batch, err := range sessions.Watch(ctx, c, id, Start(after, silence), nil) {
		if err == nil && batch.Idle && idle != nil {
			err = idle()
		}
		if err != nil {
			return err
		}
		if done, err := d.Take(ctx, batch, take); done || err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// decode returns an entry that stays valid after the batch that has e.
func decode(e *core.Entry) (Entry, error) {
	if e.Piece != nil {
		return Entry{At: e.At, Piece: e.Piece}, nil
	}
	ev, err := chat.Fact{Seq: e.Fact.Seq, JSON: slices.Clone(e.Fact.JSON)}.Event()
	return Entry{At: e.At, Event: &ev}, err
}
