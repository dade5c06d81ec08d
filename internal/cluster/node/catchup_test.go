package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/cluster/clustertest"
	"github.com/parley-hq/parley/internal/journal"
)

// sibling returns an id that no session has, in the partition of a session.
func (c *testCluster) sibling(known chat.SessionID) chat.SessionID {
	for n := 0; ; n++ {
		id := chat.SessionID(fmt.Sprint("later-", n))
		if c.members[0].Partition(id) == c.members[0].Partition(known) {
			return id
		}
	}
}

func (c *testCluster) create(i int, id chat.SessionID) {
	c.t.Helper()
	if _, _, err := c.members[i].sessions.Create(c.t.Context(), ada, chat.NewSession{ID: id, Agent: chat.NoAgent}); err != nil {
		c.t.Fatal(err)
	}
}

// hearOld gives a node the heartbeats of the others that were on their way while it was paused.
func (c *testCluster) hearOld(i int, p int, epoch uint64) {
	for k, m := range c.members {
		if k != i {
			c.members[i].parts[p].get().Heard(cluster.Heartbeat{Partition: p, Node: m.Name(), Epoch: epoch})
		}
	}
}

// An owner is paused and replaced. When it goes on, it first hears heartbeats that were sent before it was replaced.
func TestAnOwnerThatWasPausedDoesNotDenySessionsOfTheNextOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	known := c.session(0)
	id := c.sibling(known)
	old := c.owner(known)
	paused, part := c.members[old], c.members[old].Partition(known)
	epoch := paused.Status()[part].Copy.Epoch
	paused.port.Cut(true)
	c.create((old+1)%3, id)

	c.hearOld(old, part, epoch)
	if !paused.Owns(id) {
		t.Fatal("the node knows that it does not own the session any more")
	}
	if _, err := paused.sessions.Get(t.Context(), ada, id); chat.CodeOf(err) != chat.Unavailable {
		t.Errorf("a read while no other node answers: %v", err)
	}
	c.log.SetFaults(clustertest.Faults{Delay: 50 * time.Millisecond}) // the log is read later than heartbeats
	paused.port.Cut(false)
	c.hearOld(old, part, epoch)
	if _, err := paused.sessions.Get(t.Context(), ada, id); err != nil {
		t.Errorf("a read after the pause: %v", err)
	}
}

// A node that does not read the log asks an owner that was replaced and does not read the log either. The next owner has created a session.
func TestANodeThatIsBehindDoesNotBelieveAFormerOwner(t *testing.T) {
	t.Parallel()
	t.Run("the next owner answers", func(t *testing.T) { t.Parallel(); readBehindAFormerOwner(t, true) })
	t.Run("the next owner answers too late", func(t *testing.T) { t.Parallel(); readBehindAFormerOwner(t, false) })
}

func readBehindAFormerOwner(t *testing.T, nextAnswers bool) {
	c := newCluster(t)
	known := c.session(0)
	id := c.sibling(known)
	old := c.owner(known)
	eventually(t, "known", func() string {
		for _, m := range c.members {
			if _, err := m.journal.Record(t.Context(), known); err != nil {
				return err.Error()
			}
		}
		return "known"
	})
	behind, next := (old+1)%3, (old+2)%3
	c.members[behind].port.Log.Cut(true)
	c.members[old].port.Cut(true)
	eventually(t, "next", func() string {
		if c.members[next].Owns(id) {
			return "next"
		}
		return "no owner"
	})
	c.create(next, id)
	if c.members[old].confirmTime = limit; !nextAnswers {
		c.members[old].confirmTime = time.Millisecond
		c.members[next].port.CutNodes(true)
	}
	c.members[old].port.CutNodes(false)
	if !c.members[old].Owns(id) {
		t.Fatal("the former owner reads the log")
	}
	write := func() error {
		_, err := c.members[behind].sessions.Append(t.Context(), ada, id, []chat.Draft{text("hello").As("c1")})
		return err
	}
	_, read := c.members[behind].sessions.Get(t.Context(), ada, id)
	for what, err := range map[string]error{"a read": read, "a write": write()} {
		if chat.CodeOf(err) != chat.Unavailable {
			t.Errorf("%s: %v", what, err)
		}
	}
	c.members[behind].port.Log.Cut(false)
	c.members[next].port.CutNodes(false)
	if err := write(); err != nil {
		t.Errorf("a write when the log is read again: %v", err)
	}
	c.members[old].port.Log.Cut(false)
}

