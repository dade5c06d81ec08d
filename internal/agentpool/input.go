package agentpool

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// turnInput passes events and signals from the runner to the goroutines of a turn.
type turnInput struct {
	*agent.Inbox
	arrived   chan struct{} // an event that concerns the turn may have been stored; has room for one
	ended     chan struct{} // closed when the turn has ended in the log, or another node runs it
	moved     bool          // another node runs it; does not change once ended is closed
	finished  chan struct{} // closed when the runner has finished with the turn
	abandoned chan struct{} // closed when the runner no longer waits for the agent
	stopBy    atomic.Int64  // as chat.At: until when the agent may take to stop; 0 means the default
	attempt   atomic.Int64  // the last one that was begun while the turn ran; 0 if none was
}

func (in *turnInput) init() {
	in.Inbox = agent.NewInbox()
	in.arrived = make(chan struct{}, 1)
	in.ended = make(chan struct{})
	in.finished = make(chan struct{})
	in.abandoned = make(chan struct{})
}

// stopTimeout is how long an agent may take to stop, at least the given time.
func (in *turnInput) stopTimeout(least time.Duration) time.Duration {
	if by := in.stopBy.Load(); by != 0 {
		return max(least, time.Until(chat.At(by).Time()))
	}
	return least
}

// waitEnd waits until the turn has ended in the log.
func (in *turnInput) waitEnd(ctx context.Context) error {
	select {
	case <-in.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-in.finished:
	}
	select {
	case <-in.ended:
		if in.moved {
			return errMoved
		}
		return nil
	default:
		return chat.Errorf(chat.Unavailable, "the end of the turn is not stored; report it again on another connection")
	}
}

// notify wakes the turn: an event was stored that may concern it.
func (in *turnInput) notify() {
	in.Wake()
	select {
	case in.arrived <- struct{}{}:
	default:
	}
}
