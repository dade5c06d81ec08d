package vertesia

import (
	"context"
	"math"
	"sort"
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
)

// The cursor of a client is one number, the timestamp of the last message it has.
// Timestamps are positions, which rise strictly over events and previews alike, so
// the number says how much of both the client has.

// position reads a timestamp from the query, 0 when there is none.
func position(q *edge.Query, name string) chat.At {
	s := q.Text(name)
	if s == "" {
		return 0
	}
	ms, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(ms) || ms < 0 || ms > 1e15 {
		q.Refuse(name, s, "it must be a timestamp in milliseconds")
		return 0
	}
	return chat.At(math.Round(ms * 1000))
}

// cursorAt turns a position into a cursor, and returns the last event at or before
// it, of which the client may lack messages. A position after the last message is
// taken for that of the last message: it comes from a clock that is ahead.
func (d *Dialect) cursorAt(ctx context.Context, c chat.Caller, sess *chat.Session, at chat.At) (cursor chat.Cursor, last *chat.Event, err error) {
	// Blocks first: a block that is finished meanwhile is an event after the cursor,
	// and its entry in the cursor is ignored.
	open, err := d.opt.Sessions.Blocks(ctx, c, sess.ID)
	if err != nil {
		return cursor, nil, err
	}
	if last, err = d.lastBefore(ctx, c, sess, at); err != nil {
		return cursor, nil, err
	}
	if last != nil {
		cursor.Seq = last.Seq
	}
	for _, b := range open {
		n := sort.Search(len(b.Ends), func(i int) bool { return b.Ends[i].At > at })
		if n > 0 {
			cursor.PassPiece(b.ID, b.Ends[n-1].Bytes)
		}
	}
	return cursor, last, nil
}

// lastBefore returns the last event at or before a position, or nil.
func (d *Dialect) lastBefore(ctx context.Context, c chat.Caller, sess *chat.Session, at chat.At) (last *chat.Event, err error) {
	sort.Search(int(sess.Last), func(i int) bool {
		var e chat.Event
		if err == nil {
			e, err = d.event(ctx, c, sess.ID, chat.Seq(i+1))
		}
		if err != nil || e.At > at {
			return true
		}
		last = &e // the search goes on after it
		return false
	})
	return last, err
}
