package sidecar

import (
	"context"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/sleep"
)

// An agent posts session.started when it is a new process. If it gets no answer it posts
// again, perhaps to the next sidecar, and without a key the two posts look alike. Then its
// stream decides: a process that repeats all stored events is the one that sent them.

const (
	startTime = 100 * time.Millisecond // enough to see that the stream of the old process ended
	startWait = 2 * time.Second        // for the stream of an agent that posts and answers /health
)

// boot returns the boot of the agent that its session.started belongs to. When the agent
// has restarted, the stream of the old process ended before the new one posts; that end
// must be handled first.
func (r *streamReader) boot(ctx context.Context, name string) (int64, error) {
	answer := make(chan int64, 1)
	if sleep.For(ctx, startTime) == nil && r.push(ctx, job{started: answer, name: name}) {
		select {
		case n := <-answer:
			return n, nil
		case <-ctx.Done():
		}
	}
	return 0, chat.Errorf(chat.Unavailable, "the sidecar is ending").Because(ctx.Err())
}

// start answers which boot it is, at once or when the stream has decided it.
func (r *streamReader) start(ctx context.Context, st *streamState, p job) {
	if booted, again := r.booted(st, p.name); booted && !again && st.ended == 0 && !st.replayEnded && r.refused.Load() == 0 {
		st.heldStarts = append(st.heldStarts, p)
		return
	}
	p.started <- r.begin(ctx, st, p.name)
}

// answerStarts answers the starts that were held back.
func (r *streamReader) answerStarts(ctx context.Context, st *streamState) {
	for _, p := range st.heldStarts {
		p.started <- r.begin(ctx, st, p.name)
	}
	st.heldStarts = nil
}

// booted reports whether the current boot has a start or earlier events, and whether this
// start is one that was posted before.
func (r *streamReader) booted(st *streamState, name string) (booted, again bool) {
	again = st.posted
	r.s.state.view(func(b *state) {
		booted = b.booted || st.storedBefore > 0 && !st.fresh
		again = again || name != "" && b.bootKey == bootKey(b.boot, name)
	})
	return booted, again
}

// begin handles the agent's session.started: all events of this connection belong to
// this process.
func (r *streamReader) begin(ctx context.Context, st *streamState, name string) int64 {
	booted, again := r.booted(st, name)
	if again {
		return st.boot
	}
	st.posted, st.early = true, !st.open
	if st.ended == 0 && st.replayEnded && st.replay.repeatedAll() {
		// The agent was running before this sidecar and repeated everything: it
		// posted its start to the sidecar before and posts it again.
		return st.boot
	}
	if booted {
		st.boot++
		st.fresh = true
		r.s.state.begin(st.boot)
		st.userCounts = map[string]int{}
		r.append(ctx, st, st.replay.newProcess())
	}
	return st.boot
}
