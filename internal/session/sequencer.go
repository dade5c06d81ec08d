package session

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/workstream"
)

// sequencer orders the requests of one session and caches its state. A caller that finds
// it idle handles all queued requests, then wakes the first caller that has queued a
// request in the meantime, which handles the next batch.
type sequencer struct {
	id       chat.SessionID
	sessions *Sessions
	users    atomic.Int32 // number of callers that have acquired it; at 0 it may be evicted

	access  atomic.Uint64                // counts changes of access to the session
	session atomic.Pointer[chat.Session] // for access checks; nil when not known
	open    atomic.Int64                 // bytes of open text; also counted in sessions.openText
	stale   atomic.Bool                  // state is older than the store, see Applied
	// The key of the owner in openText, once it is known.
	ownerKey atomic.Pointer[string]

	mu    sync.Mutex
	queue []*request
	spare []*request // memory of an earlier queue, for reuse
	busy  bool

	// Only the caller that handles the queue uses the fields below.
	state  *chat.State // nil until loaded, or after a failed commit
	lastAt chat.At     // position of the last event or piece

	blocks      []openBlock // the open blocks; valid if blocksKnown
	blocksKnown bool        // false after an append and exclusive work
	storing     storing     // the commit of requests that nobody waits for
	previewing  previewing  // memory for the next batch of previews
}

// request is one caller's request: rules that decide events, preview pieces, a read of
// the state, or exclusive work.
type request struct {
	rules
	undo      bool // the rules may fail after they added events, which are then removed
	create    bool // the session need not exist
	unbounded bool // is queued even if maxWaiting requests wait
	pieces    []chat.Preview
	caller    chat.Caller                                   // of pieces and appends
	files     map[string][]string                           // merged files, by id of the workstream that may end
	look      func(st *chat.State) error                    // receives the committed state
	exclusive func(ctx context.Context, r *sequencer) error // erases, imports or forks

	err         error
	independent bool      // its result does not depend on the commit of the batch
	panicked    bool      // the rules panicked on it; err is set
	wake        chan bool // true: handle the queue; false: the request is done
	then        answerer  // answers the request, for which nobody waits; else nil
	leads       bool      // the caller that queued it handles the queue
}

// rules decide the events of a request.
type rules interface {
	lookUp(ctx context.Context, r *sequencer) error // reads from the store what decide needs, in the sequencer's order
	decide(d *decision) error
}

// op implements rules for a function that needs no lookUp.
type op func(d *decision) error

func (op) lookUp(context.Context, *sequencer) error { return nil }
func (f op) decide(d *decision) error               { return f(d) }

// do queues req and returns when it is durable or refused.
func (r *sequencer) do(ctx context.Context, req *request) error {
	if err := r.join(req); err != nil {
		return err
	}
	return r.finish(ctx, req)
}

// join puts req into the queue. The caller must call finish, unless req.then is set.
func (r *sequencer) join(req *request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) >= maxWaiting && !req.unbounded {
		return chat.Errorf(chat.SlowDown, "too many requests wait for this session; try again in a moment")
	}
	r.queue = append(r.queue, req)
	switch {
	case !r.busy:
		r.busy, req.leads = true, true
	case req.then == nil:
		req.wake = make(chan bool, 1)
	}
	return nil
}

// finish waits until req is handled. If req is the first in the queue, this caller
// handles the whole queue.
func (r *sequencer) finish(ctx context.Context, req *request) error {
	if req.wake != nil {
		// Do not return when ctx ends: the request may already be part of a commit, and
		// the caller needs its result.
		if lead := <-req.wake; !lead {
			return req.err
		}
	}
	batch := r.take()
	r.handle(context.WithoutCancel(ctx), batch)
	r.pass()
	answerAll(batch, req)
	r.recycle(batch)
	return req.err
}

// take returns the queued requests. The caller handles the queue.
func (r *sequencer) take() []*request {
	r.mu.Lock()
	defer r.mu.Unlock()
	batch := r.queue
	r.queue, r.spare = r.spare, nil
	return batch
}

