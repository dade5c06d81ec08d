package agent

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
)

// NewMessages takes the user messages that arrived during the turn under the policy steer. An agent calls it between its
// steps. In a new attempt it returns at the same steps what it returned before.
func (t *Turn) NewMessages(ctx context.Context) ([]chat.UserMessage, error) {
	events, err := t.takeInput(ctx, t.transport.TakeMessages)
	var messages []chat.UserMessage
	for _, e := range events {
		if m, ok := e.Body.(chat.UserMessage); ok {
			messages = append(messages, m)
		}
	}
	return messages, err
}

// NewEvents takes all events that arrived during the turn: user messages under the policy steer, steering commands and messages to its
// workstream, and the results of the workstreams it launched. An agent calls either NewEvents or NewMessages, between its steps.
// In a new attempt it returns at the same steps what it returned before.
func (t *Turn) NewEvents(ctx context.Context) ([]chat.Event, error) {
	return t.takeInput(ctx, func(ctx context.Context) ([]chat.Event, error) { return t.transport.TakeEvents(ctx) })
}

// takeInput returns what earlier attempts received at this step, or what take returns.
func (t *Turn) takeInput(ctx context.Context, take func(ctx context.Context) ([]chat.Event, error)) ([]chat.Event, error) {
	seqs, behind := t.inputBefore()
	var events []chat.Event
	for _, seq := range seqs {
		e, err := t.event(ctx, seq)
		if err != nil {
			return nil, err
		}
		if _, awaited := t.awaitedChild(e); !awaited {
			events = append(events, e)
		}
	}
	if behind || len(events) > 0 {
		return events, nil
	}
	events, err := take(ctx)
	return slices.DeleteFunc(events, func(e chat.Event) bool {
		ended, _ := t.awaitedChild(e)
		return ended || t.inputs[e.Seq]
	}), err
}

// awaitedChild reports whether an event is an event of a workstream that Await returned, and whether that has ended.
func (t *Turn) awaitedChild(e chat.Event) (ended, awaited bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ended, awaited = t.awaited[chat.ChildOf(e.Body)]
	return ended, awaited
}

// inputBefore returns what an earlier attempt received between the last step and the next one; behind says that an
// earlier attempt completed the next step.
func (t *Turn) inputBefore() (seqs []chat.Seq, behind bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.past {
		e := &t.past[i]
		if t.stored[e.ClientID].Seq == e.Seq && t.stepNumber(e.ClientID) > t.steps {
			return seqs, true
		}
		if b, ok := e.Body.(chat.TurnInput); ok && e.Seq > t.input {
			seqs = append(seqs, b.Sequences...)
			t.input = e.Seq
		}
	}
	return seqs, false
}

// event returns one event of the session.
func (t *Turn) event(ctx context.Context, seq chat.Seq) (chat.Event, error) {
	if e, ok := t.inbox.event(seq); ok {
		return e, nil
	}
	for e, err := range t.Events(ctx, chat.Range{After: seq - 1, Limit: 1}) {
		if err != nil || e.Seq == seq {
			return e, err
		}
		break
	}
	return chat.Event{}, chat.Errorf(chat.NotFound, "the log has no event %d", seq)
}
