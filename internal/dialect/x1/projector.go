package x1

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
)

// projector publishes stored events on events and archive, previews on delta, and
// user messages on the input of sidecars. It runs after the commit and never delays
// one. Everything goes through one queue, in order per session. When the queue is
// full, when NATS is disconnected, or when the archive lost something, the session
// is behind: its missing events are read from the log (repair.go), and then the
// queue continues.
type projector struct {
	d    *Dialect
	mark *watermark
	acks *acks
	wake chan struct{} // the queue has something; room for one

	mu          sync.Mutex
	archive     jetstream.Stream // nil while not connected
	projections map[chat.SessionID]*projection
	queue       []job
	spare       []job
	bytes       int
	restored    bool          // all events of earlier processes are in the archive
	closed      bool          // nothing is queued; sessions with new events become behind
	behind      int           // sessions that are behind
	erasing     int           // erased sessions that are still in the archive
	eraseCount  int           // erased sessions since the start
	caughtUp    chan struct{} // closed when no session is behind
}

// projection is the publishing state of one session. projector.mu guards the fields
// down to eraseDone, acks.mu guards live and archivedOnly.
type projection struct {
	id     chat.SessionID
	next   chat.Seq // the sequence to publish next; 0 when unknown
	behind bool     // events are read from the log instead of the queue
	stale  bool     // something was stored since the log was read
	since  chat.At  // time of the first event that was not published, or of the erasure
	erased bool

	eraseDone chan struct{} // closed once the archive has nothing of it; nil until it is erased

	live         bool           // there were subscribers when its newest window began
	archivedOnly []encodedEvent // published to the archive alone and not acknowledged

	events    string                 // subject
	archive   string                 // subject
	delta     string                 // subject
	off       atomic.Bool            // behind or erased, readable without the lock
	window    atomic.Pointer[window] // the newest window with an event of it
	repairing sync.Mutex             // held while it is repaired or erased; taken before all others
}

// encodedEvent is an event as it is published, with the number of its window.
type encodedEvent struct {
	window uint64
	data   []byte
}

// settled reports whether all its published events are acknowledged.
func (l *projection) settled() bool {
	w := l.window.Load()
	return w == nil || w.settled.Load()
}

// job is one thing to publish.
type job struct {
	projection *projection
	what       task
	typ        string
	fact       chat.Fact
	piece      *chat.Preview
	at         chat.At
}

type task uint8

const (
	factTask task = iota
	previewTask
	repairTask
	eraseTask
)

// Bounds of the queue.
const (
	maxQueued      = 1 << 16
	maxBytes       = 32 << 20
	maxProjections = 50_000
)

// After busyBatch jobs the loop sleeps for busyPause, so that the publishes that follow
// share writes to NATS.
const (
	busyBatch = 64
	busyPause = 5 * time.Millisecond
)

func newProjector(d *Dialect) (*projector, error) {
	m, err := openWatermark(d.opt.Dir, d.opt.Now)
	if err != nil {
		return nil, err
	}
	p := &projector{d: d, mark: m, wake: make(chan struct{}, 1), projections: map[chat.SessionID]*projection{}, closed: true, caughtUp: make(chan struct{})}
	p.acks = newAcks(p)
	return p, nil
}

// take queues stored events and previews.
func (p *projector) take(id chat.SessionID, entries []chat.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		if e.Piece != nil {
			if !p.closed && len(p.queue) < maxQueued && p.bytes < maxBytes {
				// A preview that is left out is part of the finished block.
				p.put(job{projection: p.projection(id), what: previewTask, piece: e.Piece, at: e.At})
			}
			continue
		}
		if e.Fact.Seq == 1 {
			p.mark.addWorkspaceOf(&e.Fact)
		}
		l := p.projection(id)
		switch {
		case l.behind:
			l.stale = true
		case p.closed, len(p.queue) >= maxQueued, p.bytes >= maxBytes:
			p.fallBehind(l, e.At)
		case l.next == 0 && e.Fact.Seq > 1 && !p.restored, l.next != 0 && l.next != e.Fact.Seq:
			p.fallBehind(l, e.At)
		default:
			l.next = e.Fact.Seq + 1
			p.put(job{projection: l, what: factTask, typ: e.Label.Type, fact: e.Fact, at: e.At})
		}
	}
}

