package hub

import (
	"container/list"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// topic is what the hub keeps of one session. It is in the hub's table while it
// has open blocks, readers or a warm tail.
type topic struct {
	id   chat.SessionID
	idle *list.Element // place among the idle ones; guarded by Hub.mu

	mu        sync.Mutex
	dead      bool  // no longer in the table: look again
	ended     error // why all readers must end
	open      blocks
	published chat.Seq  // the last event that was published since the topic exists; 0 for none
	fill      *fill     // under way or done; nil while the topic is cold
	events    ring      // the newest events, by sequence; valid when filled
	window    window    // what is in the tail but is still to be published
	deep      bool      // the log was asked for all the tail can hold
	deepening *fill     // that reading, under way
	live      ring      // what readers that have caught up may still have to take
	trimAt    int       // length at which live is looked through for what all have taken
	rs        []*reader // all
	parked    []*reader // those that wait for something new
	spare     []*reader // the other buffer for parked
	codecs    []*codec
	pace      pace
}

// window is the time in which events that the fill found have yet to be
// published. It ends when the last of them is.
type window struct {
	seq chat.Seq // 0 when it is over
	at  chat.At
}

// fill is one reading of the log that all who need it wait for.
type fill struct {
	done chan struct{}
	err  error
}

// last is the newest event that has been published, or was found by the fill.
func (t *topic) last() chat.Seq { return chat.Seq(t.events.end() - 1) }

// warm reports whether the tail is in memory and follows what is published.
func (t *topic) warm() bool {
	if t.fill == nil {
		return false
	}
	select {
	case <-t.fill.done:
		return true
	default:
		return false
	}
}

// useless reports whether nothing would be lost without the topic.
func (t *topic) useless() bool { return len(t.rs) == 0 && len(t.open) == 0 && t.fill == nil }

// publish takes entries into the blocks, the tail and the live ring.
func (t *topic) publish(h *Hub, entries []Entry) {
	warm := t.warm()
	for i := range entries {
		e := entries[i]
		e.Session = t.id
		if e.Piece != nil {
			if t.addPiece(h, &e) {
				t.goLive(&e, warm)
			}
			continue
		}
		t.open.finish(e.Block)
		t.published = e.Fact.Seq
		if t.window.seq != 0 && e.Fact.Seq >= t.window.seq {
			t.window = window{}
			t.open.reveal(func(piece *Entry) { t.goLive(piece, warm) })
		}
		if t.fill != nil && t.addFact(h, &e, warm) {
			t.goLive(&e, warm)
		}
	}
	t.trim(h)
}

// goLive puts an entry into the live ring. Nobody resumes from there, so without
// readers it stays empty.
func (t *topic) goLive(e *Entry, warm bool) {
	if warm && len(t.rs) > 0 {
		e.Session = t.id
		e.Cursor = chat.Cursor{Seq: t.last(), Blocks: t.open.marks()}
		t.live.push(*e)
	}
}

// addPiece takes a piece into its block and reports whether readers get it.
func (t *topic) addPiece(h *Hub, e *Entry) bool {
	// Readers may already have the event that finishes this block, though it is
	// published later. So they see the piece when that is decided.
	hidden := t.window.seq != 0 && e.At <= t.window.at
	p, hole := t.open.add(e.Piece, e.At, hidden)
	if hole {
		h.count.holes.Add(1)
		h.log.Warn("preview does not continue its block", "session", t.id, "block", e.Piece.Block, "offset", e.Piece.Offset)
	}
	e.Piece = p
	return p != nil && !hidden
}

// addFact takes an event into the tail and reports whether it is new there.
func (t *topic) addFact(h *Hub, e *Entry, warm bool) bool {
	seq := uint64(e.Fact.Seq)
	known := warm || len(t.events.ents) > 0
	switch {
	case known && seq < t.events.end():
		return false // the fill has found it
	case known && seq > t.events.end():
		// Only a fault elsewhere leads here. All readers fetch from the log what
		// was left out, so that none of them sees a hole.
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
	for _, c := range t.codecs {
		c.opened = nil
	}
	return true
}

// finished reports whether an event of the tail finished the block.
func (t *topic) finished(b chat.BlockID) bool {
	for i := len(t.events.ents) - 1; i >= 0; i-- {
		if t.events.ents[i].Block == b {
			return true
		}
	}
	return false
}

// trim holds the bounds.
func (t *topic) trim(h *Hub) {
	t.events.trim(h.opt.Tail, h.opt.TailBytes)
	if n := len(t.live.ents); n >= max(t.trimAt, minTrim) || n > h.opt.Tail || t.live.bytes > h.opt.TailBytes {
		// What every reader has taken serves nobody.
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

// minTrim is the length of the live ring below which it is left alone.
const minTrim = 32

// unpark returns the readers that wait; they must be woken after the lock is
// released, and the list given back.
func (t *topic) unpark() []*reader {
	list := t.parked
	for _, r := range list {
		r.parked = -1
		if f := r.follower; f != nil && f.alone {
			f.alone, f.called = false, true
		}
	}
	t.parked, t.spare = t.spare[:0], nil
	return list
}

func wake(list []*reader) {
	for _, r := range list {
		if f := r.follower; f != nil && f.called {
			f.called = false
			go r.serve(nil)
			continue
		}
		select {
		case r.wake <- struct{}{}:
		default: // it has a signal that it has not yet looked at
		}
	}
}

// giveBack keeps the list's memory for the next time.
func (t *topic) giveBack(list []*reader) {
	clear(list)
	t.mu.Lock()
	t.spare = list[:0]
	t.mu.Unlock()
}

func (t *topic) park(r *reader) {
	if r.woken {
		t.served(r)
	}
	if r.parked >= 0 {
		return // it was woken by a signal that came late
	}
	r.parked = len(t.parked)
	t.parked = append(t.parked, r)
}

// unparkOne takes a reader off the list that stops waiting without a signal.
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

// remove takes a reader out; with the last one of an encoding its bytes go.
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
			for i := range t.codecs {
				if t.codecs[i] == c {
					t.codecs[i] = t.codecs[len(t.codecs)-1]
					t.codecs = t.codecs[:len(t.codecs)-1]
					break
				}
			}
		}
	}
	if len(t.rs) == 0 {
		t.live.restart(t.live.end())
		t.rs, t.parked, t.spare, t.codecs = nil, nil, nil, nil
	}
}

// cool forgets the tail.
func (t *topic) cool() {
	t.fill, t.deep, t.window = nil, false, window{}
	t.open.reveal(func(*Entry) {})
	t.events.restart(0)
	t.live.restart(0)
}
