package x1

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"
)

// An old sidecar numbers what it publishes with a counter that begins again at 0
// when it restarts, and then repeats what is in its agent's replay buffer: the
// last events of the agent's stream, in order, under other numbers. What the agent
// had posted by HTTP is not in that buffer. So neither a number that was used
// before nor content that was seen before is a repetition by itself; content that
// has its place of the past again, after the counter went back, is. Places are
// counted, so what was lost on the way, live or in a replay, moves nothing.

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
	place  int  // in all that the agent has said, as far as it was counted
	rank   int  // in what the publisher said in that life, without what was posted
	epoch  int  // that life
	taken  int  // the life in which it was repeated last
	stray  bool // its place is a guess
}

// past is what is known of a session's old publisher.
type past struct {
	marks []mark // by place
	epoch int    // how often its counter went back
	last  int64  // its last number; -1 before the first
	posts int    // how many of this life's numbers were for what was posted
	shift int    // a place minus the rank that it has in this life, at best knowledge

	end     int       // the first place that is not of an earlier life
	seeking bool      // the counter went back, and no replay has been found yet
	stray   bool      // something new came meanwhile, or its beginning was not heard
	shifts  []int     // what shift can be, while a replay goes on; nil when none does
	sure    bool      // shift is known for this life
	heard   time.Time // when the last message came

	seen  map[[16]byte]struct{} // whole messages, as they came
	order [][16]byte
	next  int
}

func newPast() *past { return &past{last: -1, sure: true, seen: map[[16]byte]struct{}{}} }

// keep is how many marks are remembered, keepSeen how many whole messages. Replay buffers hold 1000
// events. A buffer is repeated in one go: after a silence of replayPause all is
// new. Lost posts let places slip; then a mark is looked for among the nearest.
const (
	keep        = 4096
	keepSeen    = 512
	replayPause = 30 * time.Second
	nearest     = 16
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
	if !p.heard.IsZero() && now.Sub(p.heard) > replayPause {
		p.seeking, p.shifts = false, nil
	}
	p.heard = now
	if m.Sequence == nil {
		return fresh, d
	}
	if *m.Sequence <= p.last {
		p.restart(p.epoch + 1)
		p.stray = *m.Sequence > 0 // its beginning was not heard
	}
	p.last = *m.Sequence
	switch {
	case boots(m.Type):
		if (p.seeking || p.shifts != nil) && slices.ContainsFunc(p.marks, func(o mark) bool { return o.digest == d && p.before(&o) }) {
			p.posts++
			return replay, d // no proof that more is repeated: a new agent says it too
		}
	case posted(m.Type):
	case p.seeking && p.found(d, p.rank(m)), p.shifts != nil && p.follow(d, p.rank(m)):
		return replay, d
	}
	return fresh, d
}

// restart begins a life of the publisher: its counter went back.
func (p *past) restart(epoch int) {
	p.epoch, p.posts, p.stray, p.shifts, p.end = epoch, 0, false, nil, 0
	for i := range p.marks {
		if m := &p.marks[i]; !m.stray {
			p.end = max(p.end, m.place+1)
		}
	}
	p.seeking = len(p.marks) > 0
	p.sure = !p.seeking
}

// before tells whether a mark is of an earlier life.
func (p *past) before(m *mark) bool {
	if m.stray {
		return m.epoch != p.epoch
	}
	return m.place < p.end
}

// rank is the place of a message in what its publisher says in this life, without
// what was posted.
func (p *past) rank(m *Message) int { return int(counted(m)) - p.posts }

// found looks for the replay's beginning. What an agent has said gets no higher
// rank when it is repeated, but a lower one when its buffer has lost its first events.
func (p *past) found(d digest, rank int) bool {
	guess := -1
	var at []int
	for i := range p.marks {
		m := &p.marks[i]
		switch {
		case m.digest != d || !p.before(m) || m.rank < rank || m.taken == p.epoch:
		case m.stray:
			if guess < 0 || m.rank == rank {
				guess = i
			}
		case m.place == rank+p.shift:
			p.begin(rank, i)
			return true
		default:
			at = append(at, i)
		}
	}
	if guess >= 0 { // that was said before, but tells nothing of where the rest is
		p.marks[guess].taken = p.epoch
		return true
	}
	// After something else it takes more: words that were said once.
	if len(at) == 0 || p.stray && len(at) > 1 {
		return false
	}
	p.begin(rank, at...)
	return true
}

// begin begins to follow a replay that is at one of some marks. If that is not
// sure, it can also be where it would be if the buffer had all.
func (p *past) begin(rank int, at ...int) {
	p.marks[at[0]].taken = p.epoch
	p.seeking, p.shifts = false, nil
	if _, unknown := p.at(p.marks[at[0]].digest, rank+p.shift); unknown {
		p.shifts = []int{p.shift}
	}
	for _, i := range at {
		if shift := p.marks[i].place - rank; !slices.Contains(p.shifts, shift) {
			p.shifts = append(p.shifts, shift)
		}
	}
	p.settle()
}

