package hub

import (
	"container/list"
	"slices"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// topic is what the hub keeps of one session. It is in the hub's table while it
// has open blocks, readers or a warm tail.
type topic struct {
	id   chat.SessionID
	idle *list.Element // in Hub.idle; guarded by Hub.mu

	mu          sync.Mutex
	removed     bool  // no longer in the table: look it up again
	ended       error // why all readers must end
	open        blocks
	published   chat.Seq    // the last event that was published since the topic exists; 0 for none
	fill        *fill       // in progress or done; nil when the tail is not in memory
	events      ring        // the newest events, by sequence; valid when filled
	unpublished unpublished // events that are in the tail and not published yet
	complete    bool        // growTail has read all that the tail can hold
	growing     *fill       // that read, while it is in progress
	live        ring        // entries for readers that have caught up
	trimAt      int         // length of live at which entries that all readers have are dropped
	rs          []*reader   // all
	parked      []*reader   // those that wait for something new
	codecs      []*codec
	pace        pace
}

// unpublished is the last event that the fill has found, until it is published.
type unpublished struct {
	seq chat.Seq // 0 for none
	at  chat.At
}

// fill is one read of the log that several readers wait for.
type fill struct {
	done chan struct{}
	over bool // done is closed; guarded by topic.mu
	err  error
}

// last is the newest event that has been published, or was found by the fill.
func (t *topic) last() chat.Seq { return chat.Seq(t.events.end() - 1) }

// warm reports whether the tail is in memory and follows what is published.
func (t *topic) warm() bool { return t.fill != nil && t.fill.over }

// unused reports whether the topic keeps nothing that is needed.
func (t *topic) unused() bool { return len(t.rs) == 0 && len(t.open) == 0 && t.fill == nil }

// publish adds entries to the blocks, the tail and the live ring.
func (t *topic) publish(h *Hub, entries []Entry) {
	warm := t.warm()
	for i := range entries {
		e := entries[i]
		e.Session = t.id
		if e.Piece != nil {
			if t.addPiece(h, &e) {
				t.addLive(&e, warm)
			}
			continue
		}
		t.open.finish(e.Block)
		t.published = e.Fact.Seq
		if t.unpublished.seq != 0 && e.Fact.Seq >= t.unpublished.seq {
			t.unpublished = unpublished{}
			t.open.reveal(func(piece *Entry) { t.addLive(piece, warm) })
		}
		if t.fill != nil && t.addFact(h, &e, warm) {
			t.addLive(&e, warm)
		}
	}
	t.trim(h)
}

// addLive adds an entry to the live ring. No reader resumes from the live ring, so it
// stays empty without readers.
func (t *topic) addLive(e *Entry, warm bool) {
	if warm && len(t.rs) > 0 {
		e.Session = t.id
		e.Cursor = chat.Cursor{Seq: t.last(), Blocks: t.open.marks()}
		t.live.push(*e)
	}
}

// addPiece adds a piece to its block and reports whether readers get it.
func (t *topic) addPiece(h *Hub, e *Entry) bool {
	// Readers may already have the event that finishes this block, although it is
	// published later. The piece stays hidden until that is known.
	hidden := t.unpublished.seq != 0 && e.At <= t.unpublished.at
	p, gap := t.open.add(e.Piece, e.At, hidden)
	if gap {
		h.count.gaps.Add(1)
		h.log.Warn("preview does not continue its block", "session", t.id, "block", e.Piece.Block, "offset", e.Piece.Offset)
	}
	e.Piece = p
	return p != nil && !hidden
}

// addFact adds an event to the tail and reports whether it is new there.
func (t *topic) addFact(h *Hub, e *Entry, warm bool) bool {
	seq := uint64(e.Fact.Seq)
	known := warm || len(t.events.ents) > 0
	switch {
	case known && seq < t.events.end():
		return false // the fill has found it
	case known && seq > t.events.end():
		// A bug in the publisher. All readers read the missing events from the log,
		// so that none of them sees a gap.
		h.log.Error("events were not published", "session", t.id, "after", t.last(), "next", e.Fact.Seq)
		t.events.restart(seq)
		t.live.restart(t.live.end() + 1)
		for _, c := range t.codecs {
			c.past.segs, c.live.segs = nil, nil
		}
	case !known:
		t.events.restart(seq)
	}
	e.Cursor = chat.Cursor{Seq: e.Fact.Seq}
	t.events.push(*e)
	return true
}

// finished reports whether an event of the tail finished the block.
func (t *topic) finished(b chat.BlockID) bool {
	return slices.ContainsFunc(t.events.ents, func(e Entry) bool { return e.Block == b })
}

// trim enforces the bounds.
func (t *topic) trim(h *Hub) {
	t.events.trim(h.opt.Tail, h.opt.TailBytes)
	if n := len(t.live.ents); n >= max(t.trimAt, minTrim) || n > h.opt.Tail || t.live.bytes > h.opt.TailBytes {
		// Drop what every reader has taken.
		taken := t.live.end()
		for _, r := range t.rs {
			if r.live && r.pos >= t.live.first {
				taken = min(taken, r.pos)
			}
		}
		t.live.forget(taken)
		t.live.trim(h.opt.Tail, h.opt.TailBytes)
		t.trimAt = 2 * len(t.live.ents)
	}
	for _, c := range t.codecs {
		c.past.forget(t.events.first)
		c.live.forget(t.live.first)
	}
}

// minTrim is the length of the live ring below which nothing is dropped. With one reader
// that keeps up, one allocation serves so many pieces.
const minTrim = 8

// unpark appends the readers that wait to list. The caller wakes them after it has
// released the lock.
func (t *topic) unpark(list []*reader) []*reader {
	list = append(list, t.parked...)
	for _, r := range t.parked {
		r.parked = -1
		if f := r.follower; f != nil && f.detached {
			f.detached, f.needsGoroutine = false, true
		}
	}
	clear(t.parked)
	t.parked = t.parked[:0]
	return list
}

const (
	// fewReaders is how many readers a publisher serves in its own goroutine. One reader
	// is the usual case; with many, their writes should use several processors.
	fewReaders = 4
	// servedTogether is how many readers one goroutine serves when there are more. A
	// goroutine for each reader took a tenth more time for a delivery to a thousand.
	servedTogether = 32
)

// wake serves or wakes readers.
func wake(list []*reader) {
	for len(list) > fewReaders {
		n := min(len(list), servedTogether)
		go wakeAll(slices.Clone(list[:n]))
		list = list[n:]
	}
	wakeAll(list)
}

func wakeAll(list []*reader) {
	for _, r := range list {
		if f := r.follower; f != nil && f.needsGoroutine {
			f.needsGoroutine = false
			if err := r.tryServe(); err == errNeedsGoroutine {
				go r.serve(nil)
			} else if err != nil {
				go r.serve(err)
			}
			continue
		}
		select {
		case r.wake <- struct{}{}:
		default: // a signal is pending already
		}
	}
}

func (t *topic) park(r *reader) {
	if r.woken {
		t.served(r)
	}
	if r.parked >= 0 {
		return // it was woken by an old signal
	}
	r.parked = len(t.parked)
	t.parked = append(t.parked, r)
}

// unparkOne removes a reader from the waiting ones that stops waiting without a signal.
func (t *topic) unparkOne(r *reader) {
	if r.parked < 0 {
		return
	}
	end := len(t.parked) - 1
	t.parked[r.parked] = t.parked[end]
	t.parked[r.parked].parked = r.parked
	t.parked[end] = nil
	t.parked = t.parked[:end]
	r.parked = -1
}

// add registers a reader.
func (t *topic) add(r *reader, enc Encoding) {
	r.index = len(t.rs)
	t.rs = append(t.rs, r)
	if enc == nil {
		return
	}
	for _, c := range t.codecs {
		if c.enc.Name() == enc.Name() {
			c.readers++
			r.codec = c
			return
		}
	}
	r.codec = newCodec(enc)
	r.codec.readers = 1
	t.codecs = append(t.codecs, r.codec)
}

// remove removes a reader; the last one of an encoding removes its bytes.
func (t *topic) remove(r *reader) {
	if r.woken {
		t.served(r)
	}
	end := len(t.rs) - 1
	t.rs[r.index] = t.rs[end]
	t.rs[r.index].index = r.index
	t.rs[end] = nil
	t.rs = t.rs[:end]
	t.unparkOne(r)
	if c := r.codec; c != nil {
		if c.readers--; c.readers == 0 {
			t.codecs = slices.DeleteFunc(t.codecs, func(other *codec) bool { return other == c })
		}
	}
	if len(t.rs) == 0 {
		t.live.restart(t.live.end())
		t.rs, t.parked, t.codecs = nil, nil, nil
	}
}

// dropTail removes the tail from memory.
func (t *topic) dropTail() {
	t.fill, t.complete, t.unpublished = nil, false, unpublished{}
	t.open.reveal(func(*Entry) {})
	t.events.restart(0)
	t.live.restart(0)
}
