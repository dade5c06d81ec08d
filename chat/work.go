package chat

import (
	"context"
	"io"
)

// Assignment is a turn for an agent to answer. A worker that is answering it already continues, under the attempt
// given here.
type Assignment struct {
	TurnRef
	Agent      string  `json:"agent"`
	Workstream string  `json:"workstream_id,omitempty"`
	Started    Event   `json:"-"`                // turn.started, for agents in the process
	Trigger    Event   `json:"trigger"`          // the event to answer
	Events     []Event `json:"events,omitempty"` // what earlier attempts left in the log
	Open       []Block `json:"open,omitempty"`   // open blocks, with the text that was shown

	Launch *WorkstreamLaunched `json:"launch,omitempty"` // what its line was launched for; absent on the main line
	Paused bool                `json:"paused,omitempty"` // its workstream is paused
}

// Worker is a connection by which an agent outside of the process answers turns. Its methods are called in order and must
// not block.
type Worker interface {
	Give(a Assignment)
	Tell(turn TurnID, e Event) // an answer, a closed prompt, a message that arrived, or news of workstreams
	Stop(turn TurnID)
	Ended(turn TurnID) // a turn that the worker named when it connected has ended in the log
}

// Registration is a connected worker among those of its agent name.
type Registration interface {
	// Holds returns a turn that the worker has, in its current attempt.
	Holds(turn TurnID) (TurnRef, error)
	// Ending returns a function that waits until the end of a turn that the worker has is in the log. Call it before
	// Finish. A worker that reports the end of a turn again gets the same acknowledgement.
	Ending(turn TurnID) (wait func(ctx context.Context) error, err error)
	// Finish ends a turn that the worker has; cause is nil when it is done. It does not wait for the log.
	Finish(turn TurnID, cause error) error
	// Leave removes the worker. Its turns wait for it to return.
	Leave()
}

// StoreFunc stores a file of a session. It calls commit with the size once the file is in place; if commit fails, the path
// has its former content.
type StoreFunc func(ctx context.Context, id SessionID, path, mediaType string, body io.Reader, commit func(size int64) error) error
