package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// A turn that is given to the worker at the moment when its grace period ends is lost and begins again, or goes on. It must not be given to the
// worker and lost: the server would wait for it.
func TestWorkTurnIsNotLostOnceItIsGivenAgain(t *testing.T) {
	for range 2000 {
		w := &worker{opt: WorkOptions{Grace: time.Microsecond}, turns: map[chat.TurnID]*workTurn{}, changed: make(chan struct{})}
		ctx, end := context.WithCancelCause(t.Context())
		a := chat.Assignment{TurnRef: chat.TurnRef{Turn: "t-1"}}
		old := &workTurn{w: w, ctx: ctx, end: end, in: agent.NewInbox(), assignment: a, assigned: true}
		w.turns["t-1"] = old
		w.offline()
		time.Sleep(time.Microsecond)
		ending, stop := context.WithCancel(t.Context()) // begin starts no agent
		stop()
		w.begin(ending, ending, &a)
		time.Sleep(10 * time.Microsecond)
		w.mu.Lock()
		given := old.assigned
		w.mu.Unlock()
		if given && errors.Is(context.Cause(ctx), agent.ErrTurnLost) {
			t.Fatal("the worker was given a turn and has dropped it")
		}
		end(nil)
	}
}
