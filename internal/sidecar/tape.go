package sidecar

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/parley-hq/parley/internal/json"
)

// digest is what an agent said, without when.
type digest [8]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }

func parseDigest(s string) (d digest, ok bool) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(d) {
		return d, false
	}
	return digest(b), true
}

func digestOf(typ string, payload json.RawMessage) digest {
	canonical := []byte(payload)
	var v any
	if json.Unmarshal(payload, &v) == nil {
		if b, err := json.Marshal(v); err == nil { // keys in order, no white space
			canonical = b
		}
	}
	sum := sha256.Sum256(append([]byte(typ+"\x00"), canonical...))
	return digest(sum[:8])
}

// said is one event of an agent's stream.
type said struct {
	id      string // given by the agent; "" when it gives none
	typ     string
	payload json.RawMessage
	digest  digest
	place   int // in the stream of this boot
}

// tape lines up what an agent's stream brings with what is stored of it. An agent
// repeats its last events to every new reader and gives them no ids, so only
// their order tells what is new: the stream begins with what is stored from place
// at on. Place 0 is right unless the agent has said more than it can repeat.
type tape struct {
	have   []digest // stored of this boot
	replay int      // how many events the agent can repeat

	at    int    // the stream begins with have[at]; len(have) means that nothing is repeated
	hold  bool   // place 0 is wrong: either the agent began anew, or its memory is full
	live  bool   // something new has come; all that follows is new
	count int    // events of the stream so far
	kept  []said // those that were not given out; never more than replay and what is stored
	gap   bool   // between what is stored and what came, events may be missing
	other bool   // nothing of what came is stored
}

// feed takes the next event of the stream and returns what is new.
func (t *tape) feed(s said) []said {
	t.count++
	if t.live {
		s.place = t.at + t.count - 1
		return []said{s}
	}
	t.kept = append(t.kept, s)
	i := t.at + len(t.kept) - 1
	switch {
	case t.hold:
	case i >= len(t.have):
		return t.settle()
	case t.have[i] != s.digest:
		t.hold = true
	}
	if t.hold && len(t.kept) >= t.replay {
		return t.quiet()
	}
	return nil
}

// quiet says that the agent has repeated all that it can, for now.
func (t *tape) quiet() []said {
	if !t.hold {
		return nil
	}
	at, ok := t.find()
	t.hold, t.at, t.gap, t.other = false, at, !ok, !ok
	if t.at+len(t.kept) > len(t.have) {
		return t.settle()
	}
	return nil
}

// overlap is how much must be repeated to be taken for a repetition, by an agent
// whose memory is shorter than we were told.
const overlap = 3

// find looks for a place other than 0 with which the stream began. There is none
// if ok is false: then all of it is new.
func (t *tape) find() (at int, ok bool) {
	first, last := max(1, len(t.have)-len(t.kept)), len(t.have)-overlap
	if len(t.kept) >= t.replay {
		first, last = max(1, len(t.have)-t.replay), len(t.have)-1
	}
	for at := first; at <= last; at++ {
		n := min(len(t.kept), len(t.have)-at)
		if slices.EqualFunc(t.have[at:at+n], t.kept[:n], func(d digest, s said) bool { return d == s.digest }) {
			return at, true
		}
	}
	return len(t.have), false
}

// whole reports whether the agent has repeated everything that is stored and that
// it can remember: it is the process that said it.
func (t *tape) whole() bool {
	if t.hold {
		at, ok := t.find()
		return ok && at+len(t.kept) >= len(t.have)
	}
	return !t.other && t.at+len(t.kept) >= len(t.have)
}

// anew says that the agent is another process than the one whose words are
// stored: what was taken for a repetition is new, and places begin at 0.
func (t *tape) anew() []said {
	t.have, t.at, t.hold, t.gap = nil, 0, false, false
	if len(t.kept) == 0 {
		t.live = true
		return nil
	}
	return t.settle()
}

// settle gives out what is not stored; all that follows is new.
func (t *tape) settle() []said {
	t.live = true
	stored := max(0, len(t.have)-t.at)
	fresh := t.kept[min(stored, len(t.kept)):]
	for i := range fresh {
		fresh[i].place = t.at + stored + i
	}
	t.kept = t.kept[:min(stored, len(t.kept))]
	return fresh
}
