package x1

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// An old sidecar numbers what it publishes with a counter that begins again at 0
// when it restarts, and then repeats what is in its agent's replay buffer: the
// last events of the agent's stream, in order, under other numbers. What the agent
// had posted by HTTP is not in that buffer. So neither a number that was used
// before nor content that was seen before is a repetition by itself; content that
// comes in the order of the past, after the counter went back, is.

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
	posted bool
}

// past is what is known of a session's old publisher.
type past struct {
	marks []mark
	epoch int   // how often its counter went back
	last  int64 // its last number; -1 before the first

	end    int   // marks before this restart; a replay goes no further
	places []int // where in marks the replay can be; nil when nothing is replayed
	lost   bool  // the replay has not been found yet

	seen  map[[16]byte]struct{} // whole messages, as they came
	order [][16]byte
	next  int
}

func newPast() *past { return &past{last: -1, seen: map[[16]byte]struct{}{}} }

// keep is how many marks are remembered, keepSeen how many whole messages. Replay buffers hold 1000
// events; what was posted comes on top.
const (
	keep     = 4096
	keepSeen = 512
)

// verdict is what becomes of a message.
type verdict int

const (
	fresh  verdict = iota
	copied         // the very same message came before, such as on archive after events
	replay         // it was said before the publisher's restart
)

// judge decides about a message. A fresh one must be passed to note once it is
// stored, before the next is judged.
func (p *past) judge(m *Message, raw []byte) (verdict, digest) {
	d := digestOf(m.Type, m.Payload)
	sum := sha256.Sum256(raw)
	whole := [16]byte(sum[:16])
	if _, ok := p.seen[whole]; ok {
		return copied, d
	}
	p.remember(whole)
	if m.Sequence != nil {
		if *m.Sequence <= p.last {
			p.restart()
		}
		p.last = *m.Sequence
	}
	if p.places == nil && !p.lost {
		return fresh, d
	}
	if p.advance(d) {
		return replay, d
	}
	if p.lost && !posted(m.Type) {
		p.lost = false // a replay would have come first
	}
	return fresh, d
}

// restart begins to look for a replay.
func (p *past) restart() {
	p.epoch++
	p.end, p.places, p.lost = len(p.marks), nil, len(p.marks) > 0
}

// advance follows the replay over one event. Between two events of a replay only
// posted ones can have been left out.
func (p *past) advance(d digest) bool {
	var next []int
	if p.lost {
		for i := range p.end {
			if p.marks[i].digest == d {
				next = append(next, i+1)
			}
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
		return false
	}
	p.lost = false
	p.places = next
	// With the last event reached, all that follows is new, unless the
	// repetition can also be read as one of an earlier place.
	if len(next) == 1 && p.over(next[0]) {
		p.places = nil
	}
	return true
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

// note adds what was stored.
func (p *past) note(d digest, typ string) {
	p.marks = append(p.marks, mark{d, posted(typ)})
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
	n := int64(-1)
	if m.Sequence != nil {
		n = *m.Sequence
	}
	return fmt.Sprintf("x1:%d:%d:%s:%s", p.epoch, n, strconv.FormatInt(at, 36), d)
}

// recall rebuilds the past from an event that is in the log.
func (p *past) recall(e *chat.Event) {
	part := strings.Split(e.ClientID, ":")
	if e.Via != via || len(part) != 5 || part[0] != "x1" {
		return
	}
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
	p.note(digest(raw), e.Type)
}