// answerAll tells those who sent the requests that they are done, except own.
func answerAll(batch []*request, own *request) {
	for _, req := range batch {
		switch {
		case req.then != nil:
			req.then.answer()
		case req != own:
			req.wake <- false
		}
	}
	flushAll(batch)
}

// recycle keeps the memory of a batch for the next queue.
func (r *sequencer) recycle(batch []*request) {
	if cap(batch) > 64 {
		return
	}
	clear(batch)
	r.mu.Lock()
	r.spare = batch[:0]
	r.mu.Unlock()
}

// tryLead makes the caller the one that handles the queue, if nobody does: then no request
// is queued. The caller must call pass.
func (r *sequencer) tryLead() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy {
		return false
	}
	r.busy = true
	return true
}

// yield passes the queue to the first request that was queued meanwhile. If run is not nil,
// it must be called in a goroutine that may wait.
func (r *sequencer) yield() (run func()) {
	r.mu.Lock()
	if len(r.queue) == 0 {
		r.busy = false
		r.mu.Unlock()
		return nil
	}
	first := r.queue[0] // busy stays set: this request handles the queue
	r.mu.Unlock()
	if first.then == nil {
		first.wake <- true
		return nil
	}
	return r.leadLater()
}

// pass is yield for a caller that has no goroutine for run.
func (r *sequencer) pass() {
	if run := r.yield(); run != nil {
		go run()
	}
}

// maxWaiting bounds the callers that wait for one sequencer.
const maxWaiting = 4096

// handle handles the requests in order. Consecutive appends share one commit, and
// consecutive previews share one write.
func (r *sequencer) handle(ctx context.Context, batch []*request) {
	for len(batch) > 0 {
		n, kind := 1, batch[0].kind()
		for n < len(batch) && kind != exclusives && batch[n].kind() == kind {
			n++
		}
		r.group(ctx, kind, batch[:n])
		batch = batch[n:]
	}
}

// group handles consecutive requests of one kind.
func (r *sequencer) group(ctx context.Context, kind int, batch []*request) {
	defer func() {
		// A panic must not leave the sequencer busy for ever.
		if p := recover(); p != nil {
			r.state = nil
			fail(batch, r.fault(p))
		}
	}()
	if kind == appends || kind == exclusives {
		r.blocksKnown = false
	}
	switch kind {
	case appends:
		r.append(ctx, batch)
	case previews:
		r.preview(ctx, batch)
	case looks:
		err := r.load(ctx)
		for _, req := range batch {
			if req.err = err; err == nil {
				req.err = req.look(r.state)
			}
		}
	case exclusives:
		r.state = nil
		batch[0].err = batch[0].exclusive(ctx, r)
		r.session.Store(nil)
		r.ownerKey.Store(nil)
	}
}

// fault logs a panic of the rules and returns the error for the caller.
func (r *sequencer) fault(p any) error {
	r.sessions.opt.Logger.Error("the rules failed", "session", r.id, "fault", p, "stack", string(debug.Stack()))
	return chat.Errorf(chat.Internal, "the server failed on this request; nothing was written")
}

// The kinds of request.
const (
	appends = iota
	previews
	looks
	exclusives
)

func (q *request) kind() int {
	switch {
	case q.exclusive != nil:
		return exclusives
	case q.look != nil:
		return looks
	case q.pieces != nil:
		return previews
	}
	return appends
}

// load reads the state from the store if it is not cached.
func (r *sequencer) load(ctx context.Context) error {
	if r.stale.Load() {
		r.stale.Store(false) // before the store is read
		r.state = nil
	}
	if r.state != nil {
		return nil
	}
	st, err := r.sessions.log.Load(ctx, r.id)
	if err != nil {
		return err
	}
	r.state, r.blocksKnown = st, false
	r.recountOpen(&st.Session)
	// lastAt includes the positions of preview pieces, which the state does not have.
	r.lastAt = max(r.lastAt, st.LastAt)
	for _, b := range r.sessions.live.Blocks(r.id) {
		for _, e := range b.Ends {
			r.lastAt = max(r.lastAt, e.At)
		}
	}
	return nil
}

