package hub

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
)

// reader is one watch. It has no goroutine and, between batches, no buffer.
type reader struct {
	hub        *Hub
	topic      *topic
	enc        Encoding
	codec      *codec
	wake       chan struct{}
	buf        *[]byte     // of the batch that is being written, if it is not shared
	cursor     chat.Cursor // what the reader has; marks are its own only while it is not live
	pos        uint64      // while live: the next index in the live ring
	last       chat.Seq
	index      int // in topic.rs
	parked     int // in topic.parked, or -1
	idle       time.Duration
	guard      func() error // nil for none
	timer      *time.Timer  // nil until it is needed
	batch      Batch        // to be yielded, when full
	full       bool
	waits      bool      // parked: to be woken before it goes on
	woken      bool      // with many others, and not yet back; see pace
	follower   *follower // nil for one that a goroutine of its own keeps
	byPosition bool
	live       bool // takes from the live ring
	ahead      bool // and has more of some block than there is
}

// next returns the next batch, or that the reader has to wait for one.
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
			// Too slow: from here on the log is the buffer.
			r.live, r.ahead = false, false
			r.own()
			t.mu.Unlock()
			r.hub.count.behind.Add(1)
		case r.live && r.pos == t.live.end(), !r.live && r.cursor.Seq > r.last:
			t.park(r)
			t.mu.Unlock()
			return Batch{}, true, nil
		case r.ahead:
			return r.sift(), false, nil
		case r.live:
			return r.takeLive(), false, nil
		case r.cursor.Seq == r.last:
			return r.join(), false, nil
		case uint64(r.cursor.Seq)+1 >= t.events.first:
			return r.takePast(), false, nil
		default:
			batch, done, err := r.reach(ctx)
			if done || err != nil {
				return batch, false, err
			}
		}
	}
}

// wait waits to be woken. When that does not happen for as long as the reader
// wants to wait, it is offered an empty batch, or goes on waiting without a
// goroutine.
func (r *reader) wait(ctx context.Context) error {
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
			return r.letGo()
		}
		r.silent()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// silent ends a wait in which nothing happened.
