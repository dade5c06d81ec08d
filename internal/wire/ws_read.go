package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// Read returns the next complete message. The slice is valid until the next Read. Read
// also answers pings and reports pongs, so every connection must be read.
//
// It blocks until a message has arrived, or ctx or the connection ends. Any error is
// final and ends the connection's context: [*CloseError] when the peer closed or
// violated the protocol (then a close frame with the code was sent), the context's
// cause when that ended, [ErrPeerGone] when the connection broke.
func (c *Conn) Read(ctx context.Context) ([]byte, error) {
	if c.readErr != nil {
		return nil, c.readErr
	}
	if ctx.Done() != nil && ctx.Done() != c.ctx.Done() {
		// The connection's own context needs no watcher: whatever ends it also ends
		// the read.
		stop := context.AfterFunc(ctx, func() { c.stop(context.Cause(ctx)) })
		defer stop()
	}
	msg, err := c.next()
	if err == nil {
		return msg, nil
	}
	c.drop()
	var closed *CloseError
	switch {
	case errors.As(err, &closed):
	case c.ctx.Err() != nil:
		err = context.Cause(c.ctx)
	default:
		err = ErrPeerGone
	}
	c.readErr = err
	c.cancel(err)
	return nil, err
}

// Await blocks until Read has something to read, or fails. It needs less stack than Read,
// so a goroutine that waits here and calls Read on another stack stays small. What the
// last Read returned is not valid any more. Only the reading goroutine may call it.
func (c *Conn) Await() {
	c.drop()
	in := &c.in
	if in.idle(); in.r == in.w {
		got, _ := in.conn.Read(in.buf()) // Read finds the error again
		in.filledBy(got)
	}
}

// Buffered reports whether the next frame has arrived, so that Read does not wait. Only
// the reading goroutine may call it.
func (c *Conn) Buffered() bool {
	h, size, ok := c.in.peekHeader()
	return ok && int64(c.in.w-c.in.r-size) >= h.Length
}

// next reads frames until a message is whole.
func (c *Conn) next() ([]byte, error) {
	c.drop()
	for {
		if err := c.frame(); err != nil {
			return nil, err
		}
		if c.head.OpCode.IsControl() {
			if err := c.control(); err != nil {
				return nil, err
			}
			continue
		}
		if c.head.OpCode == ws.OpBinary && !c.binary {
			return nil, c.refuse(CloseUnsupported, "send text messages, not binary ones")
		}
		if c.msg == nil {
			c.msg = getBuffer()
		}
		if int64(len(*c.msg))+c.left > int64(c.max) {
			return nil, c.refuse(CloseTooBig, "the message is larger than the limit")
		}
		if err := c.count(int64(len(*c.msg))+c.left, c.head.Fin); err != nil {
			return nil, err
		}
		if err := c.payload(); err != nil {
			return nil, err
		}
		c.fragment = !c.head.Fin
		if c.fragment {
			continue
		}
		if !utf8.Valid(*c.msg) && !c.binary {
			return nil, c.refuse(CloseBadText, "the message is not valid UTF-8")
		}
		return *c.msg, nil
	}
}

// drop returns the buffer of the last message to the pool, and what it counted to the budget.
func (c *Conn) drop() {
	if c.msg != nil {
		putBuffer(c.msg)
		c.msg = nil
	}
	if release := c.Hold(); release != nil {
		release()
	}
}

// frame reads and checks the header of the next frame.
func (c *Conn) frame() error {
	h, err := c.in.header()
	if err != nil {
		return err
	}
	state := ws.StateServerSide
	if c.fragment {
		state = state.Set(ws.StateFragmented)
	}
	if err := ws.CheckHeader(h, state); err != nil {
		return c.refuse(CloseProtocol, err.Error())
	}
	c.head, c.left = h, h.Length
	return nil
}

// payload appends the frame's bytes to the message. The buffer grows with the bytes
// that arrive, not with the length in the header: else a header of ten bytes could
// allocate megabytes.
func (c *Conn) payload() error {
	for c.left > 0 {
		b := *c.msg
		if len(b) == cap(b) {
			b = slices.Grow(b, int(min(c.left, int64(max(len(b), 4<<10)))))
		}
		n, err := c.in.Read(b[len(b):min(int64(cap(b)), int64(len(b))+c.left)])
		ws.Cipher(b[len(b):len(b)+n], c.head.Mask, int((c.head.Length-c.left)&3))
		c.left -= int64(n)
		*c.msg = b[:len(b)+n]
		if err != nil {
			return err
		}
	}
	return nil
}

