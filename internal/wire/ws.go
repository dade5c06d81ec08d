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

// WSOptions says what a WebSocket connection accepts. The zero value works.
type WSOptions struct {
	WriteTimeout time.Duration // for one write; 0 means DefaultWriteTimeout
	MaxMessage   int           // bytes of one message, fragments together; 0 means 16 MiB
	Binary       bool          // take binary messages as if they were text; otherwise they close with 1003
	Protocols    []string      // subprotocols, the best first; none means none is agreed on
}

const defaultMaxMessage = 16 << 20

// closeWait is how long the peer has to answer a close frame.
const closeWait = time.Second

// stopping is why connections are closed when the server ends.
const stopping = "the server is stopping, come back in a moment"

// HandshakeError says why a request did not become a WebSocket connection.
// Nothing has been sent; the caller answers with Status in its own form.
type HandshakeError struct {
	Status int
	Reason string
}

func (e *HandshakeError) Error() string { return e.Reason }

// IsWS reports whether r asks for a WebSocket connection.
func IsWS(r *http.Request) bool {
	return hasToken(r.Header, "Connection", "upgrade") && hasToken(r.Header, "Upgrade", "websocket")
}

// ServeWS upgrades r to a WebSocket connection and runs fn on it in a goroutine
// of its own; it returns nil as soon as the upgrade is done, and the handler
// should then return too. fn must not keep w or r. The origin of the request is
// for the caller to check before.
//
// fn's context carries the values of the request's and ends when a read fails or
// a write takes too long, with that as its cause, or when the server is to stop,
// with the cause [ErrShutdown], or with what the request was bound to ([Bind]). A write that fails because the peer has gone makes
// the reads end. fn returns when everything it started on the connection has
// ended. Then the connection is closed: as fn did by [Conn.CloseWith], else with
// 1000 after nil, 1001 at shutdown, 1011 after another error, and the peer has
// a second to answer.
//
// An error means that the upgrade did not happen and the caller still has to
// answer: a [*HandshakeError] or [ErrShutdown].
//
// The frames are read and written with the low-level parts of gobwas/ws rather
// than a library that owns the connection: a frame that is the same for a
// thousand readers can be prepared once and written raw, several frames go out
// in one system call, and no buffer is held while a connection is idle.
// Compression is not offered: it would make each reader's bytes different.
func ServeWS(w http.ResponseWriter, r *http.Request, opt WSOptions, conns *Conns, fn func(context.Context, *Conn) error) error {
	key, err := handshake(r)
	if err != nil {
		return err
	}
	c := &Conn{max: opt.MaxMessage, binary: opt.Binary, protocol: choose(r.Header, opt.Protocols)}
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
		c.forget(c)
		return err
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		c.forget(c)
		c.cancel(err)
		return &HandshakeError{http.StatusInternalServerError, "this connection cannot become a WebSocket"}
	}
	c.in.start(conn, rw.Reader)
	c.own(conn)
	if c.ctx.Err() != nil {
		c.stop(context.Cause(c.ctx)) // it came in between
	}
	h := w.Header()
	h.Set("Upgrade", "websocket")
	h.Set("Connection", "Upgrade")
	h.Set("Sec-WebSocket-Accept", key)
	h.Del("Content-Type")
	h.Del("Content-Length")
	if c.protocol != "" {
		h.Set("Sec-WebSocket-Protocol", c.protocol)
	}
	c.refs.Store(1)
	head := responseHead(http.StatusSwitchingProtocols, h)
	go c.run(head, fn)
	return nil
}

// run sends the answer to the handshake, runs fn and closes.
func (c *Conn) run(head []byte, fn func(context.Context, *Conn) error) {
	defer c.release(c)
	defer c.conn.Close()
	if err := c.Write(c.ctx, head); err != nil {
		return
	}
	head = nil // not for the life of the connection
	err := c.conns.guard(func() error { return fn(c.ctx, c) })
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
		return "", &HandshakeError{http.StatusBadRequest, "only version 13 of the WebSocket protocol is spoken here"}
	}
	key := r.Header.Get("Sec-WebSocket-Key")
	if raw, err := base64.StdEncoding.DecodeString(key); err != nil || len(raw) != 16 {
		return "", &HandshakeError{http.StatusBadRequest, "the header Sec-WebSocket-Key is missing or wrong"}
	}
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) // fixed by RFC 6455
	return base64.StdEncoding.EncodeToString(sum[:]), nil
}

func hasToken(h http.Header, name, token string) bool {
	for _, line := range h[name] {
		for v := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(textproto.TrimString(v), token) {
				return true
			}
		}
	}
	return false
}

// choose returns the first of ours that the client offers.
func choose(h http.Header, ours []string) string {
	for _, p := range ours {
		if hasToken(h, "Sec-Websocket-Protocol", p) {
			return p
		}
	}
	return ""
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
	if c.CloseWith(code, reason) == nil && !c.parted {
		c.awaitClose()
	}
	c.cancel(ErrClosed)
}
