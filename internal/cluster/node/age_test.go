package node

import (
	"fmt"
	"testing"
	"time"
)

// A node that is cut off says from when its data is, and stops when it has what the others have.
func TestANodeThatIsCutOffKnowsItsAge(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	current := func() string { return fmt.Sprint(c.members[0].AsOf().IsZero()) }
	eventually(t, "true", current)
	before := time.Now()
	c.members[0].port.Cut(true)
	eventually(t, "false", current)
	if at := c.members[0].AsOf(); at.After(time.Now().Add(-usualAge)) || at.Before(before.Add(-usualAge)) {
		t.Errorf("cut off after %s, its data is of %s", before, at)
	}
	c.members[0].port.Cut(false)
	eventually(t, "true", current)
}

// A node that starts does not serve before it has what was stored while it was down, such as erasures.
func TestANodeThatStartsCatchesUpFirst(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.session(0)
	c.stop(0)
	owner := c.owner(id)
	if _, err := c.members[owner].sessions.Erase(t.Context(), ada, id); err != nil {
		t.Fatal(err)
	}
	c.start(0, c.members[0].dir)
	for end := time.Now().Add(limit); ; {
		served := c.members[0].CaughtUp()
		_, err := c.members[0].journal.Record(t.Context(), id)
		if served && err == nil {
			t.Fatal("the node serves a session that is erased")
		}
		if served {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the node does not catch up")
		}
	}
}
