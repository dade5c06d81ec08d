package turnlog

import (
	"context"
	"slices"
	"time"

	"github.com/parley-hq/parley/chat"
)

// Await waits until a turn takes up a message of the main line, and returns the event that does it: turn.started, or turn.input
// of a turn that was running. It calls idle each time that nothing has happened for so long. A message that was withdrawn is a
// conflict.
func Await(ctx context.Context, log Log, c chat.Caller, id chat.SessionID, message chat.Seq, silence time.Duration, idle func() error) (chat.Event, error) {
	for batch, err := range log.Watch(ctx, c, id, chat.Start{Cursor: &chat.Cursor{Seq: message}, Idle: silence}, nil) {
		if err != nil {
			return chat.Event{}, err
		}
		if batch.Idle {
			if err := idle(); err != nil {
				return chat.Event{}, err
			}
		}
		for i := range batch.Entries {
			e := &batch.Entries[i]
			if e.Piece != nil || e.Label.Workstream != "" || !slices.Contains(Takers, e.Label.Type) {
				continue
			}
			ev, err := e.Fact.Event()
			if err != nil {
				return ev, err
			}
			if taken, err := Takes(&ev, message); taken || err != nil {
				return ev, err
			}
		}
	}
	return chat.Event{}, context.Cause(ctx)
}

// Takers are the types of the events that [Takes] looks at.
var Takers = []string{chat.TurnStarted{}.Type(), chat.TurnInput{}.Type(), chat.UserMessageWithdrawn{}.Type()}

// Takes reports whether an event of the main line starts a turn with a message, or gives the message to a running turn.
func Takes(e *chat.Event, message chat.Seq) (bool, error) {
	switch b := e.Body.(type) {
	case chat.TurnStarted:
		return b.Trigger == message, nil
	case chat.TurnInput:
		return slices.Contains(b.Sequences, message), nil
	case chat.UserMessageWithdrawn:
		if b.Sequence == message {
			return false, chat.Errorf(chat.Conflict, "the message was withdrawn before the agent read it")
		}
	}
	return false, nil
}
