package main

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/parley-hq/parley/internal/sleep"
)

// sharedListener lets several HTTP servers listen on one address, one after the other. Connections that arrive when none of them
// runs wait for the next one.
type sharedListener struct {
	net.Listener
	conns chan net.Conn
	done  chan struct{}
}

// shareListener starts to accept connections.
func shareListener(l net.Listener) *sharedListener {
	s := &sharedListener{Listener: l, conns: make(chan net.Conn), done: make(chan struct{})}
	go func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // too many open files, for example
				_ = sleep.For(context.Background(), 20*time.Millisecond)
				continue
			}
			select {
			case s.conns <- c:
			case <-s.done:
				_ = c.Close()
			}
		}
	}()
	return s
}

// Close ends the listener.
func (s *sharedListener) Close() error {
	close(s.done)
	return s.Listener.Close()
}

// borrow returns a listener for one server. Closing it leaves the shared one open.
func (s *sharedListener) borrow() net.Listener {
	return &borrowedListener{shared: s, done: make(chan struct{})}
}

type borrowedListener struct {
	shared *sharedListener
	once   sync.Once
	done   chan struct{}
}

func (b *borrowedListener) Accept() (net.Conn, error) {
	select {
	case <-b.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-b.shared.conns:
		return c, nil
	case <-b.done:
	case <-b.shared.done:
	}
	return nil, net.ErrClosed
}

func (b *borrowedListener) Close() error {
	b.once.Do(func() { close(b.done) })
	return nil
}

func (b *borrowedListener) Addr() net.Addr { return b.shared.Addr() }
