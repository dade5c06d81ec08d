package replay

import (
	"bytes"
	"fmt"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Recording is the turns of a recorded session.
type Recording struct {
	Session chat.SessionID
	turns   []*turn
}

// Turns is how many turns answer a message of a person.
func (r *Recording) Turns() int { return len(r.answers()) }

// turn is a recorded turn.
type turn struct {
	id         chat.TurnID
	workstream string
	trigger    chat.Event
	text       string // of the trigger
	started    chat.At
	ended      chat.At
	outcome    chat.Outcome
	reason     string             // why it failed
	events     []chat.Event       // of the agent, and the ends of workstreams during the turn
	answered   map[string]chat.At // when its prompts were answered, by request id
}

// Read reads an exported log.
func Read(log []byte) (*Recording, error) {
	rec := &Recording{}
	seen := map[chat.Seq]chat.Event{}
	open := map[string]*turn{} // running turns by workstream
	for n, line := range bytes.Split(log, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var e chat.Event
		if err := json.Unmarshal(line, &e); err != nil || e.Type == "" {
			return nil, fmt.Errorf("line %d is no event; give a session, or a file that export wrote", n+1)
		}
		rec.Session = e.Session
		switch e.Body.(type) {
		case chat.UserMessage, chat.WorkstreamLaunched, chat.WorkstreamMessage, chat.WorkstreamProgress, chat.WorkstreamWarning,
			chat.WorkstreamCompleted, chat.WorkstreamFailed, chat.WorkstreamTimeout, chat.WorkstreamCanceled:
			seen[e.Seq] = e
		}
		rec.add(&e, seen, open)
	}
	return rec, nil
}

// add adds one event of the log.
func (r *Recording) add(e *chat.Event, seen map[chat.Seq]chat.Event, open map[string]*turn) {
	t := open[e.Workstream]
	switch b := e.Body.(type) {
	case chat.TurnStarted:
		t = &turn{id: b.TurnID, workstream: e.Workstream, trigger: seen[b.Trigger], started: e.At, answered: map[string]chat.At{}}
		t.text = triggerText(&t.trigger)
		r.turns = append(r.turns, t)
		open[e.Workstream] = t
	case chat.TurnCompleted:
		if t != nil && t.id == b.TurnID {
			t.ended, t.outcome, t.reason = e.At, b.Outcome, b.Error
			delete(open, e.Workstream)
		}
	case chat.WorkstreamCompleted, chat.WorkstreamFailed, chat.WorkstreamTimeout, chat.WorkstreamCanceled:
		if t != nil {
			t.events = append(t.events, *e)
		}
	default:
		if t == nil {
			return
		}
		if id := chat.AnswerOf(e.Body); id != "" {
			t.answered[id] = e.At
		} else if e.Turn == t.id && e.Actor.Kind == chat.Agent {
			t.events = append(t.events, *e)
		}
	}
}

func triggerText(e *chat.Event) string {
	switch b := e.Body.(type) {
	case chat.UserMessage:
		return b.PlainText()
	case chat.WorkstreamLaunched:
		return b.Task
	case chat.WorkstreamMessage:
		return b.Text
	}
	return ""
}

// answers lists the turns of the main line that answer a message of a person.
func (r *Recording) answers() []*turn {
	var out []*turn
	for _, t := range r.turns {
		if _, ok := t.trigger.Body.(chat.UserMessage); ok && t.workstream == "" {
			out = append(out, t)
		}
	}
	return out
}

// ofWorkstream returns the turn of a workstream with that type of trigger, preferably with the same text.
func (r *Recording) ofWorkstream(workstream, trigger, text string) (found *turn) {
	for _, t := range r.turns {
		if t.workstream != workstream || t.trigger.Type != trigger {
			continue
		}
		if t.text == text {
			return t
		}
		if found == nil {
			found = t
		}
	}
	return found
}

// afterWork returns the turn of the main line that an event of a workstream triggered; nil when it triggered none.
func (r *Recording) afterWork(e *chat.Event) *turn {
	for _, t := range r.turns {
		if t.workstream == "" && t.trigger.Type == e.Type {
			return t
		}
	}
	return nil
}

// launchContext is the context of a launch: the recorded workstream that it plays.
type launchContext struct {
	Workstream string `json:"replay"`
}

// recordedWorkstream reads the context of a launch; "" when the launch is not one of a recording.
func recordedWorkstream(context json.RawMessage) string {
	var c launchContext
	_ = json.Unmarshal(context, &c) // the context of another launch may have any form
	return c.Workstream
}
