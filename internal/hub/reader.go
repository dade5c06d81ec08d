package hub

import (
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
)

// reader is the state of one watch. Between batches it has no buffer.
type reader struct {
	hub        *Hub
	topic      *topic
	enc        Encoding
	codec      *codec
	wake       chan struct{}
	buf        *[]byte     // of the batch that is being written, if it is not shared
	cursor     chat.Cursor // what the reader has; the marks are shared with entries while it is live
	pos        uint64      // while live: the next index in the live ring
	last       chat.Seq
	index      int // in topic.rs
	parked     int // in topic.parked, or -1
	idle       time.Duration
	guard      func() error // nil for none
	timer      *time.Timer  // nil until it is needed
	batch      Batch        // to be yielded, when full
	full       bool
	waits      bool      // parked: it must be woken before it continues
	woken      bool      // woken together with others and not back yet; see pace
	follower   *follower // nil for a reader of Watch
	byPosition bool
	everyPiece bool
	live       bool // takes from the live ring
	ahead      bool // and its cursor has more of some block than there is
}

// next returns the next batch, or waits true when there is none.
func (r *reader) next(ctx context.Context) (_ Batch, waits bool, _ error) {
	t := r.topic
	for back := true; ; back = false {
		t.mu.Lock()
		if back && r.woken {
			t.served(r)
		}
		if err := t.ended; err != nil {
			t.mu.Unlock()
			return Batch{}, false, err
		}
		r.last = t.last()
		switch {
		case r.live && r.pos < t.live.first:
			// Too slow: it continues from the tail or the log.
			r.live, r.ahead = false, false
			r.copyMarks()
			t.mu.Unlock()
			r.hub.count.behind.Add(1)
		case r.live && r.pos == t.live.end(), !r.live && r.cursor.Seq > r.last:
			t.park(r)
			t.mu.Unlock()
			return Batch{}, true, nil
		case r.ahead:
			return r.takeTrimmed(), false, nil
		case r.live:
			return r.takeLive(), false, nil
		case r.cursor.Seq == r.last:
			return r.join(), false, nil
		case uint64(r.cursor.Seq)+1 >= t.events.first:
			return r.takePast(), false, nil
		default:
			batch, done, err := r.catchUp(ctx)
			if done || err != nil {
				return batch, false, err
			}
		}
	}
}

