package agentpool_test

import (
	"slices"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

// A worker that repeats the report of a turn's end gets the same reply.
func TestRepeatedEndReportIsAcknowledged(t *testing.T) {
	p := newPoolServer(t, time.Minute)
	h := p.join(1)
	p.say("hi")
	turn := h.awaitTurn(t).Turn
	for range 2 {
		wait, err := h.reg.Ending(turn)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.reg.Finish(turn, nil); err != nil {
			t.Fatal(err)
		}
		if err := wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p.awaitEnd(chat.Done)
}

// A worker that missed the acknowledgement of its report learns of the end when it
// reconnects, and may repeat the report.
func TestReconnectedWorkerLearnsOfEndedTurns(t *testing.T) {
	for name, interrupt := range map[string]func(p *testServer, h *testWorker){
		"connection": func(_ *testServer, h *testWorker) { h.reg.Leave() },
		"server":     func(p *testServer, _ *testWorker) { p.kill(); p.restart(0) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPoolServer(t, time.Minute)
			h := p.join(1)
			p.say("hi")
			turn := h.awaitTurn(t).Turn
			if err := h.reg.Finish(turn, nil); err != nil {
				t.Fatal(err)
			}
			p.awaitEnd(chat.Done)
			interrupt(p, h)

			back := p.join(1, turn)
			back.await(t, "the word that its turn has ended", func() bool { return slices.Contains(back.ended, turn) })
			wait, err := back.reg.Ending(turn)
			if err != nil {
				t.Fatal(err)
			}
			if err := wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := back.reg.Finish(turn, nil); err != nil {
				t.Fatal(err)
			}
			p.say("again") // the slot is free
			back.await(t, "the next turn", func() bool { return len(back.given) == 1 })
			if err := p.join(1).reg.Finish(turn, nil); chat.CodeOf(err) != chat.Conflict {
				t.Fatalf("a worker that did not have the turn: %v", err)
			}
		})
	}
}

// A running turn is not reported as ended, whichever connection has it.
func TestRunningTurnIsNotReportedAsEnded(t *testing.T) {
	p := newPoolServer(t, time.Minute)
	h := p.join(1)
	p.say("hi")
	turn := h.awaitTurn(t).Turn
	back := p.join(1, turn) // the broken connection is not given up yet
	if _, err := back.reg.Ending(turn); chat.CodeOf(err) != chat.Conflict {
		t.Fatal(err)
	}
	h.reg.Leave()
	back.awaitTurn(t)
	if err := back.reg.Finish(turn, nil); err != nil {
		t.Fatal(err)
	}
	p.awaitEnd(chat.Done)
	back.mu.Lock()
	defer back.mu.Unlock()
	if len(back.ended) > 0 {
		t.Fatalf("the worker got the end of %v, which it ended itself", back.ended)
	}
}