// settle puts what came before the replay was found to its place.
func (p *past) settle() {
	if p.sure = p.sure || len(p.shifts) == 1; !p.sure {
		return
	}
	if !slices.Contains(p.shifts, p.shift) {
		p.shift = p.shifts[0]
	}
	for i := range p.marks {
		if m := &p.marks[i]; m.stray && m.epoch == p.epoch {
			m.place, m.stray = m.rank+p.shift, false
		}
	}
	p.sort()
}

// follow tells whether a message is the replay's next event.
func (p *past) follow(d digest, rank int) bool {
	var can []int // what shift can still be
	found := false
	for _, shift := range p.shifts {
		i, unknown := p.at(d, rank+shift)
		if i >= 0 && !found {
			found, p.marks[i].taken = true, p.epoch
		}
		if i >= 0 || unknown {
			can = append(can, shift)
		}
	}
	if found {
		p.shifts = can
		p.settle()
		return true
	}
	if i := p.near(d, rank); i >= 0 {
		m := &p.marks[i]
		m.taken = p.epoch
		if m.stray {
			m.place, m.stray = rank+p.shift, false
			p.sort()
		} else if shift := m.place - rank; !slices.Contains(p.shifts, shift) && len(p.shifts) < nearest {
			p.shifts = append(p.shifts, shift)
		}
		return true
	}
	ahead := func(m mark) bool { return m.stray && m.rank >= rank && m.taken != p.epoch && p.before(&m) }
	if rank+slices.Min(p.shifts) >= p.end && !slices.ContainsFunc(p.marks, ahead) {
		p.shifts = nil // it has ended
	}
	return false
}

// at finds the mark of an event that has that place and was not repeated yet, -1
// for none; unknown tells that nothing else is known of that place.
func (p *past) at(d digest, place int) (found int, unknown bool) {
	unknown = place < p.end
	for i := p.from(place); i < len(p.marks) && p.marks[i].place == place && place < p.end; i++ {
		if m := &p.marks[i]; m.stray {
			continue
		} else if m.digest != d {
			unknown = false
		} else if m.taken != p.epoch {
			return i, false
		}
	}
	return -1, unknown
}

// near finds a mark that is not where the replay is but must be what it repeats, -1
// for none: where places may have slipped one of the nearest, and else one whose
// place was a guess.
func (p *past) near(d digest, rank int) int {
	best, off := -1, 0
	fits := func(m *mark) bool { return m.digest == d && m.taken != p.epoch && p.before(m) }
	for _, shift := range p.shifts {
		here := rank + shift
		if here >= p.end {
			continue
		}
		i := p.from(here)
		for k := max(0, i-nearest); k < min(len(p.marks), i+nearest); k++ {
			m := &p.marks[k]
			if by := max(m.place-here, here-m.place); fits(m) && !m.stray && (best < 0 || by < off) {
				best, off = k, by
			}
		}
	}
	if best < 0 {
		best = slices.IndexFunc(p.marks, func(m mark) bool { return m.stray && fits(&m) })
	}
	return best
}

// from is the index of the first mark that has this place or a later one.
func (p *past) from(place int) int {
	i, _ := slices.BinarySearchFunc(p.marks, place, func(m mark, place int) int { return cmp.Compare(m.place, place) })
	return i
}

func (p *past) sort() {
	slices.SortStableFunc(p.marks, func(a, b mark) int { return cmp.Compare(a.place, b.place) })
}

// place is where a fresh message belongs, and whether that is a guess.
func (p *past) place(m *Message) (place int, guess bool) {
	if !p.sure {
		return p.end + p.rank(m), true
	}
	return p.shift + p.rank(m), false
}

// pass counts a message that is neither stored nor repeated.
func (p *past) pass(m *Message) {
	if m.Sequence != nil && *m.Sequence > p.last {
		p.last = *m.Sequence
		p.posts++
	}
}

// note adds what was stored.
func (p *past) note(d digest, m *Message) {
	if m.Sequence == nil {
		return
	}
	if boots(m.Type) && p.seeking {
		p.seeking, p.sure, p.shift = false, true, p.end // another agent: it has nothing to repeat
	}
	place, guess := p.place(m)
	p.add(m.Type, mark{digest: d, place: place, rank: p.rank(m), stray: guess})
}

// add adds a mark of this life.
func (p *past) add(typ string, m mark) {
	if posted(typ) {
		p.posts++
		if !boots(typ) {
			return
		}
	}
	m.epoch, m.taken = p.epoch, p.epoch
	p.stray = p.stray || m.stray
	p.marks = slices.Insert(p.marks, p.from(m.place+1), m)
	if over := len(p.marks) - keep; over >= keep { // cut seldom, in one go
		p.marks = slices.Clone(p.marks[over:])
	}
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
