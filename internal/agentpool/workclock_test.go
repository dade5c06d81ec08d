package agentpool_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

func TestChildThatIgnoresItsDeadlineTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		p := newServer(t, on{
			"":     launchAll("deaf"),
			"deaf": func(context.Context, *agent.Turn) error { <-free; return nil }, // ignores its context
		})
		p.opt.Logger = nil
		p.start(0)
		p.run()
		p.begin(chat.NewSession{})
		p.say("go")
		time.Sleep(301 * time.Second)
		synctest.Wait()
		if s := p.status("deaf"); s.State != chat.WorkTimeout {
			t.Fatalf("%+v", s)
		}
		if s := p.logText("s"); !strings.Contains(s, "says deaf timeout") {
			t.Fatal(s)
		}
		close(free)
		p.shutdown()
	})
}

func TestTerminatedChildHasAGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		p := newServer(t, on{
			"": launchAll("tidy", "deaf"),
			"tidy": func(ctx context.Context, turn *agent.Turn) error {
				<-ctx.Done()
				time.Sleep(30 * time.Second) // far more than a stop allows
				return turn.Say(context.WithoutCancel(ctx), "Tidied up.")
			},
			"deaf": func(context.Context, *agent.Turn) error { <-free; return nil },
		})
		p.start(0)
		p.run()
		p.begin(chat.NewSession{})
		p.say("go")
		time.Sleep(time.Second)
		for _, name := range []string{"tidy", "deaf"} {
			if _, err := p.TerminateWorkstream(ctx, ann, "s", name, chat.Steering{Text: "enough"}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if p.status("tidy").State != chat.WorkCanceled || p.status("deaf").State != chat.WorkCanceling || p.count("agent.text", "tidy") != 1 {
			t.Fatal(p.logText("s"))
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if p.status("deaf").State != chat.WorkCanceled || !strings.Contains(p.logText("s"), "says tidy canceled , deaf canceled") {
			t.Fatal(p.logText("s"))
		}
		close(free)
		p.shutdown()
	})
}

func TestPausedChildWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newServer(t, on{
			"": launchAll("w"),
			"w": func(ctx context.Context, t *agent.Turn) error {
				for i := range 10 {
					select {
					case <-time.After(time.Second):
					case <-ctx.Done():
						return context.Cause(ctx)
					}
					if err := t.Status(ctx, fmt.Sprint("step ", i), ""); err != nil {
						return err
					}
				}
				return nil
			},
		})
		p.start(0)
		p.run()
		p.begin(chat.NewSession{})
		p.say("go")
		steer := func(command string) {
			if _, err := p.SteerWorkstream(ctx, ann, "s", "w", chat.Steering{Command: command}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3500 * time.Millisecond)
		steer(chat.SteerPause)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if n := p.count("agent.status", "w"); n != 3 {
			t.Fatalf("%d steps while it was paused", n)
		}
		// It is still paused after a restart.
		p.restart(0)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if n := p.count("agent.status", "w"); n != 3 {
			t.Fatalf("%d steps after a restart", n)
		}
		steer(chat.SteerResume)
		time.Sleep(12 * time.Second)
		synctest.Wait()
		if s := p.status("w"); p.count("agent.status", "w") != 10 || s.State != chat.WorkCompleted {
			t.Fatalf("%+v\n%s", s, p.logText("s"))
		}
		p.shutdown()
	})
}

// A worker gets the directives of its workstream, and a stop when it ends.
func TestWorkerGetsDirectivesAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newServer(t, on{})
		p.start(0)
		p.run()
		p.begin(chat.NewSession{})
		h := &testWorker{moved: make(chan struct{})}
		h.reg = p.pool.Register(chat.DefaultWorkspace, "digger", h, 2, nil)
		if _, err := p.Launch(ctx, ann, "s", chat.Launch{ID: "dig", Instruction: "dig", Agent: "digger", DeadlineSeconds: 100}); err != nil {
			t.Fatal(err)
		}
		given := h.awaitTurn(t)
		if given.Workstream != "dig" || given.Launch == nil || given.Launch.Task != "dig" {
			t.Fatalf("%+v", given)
		}
		if _, err := p.SteerWorkstream(ctx, ann, "s", "dig", chat.Steering{Command: chat.SteerPause}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(81 * time.Second)
		synctest.Wait()
		h.mu.Lock()
		var commands []string
		for _, e := range h.events {
			commands = append(commands, e.Body.(chat.WorkstreamSteered).Command)
		}
		h.mu.Unlock()
		if !slices.Equal(commands, []string{chat.SteerPause, chat.SteerWrapUp}) {
			t.Fatal(commands)
		}
		// It reconnects and gets the same again.
		h.reg.Leave()
		again := &testWorker{moved: make(chan struct{})}
		again.reg = p.pool.Register(chat.DefaultWorkspace, "digger", again, 2, []chat.TurnID{given.Turn})
		if back := again.awaitTurn(t); !back.Paused || back.Attempt != 1 {
			t.Fatalf("%+v", back)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if p.status("dig").State != chat.WorkTimeout {
			t.Fatal(p.logText("s"))
		}
		again.mu.Lock()
		defer again.mu.Unlock()
		if len(again.events) != 2 || !slices.Equal(again.stops, []chat.TurnID{given.Turn}) {
			t.Fatal(again.events, again.stops)
		}
		if _, err := again.reg.Holds(given.Turn); chat.CodeOf(err) != chat.Conflict {
			t.Fatal("it still has the turn")
		}
	})
}
