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
	"github.com/parley-hq/parley/internal/core"
)

func TestEveryNodeTakesEveryWriteAndReadsItAtOnce(t *testing.T) {
	t.Parallel()
	c := newCell(t)
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
	c := newCell(t)
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
	c := newCell(t)
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

// follow collects what a reader of a node sees of a session: the messages and the unfinished text.
func (c *cell) follow(ctx context.Context, i int, id chat.SessionID) (seen func() string) {
	var mu sync.Mutex
	var events []string
	open := ""
	go func() {
		for b, err := range c.members[i].sessions.Watch(ctx, ada, id, core.Start{Cursor: &chat.Cursor{}}, nil) {
			if err != nil {
				if ctx.Err() == nil {
					c.t.Errorf("a reader of node %d ended: %v", i, err)
				}
				return
			}
			mu.Lock()
			for _, e := range b.Entries {
				if p := e.Piece; p != nil {
					if p.Offset != len(open) {
						open += "<hole>"
					}
					open += p.Text
					continue
				}
				ev, err := e.Fact.Event()
				if err != nil {
					return
				}
				if m, ok := ev.Body.(chat.AgentText); ok {
					open = ""
					events = append(events, m.Text)
				}
			}
			mu.Unlock()
		}
	}()
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(events, "|") + "…" + open
	}
}

func TestReadersOfAllNodesSeeTextWhileItIsWritten(t *testing.T) {
	t.Parallel()
	for name, loses := range map[string]func() func() bool{
		"all messages arrive": func() func() bool { return nil },
		"every third is lost": func() func() bool { n := 0; return func() bool { n++; return n%3 == 0 } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCell(t)
			id := c.session(0)
			for _, m := range c.members {
				m.port.Loses = loses()
			}
			agent := ada
			var seen []func() string
			for i := range c.members {
				seen = append(seen, c.follow(t.Context(), i, id))
			}
			whole := ""
			for block := range 3 {
				written := ""
				name := chat.BlockID(fmt.Sprint("b", block))
				for n := range 20 {
					piece := fmt.Sprintf("%d.%d ", block, n)
					err := c.members[1].sessions.Preview(t.Context(), agent, id, []chat.Preview{{Block: name, Offset: len(written), Text: piece, Kind: chat.TextBlock}})
					if err != nil {
						t.Fatal(err)
					}
					written += piece
				}
				// The last piece may be lost, so the next one shows all before it.
				for n := 0; n < 3; n++ {
					piece := fmt.Sprint("end", n)
					if err := c.members[2].sessions.Preview(t.Context(), agent, id, []chat.Preview{{Block: name, Offset: len(written), Text: piece, Kind: chat.TextBlock}}); err != nil {
						t.Fatal(err)
					}
					written += piece
					if n == 1 {
						for _, s := range seen {
							eventually(t, "yes", func() string {
								if s := s(); strings.Contains(s, "<hole>") {
									t.Fatal(s)
								} else if strings.HasPrefix(s, whole+"…"+written[:len(written)-8]) {
									return "yes"
								}
								return s()
							})
						}
					}
				}
				_, err := c.members[0].sessions.Append(t.Context(), agent, id, []chat.Draft{chat.NewDraft(chat.AgentText{Block: name, Text: written}).As(string(name))})
				if err != nil {
					t.Fatal(err)
				}
				if whole != "" {
					whole += "|"
				}
				whole += written
				for _, s := range seen {
					eventually(t, whole+"…", s)
				}
			}
		})
	}
}

