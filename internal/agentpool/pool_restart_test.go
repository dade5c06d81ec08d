package agentpool_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-hq/parley/chat"
)

// After a start of the server workers reconnect one by one: none gets a turn that another has and claims later.
func TestARestartKeepsTurnsForTheirWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPoolServerWithGrace(t, time.Minute, 5*time.Second)
		h := p.join(1)
		p.say("hi")
		a := h.awaitTurn(t)
		p.restart(0)
		time.Sleep(20 * time.Second)
		other := p.join(1)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		back := p.join(1, a.Turn)
		b := back.awaitTurn(t)
		if b.Turn != a.Turn || b.Attempt != 2 || len(other.given) != 0 {
			t.Fatalf("%+v, and the other was given %+v", b, other.given)
		}
		if err := back.reg.Finish(b.Turn, nil); err != nil {
			t.Fatal(err)
		}
		p.awaitEnd(chat.Done)
		p.shutdown()
	})
}

func TestWorkerKeepsItsTurnOverARestart(t *testing.T) {
	p := newPoolServer(t, time.Minute)
	h := p.join(1)
	p.say("hi")
	a := h.awaitTurn(t)
	p.restart(0)
	back := p.join(1, a.Turn) // before or after the turn is found again
	b := back.awaitTurn(t)
	if b.Turn != a.Turn || b.Attempt != 2 {
		t.Fatalf("%+v", b)
	}
	if err := back.reg.Finish(b.Turn, nil); err != nil {
		t.Fatal(err)
	}
	p.awaitEnd(chat.Done)
}

// A turn whose worker does not reconnect after a start of the server goes to a connected one after the grace period, not
// after the lease.
func TestIdleWorkerGetsTheTurnAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPoolServerWithGrace(t, time.Minute, 5*time.Second)
		h := p.join(1)
		p.say("hi")
		a := h.awaitTurn(t)
		p.restart(0)
		time.Sleep(20 * time.Second)
		idle := p.join(1)
		joined := time.Now()
		b := idle.awaitTurn(t)
		if took := time.Since(joined); b.Turn != a.Turn || took != 5*time.Second {
			t.Fatalf("after %s: %+v", took, b)
		}
		if err := idle.reg.Finish(b.Turn, nil); err != nil {
			t.Fatal(err)
		}
		p.awaitEnd(chat.Done)
		p.shutdown()
	})
}

// Crashes of the server do not count against a turn that a worker answers, whether the worker reconnects or another one
// gets the turn.
func TestServerCrashesDoNotFailAWorkersTurn(t *testing.T) {
	for _, back := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := newPoolServerWithGrace(t, time.Minute, 5*time.Second)
			h := p.join(1)
			p.say("hi")
			a := h.awaitTurn(t)
			for range 4 {
				p.restart(0)
				if back {
					h = p.join(1, a.Turn)
				} else {
					h = p.join(1)
				}
				if b := h.awaitTurn(t); b.Turn != a.Turn {
					t.Fatalf("%+v", b)
				}
			}
			if err := h.reg.Finish(a.Turn, nil); err != nil {
				t.Fatal(err)
			}
			p.awaitEnd(chat.Done)
			p.shutdown()
		})
	}
}
