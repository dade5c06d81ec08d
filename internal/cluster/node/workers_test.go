package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agentpool"
	"github.com/parley-hq/parley/internal/core"
)

// testWorker is a worker that answers each turn with its trigger. Like the workers of the SDKs it connects again when its connection
// ends, and names its turns.
type testWorker struct {
	c     *testCluster
	slots int
	hold  atomic.Bool // turns end when answer is called, not by themselves

	mu       sync.Mutex
	at       *connection
	assigned map[chat.TurnID]chat.Assignment // its turns
	running  int
	most     int // turns that it had at once
	attempts map[chat.TurnID][]int
	events   []chat.Event
	stopped  []chat.TurnID
}

// join connects a worker of agent "w" to a node, and waits until all nodes list it.
func (c *testCluster) join(i, slots int) *testWorker {
	c.t.Helper()
	w := &testWorker{c: c, slots: slots, assigned: map[chat.TurnID]chat.Assignment{}, attempts: map[chat.TurnID][]int{}}
	w.connect(i)
	for n := range c.members {
		eventually(c.t, "1", func() string { return c.workers(n) })
	}
	return w
}

// joinHolding connects a worker whose turns end when answer is called.
func (c *testCluster) joinHolding(i, slots int) *testWorker {
	c.t.Helper()
	w := c.join(i, slots)
	w.hold.Store(true)
	return w
}

// connection is one connection of a worker.
type connection struct {
	*testWorker
	node int
	reg  core.Registration
	gone sync.Once
}

func (w *testWorker) connect(i int) {
	w.mu.Lock()
	has := slices.Collect(maps.Keys(w.assigned))
	w.mu.Unlock()
	k := &connection{testWorker: w, node: i}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reg = w.c.members[i].pool.Join(chat.DefaultWorkspace, "w", k, w.slots, has)
	w.at = k
}

// current returns the connection of the worker.
func (w *testWorker) current() *connection {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

// Reconnect leaves and joins again.
func (k *connection) Reconnect() {
	k.gone.Do(func() {
		go func() {
			k.reg.Leave()
			k.connect(k.node)
		}()
	})
}

func (k *connection) Give(a chat.Assignment) {
	go func() {
		k.mu.Lock()
		if _, has := k.assigned[a.Turn]; !has {
			k.running++
			k.most = max(k.most, k.running)
		}
		k.assigned[a.Turn] = a
		k.attempts[a.Turn] = append(k.attempts[a.Turn], a.Attempt)
		k.mu.Unlock()
		if !k.hold.Load() {
			k.answer(a)
		}
	}()
}

func (k *connection) Tell(_ chat.TurnID, e chat.Event) {
	go func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.events = append(k.events, e)
	}()
}

func (k *connection) Stop(turn chat.TurnID) {
	go func() {
		k.mu.Lock()
		k.stopped = append(k.stopped, turn)
		k.mu.Unlock()
		_ = k.finish(turn) // it may have ended
	}()
}

func (k *connection) Ended(turn chat.TurnID) {
	go func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if _, has := k.assigned[turn]; has {
			delete(k.assigned, turn)
			k.running--
		}
	}()
}

// answer stores the answer of a turn and ends it.
func (w *testWorker) answer(a chat.Assignment) {
	ref, err := w.current().reg.Holds(a.Turn)
	if err != nil {
		return // it gets the turn again
	}
	d := chat.NewDraft(chat.AgentText{Text: "re " + a.Trigger.Body.(chat.UserMessage).Text}).As(string(a.Turn))
	d.Turn, d.Attempt = ref.Turn, ref.Attempt
	for _, m := range w.c.members {
		if m.cancel == nil || m.port.IsCut() {
			continue
		}
		if _, err := m.sessions.Append(w.c.t.Context(), agentW, ref.Session, []chat.Draft{d}); err == nil {
			_ = w.finish(a.Turn) // if it fails, the worker gets the turn again
		}
		return
	}
}

