package x1

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// replayFilter recognises what a publisher without ids sends twice. x1's own sidecar is
// such a publisher: it numbers its messages with a counter that begins at 0 again
// when the sidecar restarts, and then sends its agent's replay buffer again: the
// last events of the agent's stream, in order, under other numbers. What the agent
// posted by HTTP is not in that buffer.
//
// The rules, in this order:
//
//  1. A message whose bytes are those of an earlier one is a copy (x1 publishes
//     each event on events and on archive).
//  2. A message whose number is larger than the last one is new, unless a replay
//     is being read.
//  3. A number that is not larger than the last one means that the sidecar has
//     restarted: a replay begins. It begins at any stored event that has the
//     content of the first message; if there is none, nothing is repeated and
//     all messages are new.
//  4. In a replay a message is a repetition if it has the content of the next
//     stored event. It may skip as many stored events as the counter skipped
//     numbers, because these messages were lost on their way. If the first
//     message leaves several beginnings possible, those that a later message
//     contradicts are dropped.
//  5. A message that is no repetition is stored, and belongs at that point of the
//     publisher's stream: it was lost when it was sent first.
//  6. The replay ends behind the last stored event, after maxUnknown messages in
//     a row that are no repetitions, and after a silence of replayPause. If it may
//     have ended, it has ended: in doubt an event is stored twice rather than lost.
//
// All of it can be read from the log: the idempotency key of a stored event has
// its run, its number, its content and how much of a replay was left (see key).
type replayFilter struct {
	stored []Digest            // contents of the publisher's stream, in its order
	starts map[Digest]struct{} // contents of session.started, which no buffer has to hold
	run    int                 // how often the counter went back
	last   int64               // the last number; -1 before the first
	heard  time.Time           // when the last message came; zero after a restart of the server

	seeking bool  // a replay has begun, and nothing of the stream has come yet
	next    []int // in a replay: the indexes of stored that can come next, ascending; nil outside
	matched int   // in a replay: how many messages were repetitions
	unknown int   // in a replay: how many were none since the last repetition
	missed  int   // in a replay: how many numbers were skipped since the last repetition

	copies map[[16]byte]struct{} // hashes of whole messages
	order  [][16]byte            // the same, oldest first
}

const (
	maxStored   = 4096             // contents that are remembered; an x1 agent repeats 1000
	maxCopies   = 512              // whole messages that are remembered
	minOverlap  = 3                // so many repetitions are enough to be at the end of what is stored
	maxUnknown  = 64               // a replay has ended after so many messages that are no repetitions
	replayPause = 30 * time.Second // a buffer is sent in one go: after such a silence all is new
)

func newReplayFilter() *replayFilter {
	return &replayFilter{last: -1, starts: map[Digest]struct{}{}, copies: map[[16]byte]struct{}{}}
}

// Digest identifies the content of an event, without time and number.
type Digest [8]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// ParseDigest reads what String returns.
func ParseDigest(s string) (d Digest, ok bool) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(d) {
		return d, false
	}
	return Digest(b), true
}

// DigestOf returns the digest of an event.
func DigestOf(typ string, payload json.RawMessage) Digest {
	var v any
	canonical := []byte(payload)
	if json.Unmarshal(payload, &v) == nil {
		if b, err := json.Marshal(v); err == nil { // keys in order
			canonical = b
		}
	}
	sum := sha256.Sum256(append([]byte(typ+"\x00"), canonical...))
	return Digest(sum[:8])
}

// copied reports whether the very same bytes came before.
func (r *replayFilter) copied(raw []byte) bool {
	sum := sha256.Sum256(raw)
	whole := [16]byte(sum[:16])
	if _, ok := r.copies[whole]; ok {
		return true
	}
	if len(r.order) >= maxCopies {
		delete(r.copies, r.order[0])
		r.order = r.order[1:]
	}
	r.copies[whole] = struct{}{}
	r.order = append(r.order, whole)
	return false
}

// count takes the number of a message that came now.
func (r *replayFilter) count(m *Message, now time.Time) {
	if !r.heard.IsZero() && now.Sub(r.heard) > replayPause {
		r.seeking, r.unknown = false, maxUnknown
	}
	r.heard = now
	n := sequenceOf(m)
	switch {
	case n < 0:
		return
	case n <= r.last:
		r.restart(r.run + 1)
	default:
		r.missed = min(r.missed+int(min(n-r.last-1, 2*maxStored)), 2*maxStored)
	}
	r.last = n
}

// skip takes the number of a message that is not stored.
func (r *replayFilter) skip(m *Message) {
	r.last = max(r.last, sequenceOf(m))
}

// sequenceOf is the sequence of a message, -1 if it has none.
func sequenceOf(m *Message) int64 {
	if m.Sequence == nil || *m.Sequence < 0 {
		return -1
	}
	return *m.Sequence
}

