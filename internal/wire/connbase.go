package wire

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultWriteTimeout is how long one write may take before the connection is closed,
// unless an option sets another time.
const DefaultWriteTimeout = 30 * time.Second

// connBase is the common part of an SSE stream and a WebSocket connection: a
// connection, its context, and writes one after the other.
type connBase struct {
	conns  *Conns
	conn   net.Conn
	ctx    context.Context // ends with the connection, whose goroutines have no other parent
	cancel context.CancelCauseFunc
	refs   atomic.Int32 // goroutines that still use the connection
	owned  atomic.Bool  // conn is set; a shutdown may come before that

	unbind context.CancelFunc // see Bind; nil when nothing was bound

	timeout time.Duration

	// Held during a write: frames of two writers must not mix, and the write
	// deadline bounds the wait.
	wmu    sync.Mutex
	renew  int64 // when the write deadline must be moved again, in nanoseconds since start
	closed bool
	try    *tryWriter // made by the first attempt to write without waiting
}

// start is the zero of connBase.renew; a monotonic difference costs 8 bytes, a Time 24.
var start = time.Now()

// detach sets ctx and cancel of a connection that outlives the handler: the context
// has the values of the request's context, but does not end when the handler returns.
// It also ends with what the request was bound to; wake, if not nil, is then called to
// end a read that waits.
func (l *connBase) detach(ctx context.Context, wake func(cause error)) {
	base := context.WithoutCancel(ctx)
	if bind, ok := ctx.Value(bindKey{}).(Binding); ok {
		bound, release := bind(base)
		base, l.unbind = bound, release
		if wake != nil {
			stop := context.AfterFunc(bound, func() { wake(context.Cause(bound)) })
			l.unbind = func() { stop(); release() }
		}
	}
	l.ctx, l.cancel = context.WithCancelCause(base)
}

// setConn sets the connection once it is taken over.
func (l *connBase) setConn(conn net.Conn) {
	l.conn = conn
	l.owned.Store(true)
}

// extend moves the write deadline. Moving a timer for each write of each reader takes
// measurable time, so it is moved only when a quarter of the timeout has passed: a
// write has between three quarters and the whole of the timeout.
func (l *connBase) extend(ctx context.Context) error {
	now := time.Now()
	until := now.Add(l.timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(until) {
		l.renew = 0
		return l.conn.SetWriteDeadline(d)
	}
	if at := int64(now.Sub(start)); at >= l.renew {
		l.renew = at + int64(l.timeout/4)
		return l.conn.SetWriteDeadline(until)
	}
	return nil
}

// release is called by each goroutine of the connection at its end; the last one
// unregisters the connection.
func (l *connBase) release(m openConn) {
	if l.refs.Add(-1) == 0 {
		l.unregister(m)
	}
}

// unregister removes a connection that has ended, or never began, from conns.
func (l *connBase) unregister(m openConn) {
	l.conns.remove(m)
	if l.unbind != nil {
		l.unbind()
	}
}
