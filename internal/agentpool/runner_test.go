package agentpool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

func TestOutcomes(t *testing.T) {
	tests := map[string]struct {
		agent   agent.Func
		outcome chat.Outcome
		cause   string
	}{
		"done":        {func(ctx context.Context, t *agent.Turn) error { return t.Say(ctx, "You said: "+t.Text()) }, chat.Done, ""},
		"fails":       {func(context.Context, *agent.Turn) error { return errors.New("no way") }, chat.Failed, "no way"},
		"panics":      {func(context.Context, *agent.Turn) error { panic("ouch") }, chat.Failed, "the agent panicked: ouch"},
		"interrupted": {func(context.Context, *agent.Turn) error { return agent.ErrInterrupted }, chat.Interrupted, "the agent cannot continue"},
		"long cause":  {func(context.Context, *agent.Turn) error { return errors.New(strings.Repeat("x", 1<<20)) }, chat.Failed, strings.Repeat("x", 16<<10) + "…"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := newServer(t, tt.agent)
			p.startTurn()
			if end := p.awaitEnd(tt.outcome); end.Error != tt.cause {
				t.Fatalf("cause %.100q", end.Error)
			}
			if n := p.runner.Running(); len(n) != 0 {
				t.Fatal(n)
			}
		})
	}
}

func TestStopping(t *testing.T) {
	for name, a := range map[string]agent.Func{
		"obeys":  func(ctx context.Context, _ *agent.Turn) error { <-ctx.Done(); return ctx.Err() },
		"writes": func(ctx context.Context, t *agent.Turn) error { return forever(ctx, t) },
		"asks": func(ctx context.Context, t *agent.Turn) error {
			_, err := t.Ask(ctx, chat.AgentInputRequest{InputType: chat.InputText, Text: "?"})
			return err
		},
		"calls": func(ctx context.Context, t *agent.Turn) error {
			_, err := t.Call(ctx, "slow", nil, agent.CallOptions{}, func(ctx context.Context) (json.RawMessage, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newServer(t, a)
			p.startTurn()
			if name == "asks" {
				p.awaitType("agent.input_request")
			}
			if res, err := p.Stop(ctx, ann, "s", "", "enough"); err != nil || !res.Stopped {
				t.Fatal(res, err)
			}
			p.awaitEnd(chat.Stopped)
			if st, _ := p.State(ctx, ann, "s"); len(st.Prompts) != 0 {
				t.Fatal("a prompt is left")
			}
		})
	}
}

func forever(ctx context.Context, t *agent.Turn) error {
	w := t.Stream(true)
	for {
		if err := w.Write(ctx, "on "); err != nil {
			return err
		}
	}
}

func TestAgentThatIgnoresAStop(t *testing.T) {
	release, late := make(chan struct{}), make(chan error, 1)
	p := newServer(t, agent.Func(func(ctx context.Context, t *agent.Turn) error {
		<-release
		late <- t.Say(context.Background(), "too late")
		return nil
	}))
	p.opt.StopGrace = 20 * time.Millisecond
	p.startTurn()
	if _, err := p.Stop(ctx, ann, "s", "", ""); err != nil {
		t.Fatal(err)
	}
	p.awaitEnd(chat.Stopped)
	close(release)
	if err := <-late; chat.CodeOf(err) != chat.Conflict {
		t.Fatal("what it says later is taken", err)
	}
}

// A stopped agent has time to store its last events; the turn ends after them.
func TestStoppedAgentStoresItsLastEvents(t *testing.T) {
	stopping, last := make(chan struct{}), make(chan struct{})
	p := newServer(t, agent.Func(func(ctx context.Context, t *agent.Turn) error {
		<-ctx.Done()
		close(stopping)
		<-last
		return t.Say(context.WithoutCancel(ctx), "as far as I came")
	}))
	p.opt.StopGrace = time.Minute
	p.startTurn()
	if _, err := p.Stop(ctx, ann, "s", "", ""); err != nil {
		t.Fatal(err)
	}
	<-stopping
	close(last)
	p.awaitEnd(chat.Stopped)
	if s := p.logText("s"); !strings.Contains(s, "says as far as I came\nended stopped") {
		t.Error(s)
	}
}

// A turn that has ended in the log, for example by a deadline, is not waited for:
// an agent that ignores its end delays nothing, not even the shutdown.
func TestTurnEndedInTheLogIsNotWaitedFor(t *testing.T) {
	begun, release := make(chan chat.TurnRef, 1), make(chan struct{})
	p := newServer(t, agent.Func(func(_ context.Context, t *agent.Turn) error {
		begun <- t.Ref()
		<-release
		return nil
	}))
	p.opt.StopGrace = time.Hour
	p.startTurn()
	if err := p.EndTurn(ctx, <-begun, chat.Failed, "out of time"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.shutdown()
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the server waits for an agent whose turn is over")
	}
	close(release)
	<-ended
}

// A kill after any write gives the same log, and no tool with a result runs again.
func TestKillAtEveryWrite(t *testing.T) {
	var runs atomic.Int64
	script := agent.Func(func(ctx context.Context, t *agent.Turn) error {
		think := t.Think()
		for _, w := range []string{"Let ", "me ", "see."} {
			if err := think.Write(ctx, w); err != nil {
				return err
			}
		}
		if err := think.Close(ctx); err != nil {
			return err
		}
		if _, err := t.Call(ctx, "count", json.RawMessage(`{}`), agent.CallOptions{Repeatable: true}, func(context.Context) (json.RawMessage, error) {
			runs.Add(1)
			return json.RawMessage("1"), nil
		}); err != nil {
			return err
		}
		if _, err := t.Call(ctx, "break", nil, agent.CallOptions{Repeatable: true}, func(context.Context) (json.RawMessage, error) {
			return nil, errors.New("broken")
		}); err == nil || err.Error() != "broken" {
			return fmt.Errorf("the tool gave %w", err)
		}
		answer, err := t.Ask(ctx, chat.AgentInputRequest{InputType: chat.InputText, Text: "?"})
		if err != nil {
			return err
		}
		text := t.Stream(true)
		for _, w := range []string{"You ", "said ", answer.Text} {
			if err := text.Write(ctx, w); err != nil {
				return err
			}
		}
		return text.Close(ctx)
	})
	for writes := int64(3); writes < 30; writes++ {
		runs.Store(0)
		p := newServer(t, script)
		p.start(writes)
		p.run()
		p.begin(chat.NewSession{})
		p.say("hi")
		request, ended := "", false
		for !ended {
			alive := p.awaitOrDeath("a prompt or the end", func(evs []chat.Event) bool {
				request, ended = "", false
				for _, e := range evs {
					switch b := e.Body.(type) {
					case chat.AgentInputRequest:
						request = b.RequestID
					case chat.UserInputResponse:
						request = ""
					case chat.TurnCompleted:
						ended = true
					}
				}
				return request != "" || ended
			})
			if alive && !ended {
				_, err := p.Answer(ctx, ann, "s", request, chat.Answer{Text: "so."})
				alive = err == nil
			}
			if !alive {
				p.restart(0)
			}
		}
		p.wantLog("user hi", "turn.started", "thinks Let me see.", "calls count", "got 1", "calls break", "tool error broken ",
			"agent.input_request", "answer so.", "says You said so.", "ended done")
		if n := runs.Load(); n > 2 || n == 2 && writes > 9 {
			t.Fatalf("killed after %d writes: the tool ran %d times", writes, n)
		}
		p.kill()
	}
}
