package session

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/parley-hq/parley/chat"
)

// room orders what is written to one session. The first caller that finds it
// free does its own work and that of all who came meanwhile, then hands over.
type room struct {
	id    chat.SessionID
	home  *Sessions
	users atomic.Int32 // callers inside; a room with none may be forgotten

	access  atomic.Uint64                // counts changes of who may see the session
	session atomic.Pointer[chat.Session] // for access checks; nil when not known

	mu    sync.Mutex
	queue []*request
	busy  bool

	// The rest belongs to whoever is busy.
	state  *chat.State // nil until loaded, or after a failed commit
	lastAt chat.At     // position of the last event or piece
}

// request is one caller's wish: an op that decides events, preview pieces, or a
// look at the state.
type request struct {
	op     func(d *decision) error
	ready  func(ctx context.Context, r *room) error // look-ups that deciding needs, done in order
	undo   bool                                     // op may fail after it added events
	create bool                                     // the session need not exist
	pieces []chat.Preview
	caller chat.Caller
	look   func(st *chat.State) // sees what is committed, and nothing that is under way

	events []chat.Event // what it appended
	err    error
	wake   chan bool // true: you lead; false: you are done
}

// do handles req in its order and returns when it is durable or refused.
func (r *room) do(ctx context.Context, req *request) error {
	if err := r.join(req); err != nil {
		return err
	}
	return r.finish(ctx, req)
}

// join gives req its place in the order. Who joined must call finish.
func (r *room) join(req *request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) >= maxWaiting {
		return chat.Errorf(chat.SlowDown, "too many requests wait for this session; try again in a moment")
	}
	r.queue = append(r.queue, req)
	if r.busy {
		req.wake = make(chan bool, 1)
	} else {
		r.busy = true
	}
	return nil
}

// finish waits until req is handled, and handles it and its neighbours when it
// is the first in line.
func (r *room) finish(ctx context.Context, req *request) error {
	if req.wake != nil {
		// The wait is not given up when ctx ends: the request may already be
		// on its way to the disk, and its outcome must be known.
		if lead := <-req.wake; !lead {
			return req.err
		}
	}
	r.mu.Lock()
	batch := r.queue
	r.queue = nil
	r.mu.Unlock()

	r.handle(context.WithoutCancel(ctx), batch)

	r.mu.Lock()
	if len(r.queue) > 0 {
		r.queue[0].wake <- true // stays busy: the next in line leads
	} else {
		r.busy = false
	}
	r.mu.Unlock()
	for _, other := range batch {
		if other != req {
			other.wake <- false
		}
	}
	return req.err
}

// maxWaiting bounds the callers that wait for one room.
const maxWaiting = 4096

// handle does the requests in order. Neighbours that append share one commit,
// neighbours that preview one write.
func (r *room) handle(ctx context.Context, batch []*request) {
	all := batch
	defer func() {
		// A fault in the rules must not leave the room locked for ever.
		if p := recover(); p != nil {
			r.state = nil
			r.home.opt.Logger.Error("the rules failed", "session", r.id, "fault", p, "stack", string(debug.Stack()))
			fail(all, chat.Errorf(chat.Internal, "the server failed on this request; nothing was written"))
		}
	}()
	for len(batch) > 0 {
		n := 1
		for n < len(batch) && batch[n].kind() == batch[0].kind() {
			n++
		}
		switch batch[0].kind() {
		case appends:
			r.append(ctx, batch[:n])
		case previews:
			r.preview(ctx, batch[:n])
		case looks:
			err := r.load(ctx)
			for _, req := range batch[:n] {
				if req.err = err; err == nil {
					req.look(r.state)
				}
			}
		}
		batch = batch[n:]
	}
}

// The kinds of request.
const (
	appends = iota
	previews
	looks
)

func (q *request) kind() int {
	switch {
	case q.look != nil:
		return looks
	case q.pieces != nil:
		return previews
	}
	return appends
}

// load makes sure that the state is there.
func (r *room) load(ctx context.Context) error {
	if r.state != nil {
		return nil
	}
	st, err := r.home.log.Load(ctx, r.id)
	if err != nil {
		return err
	}
	r.state = st
	// Pieces of open blocks have positions too.
	r.lastAt = max(r.lastAt, st.LastAt)
	for _, b := range r.home.live.Blocks(r.id) {
		for _, e := range b.Ends {
			r.lastAt = max(r.lastAt, e.At)
		}
	}
	return nil
}

// append decides and commits the batch. When the committer says that the
// session has moved on, it decides again on the newer state.
func (r *room) append(ctx context.Context, batch []*request) {
	for try := 0; ; try++ {
		err := r.tryAppend(ctx, batch)
		if err == nil {
			return
		}
		r.state = nil // whatever was decided did not happen
		var e *chat.Error
		if errors.As(err, &e) && e.Code == chat.Conflict && try < 3 {
			continue
		}
		for _, req := range batch {
			if req.err == nil {
				req.events, req.err = nil, fmt.Errorf("append to %s: %w", r.id, err)
			}
		}
		return
	}
}

func (r *room) tryAppend(ctx context.Context, batch []*request) error {
	missing := r.load(ctx)
	if missing != nil && chat.CodeOf(missing) != chat.NotFound {
		fail(batch, missing)
		return nil
	}
	d := &decision{room: r, state: r.state, now: r.home.now(), lastAt: r.lastAt, maxQueue: r.home.opt.MaxQueue}
	for _, req := range batch {
		req.events, req.err = nil, nil
		if d.state == nil && !req.create {
			req.err = missing
			continue
		}
		if req.ready != nil {
			if req.err = req.ready(ctx, r); req.err != nil {
				continue
			}
		}
		req.err = d.run(req)
	}
	if len(d.events) == 0 {
		return nil
	}
	c := d.commit()
	if err := r.home.log.Commit(ctx, c); err != nil {
		return err
	}
	r.state, r.lastAt = d.state, d.lastAt
	if d.record {
		sess := d.state.Session
		r.session.Store(&sess)
	}
	if d.members {
		r.access.Add(1)
	}
	r.home.live.Publish(r.id, d.entries())
	if f := r.home.opt.Committed; f != nil {
		f(d.events)
	}
	if d.deadline {
		select {
		case r.home.sooner <- struct{}{}:
		default:
		}
	}
	return nil
}

func fail(batch []*request, err error) {
	for _, req := range batch {
		req.events, req.err = nil, err
	}
}

// leave gives the room back.
func (r *room) leave() { r.users.Add(-1) }