// append decides and commits the batch. After a commit conflict it decides again on the
// newer state. If the rules panic on a request, it decides again without that request.
func (r *sequencer) append(ctx context.Context, batch []*request) {
	for try := 0; ; {
		err := r.tryAppend(ctx, batch)
		if err == nil {
			return
		}
		r.state = nil // the decided events were not stored
		if err == errPanicked {
			continue
		}
		if chat.ReasonOf(err) == chat.CommitConflict && try < maxTries {
			try++
			continue
		}
		r.notStored(batch, err)
		return
	}
}

// notStored sets the error of all requests whose result depends on the commit of the batch.
func (r *sequencer) notStored(batch []*request, err error) {
	err = fmt.Errorf("append to %s: %w", r.id, err)
	for _, req := range batch {
		if !req.independent {
			req.err = err
		}
	}
}

// maxTries is how often a batch is decided again after a commit conflict.
const maxTries = 3

// errPanicked means that the rules panicked on a request. Its field panicked is set.
var errPanicked = errors.New("the rules failed")

func (r *sequencer) tryAppend(ctx context.Context, batch []*request) error {
	d, c, err := r.decideAll(ctx, batch)
	if err != nil || c == nil {
		return err
	}
	if err := r.sessions.log.Commit(ctx, c); err != nil {
		return err
	}
	r.stored(d)
	return nil
}

// decideAll decides the batch. The commit is nil if there is nothing to store.
func (r *sequencer) decideAll(ctx context.Context, batch []*request) (*decision, *core.Commit, error) {
	missing := r.load(ctx)
	if missing != nil && chat.CodeOf(missing) != chat.NotFound {
		fail(batch, missing)
		return nil, nil, nil
	}
	d := r.begin()
	for _, req := range batch {
		if req.panicked {
			continue
		}
		before := len(d.events)
		switch {
		case d.state == nil && !req.create:
			req.err = missing
		case !r.decide(ctx, d, req):
			return nil, nil, errPanicked
		}
		req.independent = before == 0 && len(d.events) == 0
	}
	if len(d.events) == 0 {
		return nil, nil, nil
	}
	c, err := d.commit()
	return d, c, err
}

// stored makes a decision visible that is durable now.
func (r *sequencer) stored(d *decision) {
	r.state, r.lastAt = d.state, d.lastAt
	r.sessions.tell(r.id, func() { r.show(d) })
}

// begin returns a decision on the current state.
func (r *sequencer) begin() *decision {
	d := &decision{
		session: r.id, state: r.state, blocks: r.sessions.live.Blocks(r.id),
		now: r.sessions.now(), lastAt: r.lastAt, maxQueue: r.sessions.opt.MaxQueue,
	}
	d.events, d.facts = d.first.event[:0], d.first.fact[:0]
	return d
}

// decide applies the rules of a request. It returns false if they panicked.
func (r *sequencer) decide(ctx context.Context, d *decision, req *request) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			req.err, req.panicked, req.independent = r.fault(p), true, true
		}
	}()
	if req.err = req.lookUp(ctx, r); req.err == nil {
		req.err = d.run(req)
	}
	return true
}

// show sends the stored events to readers and observers, and updates the caches.
func (r *sequencer) show(d *decision) {
	if d.record {
		sess := d.state.Session
		r.session.Store(&sess)
	}
	if d.members {
		r.access.Add(1)
	}
	r.sessions.publish(r.id, d.entries())
	if r.open.Load() > 0 {
		r.recountOpen(&d.state.Session) // an event may have finished a block
	}
	r.sessions.tellCommitted(r.id, d.events)
	if d.work && r.sessions.dueTimes.set(r.id, workstream.First(d.state)) || d.deadline {
		r.sessions.wakeRun()
	}
}

func fail(batch []*request, err error) {
	for _, req := range batch {
		req.err = err
	}
}

// release allows the sequencer to be evicted when no other caller uses it.
func (r *sequencer) release() { r.users.Add(-1) }