// wait waits to be woken. After r.idle it offers an empty batch, or detaches the
// reader from its goroutine.
func (r *reader) wait(ctx context.Context) error {
	if r.servedByPublisher() {
		return r.detach()
	}
	var over <-chan time.Time
	if r.idle > 0 {
		if r.timer == nil {
			r.timer = time.NewTimer(r.idle)
		} else {
			r.timer.Reset(r.idle)
		}
		over = r.timer.C
	}
	select {
	case <-r.wake:
		if over != nil {
			r.timer.Stop()
		}
		return nil
	case <-over:
		if r.follower != nil {
			return r.detach()
		}
		r.offerIdle()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// offerIdle ends a wait in which nothing happened.
//
//go:noinline
func (r *reader) offerIdle() {
	r.topic.mu.Lock()
	r.topic.unparkOne(r)
	r.topic.mu.Unlock()
	r.offer(Batch{Cursor: r.cursorCopy(), Last: r.last, Live: true, Idle: true})
}

// The methods below are called with the topic locked and release it.

// takeLive takes from the live ring.
func (r *reader) takeLive() Batch {
	t := r.topic
	from, end := r.pos, t.live.end()
	b, next, private := r.cut(&t.live, true, from, end)
	r.pos = next
	r.cursor = t.live.at(next - 1).Cursor
	b.Cursor, b.Last, b.Live = r.cursor, r.last, next == end
	t.mu.Unlock()
	r.encode(&b, private)
	return b
}

// maxOwn is how many events a reader encodes for itself at once.
const maxOwn = 128

// cut takes entries from a ring: shared bytes if possible, otherwise entries that the
// reader encodes for itself after it has released the lock.
func (r *reader) cut(ring *ring, live bool, from, limit uint64) (b Batch, next uint64, private []Entry) {
	if r.codec == nil {
		b.Entries = ring.slice(from, limit)
		return b, limit, nil
	}
	if r.codec.readers == 1 {
		// Nobody shares the bytes, so they go into a pooled buffer: a piece takes 2 µs
		// and 400 bytes of garbage less than in a segment.
		size := cost(ring.at(from))
		for next = from + 1; next < limit; next++ {
			if size += cost(ring.at(next)); size > maxSegment {
				break
			}
		}
		return b, next, ring.slice(from, next)
	}
	l := &r.codec.past
	if live {
		l = &r.codec.live
	}
	part, ok := l.take(r.codec, ring, from, limit)
	if !ok {
		return b, part.next, ring.slice(from, part.next)
	}
	b.Bytes, b.Packs = part.bytes, part.packs
	return b, part.next, nil
}

// join makes a reader live that has all events: it gets what it lacks of the open
// blocks, and from then on the entries of the live ring.
func (r *reader) join() Batch {
	t := r.topic
	r.cursor.Blocks = slices.DeleteFunc(r.cursor.Blocks, func(m chat.Mark) bool {
		return m.Bytes == 0 || t.open.find(m.Block) == nil && t.finished(m.Block)
	})
	r.live, r.pos = true, t.live.end()
	lacks := r.missing(t.open.visible(), r.byPosition, 0)
	if all := t.open.marks(); exceeds(r.cursor.Blocks, all) {
		r.ahead = true
	} else {
		r.cursor.Blocks = all
	}
	b := r.pieces(lacks)
	b.Live = true
	return b
}

// missing calls the function missing with the reader's cursor.
func (r *reader) missing(open []chat.Block, byPosition bool, until chat.At) []Entry {
	entries := missing(open, &r.cursor, byPosition, r.everyPiece, until)
	for i := range entries {
		entries[i].Session = r.topic.id
	}
	return entries
}

// pieces makes a batch for this reader alone.
func (r *reader) pieces(entries []Entry) Batch {
	b := Batch{Cursor: r.cursorCopy(), Last: r.last}
	r.topic.mu.Unlock()
	if r.codec == nil {
		b.Entries = entries
		return b
	}
	r.encode(&b, entries)
	return b
}

// takeTrimmed takes from the live ring for a reader that has more of some block than
// there is, and leaves out what it has. A power cut that loses previews leads to such
// a reader.
func (r *reader) takeTrimmed() Batch {
	t := r.topic
	fresh := t.live.slice(r.pos, t.live.end())
	out := make([]Entry, 0, len(fresh))
	for _, e := range fresh {
		if p := e.Piece; p == nil {
			r.cursor.PassEvent(e.Fact.Seq, e.Block)
		} else {
			have := r.cursor.Bytes(p.Block)
			if p.End <= have {
				continue
			}
			if have > p.Offset {
				for !utf8.RuneStart(p.Text[have-p.Offset]) {
					have-- // the cursor is inside a character
				}
				rest := *p
				rest.Offset, rest.Text = have, p.TextAfter(have)
				e.Piece = &rest
			}
			r.cursor.PassPiece(p.Block, p.End)
		}
		e.Cursor = r.cursorCopy()
		out = append(out, e)
	}
	r.pos = t.live.end()
	if all := fresh[len(fresh)-1].Cursor; !exceeds(r.cursor.Blocks, all.Blocks) {
		r.ahead, r.cursor = false, all
	}
	b := r.pieces(out)
	b.Live = true
	return b
}

// exceeds reports whether marks have more of a block than there is.
func exceeds(marks, all []chat.Mark) bool {
	there := chat.Cursor{Blocks: all}
	return slices.ContainsFunc(marks, func(m chat.Mark) bool { return m.Bytes > there.Bytes(m.Block) })
}

// cursorCopy returns a copy of the cursor.
func (r *reader) cursorCopy() chat.Cursor {
	return chat.Cursor{Seq: r.cursor.Seq, Blocks: slices.Clone(r.cursor.Blocks)}
}

// copyMarks replaces shared marks by a copy that the reader may change.
func (r *reader) copyMarks() { r.cursor.Blocks = slices.Clone(r.cursor.Blocks) }

// encode encodes entries for this reader alone into a buffer that it keeps until the
// batch has been written.
func (r *reader) encode(b *Batch, entries []Entry) {
	if len(entries) == 0 {
		return
	}
	r.buf = r.hub.pool.Get().(*[]byte)
	b.Bytes, b.Packs = r.encodeInto((*r.buf)[:0], entries)
	*r.buf = b.Bytes
}

func (r *reader) encodeInto(dst []byte, entries []Entry) ([]byte, []Pack) {
	if r.codec.pack == nil {
		for len(entries) > 0 {
			e, n := r.codec.group(entries)
			dst, entries = appendEntry(r.enc, dst, e), entries[n:]
		}
		return dst, nil
	}
	buf := r.hub.pool.Get().(*[]byte)
	plain := (*buf)[:0]
	var packs []Pack
	for len(entries) > 0 {
		e, n := r.codec.group(entries)
		plain, entries = appendEntry(r.enc, plain, e), entries[n:]
		if len(plain) >= packUnit || len(entries) == 0 && len(plain) > 0 {
			var p Pack
			dst, p = packInto(r.codec.pack, dst, plain)
			packs = append(packs, p)
			plain = plain[:0]
		}
	}
	*buf = plain
	r.hub.recycle(buf)
	return dst, packs
}

// release returns the buffer to the pool.
func (r *reader) release() {
	if r.buf != nil {
		r.hub.recycle(r.buf)
		r.buf = nil
	}
}

// maxPooled is the largest buffer that is returned to the pool.
const maxPooled = 512 << 10

func (h *Hub) recycle(buf *[]byte) {
	if cap(*buf) <= maxPooled {
		h.pool.Put(buf)
	}
}
