package hub

import (
	"context"
	"errors"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// How long a followed reader keeps its goroutine while it waits. The stack is most of
// the memory of an idle reader. A reader that is woken often keeps its goroutine; a
// new reader releases it soon, because it may stay idle.
const (
	keepGoroutine = time.Second
	keepFirst     = 5 * time.Millisecond
)

// errDetached means that a reader waits without a goroutine.
var errDetached = errors.New("waits without a goroutine")

// follower is the additional state of a reader that may wait without a goroutine.
type follower struct {
	ctx            context.Context // ends with the reader; a field, because no single call lasts as long
	sink           core.Sink
	unhook         func() bool // removes the function that runs at the end of ctx; nil until the reader is detached first
	detached       bool        // waits without a goroutine; guarded by topic.mu
	needsGoroutine bool        // was woken while detached: wake starts a goroutine
}

// Follow is [Hub.Watch] for readers that are idle most of the time: sink gets what
// Watch would yield, one call at a time, and at the end Done. Follow returns when the
// reader has ended, or when it was idle for a while: then the reader continues in
// goroutines that exist only while there is something to write. from.Idle is ignored.
func (h *Hub) Follow(ctx context.Context, id chat.SessionID, from Start, enc Encoding, sink core.Sink) {
	from.Idle = keepFirst
	r, err := h.begin(ctx, id, &from, enc)
	r.follower = &follower{ctx: ctx, sink: sink}
	r.serve(err)
}

// serve runs a followed reader until it is detached or ends.
func (r *reader) serve(err error) {
	f := r.follower
	if f.unhook != nil {
		r.idle = keepGoroutine
	}
	if r.loop(f.ctx, f.sink.Take, err) {
		return // another goroutine may run the reader already
	}
	if f.unhook != nil {
		f.unhook()
	}
	if r.topic != nil {
		r.hub.leave(r.topic, r)
	}
	f.sink.Done()
}

// errNeedsGoroutine means that a reader has to wait for its sink or the log.
var errNeedsGoroutine = errors.New("needs a goroutine")

// tryServe serves a reader that was woken while detached in the goroutine of the
// publisher, which saves a switch of goroutines for each piece: about 10 µs. It never
// waits: if the sink does not take a batch at once, or the reader has to read from the
// log, it returns errNeedsGoroutine. Any other error ends the reader.
func (r *reader) tryServe() error {
	f, t := r.follower, r.topic
	sink, ok := f.sink.(core.TrySink)
	if !ok {
		return errNeedsGoroutine
	}
	for {
		t.mu.Lock()
		if t.ended != nil || f.ctx.Err() != nil || !r.live || r.ahead || r.pos < t.live.first {
			t.mu.Unlock()
			return errNeedsGoroutine
		}
		r.last = t.last()
		if r.pos == t.live.end() {
			t.park(r)
			f.detached = true
			t.mu.Unlock()
			return nil
		}
		b := r.takeLive()
		if err := r.check(); err != nil {
			r.release()
			return err
		}
		if !sink.TryTake(b) {
			r.offer(b)
			return errNeedsGoroutine
		}
		r.release()
	}
}

// servedByPublisher reports whether publishers can serve the reader, so that it need
// not keep its goroutine.
func (r *reader) servedByPublisher() bool {
	if r.follower == nil {
		return false
	}
	_, ok := r.follower.sink.(core.TrySink)
	return ok
}

// detach ends a wait so that the goroutine can end. wake, and the end of the reader's
// context, serve the reader again.
func (r *reader) detach() error {
	f, t := r.follower, r.topic
	if f.unhook == nil {
		f.unhook = context.AfterFunc(f.ctx, r.reattach)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.parked < 0 || f.ctx.Err() != nil {
		return nil // woken or ended meanwhile: the loop continues
	}
	r.timer = nil
	f.detached = true
	return errDetached
}

// reattach runs a reader whose context has ended while it was detached. In any other
// case the goroutine that serves the reader finds that the context has ended.
func (r *reader) reattach() {
	t := r.topic
	t.mu.Lock()
	detached := r.follower.detached && r.parked >= 0
	if detached {
		r.follower.detached = false
		t.unparkOne(r)
	}
	t.mu.Unlock()
	if detached {
		r.serve(nil)
	}
}