//
//go:noinline
func (r *reader) silent() {
	r.topic.mu.Lock()
	r.topic.unparkOne(r)
	r.topic.mu.Unlock()
	r.offer(Batch{Cursor: r.has(), Last: r.last, Live: true, Idle: true})
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

// takePast takes events from the tail.
func (r *reader) takePast() Batch {
	t := r.topic
	from, limit := uint64(r.cursor.Seq)+1, t.events.end()
	if r.byPosition {
		if at := lacksAt(t.open, &r.cursor); at != 0 {
			if before := t.events.at(from).At; at < before {
				return r.pieces(r.missing(t.open.visible(), true, before))
			}
			for limit > from+1 && t.events.at(limit-1).At > at {
				limit--
			}
		}
	}
	if len(r.cursor.Blocks) > 0 {
		// It has a part of blocks that may be open: the cursors in its bytes
		// must say so, and the shared ones do not.
		own := slices.Clone(t.events.slice(from, min(limit, from+ownPast)))
		for i := range own {
			r.cursor.PassEvent(own[i].Fact.Seq, own[i].Block)
			own[i].Cursor = r.has()
		}
		return r.pieces(own)
	}
	b, next, private := r.cut(&t.events, false, from, limit)
	r.cursor.Seq = chat.Seq(next - 1)
	b.Cursor, b.Last = r.has(), r.last
	t.mu.Unlock()
	r.encode(&b, private)
	return b
}

// ownPast bounds what a reader encodes for itself at once.
const ownPast = 128

// cut takes entries from a ring: shared bytes if it can, otherwise entries that
// the reader has to encode for itself after it has released the lock.
func (r *reader) cut(ring *ring, live bool, from, limit uint64) (b Batch, next uint64, private []Entry) {
	if r.codec == nil {
		b.Entries = ring.slice(from, limit)
		return b, limit, nil
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

// opening is the open blocks, encoded for readers that have nothing of them. It
// serves until the next event: who takes it goes on in the live ring at pos.
type opening struct {
	pos    uint64
	seq    chat.Seq
	bytes  []byte
	packs  []Pack
	cursor chat.Cursor
}

// join makes a reader live that has all events: it gets what it lacks of the
// open blocks, and from then on the same as all others.
func (r *reader) join() Batch {
	t := r.topic
	r.cursor.Blocks = slices.DeleteFunc(r.cursor.Blocks, func(m chat.Mark) bool {
		return m.Bytes == 0 || t.open.find(m.Block) == nil && t.finished(m.Block)
	})
	r.live, r.pos = true, t.live.end()
	if len(r.cursor.Blocks) == 0 && len(t.open) > 0 && len(t.rs) > 1 && r.codec != nil && !r.byPosition {
		o := r.codec.opened
		if o == nil || o.seq != r.last || o.pos < t.live.first {
			o = &opening{pos: r.pos, seq: r.last}
			all := r.missing(t.open.visible(), false, 0)
			o.bytes, o.packs = r.encodeInto(nil, all)
			o.cursor = chat.Cursor{Seq: r.last, Blocks: t.open.marks()}
			r.codec.opened = o
		}
		r.pos, r.cursor = o.pos, o.cursor
		b := Batch{Bytes: o.bytes, Packs: o.packs, Cursor: o.cursor, Last: r.last, Live: o.pos == t.live.end()}
		t.mu.Unlock()
		return b
	}
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

// missing returns what the reader lacks of the open blocks; see the function.
func (r *reader) missing(open []chat.Block, byPosition bool, until chat.At) []Entry {
	entries := missing(open, &r.cursor, byPosition, until)
	for i := range entries {
		entries[i].Session = r.topic.id
	}
	return entries
}

// pieces makes a batch for this reader alone.
func (r *reader) pieces(entries []Entry) Batch {
	b := Batch{Cursor: r.has(), Last: r.last}
	r.topic.mu.Unlock()
	if r.codec == nil {
		b.Entries = entries
		return b
	}
	r.encode(&b, entries)
	return b
}

// sift takes from the live ring for a reader that has more of some block than
// there is, which happens when a power cut took previews that it had seen: what
// it has is left out.
func (r *reader) sift() Batch {
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
				n := have - p.Offset
				for !utf8.RuneStart(p.Text[n]) {
					n--
				}
				rest := *p
				rest.Offset, rest.Text = p.Offset+n, p.Text[n:]
				e.Piece = &rest
			}
			r.cursor.PassPiece(p.Block, p.End)
		}
		e.Cursor = r.has()
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

// exceeds reports whether marks claim more than there is.
func exceeds(marks, all []chat.Mark) bool {
	there := chat.Cursor{Blocks: all}
	return slices.ContainsFunc(marks, func(m chat.Mark) bool { return m.Bytes > there.Bytes(m.Block) })
}

// reach is for a reader that is behind the tail: it lets the tail grow if that
// helps, or takes a page from the log.
func (r *reader) reach(ctx context.Context) (b Batch, done bool, err error) {
	t, h := r.topic, r.hub
	first := t.events.first
	room, bytes := h.opt.Tail-len(t.events.ents), h.opt.TailBytes-t.events.bytes
	if f := t.deepening; f != nil {
		t.mu.Unlock()
		select {
		case <-f.done:
			return b, false, f.err
		case <-ctx.Done():
			return b, false, ctx.Err()
		}
	}
	if !t.deep && room > 0 && bytes > 0 && uint64(r.cursor.Seq)+1+uint64(room) >= first {
		f := &fill{done: make(chan struct{})}
		t.deepening = f
		t.mu.Unlock()
		return b, false, h.deepen(ctx, t, f, first, room, bytes)
	}
	var open []chat.Block
	if r.byPosition {
		open = t.open.visible()
	}
	t.mu.Unlock()
	b, err = r.page(ctx, first, open)
	return b, true, err
}

// page reads from the log what lies between the reader and the tail, or a part.
// It is called without the lock.
func (r *reader) page(ctx context.Context, before uint64, open []chat.Block) (Batch, error) {
	h, id, after := r.hub, r.topic.id, r.cursor.Seq
	facts, _, err := h.journal.Read(ctx, id, chat.Range{After: after, Before: chat.Seq(before), MaxBytes: h.opt.PageBytes})
	if err != nil {
		return Batch{}, fmt.Errorf("read %s after %d: %w", id, after, err)
	}
	h.count.pages.Add(1)
	if len(facts) == 0 {
		// Erased under our eyes, or damaged: the record knows.
		if _, err := h.journal.Record(ctx, id); err != nil {
			return Batch{}, err
		}
		return Batch{}, holeIn(id, after+1)
	}
	entries := make([]Entry, 0, len(facts))
	for _, f := range facts {
		if f.Seq != r.cursor.Seq+1 {
			return Batch{}, holeIn(id, r.cursor.Seq+1)
		}
		e, err := EntryOf(f)
		if err != nil {
			return Batch{}, fmt.Errorf("read %s: %w", id, err)
		}
		e.Session = id
		if len(open) > 0 {
			entries = append(entries, r.missing(open, true, e.At)...)
		}
		r.cursor.PassEvent(f.Seq, e.Block)
		e.Cursor = r.has()
		entries = append(entries, e)
	}
	b := Batch{Cursor: r.has(), Last: r.last}
	if r.codec == nil {
		b.Entries = entries
	} else {
		r.encode(&b, entries)
	}
	return b, nil
}

// has returns the cursor with marks that stay as they are.
func (r *reader) has() chat.Cursor {
	return chat.Cursor{Seq: r.cursor.Seq, Blocks: slices.Clone(r.cursor.Blocks)}
}

// own makes the marks the reader's own, to be changed.
func (r *reader) own() { r.cursor.Blocks = slices.Clone(r.cursor.Blocks) }

// encode encodes entries for this reader alone into a buffer that it holds until
// the batch has been written.
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

// release gives the buffer back.
func (r *reader) release() {
	if r.buf != nil {
		r.hub.recycle(r.buf)
		r.buf = nil
	}
}

// maxPooled keeps a buffer that one huge event needed from staying for ever.
const maxPooled = 512 << 10

func (h *Hub) recycle(buf *[]byte) {
	if cap(*buf) <= maxPooled {
		h.pool.Put(buf)
	}
}
