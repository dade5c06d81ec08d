package node

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agentpool"
)

// TestWorkerGetsTurnsOfAllNodes: a worker that is connected to one node answers the sessions of all of them, and never has more turns
// than slots.
func TestWorkerGetsTurnsOfAllNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	w := c.join(1, 2)
	ids := map[chat.SessionID]string{}
	for n := range 12 {
		say := fmt.Sprint("m", n)
		ids[c.ask(n%3, n/3%3, say)] = say
	}
	for id, say := range ids {
		c.awaitText(id, say+" re "+say)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.most > 2 || len(w.attempts) != 12 {
		t.Errorf("%d turns at once, %d turns", w.most, len(w.attempts))
	}
	for turn, attempts := range w.attempts {
		if len(attempts) != 1 {
			t.Errorf("turn %s was given as attempts %v", turn, attempts)
		}
	}
}

// TestWorkerOfAnotherNodeHearsOfItsTurn: messages that arrive during a turn and a stop reach a worker that is connected to another node
// than the owner.
func TestWorkerOfAnotherNodeHearsOfItsTurn(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	w := c.joinHolding(1, 2)
	id := c.ask(2, 0, "first")
	a := w.turn(1)
	if _, err := c.members[2].sessions.Append(t.Context(), ada, id, []chat.Draft{text("second")}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "second", func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.events) == 0 {
			return ""
		}
		return w.events[0].Body.(chat.UserMessage).Text
	})
	if _, err := c.members[2].sessions.Stop(t.Context(), ada, id, "", "enough"); err != nil {
		t.Fatal(err)
	}
	eventually(t, fmt.Sprint([]chat.TurnID{a.Turn}), func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		return fmt.Sprint(w.stopped)
	})
	c.awaitText(id, "first second")
}

// TestTurnOfAWorkerContinuesWithTheNextOwner: the owner of a session is lost while a worker of another node has a turn. The worker gets
// the turn in its next attempt and ends it.
func TestTurnOfAWorkerContinuesWithTheNextOwner(t *testing.T) {
	t.Parallel()
	for _, at := range []int{1, 2} { // one of them becomes the owner
		t.Run(fmt.Sprint("node ", at), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			w := c.joinHolding(at, 1)
			id := c.ask(at, 0, "hello")
			first := w.turn(1)
			if owner := c.owner(id); owner != 0 {
				t.Fatalf("node %d owns the session", owner)
			}
			c.stop(0)
			second := w.turn(2)
			if second.Turn != first.Turn {
				t.Fatalf("turn %s, before it %s", second.Turn, first.Turn)
			}
			w.answer(second)
			c.awaitText(id, "hello re hello")
		})
	}
}

// TestOnlyTheOwnerResumesTurns: a node that lost a session while it began to resume its turns must not take them from the next owner.
func TestOnlyTheOwnerResumesTurns(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	w := c.joinHolding(1, 1)
	id := c.ask(1, 0, "hello")
	a := w.turn(1)
	if _, _, err := c.members[2].sessions.ResumeTurn(t.Context(), a.TurnRef, "lost", false); chat.ReasonOf(err) != chat.OwnerChanged {
		t.Errorf("a node that does not own the session: %v", err)
	}
	w.answer(a)
	c.awaitText(id, "hello re hello")
}

// TestTurnOfAWorkerContinuesAfterAHandover: the worker is connected to the owner, which gives the partition away.
func TestTurnOfAWorkerContinuesAfterAHandover(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	w := c.joinHolding(0, 1)
	id := c.ask(0, 0, "hello")
	w.turn(1)
	if err := c.members[0].HandOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := w.turn(2)
	if c.owner(id) == 0 {
		t.Fatal("node 0 still owns the session")
	}
	w.answer(second)
	c.awaitText(id, "hello re hello")
}

// TestWorkerKeepsItsTurnWhenItsNodeIsLost: the node that a worker is connected to is lost. The worker connects to another node and
// continues the turn in the same attempt.
func TestWorkerKeepsItsTurnWhenItsNodeIsLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	w := c.joinHolding(1, 1)
	id := c.ask(0, 0, "hello")
	first := w.turn(1)
	c.stop(1)
	w.connect(2)
	w.awaitGiven(first.Turn, 2)
	w.answer(w.turn(1))
	c.awaitText(id, "hello re hello")
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := w.attempts[first.Turn]; !slices.Equal(got, []int{1, 1}) {
		t.Errorf("attempts %v", got)
	}
}

