package wire

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// ErrShutdown is the cause of a connection's context when the server shuts down: send
// a last message and return. [ServeSSE] and [ServeWS] return it when they are called
// after that.
var ErrShutdown = errors.New("the server is shutting down")

// ErrPeerGone is the cause of a connection's context when the other side has
// closed it or cannot be reached.
var ErrPeerGone = errors.New("the peer has gone")

// ErrClosed is returned by writes after the connection was closed on this side.
var ErrClosed = errors.New("the connection is closed")

// killWait is how long Shutdown waits for functions whose connection it has closed.
const killWait = 2 * time.Second

// Conns is the set of open streams and connections, so that a server can end them:
// net/http does not track a connection that was taken over. The zero value is ready.
// All methods may be called at any time.
type Conns struct {
	// Panicked is called after a panic in a function given to ServeSSE or ServeWS; the
	// panic ends that connection only. Set it before the first use; nil means that a
	// panic ends the process.
	Panicked func(v any, stack []byte)

	mu      sync.Mutex
	live    map[openConn]struct{}
	closing chan struct{} // made on demand, closed by Shutdown
	closed  bool
	empty   chan struct{} // made by Shutdown, closed when the last one has ended

	poller poller
}

// openConn is one open connection.
type openConn interface {
	stop(cause error) // ends its context
	kill()            // closes the connection
}

func (c *Conns) add(m openConn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrShutdown
	}
	if c.live == nil {
		c.live = make(map[openConn]struct{})
	}
	c.live[m] = struct{}{}
	return nil
}

func (c *Conns) remove(m openConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.live, m)
	if len(c.live) == 0 && c.empty != nil {
		close(c.empty)
		c.empty = nil
	}
}

// Len is the number of open connections.
func (c *Conns) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.live)
}

// Closing is closed when Shutdown begins, for handlers that wait for something
// without a connection of their own here (long polls).
func (c *Conns) Closing() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closingLocked()
}

func (c *Conns) closingLocked() chan struct{} {
	if c.closing == nil {
		c.closing = make(chan struct{})
	}
	return c.closing
}

// Shutdown refuses new connections, cancels the context of every open one with
// the cause [ErrShutdown], and waits until all have ended. When ctx ends before
// that, it closes the rest by force and waits up to killWait; the error then contains
// how many were closed.
func (c *Conns) Shutdown(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.closingLocked())
	}
	if len(c.live) == 0 {
		c.mu.Unlock()
		return nil
	}
	if c.empty == nil {
		c.empty = make(chan struct{})
	}
	empty := c.empty
	c.mu.Unlock()

	for _, m := range c.all() {
		m.stop(ErrShutdown)
	}
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
	}
	rest := c.all()
	for _, m := range rest {
		m.kill()
	}
	late := time.NewTimer(killWait)
	defer late.Stop()
	select {
	case <-empty:
		return fmt.Errorf("%d connections were closed by force: they had not ended in time", len(rest))
	case <-late.C:
		return fmt.Errorf("%d connections were closed by force and the functions of %d still run", len(rest), c.Len())
	}
}

func (c *Conns) all() []openConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]openConn, 0, len(c.live))
	for m := range c.live {
		all = append(all, m)
	}
	return all
}

var errPanicked = errors.New("the function of this connection panicked")

// Guard runs fn and turns a panic into an error when Panicked is set.
func (c *Conns) Guard(fn func() error) (err error) {
	if c.Panicked != nil {
		defer func() {
			if v := recover(); v != nil {
				c.Panicked(v, debug.Stack())
				err = errPanicked
			}
		}()
	}
	return fn()
}
