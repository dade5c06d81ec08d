package x1

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/internal/bus"
)

// reconnecting returns a client of a server, and what happens to its connection.
func (w *testServer) reconnecting() (c *nats.Conn, connected, lost chan struct{}) {
	w.t.Helper()
	connected, lost = make(chan struct{}, 64), make(chan struct{}, 64)
	c, err := nats.Connect(w.url, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.Timeout(30*time.Second),
		nats.ConnectHandler(func(*nats.Conn) { connected <- struct{}{} }), nats.ReconnectHandler(func(*nats.Conn) { connected <- struct{}{} }),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { lost <- struct{}{} }),
		nats.ClosedHandler(func(c *nats.Conn) {
			if err := c.LastError(); errors.Is(err, nats.ErrAuthorization) {
				w.t.Errorf("the client has given up: %v", err)
			}
		}))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c, connected, lost
}

func (w *testServer) wait(what string, c chan struct{}) {
	w.t.Helper()
	select {
	case <-c:
	case <-time.After(testTimeout):
		w.t.Fatalf("not in time: %s", what)
	}
}

func TestClientsOfANodeThatIsBehindFindAnotherOne(t *testing.T) {
	var behind atomic.Bool
	w := newServer(t, options{change: func(o *Options) { o.Behind = behind.Load }})
	c, connected, lost := w.reconnecting()
	w.wait("the client connects", connected)
	behind.Store(true)
	w.wait("the client is disconnected", lost)
	if w.dialect.Login(t.Context(), bus.Login{}).OK {
		t.Fatal("a client may connect to a node that is behind")
	}
	behind.Store(false)
	w.wait("the client connects when the node is up to date again", connected)
	if _, err := c.Request(Subject("nothing", History), nil, testTimeout); err != nil {
		t.Fatal(err)
	}
}

func TestClientsAreNotConnectedToAServerThatDoesNotReceive(t *testing.T) {
	w := newServer(t, options{notStarted: true})
	noTime, cancel := context.WithCancel(t.Context())
	cancel()
	if w.dialect.Login(noTime, bus.Login{}).OK {
		t.Fatal("a client may connect before its messages are received")
	}
	w.start()
	_, connected, lost := w.reconnecting()
	w.wait("the client connects", connected)
	w.stopDialect()
	w.wait("the client is disconnected", lost)
	if w.dialect.Login(t.Context(), bus.Login{}).OK {
		t.Fatal("a client is connected to a server that does not receive its messages")
	}
}
