package sidecar

import (
	"slices"

	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/json"
)

// agentEvent is one event of an agent's stream.
type agentEvent struct {
	id      string // given by the agent; "" when it gives none
	typ     string
	payload json.RawMessage
	digest  x1.Digest
	index   int // its index in the stream of this boot
}

// replayAligner finds out which events of an agent's stream are stored already. An agent
// repeats its last events on every new connection and gives them no ids, so only their
// order tells which are new: the stream begins with the stored events from index start
// on. start is 0 unless the agent has sent more events than it can repeat.
type replayAligner struct {
	stored []x1.Digest // events of this boot
	replay int         // how many events the agent can repeat

	start      int          // the stream begins with stored[start]; len(stored) means that nothing is repeated
	misaligned bool         // start is not 0: either the agent is a new process, or its buffer has overflowed
	live       bool         // a new event has come; all that follow are new
	count      int          // events of the stream so far
	held       []agentEvent // events that are not decided, or repeated
	gap        bool         // events may be missing between the stored ones and these
	unrelated  bool         // none of these events is stored
}

// feed takes the next event of the stream and returns the new events.
func (r *replayAligner) feed(e agentEvent) []agentEvent {
	r.count++
	if r.live {
		e.index = r.start + r.count - 1
		return []agentEvent{e}
	}
	r.held = append(r.held, e)
	i := r.start + len(r.held) - 1
	switch {
	case r.misaligned:
	case i >= len(r.stored):
		return r.release()
	case r.stored[i] != e.digest:
		r.misaligned = true
	}
	if r.misaligned && len(r.held) >= r.replay {
		return r.endReplay()
	}
	return nil
}

// endReplay is called when the agent has repeated all that it can. It returns the new
// events.
func (r *replayAligner) endReplay() []agentEvent {
	if !r.misaligned {
		return nil
	}
	start, ok := r.findStart()
	r.misaligned, r.start, r.gap, r.unrelated = false, start, !ok, !ok
	if r.start+len(r.held) > len(r.stored) {
		return r.release()
	}
	return nil
}

// minOverlap is how many events must match if the agent's buffer is smaller than replay.
const minOverlap = 3

// findStart looks for a start other than 0. If ok is false there is none, and all events
// are new.
func (r *replayAligner) findStart() (start int, ok bool) {
	first, last := max(1, len(r.stored)-len(r.held)), len(r.stored)-minOverlap
	if len(r.held) >= r.replay {
		first, last = max(1, len(r.stored)-r.replay), len(r.stored)-1
	}
	for start := first; start <= last; start++ {
		n := min(len(r.held), len(r.stored)-start)
		if slices.EqualFunc(r.stored[start:start+n], r.held[:n], func(d x1.Digest, e agentEvent) bool { return d == e.digest }) {
			return start, true
		}
	}
	return len(r.stored), false
}

// repeatedAll reports whether the agent has repeated all stored events that its buffer
// can hold: it is the process that sent them.
func (r *replayAligner) repeatedAll() bool {
	if r.misaligned {
		start, ok := r.findStart()
		return ok && start+len(r.held) >= len(r.stored)
	}
	return !r.unrelated && r.start+len(r.held) >= len(r.stored)
}

// newProcess is called when the agent turns out to be another process than the one whose
// events are stored: the held events are new, and their indexes begin at 0.
func (r *replayAligner) newProcess() []agentEvent {
	r.stored, r.start, r.misaligned, r.gap = nil, 0, false, false
	if len(r.held) == 0 {
		r.live = true
		return nil
	}
	return r.release()
}

// release returns the events that are not stored; all that follow are new.
func (r *replayAligner) release() []agentEvent {
	r.live = true
	stored := max(0, len(r.stored)-r.start)
	fresh := r.held[min(stored, len(r.held)):]
	for i := range fresh {
		fresh[i].index = r.start + stored + i
	}
	r.held = r.held[:min(stored, len(r.held))]
	return fresh
}
