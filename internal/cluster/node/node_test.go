package node

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster/clustertest"
)

func TestEveryNodeTakesEveryWriteAndReadsItAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for i, m := range c.members {
		id := c.session(i)
		want := ""
		for n := range 5 {
			events, err := m.sessions.Append(t.Context(), ada, id, []chat.Draft{text(fmt.Sprint("m", n)).As(fmt.Sprint("c", n))})
			if err != nil {
				t.Fatal(err)
			}
			if len(events) != 1 || events[0].Body.(chat.UserMessage).Text != fmt.Sprint("m", n) {
				t.Fatalf("node %d: %v", i, events)
			}
			want = strings.TrimSpace(want + fmt.Sprint(" m", n))
			if got := c.texts(i, id); got != want {
				t.Fatalf("node %d reads %q after it wrote %q", i, got, want)
			}
		}
		for k := range c.members {
			eventually(t, want, func() string { return c.texts(k, id) })
		}
		again, err := m.sessions.Append(t.Context(), ada, id, []chat.Draft{text("m0").As("c0")})
		if err != nil || again[0].Seq != 2 {
			t.Errorf("the same client id gives %v, %v", again, err)
		}
		_, err = m.sessions.Append(t.Context(), ada, id, []chat.Draft{text("other").As("c0")})
		if chat.ReasonOf(err) != chat.ClientIDReused {
			t.Errorf("the refusal of the owner becomes %v", err)
		}
	}
}

// A client that creates a session at one node finds it at the others at once, also at one that is behind.
func TestASessionIsFoundOnANodeThatIsBehind(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.log.SetFaults(clustertest.Faults{Delay: 50 * time.Millisecond})
	for n := range 20 {
		id := chat.SessionID(fmt.Sprint("new-", n))
		if _, _, err := c.members[n%3].sessions.Create(t.Context(), ada, chat.NewSession{ID: id, Agent: chat.NoAgent}); err != nil {
			t.Fatal(err)
		}
		for i, m := range c.members {
			if _, err := m.sessions.Get(t.Context(), ada, id); err != nil {
				t.Fatalf("node %d: %v", i, err)
			}
		}
	}
}

func TestAppendsThroughAnotherNodeKeepTheirOrder(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.session(0)
	var waits []func() ([]chat.Event, error)
	var want []string
	for n := range 200 {
		wait, err := c.members[0].sessions.AppendLater(t.Context(), ada, id, []chat.Draft{text(fmt.Sprint(n)).As(fmt.Sprint("c", n))})
		if err != nil {
			t.Fatal(err)
		}
		waits, want = append(waits, wait), append(want, fmt.Sprint(n))
	}
	for _, wait := range waits {
		if _, err := wait(); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.texts(0, id); got != strings.Join(want, " ") {
		t.Error(got)
	}
}

func TestWritesGoOnWhenAnOwnerIsKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.session(0)
	dead := c.owner(id)
	other := 3 - dead // the node that is neither 0 nor the owner
	if _, err := c.members[0].sessions.Append(t.Context(), ada, id, []chat.Draft{text("before").As("c0")}); err != nil {
		t.Fatal(err)
	}
	dir := c.members[dead].dir
	c.stop(dead)
	// The client of node 0 notices a pause only.
	if _, err := c.members[0].sessions.Append(t.Context(), ada, id, []chat.Draft{text("after").As("c1")}); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, other} {
		eventually(t, "before after", func() string { return c.texts(i, id) })
	}
	c.start(dead, dir)
	eventually(t, "before after", func() string {
		if _, err := c.members[dead].sessions.Get(t.Context(), ada, id); err != nil {
			return err.Error()
		}
		return c.texts(dead, id)
	})
	if _, err := c.members[dead].sessions.Append(t.Context(), ada, id, []chat.Draft{text("again").As("c2")}); err != nil {
		t.Fatal(err)
	}
	for i := range c.members {
		eventually(t, "before after again", func() string { return c.texts(i, id) })
	}
}

func TestASessionIsCreatedOnceByIdAndByAlias(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, foreign := range []string{"my-chat", "has a space"} {
		var mu sync.Mutex
		ids, made := map[chat.SessionID]bool{}, 0
		var tasks sync.WaitGroup
		for _, m := range c.members {
			tasks.Go(func() {
				sess, created, err := m.sessions.Ensure(t.Context(), ada, foreign, chat.NewSession{Agent: chat.NoAgent})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				ids[sess.ID] = true
				if created {
					made++
				}
			})
		}
		tasks.Wait()
		if len(ids) != 1 || made != 1 {
			t.Errorf("%q: %v, created %d times", foreign, ids, made)
		}
	}
}

func TestForkAndEraseReachAllNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.session(0)
	if _, err := c.members[0].sessions.Append(t.Context(), ada, id, []chat.Draft{text("original").As("c0")}); err != nil {
		t.Fatal(err)
	}
	for i, m := range c.members {
		eventually(t, "original", func() string { return c.texts(i, id) })
		fork, err := m.sessions.Fork(t.Context(), ada, id, chat.Fork{})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.texts(i, fork.ID); got != "original" {
			t.Errorf("node %d: the fork has %q", i, got)
		}
		for k := range c.members {
			eventually(t, "original", func() string {
				if _, err := c.members[k].sessions.Get(t.Context(), ada, fork.ID); err != nil {
					return err.Error()
				}
				return c.texts(k, fork.ID)
			})
		}
	}
	receipt, err := c.members[0].sessions.Erase(t.Context(), ada, id)
	if err != nil || receipt.Events != 2 {
		t.Fatal(receipt, err)
	}
	for i := range c.members {
		eventually(t, string(chat.Gone), func() string {
			_, err := c.members[i].sessions.Get(t.Context(), ada, id)
			return string(chat.CodeOf(err))
		})
		eventually(t, "0 left", func() string {
			n := 0
			for _, err := range c.members[i].journal.Erasures(t.Context()) {
				if err != nil {
					return err.Error()
				}
				n++
			}
			return fmt.Sprint(n, " left")
		})
	}
}

func TestANewOwnerGetsTheSessionsThatHaveWork(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.session(0)
	old := c.owner(id)
	agent := "demo"
	if _, err := c.members[0].sessions.Update(t.Context(), ada, id, chat.SessionUpdated{Agent: &agent}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.members[0].sessions.Append(t.Context(), ada, id, []chat.Draft{text("work").As("c0")}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := c.members[old].HandOver(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "taken over", func() string {
		for _, m := range c.members {
			m.mu.Lock()
			took := len(m.took) > 0 && m.took[len(m.took)-1] == id
			m.mu.Unlock()
			if took && m.Owns(id) {
				return "taken over"
			}
		}
		return "not yet"
	})
	if c.owner(id) == old {
		t.Error("the old owner still owns the session")
	}
}

// A reader that has an event from one node continues at another one that does not have it yet.
func TestCursorOfAnotherNodeIsWaitedFor(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.session(0)
	owner := c.owner(id)
	behind := 0
	if owner == 0 {
		behind = 1
	}
	events, err := c.members[owner].sessions.Append(t.Context(), ada, id, []chat.Draft{text("one")})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "one", func() string { return c.texts(behind, id) })
	c.members[behind].port.Log.Cut(true) // it still reaches the other nodes
	for n := range 3 {
		if events, err = c.members[owner].sessions.Append(t.Context(), ada, id, []chat.Draft{text(fmt.Sprint(n))}); err != nil {
			t.Fatal(err)
		}
	}
	last := events[0].Seq
	if _, err := c.members[behind].sessions.GetAt(t.Context(), ada, id, last); chat.CodeOf(err) != chat.Unavailable {
		t.Errorf("a node that cannot catch up: %v", err)
	}
	number, _ := chat.ParseID(chat.EventPrefix, string(events[0].ID))
	if _, _, err := c.members[behind].sessions.ByID(t.Context(), ada, number); chat.CodeOf(err) != chat.Unavailable {
		t.Errorf("the id of an event at a node that cannot catch up: %v", err)
	}
	c.members[behind].port.Log.Cut(false)
	eventually(t, fmt.Sprint(last), func() string {
		sess, err := c.members[behind].sessions.GetAt(t.Context(), ada, id, last)
		if err != nil && chat.CodeOf(err) != chat.Unavailable {
			t.Fatal(err)
		}
		return fmt.Sprint(sess.Last)
	})
	// An event that no node has is not waited for.
	if sess, err := c.members[behind].sessions.GetAt(t.Context(), ada, id, last+100); err != nil || sess.Last != last {
		t.Errorf("%d %v", sess.Last, err)
	}
}
