package vertesia

import (
	"context"
	"math"
	"net/http"
	"sort"
	"strconv"

	"github.com/parley-hq/parley/chat"
)

// A reader's cursor is one number, the timestamp of the last message it has.
// Timestamps are positions, which rise strictly over events and pieces alike, so
// the number says what the reader has of both.

// since reads a cursor from the query; ok is false when there is none.
func since(r *http.Request, name string) (at chat.At, ok bool, err error) {
	s := r.URL.Query().Get(name)
	if s == "" {
		return 0, false, nil
	}
	ms, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(ms) || ms < 0 || ms > 1e15 {
		return 0, false, chat.Errorf(chat.Invalid, "%s=%q is not a timestamp in milliseconds", name, clip(s, 40))
	}
	return chat.At(math.Round(ms * 1000)), true, nil
}

// place is where a reader begins.
type place struct {
	cursor chat.Cursor
	last   *chat.Event // the last event it has, of which it may lack messages
}

// find turns a position into a cursor. A position beyond the last message is
// taken for that: it comes from a clock that is ahead of ours.
func (d *Dialect) find(ctx context.Context, c chat.Caller, sess *chat.Session, at chat.At) (place, error) {
	// The blocks first: one that is finished meanwhile is an event after the
	// cursor, and then its mark is left out.
	open, err := d.opt.Sessions.Blocks(ctx, c, sess.ID)
	if err != nil {
		return place{}, err
	}
	last, err := d.lastBefore(ctx, c, sess, at)
	if err != nil {
		return place{}, err
	}
	p := place{last: last}
	if last != nil {
		p.cursor.Seq = last.Seq
	}
	for _, b := range open {
		n := sort.Search(len(b.Ends), func(i int) bool { return b.Ends[i].At > at })
		if n > 0 {
			p.cursor.PassPiece(b.ID, b.Ends[n-1].Bytes)
		}
	}
	return p, nil
}

// nearEnd is how many events are looked at before the log is searched: most who
// come back were here a moment ago.
const nearEnd = 64

// lastBefore returns the last event at or before a position, or nil.
func (d *Dialect) lastBefore(ctx context.Context, c chat.Caller, sess *chat.Session, at chat.At) (*chat.Event, error) {
	facts, older, err := d.opt.Sessions.Read(ctx, c, sess.ID, chat.Range{Limit: nearEnd, Desc: true})
	if err != nil {
		return nil, err
	}
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			return nil, err
		}
		if e.At <= at {
			return &e, nil
		}
	}
	if !older || len(facts) == 0 {
		return nil, nil
	}
	// The last one lies in [low, high), if there is one; low is known to fit.
	low, high := chat.Seq(0), facts[len(facts)-1].Seq
	var found *chat.Event
	for low+1 < high {
		middle := low + (high-low)/2
		f, err := d.opt.Sessions.Event(ctx, c, sess.ID, middle)
		if err != nil {
			return nil, err
		}
		e, err := f.Event()
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
