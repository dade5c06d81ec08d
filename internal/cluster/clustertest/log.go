// Package clustertest has a cluster.Log in memory that fails like a real one: it delays, repeats and loses frames, loses
// acknowledgements, and stores frames after Append has failed. A [Network] connects nodes in the same process.
//
// All choices follow from a seed. Each node draws its own, so they do not depend on how goroutines are scheduled. Times come
// from package time: inside testing/synctest a run takes no real time.
package clustertest

import (
	"context"
	"errors"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/sleep"
)

// Faults says how often the log fails. The zero value is a log without faults and delays.
type Faults struct {
	Delay   time.Duration // the longest time that a frame, an acknowledgement or an entry travels
	LostAck float64       // share of the appends that store the frame and return an error
	Late    float64       // share of the appends that return an error and store the frame later
	Lost    float64       // share of the appends that return an error and store nothing
	Repeat  float64       // share of the appends that store the frame twice, the second one later
}

// errFault is the error of an append that failed on purpose.
var errFault = errors.New("the log did not answer")

// Log is a log in memory.
type Log struct {
	seed uint64

	mu     sync.Mutex
	faults Faults
	parts  []part
	views  uint64
}

type part struct {
	first   cluster.Pos // of entries[0]
	entries []entry
	grown   chan struct{} // closed when an entry is added
	history [][]byte
}

type entry struct {
	frame []byte
	at    time.Time
}

// New returns an empty log.
func New(seed uint64, parts int, f Faults) *Log {
	l := &Log{seed: seed, faults: f, parts: make([]part, parts)}
	for i := range l.parts {
		l.parts[i] = part{first: 1, grown: make(chan struct{})}
	}
	return l
}

// SetFaults changes how often the log fails.
func (l *Log) SetFaults(f Faults) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = f
}

// History returns all frames that a partition was ever given, also trimmed ones.
func (l *Log) History(p int) [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.parts[p].history)
}

// Entries returns the frames that a partition has, without trimmed ones.
func (l *Log) Entries(p int) (frames [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.parts[p].entries {
		frames = append(frames, e.frame)
	}
	return frames
}

// Lose removes all entries after a position, as a log that has lost what it had stored.
func (l *Log) Lose(p int, after cluster.Pos) {
	l.mu.Lock()
	defer l.mu.Unlock()
	part := &l.parts[p]
	part.entries = part.entries[:max(0, int(after)-int(part.first)+1)]
	close(part.grown)
	part.grown = make(chan struct{})
}

func (l *Log) store(p int, frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	part := &l.parts[p]
	part.entries = append(part.entries, entry{frame, time.Now()})
	part.history = append(part.history, frame)
	close(part.grown)
	part.grown = make(chan struct{})
}

// View is the log as one process reaches it. It implements cluster.Log.
type View struct {
	log *Log

	mu     sync.Mutex
	random *rand.Rand
	cut    chan struct{} // open while the process is cut off; nil if it is not
}

// View returns the log for a process of a node. Calls with the same names in the same order give the same choices.
func (l *Log) View(node string) *View {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.views++
	h := fnv.New64a()
	_, _ = h.Write([]byte(node)) // never fails
	return &View{log: l, random: rand.New(rand.NewPCG(l.seed^h.Sum64(), l.views))}
}

// Cut cuts the process off from the log, or connects it again. Meanwhile its appends and reads wait.
func (v *View) Cut(off bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case off && v.cut == nil:
		v.cut = make(chan struct{})
	case !off && v.cut != nil:
		close(v.cut)
		v.cut = nil
	}
}

