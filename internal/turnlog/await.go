package turnlog

import (
	"context"
	"slices"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// MainLine selects the events of the main line, which is the line that pages show.
var MainLine = ""

// takers are the types of the events that takes looks at.
var takers = []string{chat.TurnStarted{}.Type(), chat.TurnInput{}.Type(), chat.UserMessageWithdrawn{}.Type()}

// takes reports whether an event of the main line starts a turn with a message, or gives the message to a running turn.
func takes(e *chat.Event, message chat.Seq) (bool, error) {
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

// Await waits until a turn takes up a message of the main line, and returns the event that does it: turn.started, or turn.input
// of a turn that was running. Each time the session is silent for the given time, it calls idle, unless that is nil. A message that was withdrawn is a
// conflict.
func Await(ctx context.Context, sessions Sessions, c chat.Caller, id chat.SessionID, message chat.Seq, silence time.Duration, idle func() error) (chat.Event, error) {
	for batch, err := range sessions.Watch(ctx, c, id, core.Start{Cursor: &chat.Cursor{Seq: message}, Idle: silence}, nil) {
		if err != nil {
			return chat.Event{}, err
		}
		if batch.Idle && idle != nil {
			if err := idle(); err != nil {
				return chat.Event{}, err
			}
		}
		for i := range batch.Entries {
			e := &batch.Entries[i]
			if e.Piece != nil || e.Label.Workstream != MainLine || !slices.Contains(takers, e.Label.Type) {
				continue
			}
			ev, err := e.Fact.Event()
			if err != nil {
				return ev, err
			}
			if taken, err := takes(&ev, message); taken || err != nil {
				return ev, err
			}
		}
	}
	return chat.Event{}, context.Cause(ctx)
}

// Taken returns the stored event that [Await] waits for, nil when no turn has taken up the message yet.
func Taken(ctx context.Context, sessions Sessions, c chat.Caller, id chat.SessionID, message chat.Seq) (*chat.Event, error) {
	for e, err := range sessions.Events(ctx, c, id, chat.Range{After: message, Workstream: &MainLine, Types: takers}) {
		if err != nil {
			return nil, err
		}
		if taken, err := takes(&e, message); taken || err != nil {
			return &e, err
		}
	}
	return nil, nil
}

// Number returns the number of the turn.started event of a turn, 0 when the id is none of a turn.
func Number(id chat.TurnID) chat.Seq {
	parsed, ok := chat.ParseID(chat.TurnPrefix, string(id))
	if !ok {
		return 0
	}
	_, seq, _ := parsed.Parts()
	return seq
}

// Started returns the turn.started event of a turn of the main line, nil when the session has no such turn.
func Started(ctx context.Context, sessions Sessions, c chat.Caller, id chat.SessionID, turn chat.TurnID) (*chat.Event, error) {
	seq := Number(turn)
	if seq == 0 {
		return nil, nil
	}
	e, err := sessions.Event(ctx, c, id, seq)
	if chat.CodeOf(err) == chat.NotFound {
		return nil, nil
	}
	if _, ok := e.Body.(chat.TurnStarted); err != nil || !ok || e.Workstream != MainLine {
		return nil, err
	}
	return &e, nil
}

// Last returns the last turn.started event of the main line up to an event, nil when there is none.
func Last(ctx context.Context, sessions Sessions, c chat.Caller, id chat.SessionID, upTo chat.Seq) (*chat.Event, error) {
	for e, err := range sessions.Events(ctx, c, id, chat.Range{
		Before: upTo + 1, Desc: true, Limit: 1, Workstream: &MainLine, Types: []string{chat.TurnStarted{}.Type()},
	}) {
		return &e, err
	}
	return nil, nil
}
