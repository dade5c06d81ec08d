package wire

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrBusy is returned when a client has as many bytes of requests and answers in memory as its [Budget] allows.
var ErrBusy = errors.New("too many bytes of this client are in memory")

const (
	uncounted  = 64 << 10         // bytes of a request, message or answer that a budget does not count
	budgetWait = 10 * time.Second // how long a request waits for others of its client
	lookAgain  = 2 * time.Second  // how often a WebSocket that waits checks whether its client has disconnected
)

// Budget bounds the bytes of requests, WebSocket messages and answers that are in memory for one client: bodies and messages that
// are not complete or wait to be handled, and answers that are not read. Without it many connections of one client could use up
// the memory, each within the limits of a connection. A request that has to wait for long, and an answer, is refused; from a
// WebSocket nothing is read meanwhile.
type Budget struct {
	max int64

	mu     sync.Mutex
	shares map[string]*share
}

// share is what one client uses.
type share struct {
	used  int64
	freed chan struct{} // closed when bytes are given back; nil when nothing waits
}

// NewBudget returns a budget of max bytes for each client.
func NewBudget(max int64) *Budget { return &Budget{max: max, shares: map[string]*share{}} }

// charge is what a request has taken. nil stands for a request without a budget.
type charge struct {
	budget *Budget
	client string
	n      int64
}

type chargeKey struct{}

func chargeOf(ctx context.Context) *charge {
	c, _ := ctx.Value(chargeKey{}).(*charge)
	return c
}

// Charge returns a context for a request of a client. What is read and written with the context counts. The caller calls done
// when the request is answered; the messages of a WebSocket that the request opened count after that, too.
func (b *Budget) Charge(ctx context.Context, client string) (_ context.Context, done func()) {
	c := &charge{budget: b, client: client}
	return context.WithValue(ctx, chargeKey{}, c), c.giveBack
}

// giveBack returns the bytes of a request to the budget: it is answered, or its answer is a stream.
func (c *charge) giveBack() {
	if c != nil {
		c.budget.give(c.client, c.n)
		c.n = 0
	}
}

// take takes n bytes for a request. It waits for other requests of the client, at most as long as wait; 0 means not at all.
func (c *charge) take(ctx context.Context, n int64, wait time.Duration) error {
	if c == nil || n <= 0 {
		return nil
	}
	err := c.budget.take(ctx, c.client, c.n, n, wait)
	if err == nil {
		c.n += n
	}
	return err
}

// takeAnswer takes what an answer has more than its request: one that repeats it, such as the events that were stored, must not be
// refused when the request has been done already.
func (c *charge) takeAnswer(ctx context.Context, size int) error {
	if c == nil || int64(size)-c.n <= uncounted {
		return nil
	}
	return c.take(ctx, int64(size)-c.n, 0)
}

// take takes n more bytes for a request that has taken own bytes before. A request that is larger than the budget is allowed if
// its client has no other bytes in memory.
func (b *Budget) take(ctx context.Context, client string, own, n int64, wait time.Duration) error {
	var late <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		late = timer.C
	}
	for {
		b.mu.Lock()
		s := b.share(client)
		if s.used+n <= b.max || s.used <= own {
			s.used += n
			b.mu.Unlock()
			return nil
		}
		if s.freed == nil {
			s.freed = make(chan struct{})
		}
		freed := s.freed
		b.mu.Unlock()
		if wait == 0 {
			return ErrBusy
		}
		select {
		case <-freed:
		case <-late:
			return ErrBusy
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// share returns what a client uses. The caller holds mu.
func (b *Budget) share(client string) *share {
	s := b.shares[client]
	if s == nil {
		s = &share{}
		b.shares[client] = s
	}
	return s
}

// give returns bytes to the budget.
func (b *Budget) give(client string, n int64) {
	if n <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shares[client]
	s.used -= n
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
	if s.used == 0 {
		delete(b.shares, client)
	}
}

// move counts bytes of one client for another, also when that has no room for them.
func (b *Budget) move(from, to string, n int64) {
	if n <= 0 {
		return
	}
	b.mu.Lock()
	b.share(to).used += n
	b.mu.Unlock()
	b.give(from, n)
}

// count counts the bytes of the message that is being read, so far; whole says that they are all. A message in fragments counts
// as the largest one until it is whole: if each fragment waited for room, messages could wait for each other forever.
func (c *Conn) count(bytes int64, whole bool) error {
	ch := c.charge
	if ch == nil || bytes <= uncounted {
		return nil
	}
	if c.counted == 0 {
		n := bytes
		if !whole {
			n = int64(c.max)
		}
		if err := c.awaitRoom(ch, n); err != nil {
			return err
		}
		c.counted = n
	}
	if whole {
		ch.budget.give(ch.client, c.counted-bytes)
		c.counted = bytes
	}
	return nil
}

// awaitRoom takes bytes of the client's budget. Nothing is read meanwhile, so that only a write can notice that the client has
// disconnected: else it could disconnect and leave many such connections here.
func (c *Conn) awaitRoom(ch *charge, n int64) error {
	for {
		err := ch.budget.take(c.ctx, ch.client, 0, n, lookAgain)
		if !errors.Is(err, ErrBusy) {
			return err
		}
		_ = c.Ping(c.ctx, nil) // the first one after the client has disconnected may still succeed
		if c.poll.failed.Load() {
			return ErrPeerGone
		}
	}
}

// Hold lets the last message count until release is called, for a reader that keeps parts of it. Otherwise it counts until the
// next Read. release is nil if the message does not count. Only the reading goroutine may call Hold.
func (c *Conn) Hold() (release func()) {
	n := c.counted
	if c.counted = 0; n == 0 {
		return nil
	}
	ch := c.charge
	return sync.OnceFunc(func() { ch.budget.give(ch.client, n) })
}
