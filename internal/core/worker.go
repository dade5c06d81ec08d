package core

import (
	"context"

	"github.com/parley-hq/parley/chat"
)

// Worker is a connection by which an agent outside of the process answers turns. Its methods are called in order and must
// not block.
type Worker interface {
	Give(a chat.Assignment)
	Tell(turn chat.TurnID, e chat.Event) // an answer, a closed prompt, a message that arrived, or news of workstreams
	Stop(turn chat.TurnID)
	Ended(turn chat.TurnID) // a turn that the worker named when it connected has ended in the log
}

// Registration is a connected worker among those of its agent name.
type Registration interface {
	// Holds returns a turn that the worker has, in its current attempt.
	Holds(turn chat.TurnID) (chat.TurnRef, error)
	// Ending returns a function that waits until the end of a turn that the worker has is in the log. Call it before
	// Finish. A worker that reports the end of a turn again gets the same acknowledgement.
	Ending(turn chat.TurnID) (wait func(ctx context.Context) error, err error)
	// Finish ends a turn that the worker has; cause is nil when it is done. It does not wait for the log.
	Finish(turn chat.TurnID, cause error) error
	// Leave removes the worker. Its turns wait for it to return.
	Leave()
}
