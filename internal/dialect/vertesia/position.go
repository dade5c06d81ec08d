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

// recentEvents is how many events lastBefore reads before it searches the log: a
// client that reconnects usually has nearly all of them.
const recentEvents = 64

// lastBefore returns the last event at or before a position, or nil.
func (d *Dialect) lastBefore(ctx context.Context, c chat.Caller, sess *chat.Session, at chat.At) (*chat.Event, error) {
	high := chat.Seq(0) // an event after the position
	for e, err := range d.opt.Sessions.Events(ctx, c, sess.ID, chat.Range{Limit: recentEvents, Desc: true}) {
		if err != nil || e.At <= at {
			return &e, err
		}
		high = e.Seq
	}
	// Binary search: low is at or before the position.
	low := chat.Seq(0)
	var found *chat.Event
	for low+1 < high {
		middle := low + (high-low)/2
		e, err := d.event(ctx, c, sess.ID, middle)
		if err != nil {
			return nil, err
		}
		if e.At <= at {
			low, found = middle, &e
		} else {
			high = middle
		}
	}
	return found, nil
}
