package sidecar

import (
	"context"
	"sync"
)

// gate holds back what is for the agent while it is not known which process the
// agent is: from the end of its stream until it has repeated, on a new one, what
// it had to. It begins shut.
type gate struct {
	mu    sync.Mutex
	ended int           // how many connections ended
	open  chan struct{} // closed while the gate is open
	is    bool          // whether it is
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

// shut says that a connection ended.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended++
	if g.is {
		g.open, g.is = make(chan struct{}), false
	}
}

// pass opens the gate for the connection that came after so many; if that one has
// ended meanwhile it stays shut.
func (g *gate) pass(after int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if after == g.ended && !g.is {
		close(g.open)
		g.is = true
	}
}

// wait returns when the gate is open, and false when ctx ended first; waited tells
// that it was shut.
func (g *gate) wait(ctx context.Context) (waited, ok bool) {
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
