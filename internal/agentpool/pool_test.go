package agentpool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agentpool"
	"github.com/parley-hq/parley/internal/core"
)

// testWorker is a worker's end of a connection.
type testWorker struct {
	mu     sync.Mutex
	given  []chat.Assignment
	events []chat.Event
	stops  []chat.TurnID
	ended  []chat.TurnID
	moved  chan struct{}
	reg    core.Registration
}

func (h *testWorker) note(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.moved)
	h.moved = make(chan struct{})
}

func (h *testWorker) Give(a chat.Assignment) { h.note(func() { h.given = append(h.given, a) }) }
func (h *testWorker) Tell(_ chat.TurnID, e chat.Event) {
	h.note(func() { h.events = append(h.events, e) })
}
func (h *testWorker) Stop(turn chat.TurnID)  { h.note(func() { h.stops = append(h.stops, turn) }) }
func (h *testWorker) Ended(turn chat.TurnID) { h.note(func() { h.ended = append(h.ended, turn) }) }

// await waits for something to arrive at the worker.
func (h *testWorker) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	timeout := time.NewTimer(60 * time.Second)
	defer timeout.Stop()
	for {
		h.mu.Lock()
		done, moved := ok(), h.moved
		h.mu.Unlock()
		if done {
			return
		}
		select {
		case <-moved:
		case <-timeout.C:
			t.Fatalf("the worker waited in vain for %s", what)
		}
	}
}

func (h *testWorker) awaitTurn(t *testing.T) chat.Assignment {
	t.Helper()
	h.await(t, "a turn", func() bool { return len(h.given) > 0 })
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.given[len(h.given)-1]
}

func (p *testServer) join(slots int, holding ...chat.TurnID) *testWorker {
	h := &testWorker{moved: make(chan struct{})}
	h.reg = p.pool.Register(chat.DefaultWorkspace, "worker", h, slots, holding)
	return h
}

var worker = chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: "worker"}, Scopes: []chat.Scope{chat.ScopeAgent}}

func (p *testServer) sayAs(h *testWorker, turn chat.TurnID, body chat.Body) error {
	ref, err := h.reg.Holds(turn)
	if err != nil {
		return err
	}
	d := chat.NewDraft(body)
	d.Turn, d.Attempt = ref.Turn, ref.Attempt
	_, err = p.Append(ctx, worker, ref.Session, []chat.Draft{d})
	return err
}

func newPoolServer(t *testing.T, lease time.Duration) *testServer {
	return newPoolServerWithGrace(t, lease, 0)
}

func newPoolServerWithGrace(t *testing.T, lease, grace time.Duration) *testServer {
	p := newServer(t, nil)
	delete(p.agents, "test")
	p.lease, p.grace = lease, grace
	p.start(0)
	p.run()
	p.begin(chat.NewSession{Agent: "worker"})
	return p
}

func TestWorkersShareTurns(t *testing.T) {
	p := newPoolServer(t, time.Minute)
	one, two := p.join(1), p.join(2)
	for i := range 4 {
		id := chat.SessionID(fmt.Sprint("w", i))
		if _, _, err := p.Create(ctx, ann, chat.NewSession{ID: id, Agent: "worker"}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Append(ctx, ann, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "hi"})}); err != nil {
			t.Fatal(err)
		}
	}
	one.await(t, "one turn", func() bool { return len(one.given) == 1 })
	two.await(t, "two turns", func() bool { return len(two.given) == 2 })
	a := one.awaitTurn(t)
	if a.Agent != "worker" || a.Attempt != 1 || a.Trigger.Body.(chat.UserMessage).Text != "hi" {
		t.Fatalf("%+v", a)
	}
	// The fourth is given when a slot is free.
	if err := one.reg.Finish(a.Turn, nil); err != nil {
		t.Fatal(err)
	}
	one.await(t, "the turn that waited", func() bool { return len(one.given) == 2 })
	// What is another's cannot be had.
	b := two.awaitTurn(t)
	if _, err := one.reg.Holds(b.Turn); chat.CodeOf(err) != chat.Conflict {
		t.Fatal(err)
	}
	if err := one.reg.Finish(b.Turn, nil); chat.CodeOf(err) != chat.Conflict {
		t.Fatal(err)
	}
	if err := p.sayAs(one, b.Turn, chat.AgentStatus{Message: "mine"}); chat.CodeOf(err) != chat.Conflict {
		t.Fatal(err)
	}
	if err := p.sayAs(two, b.Turn, chat.AgentStatus{Message: "mine"}); err != nil {
		t.Fatal(err)
	}
	if err := two.reg.Finish(b.Turn, errors.New("could not")); err != nil {
		t.Fatal(err)
	}
	// The end of the first turn may come after it.
	p.await("a failed turn", func(evs []chat.Event) bool {
		return slices.ContainsFunc(evs, func(e chat.Event) bool {
			b, ok := e.Body.(chat.TurnCompleted)
			return ok && b.Outcome == chat.Failed && b.Error == "could not"
		})
	})
}

