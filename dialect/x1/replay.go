package x1

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
)

// An old sidecar numbers what it publishes with a counter that begins again at 0
// when it restarts, and then repeats what is in its agent's replay buffer: the
// last events of the agent's stream, in order, under other numbers. What the agent
// had posted by HTTP is not in that buffer. So neither a number that was used
// before nor content that was seen before is a repetition by itself; content that
// comes in the order of the past, after the counter went back, is. What is new in
// the middle of a replay was lost on its way: its place in the past is there.

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

// mark is one event of an old publisher that is in the log. Marks are in the order
// in which the agent said it.
type mark struct {
	digest digest
	posted bool
	stray  bool  // its place is not known
	n      int64 // the publisher's number, -1 for none
}

// past is what is known of a session's old publisher.
type past struct {
	marks []mark
	epoch int   // how often its counter went back
	last  int64 // its last number; -1 before the first

	end    int       // marks before this restart; a replay goes no further
	places []int     // where in marks the replay can be; nil when nothing is replayed
	lost   bool      // the replay has not been found yet
	faint  bool      // all that was found of it is a start, which a new agent says too
	heard  time.Time // when the last message came
	stray  bool      // something else came before it was found, or it was not where it should be

	taken map[digest]bool // what this replay has repeated

	seen  map[[16]byte]struct{} // whole messages, as they came
	order [][16]byte
	next  int
}

func newPast() *past { return &past{last: -1, seen: map[[16]byte]struct{}{}} }

// keep is how many marks are remembered, keepSeen how many whole messages. Replay buffers hold 1000
// events; what was posted comes on top. A buffer is repeated in one go: after a
// silence of replayPause all is new.
const (
	keep        = 4096
	keepSeen    = 512
	replayPause = 30 * time.Second
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
		p.places, p.lost = nil, false
	}
	p.heard = now
	if m.Sequence != nil {
		if *m.Sequence <= p.last {
			p.restart()
		}
		p.last = *m.Sequence
	}
	if p.places == nil && !p.lost || posted(m.Type) && !boots(m.Type) {
		return fresh, d
	}
	if p.advance(d, counted(m)) {
		p.faint = boots(m.Type)
		return replay, d
	}
	return fresh, d
}

// restart begins to look for a replay.
func (p *past) restart() {
	p.epoch++
	p.end, p.places, p.lost, p.faint, p.stray = len(p.marks), nil, len(p.marks) > 0, false, false
	p.taken = map[digest]bool{}
}

// advance follows the replay over one event. Between two events of a replay only
// posted ones can have been left out.
func (p *past) advance(d digest, n int64) bool {
	var next []int
	if p.lost {
		for i := range p.end {
			if p.marks[i].digest == d {
				next = append(next, i+1)
			}
		}
		// After something else it takes more to be a repetition: words that were said
		// once, under a number that is not higher than it was, for what was posted
		// takes none in a replay.
		if p.stray && (len(next) != 1 || n > p.marks[next[0]-1].n) {
			next = nil
		}
	}
	for _, at := range p.places {
		for i := at; i < p.end; i++ {
			if p.marks[i].digest == d {
				next = append(next, i+1)
				break
			}
			if !p.marks[i].posted {
				break
			}
		}
	}
	if len(next) == 0 {
		next = p.fetch(d)
		p.stray = p.stray || len(next) > 0
	}
	if len(next) == 0 {
		return false
	}
	if p.taken == nil {
		p.taken = map[digest]bool{}
	}
	p.taken[d] = true
	if p.lost {
		next = p.settle(next)
	}
	for _, at := range next {
		p.stray = p.stray || at > 0 && p.marks[at-1].stray
	}
	p.lost = false
	p.places = next
	// With the last event reached, all that follows is new, unless the
	// repetition can also be read as one of an earlier place, or the order of the
	// past is in doubt.
	if len(next) == 1 && p.over(next[0]) && !p.stray {
		p.places = nil
	}
	return true
}

// fetch moves an event of the past to where the replay is. It should be there
// already; but what was said only once is known wherever it is. One mark stands for
// one event: when it was repeated, the next of that kind is new.
func (p *past) fetch(d digest) []int {
	if len(p.places) == 0 || p.taken[d] {
		return nil
	}
	is := func(m mark) bool { return m.digest == d }
	found := slices.IndexFunc(p.marks[:p.end], is)
	if found < 0 || slices.ContainsFunc(p.marks[found+1:p.end], is) {
		return nil
	}
	m := p.marks[found]
	m.stray = false
	p.marks = slices.Delete(p.marks, found, found+1)
	p.end--
	for i, at := range p.places {
		if at > found {
			p.places[i]--
		}
	}
	p.marks = slices.Insert(p.marks, slices.Min(p.places), m)
	p.end++
	next := slices.Clone(p.places)
	for i := range next {
		next[i]++
	}
	return next
}

