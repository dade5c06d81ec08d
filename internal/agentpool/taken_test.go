package agentpool_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// When an agent in the process gets the name, for example by a reload of the
// configuration, it gets the turns that no worker has. A worker keeps its turns.
func TestAgentInTheProcessGetsWaitingTurns(t *testing.T) {
	take := func(p *testServer) {
		p.names.Add(agent.Info{Name: "worker", Kind: "model"}, agent.Func(func(ctx context.Context, turn *agent.Turn) error {
			return turn.Say(ctx, fmt.Sprint("mine, attempt ", turn.Ref().Attempt))
		}))
	}
	t.Run("no worker", func(t *testing.T) {
		p := newPoolServer(t, time.Hour)
		p.say("hi")
		p.await("a turn that waits", func(evs []chat.Event) bool { return evs[len(evs)-1].Type == "agent.status" })
		take(p)
		p.awaitEnd(chat.Done)
		p.wantLog("user hi", "turn.started", "status Waiting for a worker of agent worker to connect.", "says mine, attempt 1", "ended done")
	})
	t.Run("the worker is gone", func(t *testing.T) {
		p := newPoolServer(t, time.Hour)
		h := p.join(1)
		p.say("hi")
		if err := p.sayAs(h, h.awaitTurn(t).Turn, chat.AgentStatus{Message: "begun"}); err != nil {
			t.Fatal(err)
		}
		h.reg.Leave()
		take(p)
		p.awaitEnd(chat.Done)
		p.wantLog("user hi", "turn.started", "status begun", "says mine, attempt 2", "ended done")
	})
	t.Run("a worker has it", func(t *testing.T) {
		p := newPoolServer(t, time.Hour)
		h := p.join(1)
		p.say("hi")
		turn := h.awaitTurn(t).Turn
		take(p)
		if err := p.sayAs(h, turn, chat.AgentText{Text: "still here"}); err != nil {
			t.Fatal(err)
		}
		if err := h.reg.Finish(turn, nil); err != nil {
			t.Fatal(err)
		}
		p.awaitEnd(chat.Done)
		p.wantLog("user hi", "turn.started", "says still here", "ended done")
	})
}