// restart begins a run of the publisher, and with it a replay.
func (r *replayFilter) restart(run int) {
	r.endReplay()
	r.run, r.last, r.missed, r.matched, r.unknown = run, -1, 0, 0, 0
	r.seeking = len(r.stored) > 0
}

func (r *replayFilter) endReplay() { r.seeking, r.next = false, nil }

// repeated reports whether a counted message is a repetition. If it is not, it must
// be passed to add, unless it is not stored.
func (r *replayFilter) repeated(m *Message, d Digest) bool {
	switch {
	case sequenceOf(m) < 0 || !r.seeking && r.next == nil:
		return false
	case isStart(m.Type):
		_, known := r.starts[d]
		if !known && r.seeking {
			r.endReplay() // another agent: it has nothing to repeat
		}
		return known
	case isPosted(m.Type):
		return false
	}
	next, end := r.match(d), len(r.stored)
	if len(next) == 0 {
		if r.unknown++; r.seeking || slices.Contains(r.next, end) || r.insertAt() == end {
			r.endReplay()
		}
		return false
	}
	r.seeking, r.next, r.missed, r.unknown = false, next, 0, 0
	r.matched++
	if next[0] == end || r.matched >= minOverlap && next[len(next)-1] == end {
		r.endReplay()
	}
	return true
}

// match returns which stored events can follow a message with this content.
func (r *replayFilter) match(d Digest) (next []int) {
	from := r.next
	switch {
	case r.unknown >= maxUnknown:
		return nil
	case r.seeking:
		from = []int{0}
	}
	done := 0 // all before it were compared
	for _, at := range from {
		until := len(r.stored)
		if !r.seeking {
			until = min(until, at+r.missed+1)
		}
		for i := max(at, done); i < until; i++ {
			if r.stored[i] == d {
				next = append(next, i+1)
			}
		}
		done = max(done, until)
	}
	return next
}

// insertAt is the index in stored of an event that is no repetition. Numbers that were
// skipped are taken for repetitions that were lost.
func (r *replayFilter) insertAt() int {
	if r.next == nil {
		return len(r.stored)
	}
	return min(r.next[0]+r.missed, len(r.stored))
}

// left is how many stored events come after the index of the next one; -1 before the
// first message of a replay.
func (r *replayFilter) left() int {
	if r.seeking {
		return -1
	}
	return len(r.stored) - r.insertAt()
}

// add notes an event that is stored.
func (r *replayFilter) add(typ string, d Digest) {
	if isStart(typ) {
		r.starts[d] = struct{}{}
		return
	}
	if isPosted(typ) {
		return
	}
	index := r.insertAt()
	r.stored = slices.Insert(r.stored, index, d)
	if r.missed > 0 && r.next != nil {
		r.missed++ // a later message may skip this event, too
	}
	for i, at := range r.next {
		if at >= index {
			r.next[i]++
		}
	}
	if len(r.stored) >= 2*maxStored && r.next == nil { // cut seldom, in one go
		r.stored = slices.Clone(r.stored[maxStored:])
	}
}

// key is the idempotency key of an event that is about to be stored: all that
// recall needs, and a moment that makes it unique.
func (r *replayFilter) key(m *Message, d Digest, moment int64) string {
	return fmt.Sprintf("x1:%d:%d:%s:%s:%d", r.run, sequenceOf(m), strconv.FormatInt(moment, 36), d, r.left())
}

// storedKey is a parsed key.
type storedKey struct {
	run    int
	number int64
	digest Digest
	left   int
}

// parseKey reads the key of an event; ok is false if no publisher without ids sent it.
func parseKey(e *chat.Event) (k storedKey, ok bool) {
	part := strings.Split(e.ClientID, ":")
	if e.Via != via || len(part) != 6 || part[0] != "x1" {
		return k, false
	}
	var err [3]error
	k.run, err[0] = strconv.Atoi(part[1])
	k.number, err[1] = strconv.ParseInt(part[2], 10, 64)
	k.left, err[2] = strconv.Atoi(part[5])
	k.digest, ok = ParseDigest(part[4])
	return k, ok && err == [3]error{}
}

// hasNoID reports whether an event came from a publisher without ids.
func hasNoID(e *chat.Event) bool {
	_, ok := parseKey(e)
	return ok
}

// recall adds the next event of the log.
func (r *replayFilter) recall(e *chat.Event) {
	k, ok := parseKey(e)
	if !ok || k.number < 0 {
		return
	}
	if k.run != r.run {
		r.restart(k.run)
	}
	if r.unknown++; k.number != r.last+1 {
		r.unknown = 0 // there may have been repetitions
	}
	r.last, r.missed, r.seeking, r.next = k.number, 0, k.left < 0, nil
	if k.left > 0 {
		r.next = []int{max(0, len(r.stored)-k.left)}
	}
	r.add(e.Type, k.digest)
}
