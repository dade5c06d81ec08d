package aisdk

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/pages"
)

// uiMessage is a message as pages keep it. Assistant messages are folded from chunks as the clients do it.
type uiMessage struct {
	ID       string                     `json:"id"`
	Role     string                     `json:"role"`
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
	Parts    []*uiPart                  `json:"parts"`
	ends     []int                      // how many parts there were at the end of each segment
}

// uiPart is a part of a message. It has the fields that are read from pages, and those that only pages read.
type uiPart struct {
	pagePart
	ID       string          `json:"id,omitempty"` // of a data part
	Text     *string         `json:"text,omitempty"`
	Tool     string          `json:"toolName,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`
	Executed bool            `json:"providerExecuted,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	block    string          // the id of a text
}

// States of parts.
const (
	stateDone      = "done"
	stateStreaming = "streaming"
	stateInput     = "input-available"
	stateAsked     = "approval-requested"
	stateOutput    = "output-available"
	stateError     = "output-error"
	stateDenied    = "output-denied"
)

const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// add folds a chunk into an assistant message.
func (m *uiMessage) add(c chunk) {
	switch c.Type {
	case chunkStart, chunkMetadata:
		var fields map[string]json.RawMessage
		if json.Unmarshal(c.Metadata, &fields) == nil {
			if m.Metadata == nil {
				m.Metadata = map[string]json.RawMessage{}
			}
			maps.Copy(m.Metadata, fields)
		}
	case chunkStartStep:
		m.Parts = append(m.Parts, &uiPart{pagePart: pagePart{Type: "step-start"}})
	case chunkFile:
		m.Parts = append(m.Parts, filePart(c.URL, c.MediaType, ""))
	case chunkTextStart, chunkThinkStart:
		p := textPart("")
		p.State, p.block = stateStreaming, c.ID
		if c.Type == chunkThinkStart {
			p.Type = "reasoning"
		}
		m.Parts = append(m.Parts, p)
	case chunkTextDelta, chunkThinkDelta, chunkTextEnd, chunkThinkEnd:
		p := m.find(func(p *uiPart) bool { return p.block == c.ID && p.State == stateStreaming })
		if p == nil {
			return
		}
		if *p.Text += c.Delta; c.Type == chunkTextEnd || c.Type == chunkThinkEnd {
			p.State = stateDone
		}
	case chunkToolInput:
		p := &uiPart{pagePart: pagePart{Type: "tool-" + c.Tool, Call: c.Call, State: stateInput}, Input: c.Input, Executed: c.Executed}
		if c.Dynamic {
			p.Type, p.Tool = "dynamic-tool", c.Tool
		}
		m.Parts = append(m.Parts, p)
	case chunkToolAsk, chunkToolOutput, chunkToolError, chunkToolDenied:
		if p := m.find(func(p *uiPart) bool { return p.Call == c.Call }); p != nil {
			p.change(c)
		}
	default:
		m.data(c)
	}
}

// change changes the state of a tool part.
func (p *uiPart) change(c chunk) {
	approved := c.Type == chunkToolOutput
	switch c.Type {
	case chunkToolAsk:
		p.State, p.Approval = stateAsked, &pageApproval{ID: c.Approval}
		return
	case chunkToolOutput:
		p.State, p.Output = stateOutput, c.Output
	case chunkToolError:
		// The clients accept an error only with an approval that was given, which is not known here.
		p.State, p.ErrorText, p.Approval = stateError, c.Error, nil
	case chunkToolDenied:
		p.State = stateDenied
	}
	if p.Approval != nil {
		p.Approval.Approved = &approved
	}
}

// data adds a data part, or replaces the one with the same id.
func (m *uiMessage) data(c chunk) {
	if !isData(c.Type) || c.Transient {
		return
	}
	if p := m.find(func(p *uiPart) bool { return p.Type == c.Type && c.ID != "" && p.ID == c.ID }); p != nil {
		p.Data = c.Data
		return
	}
	m.Parts = append(m.Parts, &uiPart{pagePart: pagePart{Type: c.Type}, ID: c.ID, Data: c.Data})
}

// find returns the newest part that fits.
func (m *uiMessage) find(fits func(*uiPart) bool) *uiPart {
	for _, p := range slices.Backward(m.Parts) {
		if fits(p) {
			return p
		}
	}
	return nil
}

// listing folds a session into messages.
type listing struct {
	legacy   bool
	messages []*uiMessage
	users    map[chat.Seq]*uiMessage
	run      *run
	current  map[chat.Seq]*uiMessage // assistant messages of the present turn
}

// take adds an event.
func (l *listing) take(e *chat.Event) {
	switch b := e.Body.(type) {
	case chat.UserMessage:
		if e.Workstream == "" {
			l.user(e, userParts(e.Session, b))
		}
	case chat.UserMessageWithdrawn:
		l.remove(b.Sequence)
	case chat.TurnInput:
		for _, seq := range b.Sequences { // messages of other clients are parts of the turn's message
			if l.run != nil && l.run.said[seq] != nil && l.run.said[seq].Via != via {
				l.remove(seq)
			}
		}
	case chat.UserInputResponse:
		if isReply(e) {
			l.user(e, []*uiPart{textPart(cmp.Or(b.Text, strings.Join(b.Values, ", ")))})
			for _, m := range l.current { // a response cannot change an earlier message; a list shows what became of the question
				m.add(chunk{Type: chunkToolOutput, Call: b.RequestID, Output: inputOutput(b)})
			}
		}
	case chat.TurnStarted:
		if e.Workstream == "" {
			l.run, l.current = newRun(l.legacy), map[chat.Seq]*uiMessage{}
		}
	}
	if l.run == nil {
		return
	}
	for _, s := range l.run.event(e) {
		m := l.current[s.at.message]
		if m == nil {
			m = &uiMessage{ID: messageID(l.run.turn, s.at.message), Role: roleAssistant}
			m.add(l.run.start(s.at.message))
			l.current[s.at.message] = m
			l.messages = append(l.messages, m)
		}
		for _, c := range s.chunks {
			m.add(c)
		}
		if s.asks {
			m.ends = append(m.ends, len(m.Parts))
		}
	}
}

// user adds a message of a person.
func (l *listing) user(e *chat.Event, parts []*uiPart) {
	m := &uiMessage{ID: string(e.ID), Role: roleUser, Parts: parts}
	if e.Via == via && e.ClientID != "" {
		m.ID = e.ClientID
	}
	l.users[e.Seq] = m
	l.messages = append(l.messages, m)
}

// remove removes a message of a person.
func (l *listing) remove(seq chat.Seq) {
	if m := l.users[seq]; m != nil {
		l.messages = slices.DeleteFunc(l.messages, func(o *uiMessage) bool { return o == m })
	}
}

func textPart(text string) *uiPart {
	return &uiPart{pagePart: pagePart{Type: "text"}, Text: &text}
}

func filePart(url, mediaType, name string) *uiPart {
	return &uiPart{pagePart: pagePart{Type: "file", URL: url, MediaType: mediaType, Filename: name}}
}

// userParts returns the parts of a person's message. The clients refuse a message without parts.
func userParts(id chat.SessionID, b chat.UserMessage) (parts []*uiPart) {
	for _, p := range pages.Parts(id, b) {
		if p.URL == "" {
			parts = append(parts, textPart(p.Text))
		} else {
			parts = append(parts, filePart(p.URL, cmp.Or(p.MediaType, "application/octet-stream"), p.Name))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, textPart(""))
	}
	return parts
}

// Limits of a list of messages.
const (
	listMessages    = 200
	maxListMessages = 1000
)

// list returns the newest messages of a session, at most limit.
func (d *Dialect) list(ctx context.Context, c chat.Caller, id chat.SessionID, legacy bool, limit int) ([]*uiMessage, error) {
	// The list begins with an event that begins a message; an assistant message needs its turn from the start.
	from, n := chat.Seq(0), 0
	for e, err := range d.Sessions.Events(ctx, c, id, chat.Range{
		Desc: true, Workstream: new(string), Types: []string{chat.UserMessage{}.Type(), chat.TurnStarted{}.Type()},
	}) {
		if err != nil {
			return nil, err
		}
		if n++; n > limit {
			break
		}
		from = e.Seq - 1
	}
	l := &listing{legacy: legacy, users: map[chat.Seq]*uiMessage{}}
	for e, err := range d.Sessions.Events(ctx, c, id, chat.Range{After: from}) {
		if err != nil {
			return nil, err
		}
		l.take(&e)
	}
	return l.last(limit), nil
}

// last returns the last messages.
func (l *listing) last(limit int) []*uiMessage {
	var unfinished *uiMessage
	if l.run != nil && !l.run.ended {
		m := l.current[l.run.at.message]
		if last := l.run.waits(); last >= 0 {
			end := m.ends[last]
			m.Parts = append(m.Parts[:end], slices.DeleteFunc(m.Parts[end:], func(p *uiPart) bool { return !isData(p.Type) })...) // as a response that is resumed
		}
		if l.legacy {
			unfinished = m // version 5 would append what it resumes
		}
	}
	l.messages = slices.DeleteFunc(l.messages, func(m *uiMessage) bool { return len(m.Parts) == 0 || m == unfinished })
	return append([]*uiMessage{}, l.messages[max(0, len(l.messages)-limit):]...) // never null
}
