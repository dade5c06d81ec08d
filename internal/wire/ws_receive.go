package wire

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/gobwas/ws"

	"github.com/parley-hq/parley/internal/freshstack"
)

// Receiver handles the messages of a connection, one after the other. A message is valid
// during the call.
type Receiver interface {
	// Receive handles a message. It may block; then no message is read.
	Receive(ctx context.Context, msg []byte)

	// TryReceive handles a message if it can do so without waiting for anything: the
	// goroutine that calls it reads other connections too. Otherwise it returns false and
	// Receive gets the message. later, if not nil, is called in a goroutine that may wait,
	// when the messages of other connections that arrived at the same time have been handled.
	TryReceive(ctx context.Context, msg []byte) (later func(), ok bool)

	// End is called once, with the error that ended reading, after all other calls. Its
	// result closes the connection like that of the function given to [ServeWS].
	End(ctx context.Context, err error) error
}

// ServeMessages is [ServeWS] for a connection that is only read by the methods of a Receiver,
// which open returns. Such a connection has no goroutine while it waits for a message: one
// goroutine waits for all of them. On systems without epoll, and with TLS, a goroutine waits
// for each.
func ServeMessages(w http.ResponseWriter, r *http.Request, opt WSOptions, conns *Conns, open func(context.Context, *Conn) Receiver) error {
	return serveWS(w, r, opt, conns, func(c *Conn) {
		err := conns.Guard(func() error {
			c.poll.receiver = open(c.ctx, c)
			return nil
		})
		if err != nil {
			c.run(func(context.Context, *Conn) error { return err })
			return
		}
		if c.poll.on = conns.poller.add(c); c.poll.on {
			c.serve()
		} else {
			c.serveAlone()
		}
	})
}

// polled is the part of a connection that ServeMessages uses.
type polled struct {
	receiver Receiver
	state    atomic.Int32
	fd       int32
	on       bool        // the poller waits for messages; else a goroutine does
	trying   bool        // try reads: nothing may wait for the peer
	failed   atomic.Bool // a write failed: the end of reading is awaited
	msg      []byte      // was read and not handled
}

// The states of a polled connection. The goroutine that changes the state from waiting to
// serving becomes the reading goroutine, which alone uses the fields for reading.
const (
	serving = iota // a goroutine reads
	again          // a goroutine reads, and must look again before it stops
	waiting        // the poller waits
)

// Stay says that messages will follow each other quickly: from now on a goroutine waits
// for them. Only [Receiver.Receive] may call it.
func (c *Conn) Stay() {
	if c.poll.on {
		c.poll.on = false
		c.conns.poller.remove(c)
	}
}

// claim makes the caller the reading goroutine. If there is one, that looks again.
func (c *Conn) claim() bool {
	for s := &c.poll.state; ; {
		if s.CompareAndSwap(waiting, serving) {
			return true
		}
		if s.Load() == again || s.CompareAndSwap(serving, again) {
			return false
		}
	}
}

// park ends the work of the reading goroutine, if it need not look again.
func (c *Conn) park() bool {
	if c.poll.state.CompareAndSwap(serving, waiting) {
		return true
	}
	c.poll.state.Store(serving)
	return false
}

// wake starts a reading goroutine for a connection that has ended.
func (c *Conn) wake() {
	if c.claim() {
		go c.serve()
	}
}

var errParked = errors.New("the connection waits for messages")

// serve handles what has arrived. If the connection has ended, it closes it.
func (c *Conn) serve() {
	err := c.conns.Guard(func() error {
		for {
			if c.poll.on && !c.fetch() {
				if c.park() {
					return errParked
				}
				continue
			}
			if err := c.receive(); err != nil {
				return err
			}
		}
	})
	if err != errParked {
		c.finish(err)
	}
}

// fewMessages is the number of messages that serveAlone handles on another stack.
const fewMessages = 8

// serveAlone handles the messages of a connection that the poller cannot wait for.
func (c *Conn) serveAlone() {
	c.finish(c.conns.Guard(func() (err error) {
		for n := 0; err == nil; n++ {
			if n < fewMessages {
				// Most clients send a few messages and then only read. Their goroutine
				// waits here, where its stack has 2 KB; it never needs the next size, 4 KB.
				c.Await()
				freshstack.Run(func() { err = c.receive() })
			} else {
				err = c.receive()
			}
		}
		return err
	}))
}

// receive handles one message.
//
//go:noinline
func (c *Conn) receive() error {
	msg := c.poll.msg
	if c.poll.msg = nil; msg == nil {
		var err error
		if msg, err = c.Read(c.ctx); err != nil {
			if closed, ok := errors.AsType[*CloseError](err); ok && closed.Ours {
				_ = c.CloseWith(closed.Code, closed.Reason) // if try found the fault; else it was sent
			}
			return err
		}
	}
	c.poll.receiver.Receive(c.ctx, msg)
	return nil
}

// finish closes a connection whose reading has ended with err.
func (c *Conn) finish(err error) {
	if c.poll.on {
		c.conns.poller.remove(c)
	}
	c.run(func(ctx context.Context, c *Conn) error { return c.poll.receiver.End(ctx, err) })
}

// try handles the messages that have arrived if that needs no waiting. Otherwise it returns
// false, and serve handles the rest. It appends to later.
func (c *Conn) try(later *[]func()) (done bool) {
	err := c.conns.Guard(func() error {
		if !c.fetch() {
			done = true // an event for what was read before
			return nil
		}
		in := &c.in
		full := in.w == inboundSize // there may be more
		if in.w == 0 {
			return nil // the connection has ended
		}
		for in.r < in.w {
			if !c.wholeText() {
				return nil
			}
			c.poll.trying = true
			msg, err := c.Read(c.ctx)
			c.poll.trying = false
			if err != nil {
				return nil // Read returns it again
			}
			run, ok := c.poll.receiver.TryReceive(c.ctx, msg)
			if run != nil {
				*later = append(*later, run)
			}
			if !ok {
				c.poll.msg = msg
				return nil
			}
		}
		c.drop()
		in.release()
		done = !full
		return nil
	})
	if err != nil {
		c.readErr, done = err, false
	}
	return done
}

// wholeText reports whether the next frame is a message of text that has arrived.
func (c *Conn) wholeText() bool {
	h, _, ok := c.in.peekHeader()
	return ok && h.OpCode == ws.OpText && h.Fin && h.Rsv == 0 && !c.fragment && c.Buffered()
}

// fetch reads what has arrived, without waiting. It returns false if there is nothing. After
// an error it returns true: Read finds it again.
func (c *Conn) fetch() (some bool) {
	in := &c.in
	if in.r < in.w || c.poll.msg != nil || c.readErr != nil || c.poll.failed.Load() {
		return true
	}
	c.drop()
	if in.pooled == nil {
		in.pooled = inbounds.Get().(*[inboundSize]byte)
	}
	in.r = 0
	if in.w, some = readArrived(c.conn, in.pooled[:]); in.w == 0 {
		in.release()
	}
	return some
}