// settle moves what came before the replay was found to where it was found.
func (p *past) settle(next []int) []int {
	early := slices.DeleteFunc(slices.Clone(p.marks[p.end:]), func(m mark) bool { return m.posted })
	if len(early) == 0 {
		return next
	}
	for i := range early {
		early[i].stray = false
	}
	p.marks = slices.Insert(p.marks[:p.end], slices.Min(next)-1, early...)
	p.end += len(early)
	for i := range next {
		next[i] += len(early)
	}
	return next
}

// over reports whether nothing is left to replay from a place on.
func (p *past) over(at int) bool {
	for i := at; i < p.end; i++ {
		if !p.marks[i].posted {
			return false
		}
	}
	return true
}

// slot is where in the past a fresh event belongs: at the end, or where a replay
// brings it.
func (p *past) slot(typ string) int {
	if len(p.places) == 0 || posted(typ) || p.faint {
		return len(p.marks)
	}
	return slices.Min(p.places)
}

// note adds what was stored.
func (p *past) note(d digest, m *Message) {
	typ := m.Type
	switch {
	case boots(typ):
		p.lost = false // another agent: it has nothing to repeat
	case !posted(typ):
		p.stray = p.stray || p.lost // it was lost on its way, or nothing is repeated
		if p.faint {
			p.places, p.faint = nil, false // another agent started
		}
	}
	p.insert(p.slot(typ), mark{digest: d, posted: posted(typ), stray: p.lost && !posted(typ), n: counted(m)})
}

// insert adds a mark, and goes on after it.
func (p *past) insert(at int, m mark) {
	if at < len(p.marks) {
		p.end++
	}
	p.marks = slices.Insert(p.marks, at, m)
	for i := range p.places {
		if p.places[i] >= at {
			p.places[i]++
		}
	}
	if over := len(p.marks) - keep; over >= keep { // cut seldom, in one go
		p.marks = append([]mark(nil), p.marks[over:]...)
		p.end = max(0, p.end-over)
		places := p.places[:0]
		for _, at := range p.places {
			if at >= over {
				places = append(places, at-over)
			}
		}
		if p.places = places; len(places) == 0 {
			p.places = nil
		}
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

// key is the idempotency key of an old publisher's event. It holds what must be
// known of it after a restart of the server, and a moment that makes it unique.
func (p *past) key(m *Message, d digest, at int64) string {
	key := fmt.Sprintf("x1:%d:%d:%s:%s", p.epoch, counted(m), strconv.FormatInt(at, 36), d)
	switch {
	case posted(m.Type):
	case len(p.places) > 0 && !p.faint:
		key += ":" + strconv.Itoa(len(p.marks)-p.slot(m.Type)) // it came late
	case p.lost:
		key += ":" + strayed
	}
	return key
}

// counted is what the publisher counts, -1 when it does not.
func counted(m *Message) int64 {
	if m.Sequence == nil {
		return -1
	}
	return *m.Sequence
}

// strayed ends the keys of what came while a replay was looked for.
const strayed = "s"

// published reports whether an event is what an old publisher said.
func published(e *chat.Event) bool {
	n := strings.Count(e.ClientID, ":")
	return e.Via == via && strings.HasPrefix(e.ClientID, "x1:") && (n == 4 || n == 5)
}

// recall rebuilds the past from an event that is in the log.
func (p *past) recall(e *chat.Event) {
	if !published(e) {
		return
	}
	part := strings.Split(e.ClientID, ":")
	epoch, err1 := strconv.Atoi(part[1])
	n, err2 := strconv.ParseInt(part[2], 10, 64)
	raw, err3 := hex.DecodeString(part[4])
	if err1 != nil || err2 != nil || err3 != nil || len(raw) != len(digest{}) {
		return
	}
	p.epoch = epoch
	if n >= 0 {
		p.last = n
	}
	m := mark{digest: digest(raw), posted: posted(e.Type), n: n}
	if m.posted {
		p.insert(len(p.marks), m)
		return
	}
	// How it came tells whether a replay was under way.
	p.heard = e.At.Time()
	looked := p.lost
	p.places, p.lost, p.stray = nil, false, false
	switch {
	case len(part) < 6:
		p.insert(len(p.marks), m)
	case part[5] == strayed:
		if !looked {
			p.end = len(p.marks)
		}
		m.stray = true
		p.insert(len(p.marks), m)
		p.lost, p.stray = true, true
	default:
		back, err := strconv.Atoi(part[5])
		if err != nil || back < 0 {
			back = 0
		}
		at := max(0, len(p.marks)-back)
		p.insert(at, m)
		p.end, p.places = len(p.marks), []int{at + 1}
	}
}
