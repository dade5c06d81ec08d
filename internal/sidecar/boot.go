package sidecar

import (
	"context"
	"time"

	"github.com/parley-hq/parley/chat"
)

// An agent says by session.started that it is a new process. One that did not hear
// the answer says it again, perhaps to the next sidecar, and if it gives no key
// the two look alike. Then its stream tells: a process that repeats all that is
// stored of it is the one that said it.

const (
	startTime = 100 * time.Millisecond // enough to see that the process before has gone
	startWait = 2 * time.Second        // for the stream of an agent that posts and answers to health
)

// boot tells which boot of the agent its session.started stands for. When the
// agent has restarted, the stream of the process before ended earlier than this
// one could post; that end must be seen first.
func (r *reader) boot(ctx context.Context, name string) (int64, error) {
	answer := make(chan int64, 1)
	if pause(ctx, startTime) && r.push(ctx, step{started: answer, name: name}) {
		select {
		case n := <-answer:
			return n, nil
		case <-ctx.Done():
		}
	}
	return 0, chat.Errorf(chat.Unavailable, "the sidecar is ending").Because(ctx.Err())
}

// start answers which boot it is, at once or when the stream has told.
func (r *reader) start(ctx context.Context, st *stretch, p step) {
	if booted, again := r.booted(st, p.name); booted && !again && st.ended == 0 && !st.quiet && r.refused.Load() == 0 {
		st.held = append(st.held, p)
		return
	}
	p.started <- r.begin(ctx, st, p.name)
}

// release answers the starts that were held back.
func (r *reader) release(ctx context.Context, st *stretch) {
	for _, p := range st.held {
		p.started <- r.begin(ctx, st, p.name)
	}
	st.held = nil
}

// booted tells whether the present boot has said more than could come before its
// start, and whether this start is one that is known already.
func (r *reader) booted(st *stretch, name string) (booted, again bool) {
	again = st.posted
	r.s.book.look(func(b *book) {
		booted = b.booted || st.had > 0 && !st.fresh
		again = again || name != "" && b.bootKey == bootKey(b.boot, name)
	})
	return booted, again
}

// begin handles the agent's session.started: whatever it says on this connection
// is of this process.
func (r *reader) begin(ctx context.Context, st *stretch, name string) int64 {
	booted, again := r.booted(st, name)
	if again {
		return st.boot
	}
	st.posted, st.early = true, !st.open
	if st.ended == 0 && st.quiet && st.tape.whole() {
		// What this sidecar found when it came, and it repeated everything: the
		// start was posted to the sidecar before, and is posted again.
		return st.boot
	}
	if booted {
		st.boot++
		st.fresh = true
		r.s.book.begin(st.boot)
		st.counts = map[string]int{}
		r.append(ctx, st, st.tape.anew())
	}
	return st.boot
}