// control handles a ping, pong or close.
func (c *Conn) control() error {
	p, err := c.in.take(int(c.head.Length))
	if err != nil {
		return err
	}
	c.left = 0
	ws.Cipher(p, c.head.Mask, 0)
	switch c.head.OpCode {
	case ws.OpPing:
		var room [2 + maxControl]byte
		err := c.Write(c.ctx, appendControl(room[:0], ws.OpPong, p))
		if errors.Is(err, ErrClosed) {
			err = nil // after our close frame pings need no answer
		}
		return err
	case ws.OpPong:
		if c.pong != nil {
			c.pong(p)
		}
		return nil
	}
	c.closeSeen = true
	closed := &CloseError{Code: CloseNoStatus}
	switch {
	case len(p) == 1:
		return c.refuse(CloseProtocol, "a close frame has a code of two bytes")
	case len(p) >= 2:
		closed.Code, closed.Reason = int(binary.BigEndian.Uint16(p)), string(p[2:])
		if err := ws.CheckCloseFrameData(ws.StatusCode(closed.Code), closed.Reason); err != nil {
			return c.refuse(CloseProtocol, err.Error())
		}
	}
	_ = c.CloseWith(closed.Code, "") // the connection ends whether or not the answer arrives
	return closed
}

// refuse closes because of what the peer did.
func (c *Conn) refuse(code int, reason string) error {
	if c.poll.trying {
		return &CloseError{Code: code, Reason: reason, Ours: true} // receive sends it
	}
	_ = c.CloseWith(code, reason) // the fault is reported whether or not the close frame arrives
	return &CloseError{Code: code, Reason: reason, Ours: true}
}

// A peer that has sent a message over the limit must be able to read the close frame,
// so more is read. These bound how much, in multiples of the limit, and for how long.
const (
	drainTimes = 4
	drainWait  = 10 * time.Second
)

// drain discards what the peer still sends.
func (c *Conn) drain() {
	end := time.Now().Add(drainWait)
	for left := drainTimes * int64(c.max); left > 0; {
		now := time.Now()
		if now.After(end) || c.conn.SetReadDeadline(now.Add(closeWait)) != nil {
			return
		}
		n, err := io.CopyN(io.Discard, &c.in, min(left, 64<<10))
		if left -= n; err != nil {
			return
		}
	}
}

// awaitClose reads until the peer's close frame. Closing while bytes of the peer are
// unread would reset the connection, and the peer would lose what was sent last.
func (c *Conn) awaitClose() {
	c.drop()
	c.dmu.Lock()
	c.awaits = true
	_ = c.conn.SetReadDeadline(time.Now().Add(closeWait))
	c.dmu.Unlock()
	var closed *CloseError
	if errors.As(c.readErr, &closed) && closed.Ours {
		// The frame at fault was not read to its end, so the following frames cannot
		// be parsed: discard the rest until the peer closes.
		if tcp, ok := c.conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		c.drain()
		return
	}
	for !c.closeSeen {
		for c.left > 0 {
			n, err := io.CopyN(io.Discard, &c.in, c.left)
			c.left -= n
			if err != nil {
				return
			}
		}
		h, err := c.in.header()
		if err != nil {
			return
		}
		c.left = h.Length
		c.closeSeen = h.OpCode == ws.OpClose
	}
}

// inbound reads from a connection with a small buffer while it is idle and a pooled
// one otherwise, so that an idle connection uses little memory.
type inbound struct {
	conn   net.Conn
	pooled *[inboundSize]byte // nil while idle
	r, w   int                // what is buffered: in pooled if that is set, else in small
	filled uint8              // how many waits in a row ended with more bytes than small holds
	small  [128]byte          // holds a whole control frame's payload or any header
}

// busyAfter is the number of such waits after which a connection waits with a pooled
// buffer: it belongs to an agent that sends all the time, and one read instead of two
// takes all that it sent.
const busyAfter = 16

// inboundSize is the size of a pooled buffer.
const inboundSize = 4 << 10

