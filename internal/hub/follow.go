package hub

import (
	"context"
	"errors"
	"time"

	"github.com/parley-hq/parley/chat"
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
	sink           chat.Sink
	unhook         func() bool // removes the function that runs at the end of ctx; set while it is detached
	detached       bool        // waits without a goroutine; guarded by topic.mu
	needsGoroutine bool        // was woken while detached: wake starts a goroutine
}

// Follow is [Hub.Watch] for readers that are idle most of the time: sink gets what
// Watch would yield, one call at a time, and at the end Done. Follow returns when the
// reader has ended, or when it was idle for a while: then the reader continues in
// goroutines that exist only while there is something to write. from.Idle is ignored.
func (h *Hub) Follow(ctx context.Context, id chat.SessionID, from Start, enc Encoding, sink chat.Sink) {
	from.Idle = keepFirst
	r, err := h.begin(ctx, id, &from, enc)
	r.follower = &follower{ctx: ctx, sink: sink}
	r.serve(err)
}

// serve runs a followed reader until it is detached or ends.
func (r *reader) serve(err error) {
	f := r.follower
	if f.unhook != nil {
		f.unhook() // if the function runs already, it finds that the reader is not detached
		f.unhook = nil
		r.idle = keepGoroutine
	}
	if r.loop(f.ctx, f.sink.Take, err) {
		return // another goroutine may run the reader already
	}
	if r.topic != nil {
		r.hub.leave(r.topic, r)
	}
	f.sink.Done()
}

// detach ends a wait so that the goroutine can end. wake, and the end of the reader's
// context, start another one.
func (r *reader) detach() error {
	f, t := r.follower, r.topic
	unhook := context.AfterFunc(f.ctx, r.reattach)
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.parked < 0 || f.ctx.Err() != nil {
		unhook()
		return nil // woken or ended meanwhile: the loop continues
	}
	r.timer = nil
	f.unhook, f.detached = unhook, true
	return errDetached
}

// reattach runs a reader whose context has ended while it was detached.
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
