package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gobwas/ws"
)

// Conn is the server's side of one WebSocket connection, made by [ServeWS].
// Writes may come from any goroutine; one goroutine reads.
type Conn struct {
	connBase
	in     inbound
	max    int
	binary bool
	pong   func(payload []byte)
	posts  posts
	poll   polled

	closeSent bool // under wmu

	dmu    sync.Mutex
	awaits bool // the peer's close frame is awaited: stop must not interrupt that

	// Only the reading goroutine uses these.
	head         ws.Header // of the frame that is being read
	left         int64     // bytes of it still to come
	msg          *[]byte   // what the last Read returned
	counted      int64     // bytes of the message that the client's budget counts
	charge       *charge   // for which client; nil without a budget
	fragment     bool      // a message has begun and is not whole
	readErr      error     // set once; reading is over
	closeSeen    bool
	closeAwaited bool // the peer's answer to our close frame was waited for
}

// Cancel ends the connection's context with a cause, unless it has ended.
func (c *Conn) Cancel(cause error) { c.cancel(cause) }

// SetMaxMessage changes how large a message may be, from the next frame on. Only the
// reading goroutine may call it.
func (c *Conn) SetMaxMessage(bytes int) { c.max = bytes }

// SetClient changes for which client of a [Budget] messages count: a client that authenticates with a message is not known at the
// handshake. Only the reading goroutine may call it.
func (c *Conn) SetClient(client string) {
	old := c.charge
	if old == nil || old.client == client {
		return
	}
	c.charge = &charge{budget: old.budget, client: client}
	old.budget.move(old.client, client, c.counted)
}

// OnPong sets what is called with the payload of each pong, inside [Conn.Read]
// and valid during the call. Set it before the first Read.
func (c *Conn) OnPong(f func(payload []byte)) { c.pong = f }

// Write sends prepared frames ([AppendTextFrame]) as they are, in one system
// call. It blocks while the peer is slow, at most for the write timeout or until the
// deadline of ctx. When ctx has ended it returns the cause and writes nothing. Any
// other error ends the connection: at once when the peer is too slow; when the peer
// has gone, after what it sent before has been read.
func (c *Conn) Write(ctx context.Context, frames []byte) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if c.closeSent {
		return ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.send(ctx, frames)
}

// TryWrite is Write for frames that the kernel takes without waiting for the peer. It
// returns false if it takes none of them: then Write sends them, or fails. When the
// kernel takes a part, a goroutine sends the rest.
func (c *Conn) TryWrite(ctx context.Context, frames []byte) bool {
	if !c.wmu.TryLock() {
		return false
	}
	defer c.wmu.Unlock()
	return !c.closeSent && c.trySend(ctx, frames, c.flush)
}

// flush sends what TryWrite left. A failure ends the connection.
func (c *Conn) flush() { _ = c.Write(context.WithoutCancel(c.ctx), nil) }

// WriteText sends one message to this reader only.
func (c *Conn) WriteText(ctx context.Context, payload []byte) error {
	buf := getBuffer()
	defer putBuffer(buf)
	*buf = AppendTextFrame(*buf, payload)
	return c.Write(ctx, *buf)
}

// Ping sends a ping with at most 125 bytes of payload. The pong is reported only
// during Read.
func (c *Conn) Ping(ctx context.Context, payload []byte) error {
	var room [2 + maxControl]byte
	return c.Write(ctx, AppendPingFrame(room[:0], payload))
}

// CloseWith sends a close frame; nothing can be written after it. Only the first
// call sends, later ones do nothing. It does not wait: a Read in progress returns when
// the peer has answered, and the connection is closed after the function given to
// [ServeWS] has returned. With code 0 the frame has no code.
func (c *Conn) CloseWith(code int, reason string) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if c.closeSent {
		return nil
	}
	c.closeSent = true
	if c.closed {
		return ErrClosed
	}
	var room [2 + maxControl]byte
	return c.send(context.WithoutCancel(c.ctx), appendCloseFrame(room[:0], code, reason))
}

// CloseForShutdown sends a close frame that says that the server is shutting down, and
// waits at most a second for the answer. It reports whether the answer came: then the
// peer has read everything that was sent. Only the reading goroutine may call it, when
// the connection's context has ended with [ErrShutdown].
func (c *Conn) CloseForShutdown() bool {
	c.closeAwaited = true
	if c.CloseWith(CloseGoingAway, stopping) == nil {
		c.awaitClose()
	}
	return c.closeSeen
}

// send writes; the caller holds wmu.
func (c *Conn) send(ctx context.Context, b []byte) error {
	if c.closed {
		return ErrClosed
	}
	err := c.extend(ctx)
	if err == nil {
		err = c.sendRest()
	}
	if err == nil && len(b) > 0 {
		_, err = c.conn.Write(b)
	}
	if err == nil {
		return nil
	}
	c.closed = true
	err = fmt.Errorf("send to the reader: %w", err)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.stop(err) // the peer is connected but does not read: no read would end by itself
		return err
	}
	// The peer has gone. What it sent before can still be read, pongs above all:
	// reading ends after that, and ends the connection.
	if c.ctx.Err() == nil {
		_ = c.conn.SetReadDeadline(time.Now().Add(closeWait))
		c.poll.failed.Store(true)
		c.wake()
	}
	return err
}

// past is a deadline that ends a read that waits.
var past = time.Unix(1, 0)

func (c *Conn) stop(cause error) {
	c.cancel(cause)
	if !c.owned.Load() {
		return
	}
	c.dmu.Lock()
	if !c.awaits {
		_ = c.conn.SetReadDeadline(past)
	}
	c.dmu.Unlock()
	c.wake()
}

func (c *Conn) kill() {
	c.cancel(ErrClosed)
	if c.owned.Load() {
		_ = c.conn.Close()
		c.wake()
	}
}
