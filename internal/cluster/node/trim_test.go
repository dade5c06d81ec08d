package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
)

// first returns the first position of a partition's log that is left, and the last one.
func (c *testCluster) ends(part int) (first, last cluster.Pos) {
	c.t.Helper()
	first, last, err := c.log.View("reader").Ends(c.t.Context(), part)
	if err != nil {
		c.t.Fatal(err)
	}
	return first, last
}

func (c *testCluster) say(i int, id chat.SessionID, n int) {
	c.t.Helper()
	for k := range n {
		if _, err := c.members[i].sessions.Append(c.t.Context(), ada, id, []chat.Draft{text(fmt.Sprint(k))}); err != nil {
			c.t.Fatal(err)
		}
	}
}

func TestTheOwnerTrimsWhatAllNodesHaveSynced(t *testing.T) {
	t.Parallel()
	c := newClusterWith(t, func(o *Options) { o.Trim = cluster.TrimRule{Keep: 3 * time.Second, Nodes: 3} })
	id := c.session(0)
	part := c.members[0].Partition(id)
	c.say(0, id, 20)
	_, end := c.ends(part)
	eventually(t, "trimmed", func() string {
		if first, _ := c.ends(part); first > end {
			return "trimmed"
		}
		return "not yet"
	})
	c.say(0, id, 1)
	for i := range c.members {
		eventually(t, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 0", func() string { return c.texts(i, id) })
	}
}

// A node that is away holds the trim back, so that it can come back without a copy, until the log is too large.
func TestANodeThatIsAwayHoldsTheTrimBackUntilTheLogIsTooLarge(t *testing.T) {
	t.Parallel()
	c := newClusterWith(t, func(o *Options) { o.Trim = cluster.TrimRule{Keep: 30 * time.Second, Bytes: 64 << 10, Nodes: 3} })
	id := c.session(0)
	part := c.members[0].Partition(id)
	away := 3 - c.owner(id) // neither 0 nor the owner
	c.say(0, id, 20)
	_, end := c.ends(part)
	c.members[away].port.Cut(true)
	c.say(0, id, 20)
	if first, _ := c.ends(part); first != 1 {
		t.Fatalf("the log begins at %d, and a node has not synced that", first)
	}
	big := make([]byte, 8<<10)
	for i := range big {
		big[i] = 'x'
	}
	for range 16 {
		if _, err := c.members[0].sessions.Append(t.Context(), ada, id, []chat.Draft{text(string(big))}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "trimmed", func() string {
		if first, _ := c.ends(part); first > end {
			return "trimmed"
		}
		return "not yet"
	})
	c.stop(away) // it cannot follow any more
}