// projection returns the state of a session. The caller holds mu.
func (p *projector) projection(id chat.SessionID) *projection {
	l := p.projections[id]
	if l == nil {
		if len(p.projections) >= maxProjections {
			p.forget()
		}
		l = &projection{id: id, events: p.d.outgoing(id, Events), archive: p.d.outgoing(id, Archive), delta: p.d.outgoing(id, Delta)}
		p.projections[id] = l
	}
	return l
}

// forget drops the state of sessions that have nothing to publish; it can be derived
// from the archive again. The caller holds mu.
func (p *projector) forget() {
	busy := map[*projection]bool{}
	for i := range p.queue {
		busy[p.queue[i].projection] = true
	}
	for id, l := range p.projections {
		if !l.behind && !l.erased && !busy[l] && l.settled() {
			delete(p.projections, id)
			if len(p.projections) < maxProjections/2 {
				return
			}
		}
	}
}

// put queues a job and wakes the loop. The caller holds mu.
func (p *projector) put(j job) {
	p.queue = append(p.queue, j)
	p.bytes += len(j.fact.JSON)
	p.wakeUp()
}

// wakeUp wakes the loop, which also sends the message that acks holds back.
func (p *projector) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// fallBehind marks a session as behind and queues its repair. The caller holds mu.
func (p *projector) fallBehind(l *projection, at chat.At) {
	if l.behind {
		l.stale = true
		return
	}
	l.behind, l.since = true, at
	l.off.Store(true)
	if p.behind == 0 {
		p.caughtUp = make(chan struct{})
	}
	p.behind++
	p.put(job{projection: l, what: repairTask})
}

// imported publishes a session that was imported as a whole; at is its last activity.
func (p *projector) imported(id chat.SessionID, at chat.At) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fallBehind(p.projection(id), at)
}

// fallBehindAll marks the sessions of a window as behind.
func (p *projector) fallBehindAll(w *window) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range w.projections {
		if !l.erased {
			p.fallBehind(l, w.oldest)
		}
	}
}

// caughtUpWith marks a session as no longer behind. The caller holds mu.
func (p *projector) caughtUpWith(l *projection) {
	l.behind, l.stale = false, false
	l.off.Store(l.erased)
	if p.behind--; p.behind == 0 {
		close(p.caughtUp)
	}
}

// erase queues the removal of a session from the archive.
func (p *projector) erase(id chat.SessionID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.projection(id)
	if l.erased {
		return // it is queued already, and repeated until it succeeds
	}
	l.erased, l.eraseDone = true, make(chan struct{})
	l.off.Store(true)
	p.erasing++
	p.eraseCount++
	if !l.behind {
		l.since = chat.AtOf(p.d.opt.Now())
	}
	p.put(job{projection: l, what: eraseTask})
}

// waitErased waits until the archive has nothing of an erased session, and returns
// false when ctx ends first.
func (p *projector) waitErased(ctx context.Context, id chat.SessionID) bool {
	p.mu.Lock()
	l := p.projections[id]
	if l == nil || l.eraseDone == nil {
		p.mu.Unlock()
		return true
	}
	wiped := l.eraseDone
	p.mu.Unlock()
	select {
	case <-wiped:
		return true
	case <-ctx.Done():
		return false
	}
}