// connected waits until the process is not cut off.
func (v *View) connected(ctx context.Context) error {
	for {
		v.mu.Lock()
		cut := v.cut
		v.mu.Unlock()
		if cut == nil {
			return ctx.Err()
		}
		select {
		case <-cut:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// choices are those of one append.
type choices struct {
	there, back, later time.Duration
	fault              float64
	repeat             bool
}

func (v *View) choose() (c choices, f Faults) {
	v.log.mu.Lock()
	f = v.log.faults
	v.log.mu.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	delay := func() time.Duration { return time.Duration(v.random.Int64N(int64(f.Delay) + 1)) }
	return choices{delay(), delay(), 20 * delay(), v.random.Float64(), v.random.Float64() < f.Repeat}, f
}

// Append implements cluster.Log.
func (v *View) Append(ctx context.Context, p int, frame []byte) error {
	frame = slices.Clone(frame)
	c, f := v.choose()
	if err := v.connected(ctx); err != nil {
		return err
	}
	if c.repeat {
		time.AfterFunc(c.later, func() { v.log.store(p, frame) })
	}
	late := c.fault >= f.LostAck && c.fault < f.LostAck+f.Late
	lost := c.fault >= f.LostAck+f.Late && c.fault < f.LostAck+f.Late+f.Lost
	if late {
		time.AfterFunc(c.later, func() { v.log.store(p, frame) })
	}
	if late || lost {
		sleep.For(ctx, c.there)
		return errFault
	}
	if sleep.For(ctx, c.there) != nil { // it is on its way
		time.AfterFunc(c.there, func() { v.log.store(p, frame) })
		return ctx.Err()
	}
	v.log.store(p, frame)
	sleep.For(ctx, c.back)
	if c.fault < f.LostAck {
		return errFault
	}
	return ctx.Err()
}

// Tail implements cluster.Log.
func (v *View) Tail(ctx context.Context, p int, after cluster.Pos) iter.Seq2[cluster.Entry, error] {
	return func(yield func(cluster.Entry, error) bool) {
		for pos := after + 1; ; pos++ {
			e, err := v.read(ctx, p, pos)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// read waits for the entry at a position.
func (v *View) read(ctx context.Context, p int, pos cluster.Pos) (cluster.Entry, error) {
	c, _ := v.choose()
	for {
		if err := v.connected(ctx); err != nil {
			return cluster.Entry{}, err
		}
		v.log.mu.Lock()
		part := &v.log.parts[p]
		first, end, grown := part.first, part.first+cluster.Pos(len(part.entries)), part.grown
		var found entry
		if pos >= first && pos < end {
			found = part.entries[pos-first]
		}
		v.log.mu.Unlock()
		switch {
		case pos < first:
			return cluster.Entry{}, cluster.ErrTrimmed
		case pos > end:
			return cluster.Entry{}, cluster.ErrShort
		case pos < end:
			travels := c.there - time.Since(found.at)
			if c.fault < .1 {
				travels = c.there // reading old entries takes time, too
			}
			if sleep.For(ctx, max(0, travels)) != nil {
				return cluster.Entry{}, ctx.Err()
			}
			if err := v.connected(ctx); err != nil { // it may be cut off while the entry travels
				return cluster.Entry{}, err
			}
			return cluster.Entry{Pos: pos, Frame: found.frame}, nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return cluster.Entry{}, ctx.Err()
		}
	}
}

// Trim implements cluster.Log.
func (v *View) Trim(ctx context.Context, p int, upTo cluster.Pos) error {
	if err := v.connected(ctx); err != nil {
		return err
	}
	v.log.mu.Lock()
	defer v.log.mu.Unlock()
	part := &v.log.parts[p]
	for part.first <= upTo && len(part.entries) > 0 {
		part.first++
		part.entries = part.entries[1:]
	}
	return nil
}

// Size implements cluster.Sized.
func (v *View) Size(ctx context.Context, p int) (bytes int64, err error) {
	if err := v.connected(ctx); err != nil {
		return 0, err
	}
	v.log.mu.Lock()
	defer v.log.mu.Unlock()
	for _, e := range v.log.parts[p].entries {
		bytes += int64(len(e.frame))
	}
	return bytes, nil
}

// Renew implements cluster.Renewable.
func (v *View) Renew(ctx context.Context, p int, after cluster.Pos) error {
	if err := v.connected(ctx); err != nil {
		return err
	}
	v.log.mu.Lock()
	defer v.log.mu.Unlock()
	part := &v.log.parts[p]
	part.first, part.entries = after+1, nil
	close(part.grown)
	part.grown = make(chan struct{})
	return nil
}

// Ends implements cluster.Log.
func (v *View) Ends(ctx context.Context, p int) (first, last cluster.Pos, err error) {
	if err := v.connected(ctx); err != nil {
		return 0, 0, err
	}
	v.log.mu.Lock()
	defer v.log.mu.Unlock()
	part := &v.log.parts[p]
	return part.first, part.first + cluster.Pos(len(part.entries)) - 1, nil
}
