package agentpool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// on has one agent per workstream; "" is the main line.
type on map[string]func(ctx context.Context, t *agent.Turn) error

func (o on) Answer(ctx context.Context, t *agent.Turn) error {
	if f, ok := o[t.Workstream]; ok {
		return f(ctx, t)
	}
	return t.Say(ctx, "Did "+t.Text()+".")
}

// count counts the events of a type, about a workstream if one is named.
func (p *testServer) count(typ, about string) int {
	facts, _, err := p.journal.Read(ctx, "s", chat.Range{Types: []string{typ}})
	if err != nil {
		p.t.Fatal(err)
	}
	n := 0
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			p.t.Fatal(err)
		}
		if about == "" || strings.Contains(string(e.Payload), `"id":"`+about+`"`) || e.Workstream == about {
			n++
		}
	}
	return n
}

func (p *testServer) status(name string) chat.WorkstreamStatus {
	p.t.Helper()
	s, err := p.Workstream(ctx, ann, "s", name)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// awaitMainEnd waits until so many turns of the main line have ended.
func (p *testServer) awaitMainEnd(n int) {
	p.t.Helper()
	p.await("the end of the main line", func(evs []chat.Event) bool {
		ends := 0
		for _, e := range evs {
			if e.Type == "turn.completed" && e.Workstream == "" {
				ends++
			}
		}
		return ends >= n
	})
}

// launchAll launches workstreams, waits for them and writes their results.
func launchAll(names ...string) func(ctx context.Context, t *agent.Turn) error {
	return func(ctx context.Context, t *agent.Turn) error {
		for _, name := range names {
			if _, err := t.Launch(ctx, chat.Launch{ID: name, Instruction: name}); err != nil {
				return err
			}
		}
		all, err := t.Await(ctx, names...)
		if err != nil {
			return err
		}
		var out []string
		for _, w := range all {
			out = append(out, w.ID+" "+w.State+" "+w.Summary+w.Error)
		}
		return t.Say(ctx, strings.Join(out, ", "))
	}
}

func TestATurnLaunchesAndAwaits(t *testing.T) {
	p := newServer(t, on{
		"":    launchAll("a", "bad"),
		"bad": func(context.Context, *agent.Turn) error { return errors.New("no luck") },
	})
	p.start(0)
	p.run()
	p.begin(chat.NewSession{})
	p.say("go")
	p.awaitMainEnd(1)
	if s := p.logText("s"); !strings.Contains(s, "says a completed Did a., bad failed no luck") {
		t.Fatal(s)
	}
	if p.count("turn.started", "") != 3 {
		t.Fatalf("a result that was taken begins no turn:\n%s", p.logText("s"))
	}
}

// endsDespiteAKill starts a process that is killed after some writes, and restarts it. It returns when the turn of the main line
// has ended; whole reports that this took fewer writes.
func (p *testServer) endsDespiteAKill(writes int64) (whole bool) {
	p.t.Helper()
	p.start(writes)
	p.run()
	p.begin(chat.NewSession{})
	p.say("go")
	ended := func(evs []chat.Event) bool {
		return slices.ContainsFunc(evs, func(e chat.Event) bool { return e.Type == "turn.completed" && e.Workstream == "" })
	}
	if whole = p.awaitOrDeath("the end", ended); !whole {
		p.restart(0)
		p.await("the end", ended)
	}
	return whole
}

// After a kill at any write, every workstream is launched, answered and reported
// once.
func TestWorkstreamsSurviveAKillAtEveryWrite(t *testing.T) {
	for writes := int64(3); ; writes++ {
		p := newServer(t, on{"": launchAll("a", "b", "c")})
		whole := p.endsDespiteAKill(writes)
		if s := p.logText("s"); strings.Count(s, "says a completed Did a., b completed Did b., c completed Did c.") != 1 {
			t.Fatalf("cut after %d writes:\n%s", writes, s)
		}
		for _, name := range []string{"a", "b", "c"} {
			for _, typ := range []string{"workstream.launched", "workstream.completed"} {
				if n := p.count(typ, name); n != 1 {
					t.Fatalf("cut after %d writes: %d times %s of %s\n%s", writes, n, typ, name, p.logText("s"))
				}
			}
			if n := p.count("agent.text", name); n != 1 {
				t.Fatalf("cut after %d writes: %s says it %d times\n%s", writes, name, n, p.logText("s"))
			}
		}
		p.kill()
		if whole {
			return
		}
	}
}

func TestWorkstreamCallsWithinAToolKeepTheirOrder(t *testing.T) {
	a := on{"": func(ctx context.Context, t *agent.Turn) error {
		for _, name := range []string{"x", "y"} {
			_, err := t.Call(ctx, "launch_workstream", json.RawMessage(`{}`), agent.CallOptions{Repeatable: true}, func(ctx context.Context) (json.RawMessage, error) {
				w, err := t.Launch(ctx, chat.Launch{ID: name, Instruction: name, Interactive: true})
				if err != nil {
					return nil, err
				}
				if _, err := t.Await(ctx, name); err != nil {
					return nil, err
				}
				if _, err = t.Message(ctx, name, "more"); err != nil {
					return nil, err
				}
				return json.Marshal(w.ID)
			})
			if err != nil {
				return err
			}
		}
		if _, err := t.Await(ctx, "x", "y"); err != nil {
			return err
		}
		for _, name := range []string{"x", "y"} {
			if _, err := t.Terminate(ctx, name, "enough"); err != nil {
				return err
			}
		}
		return t.Say(ctx, "Ready.")
	}}
	for writes := int64(3); ; writes++ {
		p := newServer(t, a)
		whole := p.endsDespiteAKill(writes)
		for _, name := range []string{"x", "y"} {
			if n := p.count("workstream.message", name); n != 1 || p.count("workstream.launched", name) != 1 || p.status(name).State != chat.WorkCanceled {
				t.Fatalf("cut after %d writes: %d messages to %s\n%s", writes, n, name, p.logText("s"))
			}
		}
		p.kill()
		if whole {
			return
		}
	}
}

func TestRunningTurnGetsWorkstreamEvents(t *testing.T) {
	received := make(chan []string, 10)
	ready := make(chan struct{})
	p := newServer(t, on{"w": func(ctx context.Context, t *agent.Turn) error {
		close(ready)
		var got []string
		for len(got) < 2 {
			news, err := t.NewEvents(ctx)
			if err != nil {
				return err
			}
			for _, e := range news {
				got = append(got, e.Type)
			}
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		launch, ok := t.Assignment()
		if !ok || launch.Task != "listen" || !slices.Equal(launch.Tools, []string{"+grep"}) {
			return fmt.Errorf("the assignment is %+v", launch)
		}
		received <- got
		return nil
	}})
	p.start(0)
	p.run()
	p.begin(chat.NewSession{})
	if _, err := p.Launch(ctx, ann, "s", chat.Launch{ID: "w", Instruction: "listen", AllowedTools: []string{"+grep"}}); err != nil {
		t.Fatal(err)
	}
	<-ready
	if _, err := p.SteerWorkstream(ctx, ann, "s", "w", chat.Steering{Command: chat.SteerAdd, Text: "quietly"}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.MessageWorkstream(ctx, ann, "s", "w", chat.Steering{Text: "hello"}); err != nil {
		t.Fatal(err)
	}
	if got := <-received; !slices.Equal(got, []string{"workstream.steered", "workstream.message"}) {
		t.Fatal(got)
	}
	p.awaitMainEnd(1) // the result woke the main line
	if s := p.logText("s"); !strings.Contains(s, "says Did Workstream w completed") {
		t.Fatal(s)
	}
}

func TestAHundredChildren(t *testing.T) {
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("w%d", i))
	}
	var left atomic.Int64
	left.Store(int64(len(names)))
	all := make(chan struct{})
	p := newServer(t, agent.Func(func(ctx context.Context, turn *agent.Turn) error {
		if turn.Workstream == "" {
			return launchAll(names...)(ctx, turn)
		}
		// More write at once than can be shown at once.
		w := turn.Stream(true)
		if err := w.Write(ctx, "text of "); err != nil {
			return err
		}
		if left.Add(-1) == 0 {
			close(all)
		}
		select {
		case <-all:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := w.Write(ctx, turn.Text()); err != nil {
			return err
		}
		return w.Close(ctx)
	}))
	p.start(0)
	p.run()
	p.begin(chat.NewSession{})
	p.say("go")
	p.awaitMainEnd(1)
	for _, name := range names {
		if s := p.status(name); s.State != chat.WorkCompleted || s.Summary != "text of "+name {
			t.Fatalf("%+v", s)
		}
	}
}

// Events that Await has returned are not delivered again in a later attempt.
func TestAwaitedNewsIsNotDeliveredAgain(t *testing.T) {
	got := make(chan int, 10)
	hold := make(chan struct{})
	p := newServer(t, on{"": func(ctx context.Context, t *agent.Turn) error {
		if err := launchAll("a")(ctx, t); err != nil {
			return err
		}
		news, err := t.NewEvents(ctx)
		if err != nil {
			return err
		}
		got <- len(news)
		if err := t.Status(ctx, "here", ""); err != nil {
			return err
		}
		select {
		case <-hold:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}})
	p.start(0)
	p.run()
	p.begin(chat.NewSession{})
	p.say("go")
	p.awaitType("agent.status")
	p.restart(0)
	first, second := <-got, <-got
	close(hold)
	p.awaitMainEnd(1)
	if first != 0 || second != 0 {
		t.Fatalf("%d and %d things are news", first, second)
	}
}

// Await returns when an interactive child is stopped.
func TestAwaitEndsWhenAnInteractiveChildIsStopped(t *testing.T) {
	p := newServer(t, on{
		"": func(ctx context.Context, t *agent.Turn) error {
			if _, err := t.Launch(ctx, chat.Launch{ID: "talk", Instruction: "listen", Interactive: true}); err != nil {
				return err
			}
			all, err := t.Await(ctx, "talk")
			if err != nil {
				return err
			}
			return t.Say(ctx, "talk: "+all[0].Message)
		},
		"talk": func(ctx context.Context, t *agent.Turn) error {
			if err := t.Say(ctx, "I listen."); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		},
	})
	p.start(0)
	p.run()
	p.begin(chat.NewSession{})
	p.say("go")
	p.await("the child's word", func(evs []chat.Event) bool {
		return slices.ContainsFunc(evs, func(e chat.Event) bool { return e.Type == "agent.text" && e.Workstream == "talk" })
	})
	if _, err := p.Stop(ctx, ann, "s", "talk", "enough"); err != nil {
		t.Fatal(err)
	}
	p.awaitMainEnd(1)
	if s := p.logText("s"); !strings.Contains(s, "says talk: It was stopped.") || p.count("turn.started", "") != 2 {
		t.Fatal(s)
	}
}
