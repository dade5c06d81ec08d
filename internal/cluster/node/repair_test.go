package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
)

// lose removes the last frames of the log with a session, and restarts all nodes, so that they notice it.
func (c *testCluster) lose(id chat.SessionID, frames cluster.Pos) (last cluster.Pos) {
	c.t.Helper()
	part := c.members[0].Partition(id)
	for _, m := range c.members {
		eventually(c.t, "same", func() string {
			if slices.ContainsFunc(c.members[:], func(o *member) bool { return o.Status()[part].Copy != m.Status()[part].Copy }) {
				return "different"
			}
			return "same"
		})
	}
	last = c.members[0].Status()[part].Copy.Pos
	for i := range c.members {
		c.stop(i)
	}
	c.log.Lose(part, last-frames)
	for i, m := range c.members {
		c.start(i, m.dir)
	}
	for i, m := range c.members {
		eventually(c.t, "halted", func() string {
			if m.Halted() == nil {
				return "followed"
			}
			return "halted"
		})
		if _, err := c.members[i].sessions.Append(c.t.Context(), ada, id, []chat.Draft{text("refused")}); chat.CodeOf(err) != chat.Unavailable || !strings.Contains(err.Error(), "accepts no writes") {
			c.t.Errorf("node %d: a write to a partition whose log is too short: %v", i, err)
		}
		if got := c.texts(i, id); !strings.HasPrefix(got, "one two three") {
			c.t.Errorf("node %d shows %q", i, got)
		}
	}
	c.hearAll()
	return last
}

// hearAll waits until all nodes hear each other.
func (c *testCluster) hearAll() {
	c.t.Helper()
	for _, m := range c.members {
		eventually(c.t, "2", func() string { return fmt.Sprint(m.CountPresent()) })
	}
}

func (c *testCluster) write(i int, id chat.SessionID, texts ...string) {
	c.t.Helper()
	for _, s := range texts {
		if _, err := c.members[i].sessions.Append(c.t.Context(), ada, id, []chat.Draft{text(s)}); err != nil {
			c.t.Fatal(err)
		}
	}
}

func TestRepairBeginsANewLogBehindTheMostAdvancedCopy(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.session(0)
	c.write(0, id, "one", "two", "three")
	last := c.lose(id, 2)
	part := c.members[0].Partition(id)

	plan, err := c.members[1].Repair(t.Context(), 3, "", false)
	if err != nil || len(plan) != 1 || plan[0].Partition != part || !plan[0].Renew || plan[0].Copy.Pos != last || len(plan[0].Same) != 3 || len(plan[0].Behind) != 0 {
		t.Fatalf("%+v %v", plan, err)
	}
	if c.members[2].Halted() == nil {
		t.Fatal("a plan has changed something")
	}
	if _, err := c.members[1].Repair(t.Context(), 3, "", true); err != nil {
		t.Fatal(err)
	}
	c.settle()
	c.write(2, id, "four")
	for i := range c.members {
		eventually(t, "one two three four", func() string { return c.texts(i, id) })
	}
	if plan, err := c.members[1].Repair(t.Context(), 3, "", true); err != nil || len(plan) != 0 {
		t.Errorf("a second repair: %+v %v", plan, err)
	}
	res, err := c.members[0].Compare(t.Context())
	if err != nil || len(res.Differ) > 0 || len(res.Nodes) != 3 {
		t.Errorf("%+v %v", res, err)
	}
}

// A store is copied as a whole: a node that is ahead in one partition must not lose it because it is behind in another.
func TestNodesKeepTheirStoresOnlyWithAllChosenCopies(t *testing.T) {
	names := []string{"n0", "n1", "n2"}
	for _, c := range []struct {
		plan []Repair
		want []string
	}{
		{[]Repair{{Renew: true, Same: []string{"n0", "n1"}}, {Renew: true, Same: []string{"n1", "n2"}}}, []string{"n1"}},
		{[]Repair{{Renew: true, Same: []string{"n0"}}, {Renew: true, Same: []string{"n1", "n2"}}}, nil},
		{[]Repair{{Renew: true, Same: []string{"n0"}}, {Same: []string{"n1"}}}, []string{"n0"}},
		{[]Repair{{Same: []string{"n0"}}}, names},
	} {
		if got := keepers(names, c.plan); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v keep their stores, want %v", c.plan, got, c.want)
		}
	}
}

func TestRepairNeedsAMajority(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.session(0)
	c.write(0, id, "one", "two", "three")
	c.lose(id, 2)
	c.stop(1)
	c.stop(2)
	eventually(t, "alone", func() string {
		if c.members[0].CountPresent() > 0 {
			return "heard"
		}
		return "alone"
	})
	if _, err := c.members[0].Repair(t.Context(), 3, "", true); chat.CodeOf(err) != chat.Unavailable {
		t.Fatal(err)
	}
	if c.members[0].Halted() == nil {
		t.Error("a refused repair has changed something")
	}
}

func TestRepairMakesANodeThatIsBehindCopy(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.session(0)
	c.write(0, id, "one", "two", "three")
	part, ended := c.members[0].Partition(id), make(chan error, 1)
	owner := c.owner(id)
	behind := (owner + 1) % 3
	c.stop(behind)
	c.write(owner, id, "four", "five")
	other := (owner + 2) % 3
	eventually(t, "one two three four five", func() string { return c.texts(other, id) })
	short := c.members[behind].Status()[part].Copy.Pos
	c.stop(owner)
	c.stop(other)
	c.log.Lose(part, short)
	for i, m := range c.members {
		c.start(i, m.dir)
	}
	c.members[behind].mu.Lock()
	c.members[behind].failed = func(err error) { ended <- err }
	c.members[behind].mu.Unlock()
	for _, i := range []int{owner, other} {
		eventually(t, "halted", func() string {
			if c.members[i].Halted() == nil {
				return "followed"
			}
			return "halted"
		})
	}
	c.hearAll()
	done, err := c.members[behind].Repair(t.Context(), 3, "", true)
	if err != nil || len(done) != 1 || !slices.Equal(done[0].Behind, []string{c.members[behind].Name()}) || len(done[0].Same) != 2 || len(done[0].Apart) != 0 {
		t.Fatalf("%+v %v", done, err)
	}
	if err := <-ended; !errors.Is(err, cluster.ErrTrimmed) {
		t.Fatal(err)
	}
	c.stop(behind)
	c.settle()
	c.write(other, id, "six")
	eventually(t, "one two three four five six", func() string { return c.texts(owner, id) })
}
