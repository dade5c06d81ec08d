package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
)

// A node gives its partition away and comes back, while a turn runs in the partition that does not end. The node gets the partition back,
// because it owns nothing; the turn goes on there, and nothing that it has done is lost or repeated.
func TestANodeWithoutPartitionsGetsABusyOne(t *testing.T) {
	t.Parallel()
	c := newClusterWith(t, func(o *Options) {
		o.Busy = time.Millisecond
		o.Describe = func(h *cluster.Heartbeat) { h.Ready = true }
	})
	release := make(chan struct{})
	for _, m := range c.members {
		m.agents.Add(agent.Info{Name: "w"}, agent.Func(func(ctx context.Context, turn *agent.Turn) error {
			if err := turn.Say(ctx, "one"); err != nil {
				return err
			}
			select {
			case <-release:
			case <-ctx.Done():
				return ctx.Err()
			}
			return turn.Say(ctx, "two")
		}))
	}
	const usual = 0 // of partition 0
	eventually(t, "usual owners", func() string {
		for i, m := range c.members {
			if !m.Status()[i].Owns {
				return fmt.Sprintf("node %d does not own its partition", i)
			}
		}
		return "usual owners"
	})
	id := c.ask(1, 0, "hello")
	eventually(t, "hello one", func() string { return c.texts(1, id) })
	if err := c.members[usual].HandOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.owner(id) == usual {
		t.Fatal("the partition was not handed over")
	}
	eventually(t, "owns", func() string {
		if c.members[usual].Owns(id) {
			return "owns"
		}
		return "does not own"
	})
	close(release)
	c.awaitText(id, "hello one two")
	resumed := 0
	for e, err := range c.members[1].sessions.Events(t.Context(), ada, id, chat.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		switch b := e.Body.(type) {
		case chat.TurnResumed:
			if resumed++; b.Crashes != 0 {
				t.Errorf("attempt %d is counted as a crash", b.Attempt)
			}
		case chat.TurnCompleted:
			if b.Outcome != chat.Done {
				t.Errorf("the turn ended as %s: %s", b.Outcome, b.Error)
			}
		}
	}
	if resumed != 2 {
		t.Errorf("the turn was resumed %d times, want once for each handover", resumed)
	}
}
