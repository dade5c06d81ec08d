package node

import (
	"context"
	"slices"
	"time"

	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/sleep"
)

// CaughtUp reports whether this node has applied what the logs had when it started.
func (n *Node) CaughtUp() bool { return n.caughtUp.Load() }

// catchUpAtStart waits until this node has applied what the logs have.
func (n *Node) catchUpAtStart(ctx context.Context, log cluster.Log) {
	for _, p := range n.parts {
		for {
			if _, last, err := log.Ends(ctx, p.number); err == nil && p.get().Reached(ctx, last) == nil {
				break
			}
			if sleep.For(ctx, retryPause) != nil {
				return
			}
		}
	}
	n.caughtUp.Store(true)
}

const (
	ageEvery = 500 * time.Millisecond
	usualAge = 2 * time.Second // data that is not older counts as current
)

// watchAge notes when the data of this node was current, until ctx ends: when a majority was heard, and no other node had applied more.
func (n *Node) watchAge(ctx context.Context) {
	for {
		if at, ok := n.currentAt(); ok {
			n.current.Store(at.UnixNano())
		}
		if sleep.For(ctx, ageEvery) != nil {
			return
		}
	}
}

// currentAt returns the time of the newest heartbeats of a majority, and whether this node has what the other nodes had then.
func (n *Node) currentAt() (at time.Time, ok bool) {
	at = time.Now()
	for _, st := range n.Status() {
		var heard []time.Time
		for _, h := range st.Peers {
			if h.Pos > st.Copy.Pos {
				return time.Time{}, false
			}
			heard = append(heard, h.Heard)
		}
		need := n.OthersOfMajority()
		if len(heard) < need {
			return time.Time{}, false
		}
		slices.SortFunc(heard, func(a, b time.Time) int { return b.Compare(a) })
		if need > 0 && heard[need-1].Before(at) {
			at = heard[need-1]
		}
	}
	return at, true
}

// AsOf returns the time up to which this node certainly has everything, when it is cut off or behind; zero if its data is current.
func (n *Node) AsOf() time.Time {
	ns := n.current.Load()
	if at := time.Unix(0, ns); ns != 0 && time.Since(at) > usualAge {
		return at
	}
	return time.Time{}
}
