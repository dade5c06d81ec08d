package x1

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/parley-hq/parley/internal/json"
)

// An old sidecar numbers what it publishes with a counter that begins again at 0
// when it restarts, and then repeats what is in its agent's replay buffer: the
// last events of the agent's stream, in order, under other numbers. What the agent
// had posted by HTTP is not in that buffer. So neither a number that was used
// before nor content that was seen before is a repetition by itself.
//
// All that an agent has said has a place: 0, 1, 2 … A life of the publisher is
// known by its offset, a place minus the number under which it is published. Once
// that is known every message has its place, and is a repetition if that place is
// in the log already. What was lost on its way, live or in a replay, leaves a place
// empty and moves nothing. Where a buffer begins that has overflowed nobody says,
// so what an offset can be is found out from content (see guess).

// digest is what a publisher said, without when and under which number.
type digest [8]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }

func digestOf(typ string, payload json.RawMessage) digest {
	var v any
	canonical := []byte(payload)
	if json.Unmarshal(payload, &v) == nil {
		if b, err := json.Marshal(v); err == nil { // keys in order
			canonical = b
		}
	}
	sum := sha256.Sum256(append([]byte(typ+"\x00"), canonical...))
	return digest(sum[:8])
}

// mark is one event of an old publisher that is in the log.
type mark struct {
	digest digest
	place  int
	rank   int  // its number in its life, without what was posted before; -1 when that is not known
	epoch  int  // that life
	taken  int  // the life in which it was repeated last
	stray  bool // its place is not sure
	twice  bool // it was stored in doubt, as what it would be if it were new
	boot   bool // it is no part of the stream and has no place
}

// past is what is known of a session's old publisher.
type past struct {
	marks  []mark // by place
	top    int    // the first place in which nothing is
	origin int    // the place of what the agent said first
	posted int    // how many numbers were not of the stream
	buffer int    // how much an agent repeats, if it is one of x1

	// Its life. A new one begins when the counter goes back.
	epoch  int
	last   int64 // its last number; -1 before the first
	posts  int   // how many of its numbers were not of the stream
	missed int   // how many were not heard
	base   int   // where the life before began
	end    int   // the first place that is of no life before
	offset int   // at best knowledge
	sure   bool  // it is known

	// The replay with which that begins.
	seeking bool      // nothing of the stream has come yet
	twice   int       // the place of the last message if it was new after all; -1 for none
	guesses []guess   // what offset can be, the best first; empty when all has been repeated
	blind   bool      // how the replay began is not known
	whole   bool      // it began at origin: the buffer has lost nothing
	woken   bool      // nothing has come since the server was restarted
	again   float64   // how often the agent says the same again; 0 until somebody asks
	heard   time.Time // when the last message came
	written situation // what the log knows of it

	seen  map[[16]byte]struct{} // whole messages, as they came
	order [][16]byte
	next  int
}

func newPast() *past {
	return &past{last: -1, twice: -1, sure: true, buffer: replayBuffer, seen: map[[16]byte]struct{}{}}
}

// keep is how many marks are remembered, and how many numbers can be missed in one
// go; keepSeen how many whole messages. A buffer is repeated in one go: after a
// silence of replayPause all is new.
const (
	keep         = 4096
	keepSeen     = 512
	replayBuffer = 1000
	replayPause  = 30 * time.Second
)

// verdict is what becomes of a message.
type verdict int

const (
	fresh  verdict = iota
	copied         // the very same message came before, such as on archive after events
	replay         // it was said before the publisher's restart
)

// judge decides about a message that came now. A fresh one must be passed to note
// before the next is judged, unless it is an echo, which has no place in the log.
func (p *past) judge(m *Message, raw []byte, now time.Time) (verdict, digest) {
	d := digestOf(m.Type, m.Payload)
	sum := sha256.Sum256(raw)
	whole := [16]byte(sum[:16])
	if _, ok := p.seen[whole]; ok {
		return copied, d
	}
	p.remember(whole)
	if !p.heard.IsZero() && now.Sub(p.heard) > replayPause && !p.woken { // who was away knows of no silence
		p.over()
	}
	p.heard = now
	if m.Sequence != nil && *m.Sequence < 0 {
		m.Sequence = nil // that is no number
	}
	if m.Sequence == nil {
		return fresh, d
	}
	n := int(*m.Sequence)
	p.twice = -1
	if *m.Sequence <= p.last {
		p.restart(p.epoch + 1)
	}
	p.count(n)
	switch following := p.seeking || len(p.guesses) > 0; {
	case !following:
	case boots(m.Type):
		if slices.ContainsFunc(p.marks, func(o mark) bool { return o.boot && o.digest == d && o.epoch != p.epoch }) {
			p.post()
			return replay, d // no proof that more is repeated: a new agent says it too
		}
	case posted(m.Type):
	case p.repeats(d, n):
		return replay, d
	}
	return fresh, d
}

