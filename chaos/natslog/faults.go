package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/internal/sleep"
)

// fault is one that was done.
type fault struct {
	kind  string
	pause time.Duration // without acknowledgements through the nodes that it did not touch
	back  time.Duration // from its end until all nodes acknowledge
}

// kinds of faults, done in turns.
var kinds = []string{
	"kill", "kill the leader", "pause", "pause the leader", "cut off", "cut off the leader", "cut one way out", "cut one way in", "cut a pair", "kill all",
}

// disturb does one fault after the other until the time is over.
func (c *campaign) disturb(ctx context.Context) error {
	end := time.Now().Add(c.span)
	for n := 0; time.Now().Before(end) && ctx.Err() == nil; n++ {
		sleep.For(ctx, time.Duration(1000+c.random.IntN(2000))*time.Millisecond)
		kind := kinds[n%len(kinds)]
		victim := c.random.IntN(nodeCount)
		if strings.HasSuffix(kind, "the leader") {
			victim = c.leader(ctx, c.random.IntN(c.parts), victim)
		}
		begin := c.record.now()
		touched, err := c.do(ctx, kind, victim)
		if err != nil {
			return fmt.Errorf("%s n%d: %w", kind, victim, err)
		}
		undone := time.Now()
		err = c.waitBack(ctx, undone)
		f := fault{kind: kind, back: time.Since(undone)}
		f.pause = c.record.longestPause(begin, c.record.now(), untouched(touched))
		c.faults = append(c.faults, f)
		fmt.Printf("%s  %-18s n%d  pause %-8s back %s\n", c.record.now().Round(time.Second), kind, victim, f.pause.Round(time.Millisecond), f.back.Round(time.Millisecond))
		if f.pause > stuckTime || f.back > stuckTime {
			c.record.complain("%s n%d: pause %s, back after %s", kind, victim, f.pause, f.back)
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
func (c *campaign) do(ctx context.Context, kind string, victim int) (touched [nodeCount]bool, err error) {
	span := time.Duration(2000+c.random.IntN(13000)) * time.Millisecond
	touched[victim] = true
	n := c.nodes[victim]
	others := []int{(victim + 1) % nodeCount, (victim + 2) % nodeCount}
	switch kind {
	case "kill", "kill the leader":
		n.kill()
		sleep.For(ctx, time.Duration(c.random.IntN(8000))*time.Millisecond)
		return touched, n.start()
	case "kill all":
		for i, n := range c.nodes {
			touched[i] = true
			n.kill()
		}
		for _, n := range c.nodes {
			if err := n.start(); err != nil {
				return touched, err
			}
		}
		return touched, nil
	case "pause", "pause the leader":
		if err := n.pause(true); err != nil {
			return touched, err
		}
		sleep.For(ctx, span)
		return touched, n.pause(false)
	case "cut a pair": // both reach the third node, so a majority is connected to each
		others = others[:1]
		touched[victim] = false
	}
	heal := c.links.Cut(victim, others, kind != "cut one way in", kind != "cut one way out", c.random.IntN(2) == 0)
	sleep.For(ctx, span)
	heal()
	return touched, nil
}

// leader returns the node that leads a partition, or instead if there is none.
func (c *campaign) leader(ctx context.Context, part, instead int) int {
	ctx, cancel := context.WithTimeout(ctx, appendLimit)
	defer cancel()
	var out []byte
	if err := request(ctx, http.MethodGet, fmt.Sprintf("http://%s/leader?part=%d", c.nodes[instead].HTTP, part), nil, &out); err != nil {
		return instead
	}
	for i, n := range c.nodes {
		if n.Name == string(out) {
			return i
		}
	}
	return instead
}

// waitBack waits until every node acknowledges in every partition.
func (c *campaign) waitBack(ctx context.Context, since time.Time) error {
	from := since.Sub(c.record.begin)
	for end := time.Now().Add(giveUp); !c.record.backSince(from); {
		if time.Now().After(end) {
			return fmt.Errorf("the nodes do not all acknowledge %s after the end of the fault", giveUp)
		}
		if sleep.For(ctx, 20*time.Millisecond) != nil {
			return ctx.Err()
		}
	}
	return nil
}

// printFaults prints the figures of each kind and returns how often the cluster was stuck.
func (c *campaign) printFaults() (stuck int) {
	fmt.Printf("%-18s %5s %14s %14s\n", "fault", "times", "pause p50/max", "back p50/max")
	for _, kind := range kinds {
		var pauses, backs []time.Duration
		for _, f := range c.faults {
			if f.kind == kind {
				pauses, backs = append(pauses, f.pause), append(backs, f.back)
				if f.pause > stuckTime || f.back > stuckTime {
					stuck++
				}
			}
		}
		if len(pauses) > 0 {
			fmt.Printf("%-18s %5d %14s %14s\n", kind, len(pauses), spread(pauses), spread(backs))
		}
	}
	fmt.Printf("faults %d  stuck %d\n", len(c.faults), stuck)
	return stuck
}

// spread returns the median and the maximum in seconds.
func spread(all []time.Duration) string {
	slices.Sort(all)
	return fmt.Sprintf("%.1f / %.1f s", all[len(all)/2].Seconds(), all[len(all)-1].Seconds())
}
