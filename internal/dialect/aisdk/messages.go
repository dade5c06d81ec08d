package aisdk

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// uiMessage is a message as pages keep it. Assistant messages are folded from chunks as the clients do it.
type uiMessage struct {
	id       string
	role     string
	metadata map[string]json.RawMessage
	parts    []*uiPart
}

// uiPart is a part of a message. The fields are those of a chunk; state is that of texts and tools.
type uiPart struct {
	chunk
	state    string
	output   json.RawMessage
	approved *bool
}

// States of parts.
const (
	stateDone      = "done"
	stateStreaming = "streaming"
	stateInput     = "input-available"
	stateAsked     = "approval-requested"
	stateResponded = "approval-responded"
	stateOutput    = "output-available"
	stateError     = "output-error"
	stateDenied    = "output-denied"
)

const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleSystem    = "system"
)

// add folds a chunk into an assistant message.
func (m *uiMessage) add(c chunk) {
	switch c.typ {
	case chunkStart, chunkMetadata:
		var fields map[string]json.RawMessage
		if json.Unmarshal(c.raw, &fields) == nil {
			if m.metadata == nil {
				m.metadata = map[string]json.RawMessage{}
			}
			for k, v := range fields {
				m.metadata[k] = v
			}
		}
	case chunkStartStep, chunkFile:
		m.parts = append(m.parts, &uiPart{chunk: c})
	case chunkTextStart, chunkThinkStart:
		m.parts = append(m.parts, &uiPart{chunk: c, state: stateStreaming})
	case chunkTextDelta, chunkThinkDelta:
		if p := m.find(func(p *uiPart) bool { return p.id == c.id && p.state == stateStreaming }); p != nil {
			p.text += c.text
		}
	case chunkTextEnd, chunkThinkEnd:
		if p := m.find(func(p *uiPart) bool { return p.id == c.id && p.state == stateStreaming }); p != nil {
			p.state = stateDone
		}
	case chunkToolInput:
		m.parts = append(m.parts, &uiPart{chunk: c, state: stateInput})
	case chunkToolAsk, chunkToolOutput, chunkToolError, chunkToolDenied:
		if p := m.find(func(p *uiPart) bool { return p.typ == chunkToolInput && p.call == c.call }); p != nil {
			p.change(c)
		}
	default:
		m.data(c)
	}
}

// change changes the state of a tool part.
func (p *uiPart) change(c chunk) {
	approved := true
	switch c.typ {
	case chunkToolAsk:
		p.state, p.approval = stateAsked, c.approval
	case chunkToolOutput:
		p.state, p.output, p.approved = stateOutput, c.raw, &approved
	case chunkToolError:
		// The clients accept an error only with an approval that was given, which is not known here.
		p.state, p.text, p.approval = stateError, c.text, ""
	case chunkToolDenied:
		approved = false
		p.state, p.approved = stateDenied, &approved
	}
}

// data adds a data part, or replaces the one with the same id.
func (m *uiMessage) data(c chunk) {
	if !c.isData() || c.transient {
		return
	}
	if p := m.find(func(p *uiPart) bool { return p.typ == c.typ && c.id != "" && p.id == c.id }); p != nil {
		p.raw = c.raw
		return
	}
	m.parts = append(m.parts, &uiPart{chunk: c})
}

// find returns the newest part that fits.
func (m *uiMessage) find(fits func(*uiPart) bool) *uiPart {
	for _, p := range slices.Backward(m.parts) {
		if fits(p) {
			return p
		}
	}
	return nil
}

// append appends the message as JSON.
func (m *uiMessage) append(b []byte) []byte {
	b = append(b, `{"id":`...)
	b = chat.AppendString(b, m.id)
	b = field(b, "role", m.role)
	if len(m.metadata) > 0 {
		b = rawField(b, "metadata", marshal(m.metadata))
	}
	b = append(b, `,"parts":[`...)
	for i, p := range m.parts {
		if i > 0 {
			b = append(b, ',')
		}
		b = p.append(b)
	}
	return append(b, ']', '}')
}

func (p *uiPart) append(b []byte) []byte {
	b = append(b, `{"type":`...)
	switch p.typ {
	case chunkStartStep:
		b = append(b, `"step-start"`...)
	case chunkTextStart:
		b = field(append(b, `"text"`...), "text", p.text)
		if p.state != "" {
			b = field(b, "state", p.state)
		}
	case chunkThinkStart:
		b = field(field(append(b, `"reasoning"`...), "text", p.text), "state", p.state)
	case chunkFile:
		b = field(field(append(b, `"file"`...), "mediaType", p.media), "url", p.text)
		if p.id != "" {
			b = field(b, "filename", p.id)
		}
	case chunkToolInput:
		b = p.appendTool(b)
	default:
		b = chat.AppendString(b, p.typ)
		if p.id != "" {
			b = field(b, "id", p.id)
		}
		b = rawField(b, "data", p.raw)
	}
	return append(b, '}')
}

