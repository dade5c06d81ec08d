package node

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
)

// ownsNothing waits until a node owns no partition, and the others own all.
func (c *testCluster) ownsNothing(i int) {
	c.t.Helper()
	eventually(c.t, "all others", func() string {
		owned := 0
		for k, m := range c.members {
			for _, st := range m.Status() {
				switch {
				case st.Owns && k == i:
					return "it owns some"
				case st.Owns:
					owned++
				}
			}
		}
		if owned == partitions {
			return "all others"
		}
		return "some have no owner"
	})
}

func TestADrainedNodeOwnsNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.session(0)
	old := c.owner(id)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := c.members[0].Drain(ctx, "n"+string(rune('0'+old))); err != nil {
		t.Fatal(err)
	}
	c.ownsNothing(old)
	if _, err := c.members[old].sessions.Append(t.Context(), ada, id, []chat.Draft{text("through the drained node").As("c")}); err != nil {
		t.Fatal(err)
	}
	if err := c.members[0].Drain(ctx, "nobody"); chat.CodeOf(err) != chat.NotFound {
		t.Error(err)
	}
	rest := 3 - old
	if err := c.members[rest].Drain(ctx, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "2", func() string { // the node has heard that both others are drained
		barred := 0
		for _, h := range c.members[0].Status()[0].Peers {
			if h.Barred != "" {
				barred++
			}
		}
		return fmt.Sprint(barred)
	})
	if err := c.members[0].Drain(ctx, ""); err == nil || !strings.Contains(err.Error(), "no other node can take it") {
		t.Errorf("the last node was drained: %v", err)
	}
	if _, err := c.members[old].sessions.Append(t.Context(), ada, id, []chat.Draft{text("one is left").As("d")}); err != nil {
		t.Fatal(err)
	}
}

func TestANodeWithAWrongClockOwnsNothing(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	c := newClusterWith(t, func(o *Options) {
		if o.Name == "n1" {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		}
	})
	ahead.Store(int64(3 * time.Second))
	c.ownsNothing(1)
	if off := c.members[1].ClockOffset(); off < 2*time.Second {
		t.Errorf("its clock is said to be ahead by %s", off)
	}
	for _, i := range []int{0, 2} {
		if off := c.members[i].ClockOffset(); off.Abs() > time.Second {
			t.Errorf("the clock of node %d is said to be ahead by %s", i, off)
		}
	}
	ahead.Store(0)
	eventually(t, "<nil>", func() string { return fmt.Sprint(c.members[1].mayOwn()) })
}

func TestANodeThatMustNotOwnPartitionsHandsThemOver(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	c := newClusterWith(t, func(o *Options) {
		if o.Name == "n2" {
			o.MayOwn = func() error {
				if full.Load() {
					return chat.Errorf(chat.Unavailable, "its disk is full")
				}
				return nil
			}
		}
	})
	full.Store(true)
	c.ownsNothing(2)
	eventually(t, "its disk is full", func() string {
		for _, h := range c.members[0].Status()[0].Peers {
			if h.Node == "n2" {
				return h.Barred
			}
		}
		return ""
	})
}

// All nodes are drained at the same moment, so that each gives its partitions to one that is drained as well.
func TestDrainedNodesTakePartitionsThatNobodyElseTakes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.session(0)
	for _, m := range c.members {
		m.draining.Store(true)
	}
	for i, m := range c.members {
		eventually(t, "2", func() string { // it has heard that both others are drained
			barred := 0
			for _, h := range m.Status()[c.members[0].Partition(id)].Peers {
				if h.Barred != "" {
					barred++
				}
			}
			return fmt.Sprint(barred)
		})
		if _, err := m.sessions.Append(t.Context(), ada, id, []chat.Draft{text("all are drained").As(fmt.Sprint("a", i))}); err != nil {
			t.Fatal(err)
		}
	}
	old := c.owner(id)
	c.stop(old)
	c.settle()
	if _, err := c.members[(old+1)%3].sessions.Append(t.Context(), ada, id, []chat.Draft{text("the owner is lost").As("b")}); err != nil {
		t.Fatal(err)
	}
}

// A node with a damaged store says which nodes have to be ready before it can be replaced.
func TestADamagedNodeNamesTheNodesThatItWaitsFor(t *testing.T) {
	t.Parallel()
	var ready atomic.Bool
	c := newClusterWith(t, func(o *Options) {
		o.Describe = func(h *cluster.Heartbeat) { h.Ready = o.Name == "n2" && ready.Load() }
	})
	eventually(t, "[n0 n2]", func() string { return fmt.Sprint(c.members[1].WaitsFor()) })
	ready.Store(true)
	eventually(t, "[]", func() string { return fmt.Sprint(c.members[1].WaitsFor()) })
	eventually(t, "[n0 n1]", func() string { return fmt.Sprint(c.members[2].WaitsFor()) })
}