// TestWorkerThatChangesItsNodeGetsNoMoreTurnsThanSlots: turns wait for a slot while a worker whose node is lost connects to the owner
// of its turn.
func TestWorkerThatChangesItsNodeGetsNoMoreTurnsThanSlots(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	w := c.joinHolding(1, 1)
	first := c.ask(0, 2, "one")
	a := w.turn(1)
	others := []chat.SessionID{c.ask(0, 2, "two"), c.ask(0, 0, "three")}
	c.stop(1)
	w.connect(2)
	w.awaitGiven(a.Turn, 2)
	w.hold.Store(false)
	w.answer(w.turn(1))
	c.awaitText(first, "one re one")
	c.awaitText(others[0], "two re two")
	c.awaitText(others[1], "three re three")
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.most != 1 {
		t.Errorf("%d turns at once", w.most)
	}
}

// TestWorkerOfANodeThatIsCutOffIsNotCounted: the workers of a silent node are not listed any more, and those of a node that is back
// are.
func TestWorkerOfANodeThatIsCutOffIsNotCounted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.join(1, 1)
	workers := func() string { return c.workers(0) }
	begun := time.Now()
	c.members[1].port.Cut(true)
	eventually(t, "0", workers)
	if took := time.Since(begun); took < 3*time.Second {
		t.Errorf("it was given up after %s", took)
	}
	c.members[1].port.Cut(false)
	eventually(t, "1", workers)
}

// testPeer is the pool of a node. A test can delay the messages of other nodes.
type testPeer struct {
	*agentpool.Pool
	mu    sync.Mutex
	heard string   // the last broadcast
	holds bool     // requests wait
	asked []func() // those that wait
}

func (p *testPeer) HandleRequest(data []byte, reply func(answer []byte, err error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holds {
		p.asked = append(p.asked, func() { p.Pool.HandleRequest(data, reply) })
		return
	}
	p.Pool.HandleRequest(data, reply)
}

func (p *testPeer) HandleBroadcast(data []byte) {
	p.Pool.HandleBroadcast(data)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = string(data)
}

// hold delays requests until it is called with false.
func (p *testPeer) hold(holds bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = holds
	for _, deliver := range p.asked {
		deliver()
	}
	p.asked = nil
}

// TestEndOfATurnReachesAFormerOwner: a worker reports the end of a turn to the owner that gave it. That node gets the report after
// another one has taken the session over and has given the turn to the worker again. The worker reports the end to that one.
func TestEndOfATurnReachesAFormerOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	w := c.joinHolding(2, 1)
	id := c.ask(2, 0, "hello")
	a := w.turn(1)
	former, next := c.members[0].peer, c.members[1].peer
	eventually(t, "true", func() string { // the next owner knows which worker has the turn
		next.mu.Lock()
		defer next.mu.Unlock()
		return fmt.Sprint(strings.Contains(next.heard, string(a.Turn)))
	})
	former.hold(true)
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		w.answer(a)
	}()
	eventually(t, "1", func() string {
		former.mu.Lock()
		defer former.mu.Unlock()
		return fmt.Sprint(len(former.asked))
	})
	if err := c.members[0].HandOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.awaitGiven(a.Turn, 2)
	former.hold(false)
	<-reported
	if got := c.outcome(id); strings.HasSuffix(got, " done") {
		t.Fatalf("%s, by a former owner", got)
	}
	eventually(t, "hello re hello done", func() string {
		w.answer(a) // until its end is stored, as the workers of the SDKs do
		return c.outcome(id)
	})
}

// TestEndOfATurnThatItsOwnerCouldNotStore: a worker reports the end of a turn to an owner that is cut off, and another node takes the
// session over. The worker learns that the end is not stored, and reports it to the next owner. In the end it is free.
func TestEndOfATurnThatItsOwnerCouldNotStore(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	w := c.joinHolding(0, 1)
	id := c.ask(0, 0, "hello")
	a := w.turn(1)
	c.members[0].port.Cut(true)
	reported := make(chan error, 1)
	go func() { reported <- w.finish(a.Turn) }()
	eventually(t, "true", func() string { return fmt.Sprint(c.members[1].Owns(id) || c.members[2].Owns(id)) })
	c.members[0].port.Cut(false)
	if err := <-reported; chat.ReasonOf(err) != chat.OwnerChanged {
		t.Fatal(err)
	}
	again := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.attempts[a.Turn]) == 2
	}
	// The first owner stores the end if it owns the session again before the next one has begun another attempt.
	eventually(t, "true", func() string { return fmt.Sprint(again() || strings.HasSuffix(c.outcome(id), " done")) })
	if again() {
		if err := w.finish(a.Turn); err != nil {
			t.Fatal(err)
		}
	}
	c.awaitText(id, "hello")
	eventually(t, "0", func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		return fmt.Sprint(len(w.assigned))
	})
}