// What makes a session visible to a caller has just been stored at the owner: an alias, or a member.
func TestAliasesAndMembersAreFoundOnANodeThatIsBehind(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	bob := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "bob"}, Scopes: []chat.Scope{chat.ScopeUser}}
	c.log.SetFaults(clustertest.Faults{Delay: 50 * time.Millisecond})
	taken := c.session(0)
	for n := range 10 {
		for i, m := range c.members {
			adas := fmt.Sprintf("adas-%d-%d", n, i)
			c.create(i, chat.SessionID(adas))
			for _, other := range c.members {
				if _, err := other.sessions.Get(t.Context(), ada, chat.SessionID(adas)); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{fmt.Sprintf("a name %d %d", n, i), adas} {
				sess, _, err := m.sessions.Ensure(t.Context(), bob, name, chat.NewSession{Agent: chat.NoAgent})
				if err != nil {
					t.Fatal(err)
				}
				for k, other := range c.members {
					if own, err := other.sessions.Own(t.Context(), bob, name); err != nil || own.ID != sess.ID {
						t.Fatalf("%q of node %d at node %d: %v", name, i, k, err)
					}
					if id, err := other.sessions.Resolve(t.Context(), bob, chat.SessionID(name)); err != nil || id != sess.ID {
						t.Fatalf("%q of node %d at node %d is %q: %v", name, i, k, id, err)
					}
				}
			}
		}
		i := n % 3
		if _, err := c.members[i].sessions.Update(t.Context(), ada, taken, chat.SessionUpdated{Members: &[]chat.Member{}}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.members[i].sessions.Get(t.Context(), bob, taken); chat.CodeOf(err) != chat.NotFound {
			t.Fatalf("a session of another user: %v", err)
		}
		if _, err := c.members[i].sessions.Update(t.Context(), ada, taken, chat.SessionUpdated{Members: &[]chat.Member{{Actor: bob.Actor, Role: chat.Viewer}}}); err != nil {
			t.Fatal(err)
		}
		for k, other := range c.members {
			if _, err := other.sessions.Get(t.Context(), bob, taken); err != nil {
				t.Fatalf("node %d does not know the member: %v", k, err)
			}
		}
	}
}

// Questions about different sessions do not wait for each other, and nothing stays of them.
func TestQuestionsAboutSessionsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q sharedQuestions
		asked := map[chat.SessionID]*atomic.Int64{"a": {}, "b": {}}
		var all sync.WaitGroup
		for id, n := range asked {
			for range 100 {
				all.Go(func() {
					if !q.ask(t.Context(), id, func() bool { n.Add(1); time.Sleep(time.Second); return true }) {
						t.Error("no answer")
					}
				})
			}
		}
		begun := time.Now()
		all.Wait()
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("they took %s", took)
		}
		for id, n := range asked {
			if n.Load() > 2 {
				t.Errorf("%d questions about %s", n.Load(), id)
			}
		}
		synctest.Wait()
		if len(q.of) > 0 {
			t.Errorf("%d questions are left", len(q.of))
		}
	})
}

// An owner does not wait for a node that is not there: the log says what it would have said.
func TestAnOwnerDoesNotWaitForANodeThatIsSilent(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.known()
	owner := c.members[c.owner(id)]
	silent := c.members[(c.owner(id)+1)%3]
	owner.confirmTime = limit
	silent.port.Cut(true)
	eventually(t, "1", func() string { return fmt.Sprint(len(owner.present())) })
	if err := owner.confirmOwner(t.Context(), owner.partOf(id)); err != nil {
		t.Error(err)
	}
}

