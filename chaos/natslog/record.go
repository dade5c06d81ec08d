package main

import (
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/chaos/faults"
	"github.com/parley-hq/parley/internal/cluster"
)

// record is what writers were told and what readers saw.
type record struct {
	acks     *faults.Acks
	replicas bool

	mu         sync.Mutex
	writers    []*writer
	parts      []partition
	differing  int
	complaints []string // at most maxComplaints
}

const maxComplaints = 50

// writer appends to one partition, through one node or through the owner.
type writer struct {
	id, node, part int
	calls          []call // by the number of the frame
}

// outcome is what a writer was told.
type outcome byte

const (
	unknown outcome = iota
	acknowledged
	refused
)

type call struct {
	called, answered time.Duration
	outcome          outcome
	pos              int // of an acknowledged record
}

type partition struct {
	log    []uint64       // hashes of the entries, by position - 1, as the first reader saw them
	read   [nodeCount]int // the last position that each node's reader has
	first  int            // smaller positions are trimmed
	last   int            // at the end of the run
	placed []placed       // what counts, in the order of the log
	copy   cluster.Copy
	frames int
	void   int
}

// placed is a writer's frame or record in the log.
type placed struct{ writer, number, pos int32 }

func newRecord(parts int, replicas bool) *record {
	return &record{acks: faults.NewAcks(parts), replicas: replicas, parts: make([]partition, parts)}
}

func (r *record) now() time.Duration { return r.acks.Now() }

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

// differ notes that two nodes do not have the same.
func (r *record) differ(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.differing++
	r.complainLocked(format, args...)
}

func (r *record) newWriter(node, part int) *writer {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &writer{id: len(r.writers), node: node, part: part}
	r.writers = append(r.writers, w)
	return w
}

func (r *record) answered(w *writer, called time.Duration, what outcome, pos int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := call{called: called, answered: r.now(), outcome: what, pos: pos}
	if what == acknowledged {
		r.acks.Add(w.part, w.node)
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

var seed = maphash.MakeSeed()

// entry takes what a reader got. It must be at a position.
func (r *record) entry(node, part, want int, line string) {
	text, data, _ := strings.Cut(line, " ")
	pos, err := strconv.Atoi(text)
	hash := maphash.String(seed, data)
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.parts[part]
	switch {
	case err != nil || pos != want || pos > len(p.log)+1:
		r.differing++
		r.complainLocked("n%d read position %s of partition %d after %d", node, text, part, want-1)
		return
	case pos == len(p.log)+1:
		p.log = append(p.log, hash)
		frame, err := hex.DecodeString(data)
		if err == nil {
			err = r.place(p, pos, frame)
		}
		if err != nil {
			r.differing++
			r.complainLocked("position %d of partition %d: %v", pos, part, err)
		}
	case p.log[pos-1] != hash:
		r.differing++
		r.complainLocked("n%d read something else than another reader at position %d of partition %d", node, pos, part)
	}
	p.read[node] = max(p.read[node], pos)
}

// place notes what an entry has that counts.
func (r *record) place(p *partition, pos int, frame []byte) error {
	if !r.replicas {
		return p.add(pos, frame)
	}
	f, err := cluster.ParseFrame(frame)
	if err != nil {
		return err
	}
	next, verdict := p.copy.Apply(cluster.Pos(pos), f)
	switch verdict {
	case cluster.Damaged:
		return fmt.Errorf("frame %d of epoch %d does not follow %s", f.Number, f.Epoch, p.copy)
	case cluster.Void:
		p.void++
	case cluster.Counts:
		p.frames++
		for _, one := range f.Records {
			if err := p.add(pos, one.Data); err != nil {
				return err
			}
		}
	}
	p.copy = next
	return nil
}

func (p *partition) add(pos int, data []byte) error {
	one := placed{pos: int32(pos)}
	var filler string
	if _, err := fmt.Sscan(string(data), &one.writer, &one.number, &filler); err != nil || len(filler) != 200 {
		return fmt.Errorf("%.40q was not sent", data)
	}
	p.placed = append(p.placed, one)
	return nil
}

// digest returns the copy that a node must have.
func (r *record) digest(part int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.parts[part].copy
	return fmt.Sprintf("%d %x", c.Pos, c.Digest)
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