func TestTurnFailsWithoutAWorker(t *testing.T) {
	p := newPoolServer(t, 20*time.Millisecond)
	p.say("hi")
	if end := p.awaitEnd(chat.Failed); !strings.Contains(end.Error, `no worker of agent "worker" connected within 20ms`) {
		t.Fatal(end.Error)
	}
	p.wantLog("user hi", "turn.started", "status Waiting for a worker of agent worker to connect.", "error no_worker",
		`ended failed no worker of agent "worker" connected within 20ms; start one, or choose another agent`)
}

// A name that an agent of the process takes over while a turn still waits for a
// worker is listed once.
func TestNameIsListedOnce(t *testing.T) {
	p := newPoolServer(t, time.Minute)
	p.say("hi")
	p.await("a turn that waits", func(evs []chat.Event) bool { return evs[len(evs)-1].Type == "agent.status" })
	r := agentpool.NewRegistry(p.pool)
	if got := r.List(chat.DefaultWorkspace, nil); len(got) != 1 || got[0].Kind != "worker" || got[0].Healthy {
		t.Errorf("%+v", got)
	}
	r.Add(agent.Info{Name: "worker", Kind: "model"}, agent.Func(func(context.Context, *agent.Turn) error { return nil }))
	if got := r.List(chat.DefaultWorkspace, nil); len(got) != 1 || got[0].Kind != "model" || !got[0].Healthy {
		t.Errorf("%+v", got)
	}
	late := p.join(1)
	if err := late.reg.Finish(late.awaitTurn(t).Turn, nil); err != nil {
		t.Fatal(err)
	}
	p.awaitEnd(chat.Done)
}

// commandWorker announces commands when it joins.
type commandWorker struct {
	testWorker
	commands []chat.AgentCommand
}

func (w *commandWorker) Commands() []chat.AgentCommand { return w.commands }

// commandAgent is an agent in the process that says which commands it understands.
type commandAgent struct{ agent.Agent }

func (commandAgent) Commands() []chat.AgentCommand { return []chat.AgentCommand{{Name: "/own"}} }

