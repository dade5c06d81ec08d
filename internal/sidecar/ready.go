package sidecar

import (
	"context"
	"sync"
)

// agentReady records whether inputs may be delivered. They wait while it is unknown which
// process the agent is: from the end of its stream until it has repeated its buffer on a
// new connection.
type agentReady struct {
	mu    sync.Mutex
	ended int           // how many connections ended
	open  chan struct{} // closed while inputs may be delivered
	is    bool          // whether it is closed
}

func newAgentReady() *agentReady { return &agentReady{open: make(chan struct{})} }

// reset is called when a connection ended.
func (g *agentReady) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended++
	if g.is {
		g.open, g.is = make(chan struct{}), false
	}
}

// set allows delivery on the connection that came after so many others; if that one has
// ended meanwhile nothing changes.
func (g *agentReady) set(after int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if after == g.ended && !g.is {
		close(g.open)
		g.is = true
	}
}

// wait returns when inputs may be delivered, and false when ctx ends first; waited says
// that it had to wait.
func (g *agentReady) wait(ctx context.Context) (waited, ok bool) {
	g.mu.Lock()
	open, is := g.open, g.is
	g.mu.Unlock()
	if is {
		return false, ctx.Err() == nil
	}
	select {
	case <-open:
		return true, true
	case <-ctx.Done():
		return true, false
	}
}
