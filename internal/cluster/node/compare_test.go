package node

import (
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/session"
)

// createOn creates a session on one node only, as nodes never do.
func (c *testCluster) createOn(i int, id chat.SessionID) {
	c.t.Helper()
	m := c.members[i]
	alone := session.New(m.journal, m.hub, session.Options{})
	if _, _, err := alone.Create(c.t.Context(), ada, chat.NewSession{ID: id, Agent: chat.NoAgent}); err != nil {
		c.t.Fatal(err)
	}
}

func TestNodesAreComparedWhileTheyAreWrittenTo(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	one, two := c.session(0), c.session(1)
	c.say(0, one, 3)
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if _, err := c.members[1].sessions.Append(t.Context(), ada, two, []chat.Draft{text("more")}); err != nil {
				stopped <- err
				return
			}
		}
	}()
	for i := range c.members {
		eventually(t, "0 1 2", func() string { return c.texts(i, one) })
		res, err := c.members[i].Compare(t.Context())
		if err != nil || len(res.Nodes) != 3 || len(res.Differ) > 0 {
			t.Errorf("node %d: %+v, %v", i, res, err)
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	c.createOn(1, "only-here")
	for i := range c.members {
		c.createOn(i, "differs")
	}
	res, err := c.members[0].Compare(t.Context())
	if err != nil || len(res.Differ) != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	if !strings.Contains(res.Differ[1], "session only-here: nodes [n0 n2] lack event") || !strings.Contains(res.Differ[0], "session differs") {
		t.Errorf("%q", res.Differ)
	}
}