// finish reports the end of a turn. The worker has the turn until the end is stored or the server says that it is not its turn.
func (w *testWorker) finish(turn chat.TurnID) error {
	k := w.current()
	w.count(-1) // from now on its slot is free
	wait, err := k.reg.Ending(turn)
	if err == nil {
		err = k.reg.Finish(turn, nil)
	}
	if err == nil {
		err = wait(w.c.t.Context())
	}
	if err != nil && chat.CodeOf(err) != chat.Conflict {
		w.count(+1)
		if chat.ReasonOf(err) == chat.OwnerChanged {
			k.Reconnect()
		}
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.assigned, turn)
	return err
}

func (w *testWorker) count(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running += n
	w.most = max(w.most, w.running)
}

// turn waits until the worker has a turn, in at least that attempt.
func (w *testWorker) turn(attempt int) (got chat.Assignment) {
	w.c.t.Helper()
	eventually(w.c.t, "true", func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, a := range w.assigned {
			if a.Attempt >= attempt {
				got = a
				return "true"
			}
		}
		return "false"
	})
	return got
}

// awaitGiven waits until the worker was given a turn that many times.
func (w *testWorker) awaitGiven(turn chat.TurnID, times int) {
	w.c.t.Helper()
	eventually(w.c.t, fmt.Sprint(times), func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		return fmt.Sprint(len(w.attempts[turn]))
	})
}

var agentW = chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: "w"}, Scopes: []chat.Scope{chat.ScopeAgent}, Agents: []string{"w"}}

// ask creates a session of agent "w" in a partition, and sends it a message through node i.
func (c *testCluster) ask(i, partition int, say string) chat.SessionID {
	c.t.Helper()
	for n := 0; ; n++ {
		id := chat.SessionID(fmt.Sprintf("w-%s-%d", say, n))
		if c.members[i].Partition(id) != partition {
			continue
		}
		if _, _, err := c.members[i].sessions.Create(c.t.Context(), ada, chat.NewSession{ID: id, Agent: "w", Policy: chat.Steer}); err != nil {
			c.t.Fatal(err)
		}
		if _, err := c.members[i].sessions.Append(c.t.Context(), ada, id, []chat.Draft{text(say).As(say)}); err != nil {
			c.t.Fatal(err)
		}
		return id
	}
}

// workers counts the workers that a node lists.
func (c *testCluster) workers(i int) string {
	n := 0
	for _, info := range c.members[i].agents.List(chat.DefaultWorkspace, nil) {
		n += info.Workers
	}
	return fmt.Sprint(n)
}

// alive returns a node that runs.
func (c *testCluster) alive() int {
	return slices.IndexFunc(c.members[:], func(m *member) bool { return m.cancel != nil && !m.port.IsCut() })
}

// awaitText waits until a session has these messages on a node that runs, and its turn has ended.
func (c *testCluster) awaitText(id chat.SessionID, want string) {
	c.t.Helper()
	eventually(c.t, want+" done", func() string {
		i := c.alive()
		st, err := c.members[i].sessions.State(c.t.Context(), ada, id)
		if err != nil {
			return err.Error()
		}
		end := " open"
		if l := st.Lines[""]; l == nil || l.Turn == nil {
			end = " done"
		}
		return c.texts(i, id) + end
	})
}

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

func (p *testPeer) Asked(data []byte, reply func(answer []byte, err error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holds {
		p.asked = append(p.asked, func() { p.Pool.Asked(data, reply) })
		return
	}
	p.Pool.Asked(data, reply)
}

func (p *testPeer) Heard(data []byte) {
	p.Pool.Heard(data)
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
	go w.answer(a)
	eventually(t, "1", func() string {
		former.mu.Lock()
		defer former.mu.Unlock()
		return fmt.Sprint(len(former.asked))
	})
	if err := c.members[0].HandOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.awaitGiven(a.Turn, 2)
	w.hold.Store(false)
	former.hold(false)
	c.awaitText(id, "hello re hello")
}

// TestEndOfATurnThatItsOwnerCouldNotStore: a worker reports the end of a turn to an owner that is cut off, and another node takes the
// session over. The worker learns that the end is not stored, and reports it to the next owner.
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
	w.awaitGiven(a.Turn, 2)
	if err := w.finish(a.Turn); err != nil {
		t.Fatal(err)
	}
	c.awaitText(id, "hello")
}
