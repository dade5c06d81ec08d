package x1

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// acks makes sure that what is published to the archive is stored there. Only the
// last message of a window asks for an acknowledgement: the archive has no other
// writer, so its number must have grown by as many as were published. If it has
// not, the sessions of that window fall back. That costs a fraction of one
// acknowledgement per message.
//
// What nobody follows goes to the archive alone. Somebody may begin to follow
// while it is on its way, too late for the one and too early for the other; so
// when a window is acknowledged its sessions are looked at again, and then either
// it goes out live as well, or whoever comes now finds it in the archive.
type acks struct {
	p    *projector
	news chan struct{} // a window was settled; room for one
	sub  *nats.Subscription
	base string // of reply subjects

	mu      sync.Mutex
	out     *outlet
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
func (a *acks) open(ctx context.Context, out *outlet) error {
	wait, cancel := context.WithTimeout(ctx, ackWait)
	defer cancel()
	info, err := out.stream.Info(wait)
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.out = out
	a.shift = info.State.LastSeq - a.sent
	a.base = out.conn.NewRespInbox()
	a.mu.Unlock()
	a.sub, err = out.conn.Subscribe(a.base+".*", a.acknowledged)
	return err
}

// close gives up on what was not acknowledged.
func (a *acks) close() {
	if a.sub != nil {
		_ = a.sub.Unsubscribe() // the connection may be gone
	}
	a.expire(0)
}

// publish sends one event live, if somebody follows, and to the archive. When too
// many are unacknowledged it waits. An error means that the connection is gone.
func (a *acks) publish(ctx context.Context, l *lane, data []byte, at chat.At) error {
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
	} else if err := a.out.conn.Publish(a.held.subject, a.held.data); err != nil {
		a.abandon(w)
		return err
	} else {
		a.sent++
	}
	if l.window.Load() != w {
		w.lanes = append(w.lanes, l)
		l.window.Store(w)
		l.live = a.out.heard(l.events)
	}
	l.unseen = append(l.unseen, raw{w.number, data})
	if l.live {
		if err := a.show(l); err != nil {
			a.abandon(w)
			return err
		}
	}
	w.oldest = min(w.oldest, at)
	a.held.subject, a.held.data = l.archive, data
	if w.count++; w.count >= windowSize {
		a.last()
	}
	return nil
}

// show sends live what was not. The caller holds mu.
func (a *acks) show(l *lane) error {
	for i, r := range l.unseen {
		if err := a.out.conn.Publish(l.events, r.data); err != nil {
			l.unseen = slices.Delete(l.unseen, 0, i)
			return err
		}
	}
	clear(l.unseen)
	l.unseen = l.unseen[:0]
	return nil
}

// review looks again who follows the sessions of a window that is stored, or
// given up: from now on whoever comes finds it there. The caller holds mu.
func (a *acks) review(w *window) {
	for _, l := range w.lanes {
		n := 0
		for n < len(l.unseen) && l.unseen[n].window <= w.number {
			n++
		}
		if n == 0 {
			continue
		}
		if a.out.heard(l.events) {
			l.live = true
			_ = a.show(l) // whoever is cut off now will look into the archive
		} else {
			l.unseen = slices.Delete(l.unseen, 0, n)
		}
	}
}

// cut ends the window that is being filled.
func (a *acks) cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.filling != nil {
		a.last()
	}
}

// last sends the message that is acknowledged for all of its window. The caller
// holds mu.
func (a *acks) last() {
	w := a.filling
	err := a.out.conn.PublishRequest(a.held.subject, a.base+"."+strconv.FormatUint(w.number, 10), a.held.data)
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
	a.review(w)
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
	a.review(w)
	a.done()
	a.mu.Unlock()
	if bad {
		a.p.d.log.Warn("the archive of x1 did not store everything; what it lacks is published again", "answer", string(m.Data))
		a.p.lapse(w)
	}
	w.settled.Store(true)
}

// done wakes who waits for a window. The caller holds mu.
func (a *acks) done() {
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
			a.done()
		}
	}
	if after == 0 && a.filling != nil {
		late = append(late, a.filling)
		a.filling, a.held.data = nil, nil
	}
	for _, w := range late {
		a.review(w)
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
func (a *acks) barrier(ctx context.Context) error {
	a.cut()
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