// run publishes until ctx ends. Then it calls drainInput, which returns when all
// received messages are stored, and publishes what is left.
func (p *projector) run(ctx context.Context, conn *nats.Conn, stream jetstream.Stream, drainInput func()) error {
	out := &publisher{p: p, conn: conn, stream: stream}
	p.inspect(ctx, stream)
	p.setArchive(stream)
	defer p.setArchive(nil)
	if err := p.acks.open(ctx, out); err != nil {
		return err
	}
	defer p.acks.close()
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	out.repairReady.L = &out.mu
	for range 4 {
		wg.Go(func() { out.runRepairs(late) })
	}
	defer context.AfterFunc(late, out.repairReady.Broadcast)()
	wg.Go(func() { p.recover(ctx, stream) })
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	connects := conn.Stats().Reconnects
	for {
		batch := p.batch()
		for _, j := range batch {
			out.do(late, j)
		}
		p.acks.cut()
		if len(batch) >= busyBatch {
			pause(ctx, busyPause)
		}
		select {
		case <-p.wake:
		case <-tick.C:
			if n := conn.Stats().Reconnects; n != connects {
				connects = n
				p.acks.expire(0) // what was sent on the old connection is not acknowledged any more
			}
			p.acks.expire(ackWait)
			p.save(late, stream, false)
		case <-ctx.Done():
			drainInput()
			p.finish(late, out)
			cancel()
			return nil
		}
	}
}

// finish publishes what is queued, for at most 3 seconds. The next start publishes
// the rest from the log.
func (p *projector) finish(ctx context.Context, out *publisher) {
	limit := time.Now().Add(3 * time.Second)
	for {
		for _, j := range p.batch() {
			out.do(ctx, j)
		}
		p.acks.cut()
		p.mu.Lock()
		idle, caughtUp := len(p.queue) == 0, p.caughtUp
		behind := p.behind
		p.mu.Unlock()
		if idle && behind == 0 && p.acks.pending() == 0 {
			break
		}
		if time.Now().After(limit) {
			break
		}
		if behind == 0 {
			caughtUp = nil
		}
		wait, done := context.WithDeadline(ctx, time.Now().Add(20*time.Millisecond))
		select {
		case <-p.wake:
		case <-caughtUp:
		case <-p.acks.settledSignal:
		case <-wait.Done():
		}
		done()
	}
	p.setOpen(false)
	p.save(ctx, out.stream, true)
}

// setOpen says whether stored events are queued; if not, their sessions become behind.
func (p *projector) setOpen(open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = !open
}

// batch takes the queued jobs.
func (p *projector) batch() []job {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.queue
	clear(p.spare[:cap(p.spare)])
	p.queue, p.spare, p.bytes = p.spare[:0], b, 0
	return b
}

// save writes the watermark: the time up to which all events are in the archive.
func (p *projector) save(ctx context.Context, stream jetstream.Stream, clean bool) {
	p.mu.Lock()
	at := chat.AtOf(p.d.opt.Now())
	restored := p.restored
	for i := range p.queue {
		if p.queue[i].what == factTask {
			at = min(at, p.queue[i].at)
			break // the queue is nearly in the order of time
		}
	}
	if p.behind+p.erasing > 0 {
		for _, l := range p.projections {
			if (l.behind || l.erased) && l.since != 0 {
				at = min(at, l.since)
			}
		}
	}
	p.mu.Unlock()
	if oldest, ok := p.acks.oldest(); ok {
		at = min(at, oldest)
	}
	archive := func() *archiveState {
		if p.d.opt.External {
			return nil // other programs may change it
		}
		p.mu.Lock()
		before := p.eraseCount
		p.mu.Unlock()
		s, err := stateOf(ctx, stream)
		if err != nil {
			p.d.log.WarnContext(ctx, "the state of the x1 archive could not be read", "err", err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.erasing > 0 || p.eraseCount != before {
			return nil // messages are being erased
		}
		return s
	}
	if err := p.mark.save(at, restored, clean, archive); err != nil {
		p.d.log.Warn("the watermark of the archive could not be written", "err", err)
	}
}