func (p *uiPart) appendTool(b []byte) []byte {
	if p.dynamic {
		b = field(append(b, `"dynamic-tool"`...), "toolName", p.tool)
	} else {
		b = chat.AppendString(b, "tool-"+p.tool)
	}
	b = field(b, "toolCallId", p.call)
	b = field(b, "state", p.state)
	b = rawField(b, "input", p.raw)
	switch p.state {
	case stateOutput:
		b = rawField(b, "output", p.output)
	case stateError:
		b = field(b, "errorText", p.text)
	}
	b = flag(b, "providerExecuted", p.executed)
	if p.approval == "" {
		return b
	}
	b = append(b, `,"approval":{"id":`...)
	b = chat.AppendString(b, p.approval)
	if p.approved != nil {
		b = rawField(b, "approved", marshal(*p.approved))
	}
	return append(b, '}')
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
		if m := l.users[b.Sequence]; m != nil {
			l.messages = slices.DeleteFunc(l.messages, func(o *uiMessage) bool { return o == m })
		}
	case chat.TurnInput:
		l.hideSteered(b)
	case chat.UserInputResponse:
		if isReply(e) {
			l.user(e, []*uiPart{textPart(cmp.Or(b.Text, strings.Join(b.Values, ", ")))})
		}
	case chat.TurnStarted:
		if e.Workstream == "" {
			l.run, l.current = newRun(l.legacy), map[chat.Seq]*uiMessage{}
		}
	}
	if l.run == nil {
		return
	}
	l.run.steps = l.run.steps[:0]
	if !l.run.ended {
		l.run.event(e)
	}
	for _, s := range l.run.steps {
		m := l.current[s.at.message]
		if m == nil {
			m = &uiMessage{id: messageID(l.run.turn, s.at.message), role: roleAssistant}
			m.add(l.run.start(s.at.message))
			l.current[s.at.message] = m
			l.messages = append(l.messages, m)
		}
		for _, c := range s.chunks {
			m.add(c)
		}
	}
}

// user adds a message of a person.
func (l *listing) user(e *chat.Event, parts []*uiPart) {
	m := &uiMessage{id: string(e.ID), role: roleUser, parts: parts}
	if e.Via == via && e.ClientID != "" {
		m.id = e.ClientID
	}
	l.users[e.Seq] = m
	l.messages = append(l.messages, m)
}

// hideSteered removes messages of other clients that the running turn has taken up: they are parts of its message.
func (l *listing) hideSteered(b chat.TurnInput) {
	if l.run == nil {
		return
	}
	for _, seq := range b.Sequences {
		if e := l.run.said[seq]; e != nil && e.Via != via {
			m := l.users[seq]
			l.messages = slices.DeleteFunc(l.messages, func(o *uiMessage) bool { return o == m })
		}
	}
}

func textPart(text string) *uiPart {
	return &uiPart{chunk: chunk{typ: chunkTextStart, text: text}}
}

// userParts returns the parts of a person's message. The clients refuse a message without parts.
func userParts(id chat.SessionID, b chat.UserMessage) (parts []*uiPart) {
	if b.Text != "" {
		parts = append(parts, textPart(b.Text))
	}
	for _, p := range b.Content {
		if p.Type == "text" && p.Text != "" {
			if b.Text == "" {
				parts = append(parts, textPart(p.Text))
			}
			continue
		}
		address := p.URL
		if p.Path != "" {
			address = fileURL(id, p.Path)
		}
		if address != "" {
			parts = append(parts, &uiPart{chunk: chunk{typ: chunkFile, text: address, media: cmp.Or(p.MediaType, "application/octet-stream"), id: p.Name}})
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

// list returns the newest messages of a session, at most limit, as a JSON array.
func (d *Dialect) list(ctx context.Context, c chat.Caller, id chat.SessionID, legacy bool, limit int) ([]byte, error) {
	// The list begins with an event that begins a message; an assistant message needs its turn from the start.
	from, n := chat.Seq(0), 0
	for e, err := range d.opt.Sessions.Events(ctx, c, id, chat.Range{
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
	for e, err := range d.opt.Sessions.Events(ctx, c, id, chat.Range{After: from}) {
		if err != nil {
			return nil, err
		}
		l.take(&e)
	}
	return l.json(legacy, limit), nil
}

// json returns the last messages as a JSON array.
func (l *listing) json(legacy bool, limit int) []byte {
	var unfinished *uiMessage
	if legacy && l.run != nil && !l.run.ended {
		unfinished = l.current[l.run.at.message] // version 5 would append what it resumes
	}
	l.messages = slices.DeleteFunc(l.messages, func(m *uiMessage) bool { return len(m.parts) == 0 || m == unfinished })
	b := []byte{'['}
	for i, m := range l.messages[max(0, len(l.messages)-limit):] {
		if i > 0 {
			b = append(b, ',')
		}
		b = m.append(b)
	}
	return append(b, ']')
}
