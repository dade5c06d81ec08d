package wire

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultWriteTimeout is how long one write may take before the reader is given
// up, unless an option says otherwise.
const DefaultWriteTimeout = 30 * time.Second

// link is what a taken-over SSE stream and a WebSocket connection have in
// common: a connection, its context, and writes one after the other.
type link struct {
	conns  *Conns
	conn   net.Conn
	ctx    context.Context // lives exactly as long as the connection, whose goroutines have no other parent
	cancel context.CancelCauseFunc
	refs   atomic.Int32 // goroutines that still use the connection
	owned  atomic.Bool  // conn is set; a shutdown may come before that

	unbind context.CancelFunc // see Bind; nil when nothing was bound

	timeout time.Duration

	// Held across a write on purpose: frames of two writers must not mix, and
	// the write deadline bounds the wait.
	wmu    sync.Mutex
	renew  int64 // when the write deadline must be moved again, in nanoseconds since start
	closed bool
}

// start is the zero of link.renew; a monotonic difference costs 8 bytes, a Time 24.
var start = time.Now()

// detach makes ctx and cancel of a link that outlives the handler: it keeps the
// request's values but not its end, which comes when the handler returns.
// It also ends with what the request was bound to; wake is then called, to end a
// read that waits. It may be nil.
func (l *link) detach(ctx context.Context, wake func(cause error)) {
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

// own sets the connection once it is taken over.
func (l *link) own(conn net.Conn) {
	l.conn = conn
	l.owned.Store(true)
}

// extend moves the write deadline. Moving a timer for each write of each reader
// shows in profiles, so it is moved only when a quarter of the time is used up:
// a write gets between three quarters and the whole of the timeout.
func (l *link) extend(ctx context.Context) error {
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

// release is called by each goroutine of the link at its end; the last one out
// reports that the connection has ended.
func (l *link) release(m member) {
	if l.refs.Add(-1) == 0 {
		l.forget(m)
	}
}

// forget takes a connection that has ended, or never began, off the books.
func (l *link) forget(m member) {
	l.conns.remove(m)
	if l.unbind != nil {
		l.unbind()
	}
}