func TestCommandsAreListed(t *testing.T) {
	p := newPoolServer(t, time.Minute)
	r := agentpool.NewRegistry(p.pool)
	r.Add(agent.Info{Name: "a"}, commandAgent{})
	r.Add(agent.Info{Name: "b", Commands: []chat.AgentCommand{{Name: "/configured"}}}, commandAgent{})
	first := p.pool.Register(chat.DefaultWorkspace, "worker", &commandWorker{commands: []chat.AgentCommand{{Name: "/old"}}}, 1, nil)
	second := p.pool.Register(chat.DefaultWorkspace, "worker", &commandWorker{commands: []chat.AgentCommand{{Name: "/new", Description: "counts", Input: "N"}}}, 1, nil)
	defer second.Leave()
	first.Leave()
	var got []chat.AgentCommand
	for _, info := range r.List(chat.DefaultWorkspace, nil) {
		got = append(got, info.Commands...)
	}
	if want := []chat.AgentCommand{{Name: "/own"}, {Name: "/configured"}, {Name: "/new", Description: "counts", Input: "N"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestStopReachesTheWorker(t *testing.T) {
	p := newPoolServer(t, time.Minute)
	h := p.join(1)
	p.say("hi")
	a := h.awaitTurn(t)
	if _, err := p.Stop(ctx, ann, "s", "", ""); err != nil {
		t.Fatal(err)
	}
	h.await(t, "the stop", func() bool { return len(h.stops) == 1 && h.stops[0] == a.Turn })
	if err := p.sayAs(h, a.Turn, chat.AgentText{Text: "as far as I came"}); err != nil {
		t.Fatal(err)
	}
	if err := h.reg.Finish(a.Turn, nil); err != nil {
		t.Fatal(err)
	}
	p.awaitEnd(chat.Stopped)
	p.wantLog("user hi", "turn.started", "turn.stop_requested", "says as far as I came", "ended stopped")
	// Nobody has it: then it ends at once.
	h.reg.Leave()
}

func TestWorkerGetsMessagesDuringATurn(t *testing.T) {
	for _, policy := range []chat.Policy{chat.Steer, chat.Queue} {
		p := newServer(t, nil)
		p.start(0)
		p.run()
		p.begin(chat.NewSession{Agent: "worker", Policy: policy})
		h := p.join(1)
		p.say("hi")
		a := h.awaitTurn(t)
		p.say("and this")
		if policy == chat.Steer {
			h.await(t, "the message", func() bool { return len(h.events) == 1 })
			if m := h.events[0].Body.(chat.UserMessage); m.Text != "and this" {
				t.Fatal(m)
			}
		}
		if err := h.reg.Finish(a.Turn, nil); err != nil {
			t.Fatal(err)
		}
		p.awaitEnd(chat.Done)
		if policy == chat.Steer {
			p.wantLog("user hi", "turn.started", "user and this", "took 1", "ended done")
			continue
		}
		h.await(t, "the next turn", func() bool { return len(h.given) == 2 })
		if len(h.events) != 0 {
			t.Fatal("a message that is answered later was handed to the running turn")
		}
	}
}

// Ending returns only when the end of the turn is stored.
func TestEndingWaitsForTheLog(t *testing.T) {
	p := newPoolServer(t, time.Minute)
	h := p.join(1)
	p.say("hi")
	a := h.awaitTurn(t)
	wait, err := h.reg.Ending(a.Turn)
	if err != nil {
		t.Fatal(err)
	}
	early, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := wait(early); err == nil {
		t.Fatal("a running turn was reported as ended")
	}
	if err := h.reg.Finish(a.Turn, nil); err != nil {
		t.Fatal(err)
	}
	if err := wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	facts, _, err := p.Read(ctx, ann, a.Session, chat.Range{})
	if err != nil {
		t.Fatal(err)
	}
	last, err := facts[len(facts)-1].Event()
	if _, ok := last.Body.(chat.TurnCompleted); err != nil || !ok {
		t.Fatalf("the log ends with %s, %v", last.Type, err)
	}
	if _, err := p.join(1).reg.Ending(a.Turn); chat.CodeOf(err) != chat.Conflict {
		t.Fatal(err)
	}
}

// Workers of one workspace get no turns of another.
func TestWorkersOfAnotherWorkspaceGetNothing(t *testing.T) {
	p := newPoolServer(t, time.Minute)
	stranger := &testWorker{moved: make(chan struct{})}
	stranger.reg = p.pool.Register("elsewhere", "worker", stranger, 4, nil)
	ours := p.join(1)
	if _, _, err := p.Create(ctx, ann, chat.NewSession{ID: "w", Agent: "worker"}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Append(ctx, ann, "w", []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "hi"})}); err != nil {
		t.Fatal(err)
	}
	turn := ours.awaitTurn(t)
	stranger.mu.Lock()
	defer stranger.mu.Unlock()
	if len(stranger.given) != 0 {
		t.Fatalf("the stranger was given %+v", stranger.given)
	}
	if _, err := stranger.reg.Holds(turn.Turn); chat.CodeOf(err) != chat.Conflict {
		t.Fatalf("the stranger holds the turn: %v", err)
	}
	if err := ours.reg.Finish(turn.Turn, nil); err != nil {
		t.Fatal(err)
	}
}
