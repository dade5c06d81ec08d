package wire

import "time"

// MaxUnauthenticated is how many connections of one address may wait for authentication.
const MaxUnauthenticated = 32

// AuthLimit bounds WebSocket connections whose client authenticates with a message instead of the handshake: how many there
// are, how large their messages are, and how long they stay open.
type AuthLimit struct {
	MaxMessage int // bytes; for WSOptions
	Timeout    time.Duration
	conns      connLimit
}

// NewAuthLimit returns a limit for at most total connections at once.
func NewAuthLimit(total, maxMessage int, timeout time.Duration) *AuthLimit {
	return &AuthLimit{MaxMessage: maxMessage, Timeout: timeout, conns: connLimit{PerAddress: MaxUnauthenticated, Total: total}}
}

// Take counts a connection from addr. It returns nil when there are too many; otherwise [AuthWait.End] must be called.
func (l *AuthLimit) Take(addr string) *AuthWait {
	if !l.conns.Take(addr) {
		return nil
	}
	return &AuthWait{limit: l, addr: addr}
}

// AuthWait is a connection that waits for authentication. A nil *AuthWait belongs to a connection that is authenticated. The
// methods are for the goroutine that reads.
type AuthWait struct {
	limit *AuthLimit
	addr  string
	timer *time.Timer
	conn  *Conn
	max   int
}

// Begin closes conn after the timeout, with the code [ClosePolicy] and a reason, and calls expired, unless End is called
// before. End sets the size of messages to max.
func (w *AuthWait) Begin(conn *Conn, max int, reason string, expired func()) {
	if w == nil {
		return
	}
	w.conn, w.max = conn, max
	w.timer = time.AfterFunc(w.limit.Timeout, func() {
		_ = conn.CloseWith(ClosePolicy, reason) // the client may have disconnected
		expired()
	})
}

// End lifts the limits. It may be called again.
func (w *AuthWait) End() {
	if w == nil || w.limit == nil {
		return
	}
	if w.timer != nil {
		w.timer.Stop()
		w.conn.SetMaxMessage(w.max)
	}
	w.limit.conns.Release(w.addr)
	w.limit = nil
}
