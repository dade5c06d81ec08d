package x1

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/sleep"
)

// projector publishes stored events on events and archive, previews on delta, and user
// messages on the input of sidecars. It runs after the commit and never delays one.
//
// An event from the queue is published if it is the next one of its session. If it is not,
// if the queue is full, or if NATS did not confirm a batch, the session is behind: its
// missing events are read from the log (repair.go), and then the queue continues.
type projector struct {
	d    *Dialect
	mark *watermark
	wake chan struct{} // the queue has something; room for one
	conn *nats.Conn    // set by run

	publishing sync.Mutex // held while a batch is published; taken before mu
	acks       *nats.Subscription
	ackSubject string
	batches    uint64 // number of the newest batch
	archived   uint64 // the archive's last sequence, if counted
	counted    bool
	// A batch was not confirmed: the archive may still store messages of it, until it confirms a later one.
	unconfirmed bool

	mu          sync.Mutex
	archive     jetstream.Stream // nil while not connected
	projections map[chat.SessionID]*projection
	queue       []job
	taken       []job // the jobs that run takes from the queue
	bytes       int
	restored    bool // all events of earlier processes are in the archive
	closed      bool // nothing is queued; sessions with new events become behind
	repairs     []*projection
	repairReady sync.Cond     // repairs is not empty, or run ends
	behind      int           // sessions that are behind
	erasing     int           // erased sessions that are still in the archive
	eraseCount  int           // erased sessions since the start
	caughtUp    chan struct{} // closed when no session is behind
}

// projection is the publishing state of one session. projector.publishing guards batch and
// live, projector.mu the fields before them.
type projection struct {
	id        chat.SessionID
	next      chat.Seq // the sequence to publish next; 0 when unknown
	behind    bool     // events are read from the log instead of the queue
	stale     bool     // something was stored since the log was read
	repairing bool     // it is in repairs, or a goroutine repairs it
	since     chat.At  // time of the first event that was not published, or of the erasure
	erased    bool
	eraseDone chan struct{} // closed once the archive has nothing of it; nil until it is erased

	batch uint64 // the newest batch with an event of it
	live  bool   // there were subscribers when that batch began

	events, archive, delta string // subjects
}

// job is an event or a preview to publish.
type job struct {
	projection *projection
	typ        string
	fact       chat.Fact
	piece      *chat.Preview
	at         chat.At
}

// Bounds of the queue. When it is full, previews are dropped and sessions with new events
// become behind.
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
	p.repairReady.L = &p.mu
	return p, nil
}

// take queues stored events and previews.
func (p *projector) take(id chat.SessionID, entries []core.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.projection(id)
	for i := range entries {
		e := &entries[i]
		room := !p.closed && len(p.queue) < maxQueued && p.bytes < maxBytes
		if e.Piece == nil && e.Fact.Seq == 1 {
			p.mark.addWorkspaceOf(&e.Fact)
		}
		switch {
		case room && (e.Piece != nil || !l.behind):
			p.queue = append(p.queue, job{projection: l, typ: e.Label.Type, fact: e.Fact, piece: e.Piece, at: e.At})
			p.bytes += len(e.Fact.JSON)
		case e.Piece == nil:
			p.fallBehind(l, e.At)
		}
	}
	select {
	case p.wake <- struct{}{}:
	default:
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
	for _, jobs := range [][]job{p.queue, p.taken} {
		for i := range jobs {
			busy[jobs[i].projection] = true
		}
	}
	for id, l := range p.projections {
		if !l.repairing && !busy[l] {
			delete(p.projections, id)
			if len(p.projections) < maxProjections/2 {
				return
			}
		}
	}
}

// fallBehind marks a session as behind and queues its repair. The caller holds mu.
func (p *projector) fallBehind(l *projection, at chat.At) {
	if l.behind {
		l.stale = true
		return
	}
	l.behind, l.since = true, at
	if p.behind == 0 {
		p.caughtUp = make(chan struct{})
	}
	p.behind++
	p.queueRepair(l)
}

// queueRepair queues the repair or the erasure of a session. The caller holds mu.
func (p *projector) queueRepair(l *projection) {
	if !l.repairing {
		l.repairing = true
		p.repairs = append(p.repairs, l)
		p.repairReady.Signal()
	}
}

// imported publishes a session that was imported as a whole; at is its last activity.
func (p *projector) imported(id chat.SessionID, at chat.At) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fallBehind(p.projection(id), at)
}

// caughtUpWith marks a session as no longer behind. The caller holds mu.
func (p *projector) caughtUpWith(l *projection) {
	l.behind, l.stale = false, false
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
	p.erasing++
	p.eraseCount++
	if !l.behind {
		l.since = chat.AtOf(p.d.opt.Now())
	}
	p.queueRepair(l)
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
	done := l.eraseDone
	p.mu.Unlock()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// run publishes until ctx ends. Then it calls drainInput, which returns when all
// received messages are stored, and publishes what is left.
func (p *projector) run(ctx context.Context, conn *nats.Conn, stream jetstream.Stream, drainInput func()) error {
	p.conn = conn
	p.inspect(ctx, stream)
	p.setArchive(stream)
	defer p.setArchive(nil)
	if err := p.subscribeAcks(); err != nil {
		return err
	}
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range 4 {
		wg.Go(func() { p.runRepairs(late, stream) })
	}
	context.AfterFunc(late, func() {
		p.mu.Lock() // a goroutine that has checked late waits by now
		defer p.mu.Unlock()
		p.repairReady.Broadcast()
	})
	wg.Go(func() { p.recover(ctx, stream) })
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if p.publishQueued(late) >= busyBatch {
			sleep.For(ctx, busyPause)
		}
		select {
		case <-p.wake:
		case <-tick.C:
			p.save(late, stream, false)
		case <-ctx.Done():
			drainInput()
			p.finish(late)
			p.save(late, stream, true)
			return nil
		}
	}
}

// finish publishes what is queued, for at most 3 seconds. The next start publishes
// the rest from the log.
func (p *projector) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	for p.publishQueued(ctx) > 0 && ctx.Err() == nil {
	}
	p.setOpen(false)
	p.mu.Lock()
	caughtUp, behind := p.caughtUp, p.behind
	p.mu.Unlock()
	if behind > 0 {
		select {
		case <-caughtUp:
		case <-ctx.Done():
		}
	}
}

// setOpen says whether stored events are queued; if not, their sessions become behind.
func (p *projector) setOpen(open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = !open
}

// takeQueue takes the queued jobs.
func (p *projector) takeQueue() []job {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.taken)
	p.queue, p.taken, p.bytes = p.taken[:0], p.queue, 0
	return p.taken
}

// isNext reports whether an event from the queue is the next one of its session. A session
// that misses events becomes behind.
func (p *projector) isNext(j *job) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := j.projection
	if l.next == 0 && (j.fact.Seq == 1 || p.restored) {
		l.next = j.fact.Seq
	}
	switch {
	case l.behind, l.erased, j.fact.Seq < l.next:
		return false // a repair publishes it or has published it
	case j.fact.Seq != l.next:
		p.fallBehind(l, j.at)
		return false
	}
	l.next++
	return true
}

// save writes the watermark: the time up to which all events are in the archive.
func (p *projector) save(ctx context.Context, stream jetstream.Stream, clean bool) {
	p.mu.Lock()
	at := chat.AtOf(p.d.opt.Now())
	restored := p.restored
	for i := range p.queue {
		if p.queue[i].piece == nil {
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
