package agentpool_test

import (
	"testing"
	"testing/synctest"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/internal/agentpool"
)

// closingAgent says when it is closed.
type closingAgent struct {
	agent.Agent
	closed bool
}

func (a *closingAgent) Close() { a.closed = true }

// An agent that is replaced or removed while it is used is closed after that.
func TestReplacedAgentIsClosedAfterItsLastUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := agentpool.NewRegistry(agentpool.NewPool(agentpool.PoolOptions{}))
		old, next, unused := &closingAgent{}, &closingAgent{}, &closingAgent{}
		r.Add(agent.Info{Name: "a"}, old)
		proceed := make(chan struct{})
		used := make(chan bool)
		go func() { used <- r.Use("a", func(agent.Agent) { <-proceed }) }()
		synctest.Wait()
		r.Add(agent.Info{Name: "a"}, next)
		r.Discard(unused)
		synctest.Wait()
		if old.closed || next.closed || !unused.closed || !r.Builtin("a") {
			t.Errorf("closed: old %v, next %v, unused %v", old.closed, next.closed, unused.closed)
		}
		close(proceed)
		if !<-used {
			t.Error("it was not used")
		}
		synctest.Wait()
		if !old.closed || next.closed {
			t.Errorf("afterwards closed: old %v, next %v", old.closed, next.closed)
		}
		r.Use("a", func(agent.Agent) {
			r.Remove("a")
			synctest.Wait()
			if next.closed || r.Builtin("a") {
				t.Error("it was closed while it was used")
			}
		})
		r.Close()
		if !next.closed || r.Use("a", nil) {
			t.Error("it was not closed")
		}
	})
}