// restart begins a life of the publisher: its counter went back.
func (p *past) restart(epoch int) {
	if p.base = p.offset + p.posts; p.whole {
		p.base = p.origin
	}
	p.epoch, p.last, p.posts, p.missed, p.end = epoch, -1, 0, 0, p.top
	p.guesses, p.blind, p.whole, p.woken, p.again, p.written = nil, false, false, false, 0, situation{}
	p.seeking = slices.ContainsFunc(p.marks, func(m mark) bool { return !m.boot })
	if p.sure = !p.seeking; p.sure {
		p.offset = p.top
	}
}

// over ends a replay: what comes now is new.
func (p *past) over() {
	if p.seeking {
		p.anew()
	}
	p.guesses = nil
}

// anew tells that this life repeats nothing: another agent speaks.
func (p *past) anew() {
	p.seeking, p.guesses, p.sure = false, nil, true
	p.offset = p.top - int(p.last)
	p.origin = p.top
}

// count takes the next number. Those between were not heard, unless the server was
// restarted meanwhile: repetitions leave no trace.
func (p *past) count(n int) {
	missed := n - int(p.last) - 1
	for i := range p.guesses {
		if g := &p.guesses[i]; p.woken {
			g.at = g.offset + n - 1
		} else {
			g.missed += missed
		}
	}
	if !p.woken {
		p.missed += missed
		p.move(min(0, keep-missed)) // more is a leap and no loss
	}
	p.last, p.woken = int64(n), false
}

// post counts a number that is not of the stream.
func (p *past) post() {
	p.posts++
	p.posted++
	p.move(-1)
}

// move says that the numbers to come have other places.
func (p *past) move(by int) {
	p.offset += by
	for i := range p.guesses {
		p.guesses[i].offset += by
	}
	for i := range p.written.offsets {
		p.written.offsets[i] += by
	}
}

// pass counts a message that is neither stored nor repeated.
func (p *past) pass(m *Message) {
	if m.Sequence != nil && *m.Sequence > p.last {
		p.count(int(*m.Sequence))
		p.post()
	}
}

// note adds what was stored.
func (p *past) note(d digest, m *Message) {
	if m.Sequence == nil {
		return
	}
	if boots(m.Type) && p.seeking {
		p.anew() // it has nothing to repeat
	}
	n := int(*m.Sequence)
	at := mark{digest: d, place: p.offset + n, rank: n - p.posts, stray: !p.sure}
	if p.twice >= 0 {
		at.place, at.stray, at.twice = p.twice, true, true
	}
	p.twice = -1
	p.add(m.Type, at)
}

// add adds a mark of this life.
func (p *past) add(typ string, m mark) {
	m.epoch, m.taken, m.boot = p.epoch, p.epoch, boots(typ)
	if posted(typ) {
		p.post()
		if !m.boot {
			return
		}
	} else {
		p.top = max(p.top, m.place+1)
	}
	p.marks = slices.Insert(p.marks, p.from(m.place+1), m)
	if over := len(p.marks) - keep; over >= keep { // cut seldom, in one go
		p.marks = slices.Clone(p.marks[over:])
	}
}

// from is the index of the first mark that has this place or a later one.
func (p *past) from(place int) int {
	i, _ := slices.BinarySearchFunc(p.marks, place, func(m mark, place int) int { return cmp.Compare(m.place, place) })
	return i
}

func (p *past) remember(whole [16]byte) {
	if len(p.order) < keepSeen {
		p.order = append(p.order, whole)
	} else {
		delete(p.seen, p.order[p.next])
		p.order[p.next] = whole
		p.next = (p.next + 1) % keepSeen
	}
	p.seen[whole] = struct{}{}
}
