package node

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/parley-hq/parley/chat"
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
	k.reg = w.c.members[i].pool.Register(chat.DefaultWorkspace, "w", k, w.slots, has)
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
	k := w.current()
	ref, err := k.reg.Holds(a.Turn)
	if err != nil {
		if chat.ReasonOf(err) == chat.OwnerChanged {
			k.Reconnect() // it gets the turn again
		}
		return
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
	eventually(c.t, want+" done", func() string { return c.outcome(id) })
}

// outcome returns the messages of a session on a node that runs, and whether its turn has ended.
func (c *testCluster) outcome(id chat.SessionID) string {
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
}
