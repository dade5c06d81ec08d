package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// record is what writers were told and what readers saw.
type record struct {
	begin time.Time

	mu         sync.Mutex
	writers    []*writer
	parts      []partition
	differing  int
	complaints []string // at most maxComplaints
}

const maxComplaints = 50

// writer appends to one partition through one node.
type writer struct {
	id, node, part int
	next           int
	calls          []call
}

// call is one append; its number is its index.
type call struct {
	called, acked time.Duration // acked is 0 if the outcome is unknown
}

type partition struct {
	log   []frameID      // by position - 1, as the first reader saw it
	read  [nodeCount]int // the last position that each node's reader has
	first int            // smaller positions are trimmed
	last  int            // at the end of the run
	acks  []acknowledgement
}

type frameID struct{ writer, number int32 }

type acknowledgement struct {
	at   time.Duration
	node int8
}

func newRecord(parts int) *record {
	return &record{begin: time.Now(), parts: make([]partition, parts)}
}

func (r *record) now() time.Duration { return time.Since(r.begin) }

func (r *record) complain(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.complainLocked(format, args...)
}

func (r *record) complainLocked(format string, args ...any) {
	if len(r.complaints) < maxComplaints {
		r.complaints = append(r.complaints, fmt.Sprintf("%s: ", r.now().Round(time.Second))+fmt.Sprintf(format, args...))
	}
}

func (r *record) newWriter(node, part int) *writer {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &writer{id: len(r.writers), node: node, part: part}
	r.writers = append(r.writers, w)
	return w
}

func (w *writer) call() (n int, at time.Time) {
	n = w.next
	w.next++
	return n, time.Now()
}

func (r *record) answered(w *writer, _ int, called time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := call{called: called.Sub(r.begin)}
	if ok {
		c.acked = r.now()
		p := &r.parts[w.part]
		p.acks = append(p.acks, acknowledgement{c.acked, int8(w.node)})
	}
	w.calls = append(w.calls, c)
}

// resume returns the position after which a reader continues. It reads some entries again.
func (r *record) resume(node, part int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.parts[part]
	return max(p.first, p.read[node]-reread, 0)
}

// entry takes what a reader got. It must be at a position.
func (r *record) entry(node, part, want int, line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.parts[part]
	var pos int
	var id frameID
	if _, err := fmt.Sscan(string(line[:min(len(line), 60)]), &pos, &id.writer, &id.number); err != nil || bytes.Count(line, []byte{'x'}) != 200 {
		r.differing++
		r.complainLocked("n%d read %.80q in partition %d", node, line, part)
		return
	}
	switch {
	case pos != want || pos > len(p.log)+1:
		r.differing++
		r.complainLocked("n%d read position %d of partition %d after %d", node, pos, part, want-1)
	case pos == len(p.log)+1:
		p.log = append(p.log, id)
	case p.log[pos-1] != id:
		r.differing++
		r.complainLocked("n%d read frame %v at position %d of partition %d, another reader %v", node, id, pos, part, p.log[pos-1])
	}
	p.read[node] = max(p.read[node], pos)
}

func (r *record) readBy(node, part int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.parts[part].read[node]
}

func (r *record) readByAll(part int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Min(r.parts[part].read[:])
}

func (r *record) trimmed(part, to int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts[part].first = to
}

func (r *record) end(part, last int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts[part].last = last
}

// longestPause returns the longest time between two acknowledgements of a partition within an interval, through some nodes.
func (r *record) longestPause(from, to time.Duration, through [nodeCount]bool) (longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.parts {
		last := from
		i, _ := slices.BinarySearchFunc(p.acks, from, func(a acknowledgement, t time.Duration) int { return int(a.at - t) })
		for ; i < len(p.acks) && p.acks[i].at < to; i++ {
			if through[p.acks[i].node] {
				longest = max(longest, p.acks[i].at-last)
				last = p.acks[i].at
			}
		}
		longest = max(longest, to-last)
	}
	return longest
}

// backSince reports whether every node has acknowledged in every partition after a time.
func (r *record) backSince(t time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.parts {
		var seen [nodeCount]bool
		for i := len(p.acks) - 1; i >= 0 && p.acks[i].at > t; i-- {
			seen[p.acks[i].node] = true
		}
		if slices.Contains(seen[:], false) {
			return false
		}
	}
	return true
}

// counts are the figures of a run.
type counts struct {
	appends, acknowledged, unknown, unknownStored int
	lost, doubled, disordered, differing          int
}

// check compares what writers were told with the log.
func (r *record) check() (n counts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n.differing = r.differing
	where := make([][]int, len(r.writers))
	for i, w := range r.writers {
		where[i] = make([]int, len(w.calls))
	}
	for pi := range r.parts {
		p := &r.parts[pi]
		if len(p.log) != p.last {
			n.differing++
			r.complainLocked("partition %d ends at %d, and %d entries were read", pi, p.last, len(p.log))
		}
		for i, id := range p.log {
			if int(id.writer) >= len(r.writers) || int(id.number) >= len(where[id.writer]) || r.writers[id.writer].part != pi {
				n.differing++
				r.complainLocked("position %d of partition %d has frame %v, which was not sent there", i+1, pi, id)
				continue
			}
			if where[id.writer][id.number] != 0 {
				n.doubled++
				r.complainLocked("frame %v is at positions %d and %d of partition %d", id, where[id.writer][id.number], i+1, pi)
			}
			where[id.writer][id.number] = i + 1
		}
		// From the end: no frame was called after a later one had been acknowledged.
		earliest := time.Duration(math.MaxInt64)
		for i := len(p.log) - 1; i >= 0; i-- {
			id := p.log[i]
			if int(id.writer) >= len(r.writers) || int(id.number) >= len(r.writers[id.writer].calls) {
				continue
			}
			c := r.writers[id.writer].calls[id.number]
			if c.called > earliest {
				n.disordered++
				r.complainLocked("frame %v at position %d of partition %d was sent after a later one had been acknowledged", id, i+1, pi)
			}
			if c.acked > 0 {
				earliest = min(earliest, c.acked)
			}
		}
	}
	for i, w := range r.writers {
		n.appends += len(w.calls)
		for k, c := range w.calls {
			stored := where[i][k] != 0
			switch {
			case c.acked > 0:
				n.acknowledged++
				if !stored {
					n.lost++
					r.complainLocked("frame %d of writer %d was acknowledged at %s and is not in partition %d", k, i, c.acked, w.part)
				}
			default:
				n.unknown++
				if stored {
					n.unknownStored++
				}
			}
		}
	}
	return n
}
