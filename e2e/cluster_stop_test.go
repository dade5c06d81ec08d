// Orderly stops of all nodes of a cluster.

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// All nodes are stopped in order, at the same time and then one after the other, while a turn runs that has no output. The turn is resumed
// at every start, and the stops are not counted as crashes. A kill of all nodes is counted.
func TestOrderlyStopsOfAllNodesAreNoCrashes(t *testing.T) {
	t.Parallel()
	c := startNodes(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	ids := c.onePerPartition(ctx)
	agent := "demo"
	for _, id := range ids {
		if _, err := c.all[0].connect("").Update(ctx, id, chat.SessionUpdated{Agent: &agent}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.all[0].connect("").Send(ctx, id, chat.UserMessage{Text: "/sleep 600"}, "sleep"); err != nil {
			t.Fatal(err)
		}
	}
	// restart starts all nodes, waits until the turns were resumed, and returns the crashes that are counted.
	restart := func() (crashes [3]int) {
		t.Helper()
		begun := time.Now()
		c.startAll()
		for i, id := range ids {
			until(t, fmt.Sprintf("the turn of session %s is resumed", id), func() bool {
				resumed := false
				for e, err := range c.all[0].connect("").Events(ctx, id, client.EventQuery{}) {
					if err != nil {
						return false
					}
					switch b := e.Body.(type) {
					case chat.TurnResumed: // the first one is of this start; a node that is slow may give the session to another one afterwards
						if !resumed && e.At.Time().After(begun) {
							resumed, crashes[i] = true, b.Crashes
						}
					case chat.TurnCompleted:
						t.Fatalf("the turn of session %s ended: %s %s", id, b.Outcome, b.Error)
					}
				}
				return resumed
			})
		}
		return crashes
	}
	inTurn := func() { // the last one has no majority
		for i, p := range c.all {
			if code := p.terminate(); code != 0 {
				t.Errorf("node %d ended with %d: %s", i, code, p.err)
			}
		}
	}
	for n, stop := range []func(){c.stopAll, inTurn} {
		stop()
		if crashes := restart(); crashes != [3]int{} {
			t.Fatalf("stop %d is counted as a crash: %v", n, crashes)
		}
	}
	for _, p := range c.all {
		p.kill()
	}
	if crashes := restart(); crashes == [3]int{} {
		t.Error("a kill of all nodes is counted nowhere")
	}
}
