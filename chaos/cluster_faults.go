package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/parley-hq/parley/internal/sleep"
)

// done is a fault that was done to the cell.
type done struct {
	kind  string
	pause time.Duration // without acknowledgements of a partition through the nodes that it did not touch
	back  time.Duration // from its end until all nodes acknowledge in all partitions
}

// faults of a cell, done in turns.
var faults = []string{
	"stop", "kill", "kill the owner", "pause", "pause the owner", "cut off", "cut off the owner", "cut one way out", "cut one way in", "cut a pair", "kill all",
	"damage the store", "lose the disk",
}

// disturb does one fault after the other until the time is over.
func (x *cell) disturb(ctx context.Context, span time.Duration) error {
	end := time.Now().Add(span)
	for n := x.first; time.Now().Before(end) && ctx.Err() == nil; n++ {
		sleep.For(ctx, time.Duration(500+x.random.IntN(2000))*time.Millisecond)
		kind, victim := faults[n%len(faults)], x.random.IntN(nodeCount)
		if strings.HasSuffix(kind, "the owner") {
			victim = x.owner(ctx, x.random.IntN(partitions), victim)
		}
		from := time.Since(x.begin)
		touched, err := x.do(ctx, kind, victim)
		if err != nil {
			return fmt.Errorf("%s n%d: %w", kind, victim, err)
		}
		undone := time.Now()
		err = x.back(ctx, undone)
		f := done{kind: kind, back: time.Since(undone), pause: x.longestPause(from, time.Since(x.begin), untouched(touched))}
		x.faults = append(x.faults, f)
		fmt.Printf("%s  %-18s n%d  pause %-8s back %s\n", time.Since(x.begin).Round(time.Second), kind, victim, f.pause.Round(time.Millisecond), f.back.Round(time.Millisecond))
		if f.pause > stuckTime || f.back > stuckTime {
			x.counts.fault(&x.counts.stuck, "%s n%d: pause %s, back after %s", kind, victim, f.pause, f.back)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func untouched(touched [nodeCount]bool) (through [nodeCount]bool) {
	if !slices.Contains(touched[:], false) {
		return touched
	}
	for i, t := range touched {
		through[i] = !t
	}
	return through
}

// do does a fault to a node and undoes it. It returns the nodes that it touched.
func (x *cell) do(ctx context.Context, kind string, victim int) (touched [nodeCount]bool, err error) {
	touched[victim] = true
	n := x.nodes[victim]
	span := time.Duration(2000+x.random.IntN(8000)) * time.Millisecond
	others := []int{(victim + 1) % nodeCount, (victim + 2) % nodeCount}
	switch kind {
	case "stop":
		if err := x.stop(n); err != nil {
			return touched, err
		}
		return touched, x.launch(n)
	case "kill", "kill the owner":
		x.kill(n)
		sleep.For(ctx, time.Duration(x.random.IntN(8000))*time.Millisecond)
		return touched, x.launch(n)
	case "kill all":
		for i, n := range x.nodes {
			touched[i] = true
			x.kill(n)
		}
		for _, n := range x.nodes {
			if err := x.launch(n); err != nil {
				return touched, err
			}
		}
		return touched, nil
	case "damage the store":
		return touched, x.damageStore(ctx, n)
	case "lose the disk":
		return touched, x.loseDisk(ctx, n)
	case "pause", "pause the owner":
		if err := syscall.Kill(n.PID(), syscall.SIGSTOP); err != nil {
			return touched, err
		}
		sleep.For(ctx, span)
		return touched, syscall.Kill(n.PID(), syscall.SIGCONT)
	case "cut a pair": // both reach the third node, so a majority is connected to each
		others = others[:1]
		touched[victim] = false
	}
	heal := x.links.Cut(victim, others, kind != "cut one way in", kind != "cut one way out", x.random.IntN(2) == 0)
	sleep.For(ctx, span)
	heal()
	return touched, nil
}

// owner returns the node that owns a partition, or instead if that is not known.
func (x *cell) owner(ctx context.Context, part, instead int) int {
	st, err := x.load.c.Cluster(ctx)
	if err != nil {
		return instead
	}
	for i, n := range x.nodes {
		if n.id == st.Partitions[part].Owner {
			return i
		}
	}
	return instead
}

// print prints the figures of each kind of fault.
func (x *cell) print() {
	fmt.Printf("%-18s %5s %14s %14s\n", "fault", "times", "pause p50/max", "back p50/max")
	for _, kind := range faults {
		var pauses, backs []time.Duration
		for _, f := range x.faults {
			if f.kind == kind {
				pauses, backs = append(pauses, f.pause), append(backs, f.back)
			}
		}
		if len(pauses) > 0 {
			fmt.Printf("%-18s %5d %14s %14s\n", kind, len(pauses), spread(pauses), spread(backs))
		}
	}
	x.printCounts()
}

// spread returns the median and the maximum in seconds.
func spread(all []time.Duration) string {
	slices.Sort(all)
	return fmt.Sprintf("%.1f / %.1f s", all[len(all)/2].Seconds(), all[len(all)-1].Seconds())
}
