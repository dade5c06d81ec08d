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

// acks checks that published events are stored in the archive. Only the last message
// of a window asks for an acknowledgement: the archive has no other writer, so its
// sequence must have grown by the number of published messages. If it has not, the
// sessions of that window are behind. This is much cheaper than one acknowledgement
// per message.
//
// Events of sessions without subscribers go to the archive alone. A client may
// subscribe while an event is on its way, too late for the live copy and too early to
// find the event in the archive. Therefore the subscribers are counted again when the
// window is acknowledged, and the live copies are published then.
type acks struct {
	p             *projector
	settledSignal chan struct{} // a window was settled; capacity 1
	sub           *nats.Subscription
	base          string // prefix of reply subjects

	mu      sync.Mutex
	out     *publisher
	sent    uint64 // messages published so far
	shift   uint64 // the archive's number minus sent
	filling *window
	held    struct { // the newest message, not sent yet: it may be the last of its window
		subject string
		data    []byte
	}
	windows map[uint64]*window // waiting for their acknowledgement
	number  uint64
	settled sync.Cond
}

// window is a series of messages with one acknowledgement.
type window struct {
	number      uint64
	upTo        uint64 // acks.sent after its last message
	count       int
	projections []*projection
	oldest      chat.At
	cutAt       time.Time
	settled     atomic.Bool
}

const (
	windowSize = 256
	maxWindows = 16
	ackWait    = 10 * time.Second
)

func newAcks(p *projector) *acks {
	a := &acks{p: p, settledSignal: make(chan struct{}, 1), windows: map[uint64]*window{}}
	a.settled.L = &a.mu
	return a
}

// open reads the archive's sequence and subscribes to acknowledgements.
func (a *acks) open(ctx context.Context, out *publisher) error {
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

// close gives up on windows that are not acknowledged.
func (a *acks) close() {
	if a.sub != nil {
		_ = a.sub.Unsubscribe() // the connection may be gone
	}
	a.expire(0)
}

// publish sends one event live, if there are subscribers, and to the archive. It waits
// while too many windows are not acknowledged. An error means that the connection is lost.
func (a *acks) publish(ctx context.Context, l *projection, data []byte, at chat.At) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.windows) >= maxWindows {
		a.settled.Wait() // expire ends it after ackWait
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
		w.projections = append(w.projections, l)
		l.window.Store(w)
		l.live = a.out.hasSubscribers(l.events)
	}
	l.archivedOnly = append(l.archivedOnly, encodedEvent{w.number, data})
	if l.live {
		if err := a.publishLive(l); err != nil {
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

// publishLive publishes the live copies that were left out. The caller holds mu.
func (a *acks) publishLive(l *projection) error {
	for i, r := range l.archivedOnly {
		if err := a.out.conn.Publish(l.events, r.data); err != nil {
			l.archivedOnly = slices.Delete(l.archivedOnly, 0, i)
			return err
		}
	}
	clear(l.archivedOnly)
	l.archivedOnly = l.archivedOnly[:0]
	return nil
}

// recheckLive counts the subscribers of the sessions of a window that is stored or
// given up, and publishes the live copies if there are any. Clients that subscribe
// later find the events in the archive. The caller holds mu.
func (a *acks) recheckLive(w *window) {
	for _, l := range w.projections {
		n := 0
		for n < len(l.archivedOnly) && l.archivedOnly[n].window <= w.number {
			n++
		}
		if n == 0 {
			continue
		}
		if a.out.hasSubscribers(l.events) {
			l.live = true
			_ = a.publishLive(l) // a client that is disconnected now reads the archive
		} else {
			l.archivedOnly = slices.Delete(l.archivedOnly, 0, n)
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

// last sends the message that is acknowledged for its whole window. The caller
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

// abandon marks the sessions of a window that could not be sent as behind. The
// caller holds mu.
func (a *acks) abandon(w *window) {
	a.filling, a.held.data = nil, nil
	a.recheckLive(w)
	a.p.fallBehindAll(w)
}

// acknowledged handles the acknowledgement of a window.
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
	a.recheckLive(w)
	a.done()
	a.mu.Unlock()
	if bad {
		a.p.d.log.Warn("the x1 archive did not store all events; the missing ones are published again", "answer", string(m.Data))
		a.p.fallBehindAll(w)
	}
	w.settled.Store(true)
}

// done wakes the goroutines that wait for a window. The caller holds mu.
func (a *acks) done() {
	a.settled.Broadcast()
	select {
	case a.settledSignal <- struct{}{}:
	default:
	}
}

// expire gives up on windows that have waited for that long.
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
		a.recheckLive(w)
	}
	a.settled.Broadcast()
	a.mu.Unlock()
	for _, w := range late {
		a.p.fallBehindAll(w)
		w.settled.Store(true)
	}
}

// pending is the number of windows that are not acknowledged.
func (a *acks) pending() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.windows)
	if a.filling != nil {
		n++
	}
	return n
}

// oldest is the time of the first event that is not acknowledged.
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

// barrier waits until all events published so far are acknowledged or given up.
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
