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

// projector publishes what is stored: events, archive, delta and the input of
// sidecars. It is behind the commit and never in its way. Everything goes through
// one queue, in order per session. When the queue is full, when NATS is away, or
// when the archive lost something, a session falls back: what it lacks is read
// from the log again (repair.go) and the queue goes on behind that.
type projector struct {
	d    *Dialect
	mark *watermark
	acks *acks
	wake chan struct{} // the queue has something; room for one

	mu      sync.Mutex
	archive jetstream.Stream // while it publishes
	lanes   map[chat.SessionID]*lane
	queue   []job
	spare   []job
	bytes   int
	whole   bool // all that was stored before this process is in the archive
	closed  bool // nobody publishes; sessions only fall back
	ill     int  // lanes that have fallen back
	erased  int  // sessions that the archive has to forget
	wipes   int  // how many there ever were
	calm    chan struct{}
}

// lane is one session on its way out. Guarded by projector.mu, down to gone, and
// from live on by acks.mu.
type lane struct {
	id     chat.SessionID
	next   chat.Seq // the number that comes next; 0 when that is not known
	behind bool     // the log is read instead of the queue
	stale  bool     // something was stored since the log was read
	since  chat.At  // position of the first event that did not go out, or of the erase
	gone   bool     // erased

	wiped chan struct{} // closed once the archive has forgotten it; nil until it is erased

	live   bool  // somebody follows it, as far as its newest window knows
	unseen []raw // published to the archive alone, and not acknowledged there

	events  string                 // its subjects, as we publish on them
	archive string                 //
	delta   string                 //
	off     atomic.Bool            // behind or gone, for those without the lock
	window  atomic.Pointer[window] // the newest one with an event of it
	mend    sync.Mutex             // held while it is repaired or purged; taken before all others
}

// raw is an event as it goes out, and the number of its window.
type raw struct {
	window uint64
	data   []byte
}

// settled reports whether all that was published of it is acknowledged.
func (l *lane) settled() bool {
	w := l.window.Load()
	return w == nil || w.settled.Load()
}

// job is one thing to publish.
type job struct {
	lane  *lane
	what  task
	typ   string
	fact  chat.Fact
	piece *chat.Preview
	at    chat.At
}

type task uint8

const (
	sendFact task = iota
	sendPiece
	repair
	purge
)

// Bounds of the queue.
const (
	maxQueued = 1 << 16
	maxBytes  = 32 << 20
	maxLanes  = 50_000
)

// While much is stored the loop takes a breath after so many: what comes meanwhile
// goes out together, with fewer hand-overs between us and NATS.
const (
	busy   = 64
	breath = 5 * time.Millisecond
)

func newProjector(d *Dialect) (*projector, error) {
	m, err := openWatermark(d.opt.Dir, d.opt.Now)
	if err != nil {
		return nil, err
	}
	p := &projector{d: d, mark: m, wake: make(chan struct{}, 1), lanes: map[chat.SessionID]*lane{}, closed: true, calm: make(chan struct{})}
	p.acks = newAcks(p)
	return p, nil
}

// take queues what was stored or is being written.
func (p *projector) take(id chat.SessionID, entries []chat.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		if e.Piece != nil {
			if !p.closed && len(p.queue) < maxQueued && p.bytes < maxBytes {
				// A piece that is left out is in the finished block.
				p.put(job{lane: p.lane(id), what: sendPiece, piece: e.Piece, at: e.At})
			}
			continue
		}
		if e.Fact.Seq == 1 {
			p.mark.learn(&e.Fact)
		}
		l := p.lane(id)
		switch {
		case l.behind:
			l.stale = true
		case p.closed, len(p.queue) >= maxQueued, p.bytes >= maxBytes:
			p.fallBack(l, e.At)
		case l.next == 0 && e.Fact.Seq > 1 && !p.whole, l.next != 0 && l.next != e.Fact.Seq:
			p.fallBack(l, e.At)
		default:
			l.next = e.Fact.Seq + 1
			p.put(job{lane: l, what: sendFact, typ: e.Label.Type, fact: e.Fact, at: e.At})
		}
	}
}

// lane returns the lane of a session. The caller holds mu.
func (p *projector) lane(id chat.SessionID) *lane {
	l := p.lanes[id]
	if l == nil {
		if len(p.lanes) >= maxLanes {
			p.forget()
		}
		l = &lane{id: id, events: p.d.outgoing(id, Events), archive: p.d.outgoing(id, Archive), delta: p.d.outgoing(id, Delta)}
		p.lanes[id] = l
	}
	return l
}

// forget drops lanes that have nothing under way. What is known of them follows
// from the archive. The caller holds mu.
func (p *projector) forget() {
	busy := map[*lane]bool{}
	for i := range p.queue {
		busy[p.queue[i].lane] = true
	}
	for id, l := range p.lanes {
		if !l.behind && !l.gone && !busy[l] && l.settled() {
			delete(p.lanes, id)
			if len(p.lanes) < maxLanes/2 {
				return
			}
		}
	}
}

// put queues a job and wakes the loop. The caller holds mu.
func (p *projector) put(j job) {
	p.queue = append(p.queue, j)
	p.bytes += len(j.fact.JSON)
	p.stir()
}

// stir wakes the loop, which sends what is held back.
func (p *projector) stir() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// fallBack lets a session be read from the log. The caller holds mu.
func (p *projector) fallBack(l *lane, at chat.At) {
	if l.behind {
		l.stale = true
		return
	}
	l.behind, l.since = true, at
	l.off.Store(true)
	if p.ill == 0 {
		p.calm = make(chan struct{})
	}
	p.ill++
	p.put(job{lane: l, what: repair})
}

