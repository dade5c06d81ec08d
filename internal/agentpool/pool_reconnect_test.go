package agentpool_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-hq/parley/chat"
)

func TestReconnectedWorkerKeepsItsTurn(t *testing.T) {
	p := newPoolServer(t, time.Minute)
	h := p.join(1)
	p.say("hi")
	a := h.awaitTurn(t)
	if err := p.sayAs(h, a.Turn, chat.AgentInputRequest{RequestID: "r", InputType: chat.InputText, Text: "?"}); err != nil {
		t.Fatal(err)
	}
	h.reg.Leave()
	if _, err := h.reg.Holds(a.Turn); chat.CodeOf(err) != chat.Conflict {
		t.Fatal("a worker that left still has the turn", err)
	}
	other := p.join(1) // is not given what waits for another
	if _, err := p.Answer(ctx, ann, "s", "r", chat.Answer{Text: "yes"}); err != nil {
		t.Fatal(err)
	}
	// Two claim it at once; one gets it, in the same attempt, with what came in.
	back := []*testWorker{p.join(1, a.Turn), p.join(1, a.Turn)}
	if b := back[0].awaitTurn(t); b.Attempt != 1 || b.Turn != a.Turn {
		t.Fatalf("%+v", b)
	}
	back[0].await(t, "the answer", func() bool { return len(back[0].events) == 1 })
	if len(other.given)+len(back[1].given) != 0 {
		t.Fatal("it was given twice")
	}
	// Its connection breaks again, and the server notices only after it is back.
	back[0].reg.Leave()
	back[1].awaitTurn(t)
	if err := p.sayAs(back[1], a.Turn, chat.AgentText{Text: "done"}); err != nil {
		t.Fatal(err)
	}
	if err := back[1].reg.Finish(a.Turn, nil); err != nil {
		t.Fatal(err)
	}
	p.awaitEnd(chat.Done)
	p.wantLog("user hi", "turn.started", "agent.input_request", "answer yes", "says done", "ended done")
}

func TestAnotherWorkerTakesOver(t *testing.T) {
	p := newPoolServer(t, 50*time.Millisecond)
	h := p.join(1)
	p.say("hi")
	a := h.awaitTurn(t)
	if err := p.sayAs(h, a.Turn, chat.AgentStatus{Message: "begun"}); err != nil {
		t.Fatal(err)
	}
	ref, err := h.reg.Holds(a.Turn)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Preview(ctx, worker, "s", []chat.Preview{{Block: "b", Text: "so f", Turn: ref.Turn, Attempt: ref.Attempt}}); err != nil {
		t.Fatal(err)
	}
	other := p.join(1)
	h.reg.Leave()
	b := other.awaitTurn(t)
	if b.Attempt != 2 || len(b.Open) != 1 || b.Open[0].Text != "so f" || len(b.Events) < 2 {
		t.Fatalf("%+v", b)
	}
	// The first worker reconnects too late.
	d := chat.NewDraft(chat.AgentStatus{Message: "me too"})
	d.Turn, d.Attempt = a.Turn, 1
	if _, err := p.Append(ctx, worker, "s", []chat.Draft{d}); chat.CodeOf(err) != chat.Conflict {
		t.Fatal(err)
	}
	other.reg.Leave()
	end := p.awaitEnd(chat.Interrupted)
	if !strings.Contains(end.Error, "did not come back within 50ms") {
		t.Fatal(end.Error)
	}
	p.wantLog("user hi", "turn.started", "status begun", "said in part so f", "error interrupted", "ended interrupted "+end.Error)
}

// A worker that was killed and started again does not claim its turn. It gets the
// turn after the grace period, not after the lease.
func TestAnotherWorkerGetsTheTurnAfterTheGracePeriod(t *testing.T) {
	for name, joins := range map[string]time.Duration{"it is there": 0, "it joins within the grace": 4 * time.Second, "it joins later": 30 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPoolServerWithGrace(t, time.Minute, 5*time.Second)
				h := p.join(1)
				p.say("hi")
				a := h.awaitTurn(t)
				var other *testWorker
				if joins == 0 {
					other = p.join(1)
				}
				h.reg.Leave()
				left := time.Now()
				time.Sleep(joins)
				synctest.Wait()
				if joins > 0 {
					other = p.join(1)
				}
				b := other.awaitTurn(t)
				if took := time.Since(left); took != max(joins, 5*time.Second) || b.Turn != a.Turn || b.Attempt != 2 {
					t.Fatalf("after %s: %+v", took, b)
				}
				// The first worker reconnects and has lost the turn.
				if late := p.join(1, a.Turn); len(late.given) != 0 {
					t.Fatalf("two have it: %+v", late.given)
				}
				if err := other.reg.Finish(b.Turn, nil); err != nil {
					t.Fatal(err)
				}
				p.awaitEnd(chat.Done)
				p.shutdown()
			})
		})
	}
}

// A worker that was disconnected when its workstream was stopped, and reconnects
// within the grace period, gets the stop and can store its results.
func TestReconnectedWorkerGetsTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPoolServerWithGrace(t, time.Minute, 5*time.Second)
		if _, err := p.Launch(ctx, ann, "s", chat.Launch{ID: "w", Instruction: "work"}); err != nil {
			t.Fatal(err)
		}
		h := p.join(1)
		a := h.awaitTurn(t)
		h.reg.Leave()
		if _, err := p.TerminateWorkstream(ctx, ann, "s", "w", chat.Steering{Text: "enough"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		back := p.join(1, a.Turn)
		b := back.awaitTurn(t)
		back.await(t, "the stop", func() bool { return len(back.stops) == 1 && back.stops[0] == a.Turn })
		time.Sleep(30 * time.Second)
		if err := p.sayAs(back, b.Turn, chat.AgentText{Text: "saved"}); err != nil {
			t.Fatal(err)
		}
		if err := back.reg.Finish(b.Turn, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p.status("w").State != chat.WorkCanceled || p.count("agent.text", "w") != 1 {
			t.Fatal(p.logText("s"))
		}
		p.shutdown()
	})
}

// TestConcurrentReconnects is for the race detector: workers disconnect and
// reconnect while turns move between them.
func TestConcurrentReconnects(t *testing.T) {
	p := newPoolServer(t, time.Millisecond)
	p.join(1) // so that there is always one
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var held []chat.TurnID
			for range 50 {
				h := p.join(2, held...)
				h.mu.Lock()
				given := h.given
				h.mu.Unlock()
				held = nil
				for _, a := range given {
					held = append(held, a.Turn)
					_ = p.sayAs(h, a.Turn, chat.AgentStatus{Message: "here"})
					if len(given) > 1 {
						_ = h.reg.Finish(a.Turn, nil)
					}
				}
				h.reg.Leave()
			}
		})
	}
	for i := range 10 {
		id := chat.SessionID(fmt.Sprint("w", i))
		if _, _, err := p.Create(ctx, ann, chat.NewSession{ID: id, Agent: "worker"}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Append(ctx, ann, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "hi"})}); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			if _, err := p.Stop(ctx, ann, id, "", ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	wg.Wait()
}
