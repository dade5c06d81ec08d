package main

import (
	"bytes"
	"fmt"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// recording is a session as it was, turn by turn.
type recording struct {
	session chat.SessionID
	turns   []*recordedTurn
}

// recordedTurn is what an agent said in one turn.
type recordedTurn struct {
	id      chat.TurnID
	line    string
	trigger chat.Event
	text    string // of the trigger
	began   chat.At
	ended   chat.At
	outcome chat.Outcome
	fault   string
	events  []chat.Event       // of the agent, and the ends of workstreams that came while it ran
	answers map[string]chat.At // when its prompts ended, by request
}

// readRecording reads an exported log.
func readRecording(log []byte) (*recording, error) {
	rec := &recording{}
	seen := map[chat.Seq]chat.Event{}
	open := map[string]*recordedTurn{} // by line
	for n, line := range bytes.Split(log, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var e chat.Event
		if err := json.Unmarshal(line, &e); err != nil || e.Type == "" {
			return nil, fmt.Errorf("line %d is no event; give a session, or a file that export wrote", n+1)
		}
		rec.session = e.Session
		switch e.Body.(type) {
		case chat.UserMessage, chat.WorkstreamLaunched, chat.WorkstreamMessage, chat.WorkstreamProgress, chat.WorkstreamWarning,
			chat.WorkstreamCompleted, chat.WorkstreamFailed, chat.WorkstreamTimeout, chat.WorkstreamCanceled:
			seen[e.Seq] = e
		}
		rec.take(&e, seen, open)
	}
	return rec, nil
}

func (r *recording) take(e *chat.Event, seen map[chat.Seq]chat.Event, open map[string]*recordedTurn) {
	turn := open[e.Workstream]
	switch b := e.Body.(type) {
	case chat.TurnStarted:
		turn = &recordedTurn{id: b.TurnID, line: e.Workstream, trigger: seen[b.Trigger], began: e.At, answers: map[string]chat.At{}}
		turn.text = triggerText(&turn.trigger)
		r.turns = append(r.turns, turn)
		open[e.Workstream] = turn
	case chat.TurnCompleted:
		if turn != nil && turn.id == b.TurnID {
			turn.ended, turn.outcome, turn.fault = e.At, b.Outcome, b.Error
			delete(open, e.Workstream)
		}
	case chat.WorkstreamCompleted, chat.WorkstreamFailed, chat.WorkstreamTimeout, chat.WorkstreamCanceled:
		if turn != nil {
			turn.events = append(turn.events, *e)
		}
	default:
		if turn == nil {
			return
		}
		if id := chat.AnswerOf(e.Body); id != "" {
			turn.answers[id] = e.At
		} else if e.Turn == turn.id && e.Actor.Kind == chat.Agent {
			turn.events = append(turn.events, *e)
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

// asked are the turns of the main line that answer a person.
func (r *recording) asked() []*recordedTurn {
	var out []*recordedTurn
	for _, t := range r.turns {
		if _, ok := t.trigger.Body.(chat.UserMessage); ok && t.line == "" {
			out = append(out, t)
		}
	}
	return out
}

// ofLine is the turn of a line of work for a kind of trigger.
func (r *recording) ofLine(line, trigger, text string) (found *recordedTurn) {
	for _, t := range r.turns {
		if t.line != line || t.trigger.Type != trigger {
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

// news is the turn that what became of a line of work began, nil when it began
// none.
func (r *recording) news(e *chat.Event) *recordedTurn {
	for _, t := range r.turns {
		if t.line == "" && t.trigger.Type == e.Type {
			return t
		}
	}
	return nil
}

// replayed keeps in a launch's context which line of the recording it plays.
type replayed struct {
	Line string `json:"replay"`
}

func recordedLine(context json.RawMessage) string {
	var c replayed
	_ = json.Unmarshal(context, &c) // of another launch: it plays none
	return c.Line
}
