package x1

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
)

// acks makes sure that what is published to the archive is stored there. Only the
// last message of a window asks for an acknowledgement: the archive has no other
// writer, so its number must have grown by as many as were published. If it has
// not, the sessions of that window fall back. That costs a fraction of one
// acknowledgement per message.
type acks struct {
	p    *projector
	news chan struct{} // a window was settled; room for one
	sub  *nats.Subscription
	base string // of reply subjects

	mu      sync.Mutex
	sent    uint64 // messages published so far
	shift   uint64 // the archive's number minus sent
	filling *window
	held    struct { // the newest message: it may become the last of its window
		subject string
		data    []byte
	}
	windows map[uint64]*window // that wait for their acknowledgement
	number  uint64
	settled sync.Cond
}

// window is a run of messages that is acknowledged at once.
type window struct {
	number  uint64
	upTo    uint64 // acks.sent behind its last message
	count   int
	lanes   []*lane
	oldest  chat.At
	cutAt   time.Time
	settled atomic.Bool
}

const (
	windowSize = 256
	maxWindows = 16
	ackWait    = 10 * time.Second
)

func newAcks(p *projector) *acks {
	a := &acks{p: p, news: make(chan struct{}, 1), windows: map[uint64]*window{}}
	a.settled.L = &a.mu
	return a
}

// open learns the archive's number and listens for acknowledgements.
func (a *acks) open(ctx context.Context, conn *nats.Conn, stream jetstream.Stream) error {
	wait, cancel := context.WithTimeout(ctx, ackWait)
	defer cancel()
	info, err := stream.Info(wait)
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.shift = info.State.LastSeq - a.sent
	a.base = conn.NewRespInbox()
	a.mu.Unlock()
	a.sub, err = conn.Subscribe(a.base+".*", a.acknowledged)
	return err
}

// close gives up on what was not acknowledged.
func (a *acks) close() {
	if a.sub != nil {
		_ = a.sub.Unsubscribe() // the connection may be gone
	}
	a.expire(0)
}

// publish sends one message to the archive. When too many are unacknowledged it
// waits. An error means that the connection is gone.
func (a *acks) publish(ctx context.Context, conn *nats.Conn, l *lane, subject string, data []byte, at chat.At) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.windows) >= maxWindows {
		a.settled.Wait() // expire ends it at last
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	w := a.filling
	if w == nil {
		a.number++
		w = &window{number: a.number, oldest: at}
		a.filling = w
	} else if err := conn.Publish(a.held.subject, a.held.data); err != nil {
		a.abandon(w)
		return err
	} else {
		a.sent++
	}
	if len(w.lanes) == 0 || w.lanes[len(w.lanes)-1] != l {
		w.lanes = append(w.lanes, l)
	}
	l.window.Store(w)
	w.oldest = min(w.oldest, at)
	a.held.subject, a.held.data = subject, data
	if w.count++; w.count >= windowSize {
		a.last(conn)
	}
	return nil
}

// cut ends the window that is being filled.
func (a *acks) cut(conn *nats.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.filling != nil {
		a.last(conn)
	}
}

// last sends the message that is acknowledged for all of its window. The caller
// holds mu.
func (a *acks) last(conn *nats.Conn) {
	w := a.filling
	err := conn.PublishRequest(a.held.subject, a.base+"."+strconv.FormatUint(w.number, 10), a.held.data)
	a.held.data = nil
	if err != nil {
		a.abandon(w)
		return
	}
	a.filling = nil
	a.sent++
	w.upTo, w.cutAt = a.sent, time.Now()
	a.windows[w.number] = w
}

// abandon lets the sessions of a window that could not be sent fall back. The
// caller holds mu.
func (a *acks) abandon(w *window) {
	a.filling, a.held.data = nil, nil
	a.p.lapse(w)
}

// acknowledged hears of a window.
func (a *acks) acknowledged(m *nats.Msg) {
	n, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 10, 64)
	if err != nil {
		return
	}
	var ack struct {
		Seq   uint64          `json:"seq"`
		Error json.RawMessage `json:"error"`
	}
	bad := json.Unmarshal(m.Data, &ack) != nil || ack.Error != nil || ack.Seq == 0
	a.mu.Lock()
	w := a.windows[n]
	if w == nil {
		a.mu.Unlock()
		return
	}
	delete(a.windows, n)
	if !bad {
		bad = ack.Seq < w.upTo+a.shift
		a.shift = ack.Seq - w.upTo
	}
	a.done(w)
	a.mu.Unlock()
	if bad {
		a.p.d.log.Warn("the archive of x1 did not store everything; what it lacks is published again", "answer", string(m.Data))
		a.p.lapse(w)
	}
	w.settled.Store(true)
}

// done wakes who waits for a window. The caller holds mu.
func (a *acks) done(*window) {
	a.settled.Broadcast()
	select {
	case a.news <- struct{}{}:
	default:
	}
}

// expire gives up on windows that have waited for so long.
func (a *acks) expire(after time.Duration) {
	a.mu.Lock()
	var late []*window
	for n, w := range a.windows {
		if time.Since(w.cutAt) >= after {
			delete(a.windows, n)
			late = append(late, w)
			a.done(w)
		}
	}
	if after == 0 && a.filling != nil {
		late = append(late, a.filling)
		a.filling, a.held.data = nil, nil
	}
	a.settled.Broadcast()
	a.mu.Unlock()
	for _, w := range late {
		a.p.lapse(w)
		w.settled.Store(true)
	}
}

// pending counts the windows that are not acknowledged.
func (a *acks) pending() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.windows)
	if a.filling != nil {
		n++
	}
	return n
}

// oldest is the position of the first event that is not acknowledged.
func (a *acks) oldest() (at chat.At, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.filling != nil {
		at, ok = a.filling.oldest, true
	}
	for _, w := range a.windows {
		if !ok || w.oldest < at {
			at, ok = w.oldest, true
		}
	}
	return at, ok
}

// barrier waits until all that was published up to now is acknowledged or given up.
func (a *acks) barrier(ctx context.Context, conn *nats.Conn) error {
	a.cut(conn)
	stop := context.AfterFunc(ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.settled.Broadcast()
	})
	defer stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	upTo := a.number
	for ctx.Err() == nil {
		open := false
		for n := range a.windows {
			open = open || n <= upTo
		}
		if !open {
			return nil
		}
		a.settled.Wait()
	}
	return ctx.Err()
}
