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
func (l *link) detach(ctx context.Context) {
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
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
		l.conns.remove(m)
	}
}