// imported lets a session be read from the log that nobody has heard of; at is
// when it was last active, by which the next process would find it.
func (p *projector) imported(id chat.SessionID, at chat.At) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fallBack(p.lane(id), at)
}

// lapse lets the sessions of a window fall back.
func (p *projector) lapse(w *window) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range w.lanes {
		if !l.gone {
			p.fallBack(l, w.oldest)
		}
	}
}

// recovered ends a fallBack. The caller holds mu.
func (p *projector) recovered(l *lane) {
	l.behind, l.stale = false, false
	l.off.Store(l.gone)
	if p.ill--; p.ill == 0 {
		close(p.calm)
	}
}

// erase lets the archive forget a session.
func (p *projector) erase(id chat.SessionID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lane(id)
	if l.gone {
		return // it is under way, until it succeeds
	}
	l.gone, l.wiped = true, make(chan struct{})
	l.off.Store(true)
	p.erased++
	p.wipes++
	if !l.behind {
		l.since = chat.AtOf(p.d.opt.Now())
	}
	p.put(job{lane: l, what: purge})
}

// forgotten waits until the archive has nothing more of an erased session, or
// until ctx ends, and reports whether it came to that.
func (p *projector) forgotten(ctx context.Context, id chat.SessionID) bool {
	p.mu.Lock()
	l := p.lanes[id]
	if l == nil || l.wiped == nil {
		p.mu.Unlock()
		return true
	}
	wiped := l.wiped
	p.mu.Unlock()
	select {
	case <-wiped:
		return true
	case <-ctx.Done():
		return false
	}
}

// run publishes until ctx ends, and then, once quiet has let everything that is
// coming in be stored, what is left. It returns when nothing is under way.
func (p *projector) run(ctx context.Context, conn *nats.Conn, js jetstream.JetStream, stream jetstream.Stream, quiet func()) error {
	out := &outlet{p: p, conn: conn, stream: stream}
	p.inspect(ctx, stream)
	p.show(stream)
	defer p.show(nil)
	if err := p.acks.open(ctx, out); err != nil {
		return err
	}
	defer p.acks.close()
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	out.sick.L = &out.mu
	for range 4 {
		wg.Go(func() { out.repairs(late) })
	}
	defer context.AfterFunc(late, out.sick.Broadcast)()
	wg.Go(func() { p.recover(ctx, stream) })
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	lives := conn.Stats().Reconnects
	for {
		batch := p.batch()
		for _, j := range batch {
			out.do(late, j)
		}
		p.acks.cut()
		if len(batch) >= busy {
			pause(ctx, breath)
		}
		select {
		case <-p.wake:
		case <-tick.C:
			if n := conn.Stats().Reconnects; n != lives {
				lives = n
				p.acks.expire(0) // nobody will acknowledge what was sent before
			}
			p.acks.expire(ackWait)
			p.save(late, stream, false)
		case <-ctx.Done():
			quiet()
			p.finish(late, out)
			cancel()
			return nil
		}
	}
}

// finish publishes what is queued, for a moment: what does not get out is found
// in the log at the next start.
func (p *projector) finish(ctx context.Context, out *outlet) {
	limit := time.Now().Add(3 * time.Second)
	for {
		for _, j := range p.batch() {
			out.do(ctx, j)
		}
		p.acks.cut()
		p.mu.Lock()
		idle, calm := len(p.queue) == 0, p.calm
		ill := p.ill
		p.mu.Unlock()
		if idle && ill == 0 && p.acks.pending() == 0 {
			break
		}
		if time.Now().After(limit) {
			break
		}
		if ill == 0 {
			calm = nil
		}
		wait, done := context.WithDeadline(ctx, time.Now().Add(20*time.Millisecond))
		select {
		case <-p.wake:
		case <-calm:
		case <-p.acks.news:
		case <-wait.Done():
		}
		done()
	}
	p.admit(false)
	p.save(ctx, out.stream, true)
}

// admit says whether what is stored is queued; else sessions fall back.
func (p *projector) admit(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = !yes
}

// batch takes what is queued.
func (p *projector) batch() []job {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.queue
	clear(p.spare[:cap(p.spare)])
	p.queue, p.spare, p.bytes = p.spare[:0], b, 0
	return b
}

// save writes down up to which moment everything is in the archive.
func (p *projector) save(ctx context.Context, stream jetstream.Stream, clean bool) {
	p.mu.Lock()
	at := chat.AtOf(p.d.opt.Now())
	whole := p.whole
	for i := range p.queue {
		if p.queue[i].what == sendFact {
			at = min(at, p.queue[i].at)
			break // the queue is in the order of time, nearly
		}
	}
	if p.ill+p.erased > 0 {
		for _, l := range p.lanes {
			if (l.behind || l.gone) && l.since != 0 {
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
			return nil // others may change it
		}
		p.mu.Lock()
		before := p.wipes
		p.mu.Unlock()
		s, err := stateOf(ctx, stream)
		if err != nil {
			p.d.log.WarnContext(ctx, "the archive of x1 does not tell its state", "err", err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.erased > 0 || p.wipes != before {
			return nil // messages are being removed on purpose
		}
		return s
	}
	if err := p.mark.save(at, whole, clean, archive); err != nil {
		p.d.log.Warn("the watermark of the archive could not be written", "err", err)
	}
}
