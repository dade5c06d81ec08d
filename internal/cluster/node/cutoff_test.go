package node

import (
	"context"
	"fmt"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

func TestAnOwnerThatWasCutOffStoresNothingAndFollows(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
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
	c := newCluster(t)
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
	c := newCluster(t)
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

// A stop waits at an owner that is cut off. The next owner has stopped the turn meanwhile and has begun another one, for which the stop
// is not meant.
func TestAStopAtAnOwnerThatIsCutOffIsNotForALaterTurn(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	started := make(chan struct{}, 10)
	for _, m := range c.members {
		m.agents.Add(agent.Info{Name: "slow"}, agent.Func(func(ctx context.Context, _ *agent.Turn) error {
			started <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}))
	}
	sess, _, err := c.members[0].sessions.Create(t.Context(), ada, chat.NewSession{Agent: "slow"})
	if err != nil {
		t.Fatal(err)
	}
	id := sess.ID
	old := c.owner(id)
	next := c.members[(old+1)%3].sessions
	if _, err := next.Append(t.Context(), ada, id, []chat.Draft{text("first").As("1")}); err != nil {
		t.Fatal(err)
	}
	<-started
	c.members[old].port.Cut(true)
	stopped := make(chan chat.StopResult, 1)
	go func() {
		res, _ := c.members[old].sessions.Stop(context.WithoutCancel(t.Context()), ada, id, "", "enough")
		stopped <- res
	}()
	if res, err := next.Stop(t.Context(), ada, id, "", "enough"); err != nil || !res.Stopped {
		t.Fatal(res, err)
	}
	if _, err := next.Append(t.Context(), ada, id, []chat.Draft{text("second").As("2")}); err != nil {
		t.Fatal(err)
	}
	c.members[old].port.Cut(false)
	if res := <-stopped; res.Stopped {
		t.Errorf("the stop has ended %s", res.TurnID)
	}
}
