package wire

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"
)

// WSOptions configures a WebSocket connection. The zero value works.
type WSOptions struct {
	WriteTimeout time.Duration // for one write; 0 means DefaultWriteTimeout
	MaxMessage   int           // bytes of one message, fragments together; 0 means 16 MiB
	Binary       bool          // accept binary messages like text; otherwise they close the connection with 1003
}

const defaultMaxMessage = 16 << 20

// closeWait is how long the peer has to answer a close frame.
const closeWait = time.Second

// stopping is the close reason when the server shuts down.
const stopping = "the server is shutting down, connect again in a moment"

// HandshakeError is why a request did not become a WebSocket connection.
// Nothing has been sent; the caller answers with Status in its own form.
type HandshakeError struct {
	Status int
	Reason string
}

func (e *HandshakeError) Error() string { return e.Reason }

// IsWS reports whether r asks for a WebSocket connection.
func IsWS(r *http.Request) bool {
	return hasValue(r.Header, "Connection", "upgrade") && hasValue(r.Header, "Upgrade", "websocket")
}

// ServeWS upgrades r to a WebSocket connection and runs fn on it in another goroutine.
// It returns nil as soon as the upgrade is done, and the handler should then return
// too. fn must not keep w or r. The caller has checked the origin of the request. A
// [*HandshakeError] or [ErrShutdown] means that the caller still has to answer.
//
// fn's context carries the values of the request's context. It ends when a read fails
// or a write takes too long, at shutdown with the cause [ErrShutdown], or with what the
// request was bound to ([Bind]). When fn has returned, the connection is closed with the
// code that fn gave to [Conn.CloseWith], else with 1000 after nil, 1001 at shutdown, 1011
// after another error. The reasons for this implementation are in decision 5.
func ServeWS(w http.ResponseWriter, r *http.Request, opt WSOptions, conns *Conns, fn func(context.Context, *Conn) error) error {
	return serveWS(w, r, opt, conns, func(c *Conn) { c.run(fn) })
}

// serveWS upgrades r and starts serve in another goroutine, which must release the connection.
func serveWS(w http.ResponseWriter, r *http.Request, opt WSOptions, conns *Conns, serve func(*Conn)) error {
	key, err := handshake(r)
	if err != nil {
		return err
	}
	c := &Conn{max: opt.MaxMessage, binary: opt.Binary, charge: chargeOf(r.Context())}
	if c.max <= 0 {
		c.max = defaultMaxMessage
	}
	c.conns = conns
	c.timeout = opt.WriteTimeout
	if c.timeout <= 0 {
		c.timeout = DefaultWriteTimeout
	}
	c.detach(r.Context(), c.stop)
	if err := conns.add(c); err != nil {
		c.unregister(c)
		return err
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		c.unregister(c)
		c.cancel(err)
		return &HandshakeError{http.StatusInternalServerError, "this connection cannot become a WebSocket"}
	}
	c.in.start(conn, rw.Reader)
	c.setConn(conn)
	if c.ctx.Err() != nil {
		c.stop(context.Cause(c.ctx)) // it ended before setConn
	}
	h := w.Header()
	h.Set("Upgrade", "websocket")
	h.Set("Connection", "Upgrade")
	h.Set("Sec-WebSocket-Accept", key)
	h.Del("Content-Type")
	h.Del("Content-Length")
	c.refs.Store(1)
	head := responseHead(http.StatusSwitchingProtocols, h)
	go c.accept(head, serve)
	return nil
}

// accept sends the answer to the handshake and starts serve. That needs a stack larger than
// the one with which an idle connection waits, so serve has another goroutine.
func (c *Conn) accept(head []byte, serve func(*Conn)) {
	if err := c.Write(c.ctx, head); err != nil {
		_ = c.conn.Close()
		c.release(c)
		return
	}
	go serve(c)
}

// run runs fn and closes.
func (c *Conn) run(fn func(context.Context, *Conn) error) {
	defer c.release(c)
	defer c.conn.Close()
	defer c.drop()
	err := c.conns.Guard(func() error { return fn(c.ctx, c) })
	c.end(err)
}

// handshake checks the request and returns the answer to its key.
func handshake(r *http.Request) (string, error) {
	switch {
	case r.ProtoMajor != 1 || !r.ProtoAtLeast(1, 1):
		return "", &HandshakeError{http.StatusBadRequest, "a WebSocket connection begins with an HTTP/1.1 request"}
	case !IsWS(r):
		return "", &HandshakeError{http.StatusUpgradeRequired, "this is a WebSocket address: connect with a WebSocket client"}
	case r.Method != http.MethodGet:
		return "", &HandshakeError{http.StatusMethodNotAllowed, "a WebSocket connection begins with GET"}
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		return "", &HandshakeError{http.StatusBadRequest, "only version 13 of the WebSocket protocol is supported"}
	}
	key := r.Header.Get("Sec-WebSocket-Key")
	if raw, err := base64.StdEncoding.DecodeString(key); err != nil || len(raw) != 16 {
		return "", &HandshakeError{http.StatusBadRequest, "the header Sec-WebSocket-Key is missing or wrong"}
	}
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) // fixed by RFC 6455
	return base64.StdEncoding.EncodeToString(sum[:]), nil
}

func hasValue(h http.Header, name, value string) bool {
	for _, line := range h[name] {
		for v := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(textproto.TrimString(v), value) {
				return true
			}
		}
	}
	return false
}

// end closes the connection after fn.
func (c *Conn) end(err error) {
	code, reason := CloseNormal, ""
	if closed, ok := errors.AsType[*CloseError](err); ok {
		code, reason = closed.Code, closed.Reason
	} else if f, ok := Ended(c.ctx).(closeFramer); ok {
		code, reason = f.CloseFrame()
	} else if cause := context.Cause(c.ctx); errors.Is(err, ErrShutdown) || errors.Is(cause, ErrShutdown) {
		code, reason = CloseGoingAway, stopping
	} else if err != nil && !slices.Contains([]error{ErrPeerGone, context.Canceled}, err) {
		code, reason = CloseInternal, "something went wrong on the server"
	}
	if c.CloseWith(code, reason) == nil && !c.closeAwaited {
		c.awaitClose()
	}
	c.cancel(ErrClosed)
}