var inbounds = sync.Pool{New: func() any { return new([inboundSize]byte) }}

// start takes over the bytes that net/http has already read.
func (in *inbound) start(conn net.Conn, had *bufio.Reader) {
	in.conn = conn
	if n := had.Buffered(); n > 0 {
		in.pooled = inbounds.Get().(*[inboundSize]byte)
		in.w, _ = io.ReadFull(had, in.pooled[:min(n, len(in.pooled))])
	}
}

func (in *inbound) buf() []byte {
	if in.pooled != nil {
		return in.pooled[:]
	}
	return in.small[:]
}

// idle prepares the buffer for a wait when it is empty.
func (in *inbound) idle() {
	if in.r != in.w {
		return
	}
	in.r, in.w = 0, 0
	if busy := in.filled >= busyAfter; busy && in.pooled == nil {
		in.pooled = inbounds.Get().(*[inboundSize]byte)
	} else if !busy {
		in.release()
	}
}

// release returns the pooled buffer, which must be empty.
func (in *inbound) release() {
	if in.pooled != nil {
		inbounds.Put(in.pooled)
		in.r, in.w, in.pooled = 0, 0, nil
	}
}

// need blocks until n bytes are buffered. n is at most len(small).
func (in *inbound) need(n int) error {
	for in.w-in.r < n {
		b := in.buf()
		if in.r > 0 {
			in.w = copy(b, b[in.r:in.w])
			in.r = 0
		}
		got, err := in.conn.Read(b[in.w:])
		in.filledBy(got)
		if err != nil && in.w < n {
			return err
		}
	}
	return nil
}

// filledBy notes how many bytes a read has added to the buffer.
func (in *inbound) filledBy(got int) {
	if in.w == 0 && got < len(in.small) {
		in.filled = 0
	} else if in.w == 0 {
		in.filled = min(in.filled+1, busyAfter)
	}
	in.w += got
}

// take returns the next n bytes, valid until the next read.
func (in *inbound) take(n int) ([]byte, error) {
	if err := in.need(n); err != nil {
		return nil, err
	}
	p := in.buf()[in.r : in.r+n]
	in.r += n
	return p, nil
}

// Read reads payload: what is buffered first, then in large steps.
func (in *inbound) Read(p []byte) (int, error) {
	if in.r == in.w {
		if len(p) >= len(in.pooled) {
			return in.conn.Read(p)
		}
		if in.pooled == nil {
			in.pooled = inbounds.Get().(*[inboundSize]byte)
		}
		n, err := in.conn.Read(in.pooled[:])
		in.r, in.w = 0, n
		if n == 0 {
			return 0, err
		}
	}
	n := copy(p, in.buf()[in.r:in.w])
	in.r += n
	return n, nil
}

// header reads the header of a frame; it consumes nothing when it fails.
func (in *inbound) header() (ws.Header, error) {
	in.idle()
	for {
		h, size, ok := in.peekHeader()
		if ok {
			in.r += size
			return h, nil
		}
		if err := in.need(size); err != nil {
			return h, err
		}
	}
}

// peekHeader returns the header of the next frame and its size if it is buffered. Without
// ok, size is how many bytes it needs.
func (in *inbound) peekHeader() (h ws.Header, size int, ok bool) {
	b := in.buf()[in.r:in.w]
	if size = ws.MinHeaderSize; len(b) < size {
		return h, size, false
	}
	switch b[1] & 0x7f {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if b[1]&0x80 != 0 {
		size += 4
	}
	if len(b) < size {
		return h, size, false
	}
	h.Fin = b[0]&0x80 != 0
	h.Rsv = b[0] >> 4 & 7
	h.OpCode = ws.OpCode(b[0] & 0xf)
	h.Masked = b[1]&0x80 != 0
	h.Length = int64(b[1] & 0x7f)
	switch h.Length {
	case 126:
		h.Length = int64(binary.BigEndian.Uint16(b[2:]))
	case 127:
		n := binary.BigEndian.Uint64(b[2:])
		if n > 1<<62 {
			n = 1 << 62 // the highest bit must be 0; any of these is too large anyway
		}
		h.Length = int64(n)
	}
	if h.Masked {
		copy(h.Mask[:], b[size-4:])
	}
	return h, size, true
}
