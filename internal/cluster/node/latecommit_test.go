package node

import (
	"fmt"
	"sync"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// lateCommit sends a message to a session of agent "w" that node 0 owns. The log gets the message and the start of its turn, but the runner
// of node 0 learns of that when tell is called.
func (c *testCluster) lateCommit() (id chat.SessionID, tell func()) {
	c.t.Helper()
	m := c.members[0]
	for n := 0; id == "" || m.Partition(id) != 0; n++ {
		id = chat.SessionID(fmt.Sprint("late-", n))
	}
	if _, _, err := m.sessions.Create(c.t.Context(), ada, chat.NewSession{ID: id, Agent: "w"}); err != nil {
		c.t.Fatal(err)
	}
	stored, goOn, told := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	m.mu.Lock()
	m.before = sync.OnceFunc(func() {
		close(stored)
		<-goOn
	})
	m.mu.Unlock()
	release := sync.OnceFunc(func() { close(goOn) })
	c.t.Cleanup(release)
	go func() {
		_, err := m.sessions.Append(c.t.Context(), ada, id, []chat.Draft{text("hello").As("hello")})
		told <- err
	}()
	<-stored
	return id, func() {
		c.t.Helper()
		release()
		if err := <-told; err != nil {
			c.t.Fatal(err)
		}
	}
}

// move gives partition 0 to another node, and waits until both know that.
func (c *testCluster) move(from, to int) {
	c.t.Helper()
	lost := func() int {
		c.members[from].mu.Lock()
		defer c.members[from].mu.Unlock()
		return c.members[from].lost
	}
	before := lost()
	if err := c.members[from].parts[0].get().HandOver(c.t.Context(), c.members[to].Name()); err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, "true", func() string { return fmt.Sprint(lost() > before && c.members[to].Status()[0].Owns) })
}

// TestTurnThatItsOwnerLearnsOfTooLate: a node stores the start of a turn and loses the session before its runner learns of the turn. The
// next owner runs it. The former one must not: it would give the turn to the same worker, and never learn of its end.
func TestTurnThatItsOwnerLearnsOfTooLate(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id, tell := c.lateCommit()
	c.move(0, 1)
	tell()
	if running := c.members[0].runner.Running(); len(running) > 0 {
		t.Errorf("the former owner runs %v", running)
	}
	c.join(0, 1)
	c.awaitText(id, "hello re hello")
}

// TestTurnReturnsToAnOwnerThatLearnsOfItTooLate: the session returns to the first node, which has learned of the start of the turn after it
// had lost the session, or learns of it when it has the session again. It begins the next attempt in both cases.
func TestTurnReturnsToAnOwnerThatLearnsOfItTooLate(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprint("owner again ", again), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			id, tell := c.lateCommit()
			c.move(0, 1)
			eventually(t, "2", func() string {
				st, err := c.members[1].sessions.State(t.Context(), ada, id)
				if err != nil {
					return err.Error()
				}
				return fmt.Sprint(st.Lines[""].Turn.Attempt)
			})
			if !again {
				tell()
			}
			c.move(1, 0)
			if again {
				tell()
			}
			c.join(2, 1)
			c.awaitText(id, "hello re hello")
		})
	}
}
