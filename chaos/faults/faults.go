package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/internal/sleep"
)

const (
	// NodeCount is the number of nodes of a cluster.
	NodeCount = 3

	stuckTime = time.Minute
	giveUp    = 4 * time.Minute // a cluster that is not back after this ends the run
)

// Node is a process of the cluster.
type Node interface {
	Start() error
	Kill() // at once, also if it is paused
	Pause(stopped bool) error
}

// Options describe the cluster.
type Options struct {
	Nodes  [NodeCount]Node
	Links  *Links
	Acks   *Acks // of the writes that are made all the time
	Random *rand.Rand

	MaxTime     time.Duration                                    // of a pause or a cut, more than two seconds
	Role        string                                           // of the node that a partition depends on: owner or leader
	Find        func(ctx context.Context, part, instead int) int // the node with that role; instead if it is not known
	Stop        func(node int) error                             // stops a node in order; nil leaves out that fault
	Own         []Own                                            // done after the others
	First       int                                              // the fault to begin with, by its place in the list of kinds
	OneIsEnough bool                                             // the cluster is back when one node acknowledges in each partition, not all nodes
	Stuck       func(format string, args ...any)                 // gets a report of each fault after which writes paused for more than a minute
}

// Own is a fault that only this cluster knows.
type Own struct {
	Kind string
	Do   func(ctx context.Context, node int) error // does it to a node and undoes it
}

// Faults does faults to a cluster.
type Faults struct {
	opt   Options
	kinds []string // done in turns
	done  []fault
}

// fault is one that was done.
type fault struct {
	kind  string
	pause time.Duration // without acknowledgements of a partition through the nodes that it did not touch
	back  time.Duration // from its end until the nodes acknowledge in all partitions
}

func (f *fault) stuck() bool { return f.pause > stuckTime || f.back > stuckTime }

// New prepares faults for a cluster.
func New(opt Options) *Faults {
	of := " the " + opt.Role
	f := &Faults{opt: opt, kinds: []string{
		"kill", "kill" + of, "pause", "pause" + of, "cut off", "cut off" + of, "cut one way out", "cut one way in", "cut a pair", "kill all",
	}}
	if opt.Stop != nil {
		f.kinds = append([]string{"stop"}, f.kinds...)
	}
	for _, own := range opt.Own {
		f.kinds = append(f.kinds, own.Kind)
	}
	return f
}

// Run does one fault after the other until the time is over.
func (f *Faults) Run(ctx context.Context, span time.Duration) error {
	acks, random := f.opt.Acks, f.opt.Random
	end := time.Now().Add(span)
	for n := f.opt.First; time.Now().Before(end) && ctx.Err() == nil; n++ {
		sleep.For(ctx, time.Duration(1000+random.IntN(2000))*time.Millisecond)
		kind, victim := f.kinds[n%len(f.kinds)], random.IntN(NodeCount)
		if strings.HasSuffix(kind, f.opt.Role) {
			victim = f.opt.Find(ctx, random.IntN(len(acks.parts)), victim)
		}
		from := acks.Now()
		touched, err := f.do(ctx, kind, victim)
		if err != nil {
			return fmt.Errorf("%s n%d: %w", kind, victim, err)
		}
		undone := acks.Now()
		err = f.WaitBack(ctx)
		one := fault{kind: kind, back: acks.Now() - undone, pause: acks.longestPause(from, acks.Now(), untouched(touched))}
		f.done = append(f.done, one)
		fmt.Printf("%s  %-18s n%d  pause %-8s back %s\n", acks.Now().Round(time.Second), kind, victim, one.pause.Round(time.Millisecond), one.back.Round(time.Millisecond))
		if one.stuck() {
			f.opt.Stuck("%s n%d: pause %s, back after %s", kind, victim, one.pause, one.back)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func untouched(touched [NodeCount]bool) (through [NodeCount]bool) {
	if !slices.Contains(touched[:], false) {
		return touched
	}
	for i, t := range touched {
		through[i] = !t
	}
	return through
}

// do does a fault to a node and undoes it. It returns the nodes that it touched.
func (f *Faults) do(ctx context.Context, kind string, victim int) (touched [NodeCount]bool, err error) {
	nodes, random := f.opt.Nodes, f.opt.Random
	n := nodes[victim]
	span := 2*time.Second + time.Duration(random.Int64N(int64(f.opt.MaxTime-2*time.Second)))
	others := []int{(victim + 1) % NodeCount, (victim + 2) % NodeCount}
	touched[victim] = true
	if i := slices.IndexFunc(f.opt.Own, func(own Own) bool { return own.Kind == kind }); i >= 0 {
		return touched, f.opt.Own[i].Do(ctx, victim)
	}
	switch name, _, _ := strings.Cut(kind, " the "); name {
	case "stop":
		if err := f.opt.Stop(victim); err != nil {
			return touched, err
		}
		return touched, n.Start()
	case "kill":
		n.Kill()
		sleep.For(ctx, time.Duration(random.IntN(8000))*time.Millisecond)
		return touched, n.Start()
	case "kill all":
		for i, n := range nodes {
			touched[i] = true
			n.Kill()
		}
		for _, n := range nodes {
			if err := n.Start(); err != nil {
				return touched, err
			}
		}
		return touched, nil
	case "pause":
		if err := n.Pause(true); err != nil {
			return touched, err
		}
		sleep.For(ctx, span)
		return touched, n.Pause(false)
	case "cut a pair": // both reach the third node, so a majority is connected to each
		others = others[:1]
		touched[victim] = false
	}
	heal := f.opt.Links.Cut(victim, others, kind != "cut one way in", kind != "cut one way out", random.IntN(2) == 0)
	sleep.For(ctx, span)
	heal()
	return touched, nil
}

// WaitBack waits until the nodes acknowledge in all partitions, from now on.
func (f *Faults) WaitBack(ctx context.Context) error {
	from := f.opt.Acks.Now()
	for !f.opt.Acks.since(from, f.opt.OneIsEnough) {
		if f.opt.Acks.Now() > from+giveUp {
			return fmt.Errorf("the nodes do not all acknowledge %s after the end of the fault", giveUp)
		}
		if err := sleep.For(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// Print prints the figures of each kind of fault. It returns how many faults were done, and how many times the cluster was stuck.
func (f *Faults) Print() (count, stuck int) {
	fmt.Printf("%-18s %5s %14s %14s\n", "fault", "times", "pause p50/max", "back p50/max")
	for _, kind := range f.kinds {
		var pauses, backs []time.Duration
		for _, one := range f.done {
			if one.kind == kind {
				pauses, backs = append(pauses, one.pause), append(backs, one.back)
				if one.stuck() {
					stuck++
				}
			}
		}
		if len(pauses) > 0 {
			fmt.Printf("%-18s %5d %14s %14s\n", kind, len(pauses), spread(pauses), spread(backs))
		}
	}
	return len(f.done), stuck
}

// spread returns the median and the maximum in seconds.
func spread(all []time.Duration) string {
	slices.Sort(all)
	return fmt.Sprintf("%.1f / %.1f s", all[len(all)/2].Seconds(), all[len(all)-1].Seconds())
}