func TestWritesGoOnWhenAnOwnerIsKilled(t *testing.T) {
	t.Parallel()
	c := newCell(t)
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

func TestAnOwnerThatWasCutOffStoresNothingAndFollows(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	id := c.session(0)
	old := c.owner(id)
	c.members[old].port.Cut(true)
	refused := make(chan error, 1)
	go func() {
		_, err := c.members[old].sessions.Append(context.Background(), ada, id, []chat.Draft{text("late").As("late")})
		refused <- err
	}()
	if _, err := c.members[0].sessions.Append(t.Context(), ada, id, []chat.Draft{text("first").As("first")}); err != nil {
		t.Fatal(err)
	}
	c.members[old].port.Cut(false)
	// It was sent to the new owner, behind what that one has decided.
	if err := <-refused; err != nil {
		t.Fatal(err)
	}
	for i := range c.members {
		eventually(t, "first late", func() string { return c.texts(i, id) })
	}
	c.members[old].mu.Lock()
	defer c.members[old].mu.Unlock()
	if c.members[old].lost == 0 {
		t.Error("the server was not told that it is not the owner any more")
	}
}

// A reader that has seen an event elsewhere is not told that the session was replaced.
func TestAnOwnerThatWasCutOffDoesNotDenyEventsOfTheNextOwner(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	id := c.session(0)
	old := c.owner(id)
	c.members[old].port.Cut(true)
	events, err := c.members[(old+1)%3].sessions.Append(t.Context(), ada, id, []chat.Draft{text("first").As("first")})
	if err != nil {
		t.Fatal(err)
	}
	seq := events[0].Seq
	if sess, err := c.members[old].sessions.GetAt(t.Context(), ada, id, seq); chat.CodeOf(err) != chat.Unavailable {
		t.Fatalf("the node that is cut off has %d events and says %v", sess.Last, err)
	}
	c.members[old].port.Cut(false)
	eventually(t, fmt.Sprint(seq, " <nil>"), func() string {
		sess, err := c.members[old].sessions.GetAt(t.Context(), ada, id, seq)
		return fmt.Sprint(sess.Last, " ", err)
	})
	if sess, err := c.members[old].sessions.GetAt(t.Context(), ada, id, seq+1); err != nil || sess.Last != seq {
		t.Errorf("an event that does not exist: %d, %v", sess.Last, err)
	}
}

// The next owner creates a session. The owner before it, which is cut off and does not know that there is another one, does not say that
// the session does not exist.
func TestAnOwnerThatIsCutOffDoesNotDenySessionsOfTheNextOwner(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	known := c.session(0)
	old := c.owner(known)
	cut, next := c.members[old], c.members[(old+1)%3]
	id := chat.SessionID("later-0")
	for n := 1; next.Partition(id) != next.Partition(known); n++ {
		id = chat.SessionID(fmt.Sprint("later-", n))
	}
	if _, err := cut.sessions.Get(t.Context(), ada, id); chat.CodeOf(err) != chat.NotFound {
		t.Fatalf("before the session is created: %v", err)
	}
	cut.port.Cut(true)
	if _, _, err := next.sessions.Create(t.Context(), ada, chat.NewSession{ID: id, Agent: chat.NoAgent}); err != nil {
		t.Fatal(err)
	}
	events, err := next.sessions.Append(t.Context(), ada, id, []chat.Draft{text("first")})
	if err != nil {
		t.Fatal(err)
	}
	event, ok := chat.ParseID(chat.EventPrefix, string(events[0].ID))
	if !ok {
		t.Fatal(events[0].ID)
	}
	if !cut.Owns(id) {
		t.Fatal("the node that is cut off knows that it does not own the session any more")
	}
	_, get := cut.sessions.Get(t.Context(), ada, id)
	_, write := cut.sessions.Append(t.Context(), ada, id, []chat.Draft{text("second")})
	_, _, byID := cut.sessions.ByID(t.Context(), ada, event)
	for what, err := range map[string]error{"a read": get, "a write": write, "the id of an event": byID} {
		if chat.CodeOf(err) != chat.Unavailable {
			t.Errorf("%s at the node that is cut off: %v", what, err)
		}
	}
	if _, err := cut.sessions.Get(t.Context(), ada, known); err != nil {
		t.Errorf("a session that it has: %v", err)
	}
	cut.port.Cut(false)
	eventually(t, fmt.Sprint(events[0].Seq, " <nil>"), func() string {
		_, seq, err := cut.sessions.ByID(t.Context(), ada, event)
		return fmt.Sprint(seq, " ", err)
	})
}

func TestASessionIsCreatedOnceByIdAndByAlias(t *testing.T) {
	t.Parallel()
	c := newCell(t)
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
	c := newCell(t)
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
	c := newCell(t)
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
	c := newCell(t)
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
