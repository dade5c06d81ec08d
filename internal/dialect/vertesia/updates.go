package vertesia

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"slices"
	"sort"
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
)

// maxPage is the largest limit of a page of messages.
const maxPage = 100_000

// listUpdates returns the messages of a run. Without limit it returns all after
// since. With limit it returns the first so many after since, or the last so many
// before before, and whether there are more.
func (d *Dialect) listUpdates(w http.ResponseWriter, r *http.Request, c chat.Caller, sess run) error {
	q := edge.NewQuery(r)
	before := position(q, "before")
	p := messagePage{coding: codingOf(asJSON, sess.workstream), limit: q.Limit(0, maxPage), since: position(q, "since")}
	if q.Err != nil {
		return q.Err
	}
	var err error
	if q.Text("before") != "" {
		err = d.readBackward(r.Context(), c, sess, &p, before)
	} else {
		err = d.readForward(r.Context(), c, sess, &p)
	}
	if err != nil {
		return err
	}
	edge.SendJSON(w, r, http.StatusOK, p.body())
	return nil
}

// conversation returns all messages of a run, for the file conversation.json.
func (d *Dialect) conversation(ctx context.Context, c chat.Caller, id chat.SessionID) ([]byte, error) {
	sess, err := d.opt.Sessions.Get(ctx, c, id)
	if err != nil {
		return nil, err
	}
	p := messagePage{coding: codingOf(asJSON, "")}
	err = d.readForward(ctx, c, run{Session: sess}, &p)
	return p.body(), err
}

// messagePage collects messages.
type messagePage struct {
	coding coding
	limit  int // 0 is none
	since  chat.At
	bytes  []byte // objects, each followed by a comma
	count  int
	more   bool
}

func (p *messagePage) body() []byte {
	b := append(make([]byte, 0, len(p.bytes)+64), `{"messages":[`...)
	b = append(b, bytes.TrimSuffix(p.bytes, []byte(","))...)
	b = append(b, ']')
	if p.limit > 0 {
		b = strconv.AppendBool(append(b, `,"has_more":`...), p.more)
	}
	return append(b, '}')
}

// readForward reads as a stream does, so that a stream from the last message of
// the page continues it exactly.
func (d *Dialect) readForward(ctx context.Context, c chat.Caller, sess run, p *messagePage) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := core.Start{Cursor: &chat.Cursor{}, ByPosition: true}
	if p.since > 0 {
		cursor, last, err := d.cursorAt(ctx, c, sess.ID, p.since)
		if err != nil {
			return err
		}
		start.Cursor = &cursor
		if last != nil {
			p.bytes = p.coding.appendMessages(p.bytes, last, p.since)
			p.count = bytes.Count(p.bytes, []byte(`,"ts":`))
		}
	}
	var enc core.Encoding // entries are counted when there is a limit
	if p.limit == 0 {
		enc = p.coding
	}
	for b, err := range d.opt.Sessions.Watch(ctx, c, sess.ID, start, enc) {
		if err != nil {
			return err
		}
		if p.limit == 0 {
			p.bytes = append(p.bytes, b.Bytes...)
		} else {
			for i := range b.Entries {
				if !p.add(&b.Entries[i]) {
					return nil
				}
			}
		}
		if b.Live {
			return nil
		}
	}
	return context.Cause(ctx)
}

// add adds the messages of an entry; it returns false when they exceed the limit.
func (p *messagePage) add(e *core.Entry) bool {
	var b []byte
	n := 0
	if e.Piece != nil {
		if b = p.coding.AppendPiece(nil, e); len(b) > 0 {
			n = 1
		}
	} else if !hidden[e.Label.Type] {
		if ev, err := e.Fact.Event(); err == nil {
			b, n = p.coding.appendMessages(nil, &ev, 0), len(p.coding.messages(&ev))
		}
	}
	if n > 0 && p.count > 0 && p.count+n > p.limit {
		p.more = true
		return false
	}
	p.bytes, p.count = append(p.bytes, b...), p.count+n
	return true
}

// readBackward reads the last messages before a position, without the chunks of
// open blocks.
func (d *Dialect) readBackward(ctx context.Context, c chat.Caller, sess run, p *messagePage, before chat.At) error {
	if p.limit == 0 {
		p.limit = 100
	}
	last, err := d.lastBefore(ctx, c, &sess.Session, before-1)
	if err != nil || last == nil {
		return err
	}
	var groups [][]byte // the messages of each event, the last event first
	for e, err := range d.opt.Sessions.Events(ctx, c, sess.ID, chat.Range{Before: last.Seq + 1, Desc: true}) {
		if err != nil {
			return err
		}
		if e.At <= p.since {
			break
		}
		var b []byte
		n := 0
		for _, m := range p.coding.messages(&e) {
			if at := e.At + chat.At(m.index); at < before && at > p.since {
				b = append(m.append(b, e.At, p.coding.shown(m.workstream)), ',')
				n++
			}
		}
		if p.more = n > 0 && p.count > 0 && p.count+n > p.limit; p.more {
			break
		}
		groups, p.count = append(groups, b), p.count+n
	}
	slices.Reverse(groups)
	p.bytes = slices.Concat(groups...)
	return nil
}

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
func (d *Dialect) cursorAt(ctx context.Context, c chat.Caller, id chat.SessionID, at chat.At) (cursor chat.Cursor, last *chat.Event, err error) {
	sess, err := d.opt.Sessions.GetAtPosition(ctx, c, id, at)
	if err != nil {
		return cursor, nil, err
	}
	// Blocks first: a block that is finished meanwhile is an event after the cursor,
	// and its entry in the cursor is ignored.
	open, err := d.opt.Sessions.Blocks(ctx, c, id)
	if err != nil {
		return cursor, nil, err
	}
	if last, err = d.lastBefore(ctx, c, &sess, at); err != nil {
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
			e, err = d.opt.Sessions.Event(ctx, c, sess.ID, chat.Seq(i+1))
		}
		if err != nil || e.At > at {
			return true
		}
		last = &e // the search goes on after it
		return false
	})
	return last, err
}
