package hub

import (
	"context"
	"errors"
	"time"

	"github.com/parley-hq/parley/chat"
)

// How long a followed reader keeps its goroutine while it waits. A stack is most
// of what a silent reader costs. One that is woken often keeps it; one that has just
// come may be silent for ever, and its stack serves the next.
const (
	linger      = time.Second
	lingerFirst = 5 * time.Millisecond
)

// errLetGo says that a reader waits without a goroutine.
var errLetGo = errors.New("waits without a goroutine")

// follower is what a reader has when no goroutine of its own keeps it.
type follower struct {
	ctx    context.Context // of the reader's whole life, which no call spans
	sink   chat.Sink
	unhook func() bool // takes back what the end of ctx would do; set while it waits alone
	alone  bool        // waits without a goroutine; under topic.mu
	called bool        // was woken while alone: it needs a goroutine
}

// Follow is [Hub.Watch] for readers that are silent for most of their lives: sink
// gets what Watch would yield, one call at a time, and Done as the last thing.
// Follow returns when the reader has ended, or when nothing has happened for a
// while: then it goes on by itself, in goroutines that last only while there is
// something to write. from.Idle is not looked at.
func (h *Hub) Follow(ctx context.Context, id chat.SessionID, from Start, enc Encoding, sink chat.Sink) {
	from.Idle = lingerFirst
	r, err := h.begin(ctx, id, &from, enc)
	r.follower = &follower{ctx: ctx, sink: sink}
	r.serve(err)
}

// serve runs a followed reader until it waits alone or ends.
func (r *reader) serve(err error) {
	f := r.follower
	if f.unhook != nil {
		f.unhook() // if it is under way, it finds that the reader is not alone
		f.unhook = nil
		r.idle = linger
	}
	if r.loop(f.ctx, f.sink.Take, err) {
		return // it may have a goroutine again already: nothing of it is ours any more
	}
	if r.topic != nil {
		r.hub.leave(r.topic, r)
	}
	f.sink.Done()
}

// letGo ends a wait so that the goroutine can end. Who wakes the reader gives it
// another one; so does the end of its context.
func (r *reader) letGo() error {
	f, t := r.follower, r.topic
	unhook := context.AfterFunc(f.ctx, r.revive)
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.parked < 0 || f.ctx.Err() != nil {
		unhook()
		return nil // woken meanwhile, or at its end: the loop goes on
	}
	r.timer = nil
	f.unhook, f.alone = unhook, true
	return errLetGo
}

// revive goes on with a reader whose context has ended while it waited alone.
func (r *reader) revive() {
	t := r.topic
	t.mu.Lock()
	alone := r.follower.alone && r.parked >= 0
	if alone {
		r.follower.alone = false
		t.unparkOne(r)
	}
	t.mu.Unlock()
	if alone {
		r.serve(nil)
	}
}