// Callers that ask at the same time share a question, but none gets the answer to one that was on its way before it asked.
func TestOneQuestionIsOnItsWayForAllThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q sharedQuestion
		var asked, running atomic.Int64
		ask := func() bool {
			n := asked.Add(1)
			if running.Add(1) > 1 {
				t.Error("two questions are on their way")
			}
			time.Sleep(time.Second)
			running.Add(-1)
			return n == 2
		}
		var all sync.WaitGroup
		all.Go(func() {
			if q.ask(t.Context(), ask) {
				t.Error("the first one got the answer of the second")
			}
		})
		synctest.Wait()
		for range 1000 {
			all.Go(func() {
				if !q.ask(t.Context(), ask) {
					t.Error("one that came later got the answer of the first")
				}
			})
		}
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if q.ask(short, ask) {
			t.Error("one that did not wait got an answer")
		}
		all.Wait()
		if n := asked.Load(); n != 2 {
			t.Errorf("%d questions for a thousand callers", n)
		}
		if q.ask(t.Context(), ask) || asked.Load() != 3 {
			t.Error("the next one did not ask again")
		}
	})
}

func TestANodeThatCannotCatchUpDoesNotDenyFiles(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.known()
	owner := c.owner(id)
	behind := (owner + 1) % 3
	c.members[behind].port.Log.Cut(true)
	c.put(owner, id, "a", "data")
	if got := c.get(behind, id, "a"); got != string(chat.Unavailable) {
		t.Errorf("a node that is behind: %q", got)
	}
	c.members[behind].port.Log.Cut(false)
	if got := c.get(behind, id, "a"); got != "data" {
		t.Errorf("when it reads the log again: %q", got)
	}
	if got := c.get(behind, id, "b"); got != string(chat.NotFound) {
		t.Errorf("a file that there is not: %q", got)
	}
}

// A page edits a message at one node, which begins a fork that takes the place of the session, and asks another node, which is behind.
func TestANodeThatIsBehindDoesNotMissABranch(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.known()
	const alias = "page/branch" // no id of a session
	owner := c.members[int(c.members[0].partOfAlias(journal.AliasIDOf(ada.In(), ada.Actor.Key(), alias)).number)]
	behind := c.members[0]
	if owner == behind {
		behind = c.members[1]
	}
	if _, err := behind.sessions.Aliased(t.Context(), ada, alias); chat.CodeOf(err) != chat.NotFound {
		t.Errorf("before there is a branch: %v", err)
	}
	behind.port.Log.Cut(true)
	if err := owner.sessions.ReplaceAlias(t.Context(), ada, alias, id); err != nil {
		t.Fatal(err)
	}
	if _, err := behind.sessions.Aliased(t.Context(), ada, alias); chat.CodeOf(err) != chat.Unavailable {
		t.Errorf("a node that is behind: %v", err)
	}
	behind.port.Log.Cut(false)
	if sess, err := behind.sessions.Aliased(t.Context(), ada, alias); err != nil || sess.ID != id {
		t.Errorf("when it reads the log again: %v, %v", sess.ID, err)
	}
}

// A client names an event that it has seen at another node, such as the turn of a message that it answers.
func TestANodeThatIsBehindDoesNotDenyEvents(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.known()
	owner := c.owner(id)
	behind := c.members[(owner+1)%3]
	behind.port.Log.Cut(true)
	events, err := c.members[owner].sessions.Append(t.Context(), ada, id, []chat.Draft{text("a")})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := behind.sessions.Event(t.Context(), ada, id, events[0].Seq); chat.CodeOf(err) != chat.Unavailable {
		t.Errorf("a node that is behind: %v, %v", e.Type, err)
	}
	behind.port.Log.Cut(false)
	if e, err := behind.sessions.Event(t.Context(), ada, id, events[0].Seq); err != nil || e.ID != events[0].ID {
		t.Errorf("when it reads the log again: %v, %v", e.ID, err)
	}
	if e, err := behind.sessions.Event(t.Context(), ada, id, events[0].Seq+1); chat.CodeOf(err) != chat.NotFound {
		t.Errorf("an event that there is not: %v, %v", e.Type, err)
	}
}
