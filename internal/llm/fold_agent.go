package llm

import (
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// assistant returns the open assistant message. If there is none, it adds one for e.
func (f *Fold) assistant(e *chat.Event) *Message {
	if f.open != openAssistant || f.turn != e.Turn {
		m := f.message(e, Assistant, 0)
		m.Content = []Part{}
		m.ID, m.StepID = f.nextIDs(f.prevEvent, e.ID)
		f.put(e, m)
		f.open, f.step = openAssistant, m.StepID
	}
	return f.openMessage()
}

func (f *Fold) think(e *chat.Event, b chat.AgentThinking) {
	var p Part = &Reasoning{Native: true, Text: b.Text, Signature: b.Signature}
	switch {
	case b.Redacted != "" && b.Redacted[0] == '{':
		// The event contains an encoded part; see opaque.
		whole, err := decodePart([]byte(b.Redacted))
		if err != nil {
			return
		}
		p = whole
	case b.Redacted != "":
		p = &RedactedReasoning{Data: b.Redacted}
	case b.Text == "" && b.Signature == "":
		return
	}
	m := f.assistant(e)
	m.Content = append(m.Content, p)
}

func (f *Fold) say(e *chat.Event, b chat.AgentText) {
	if b.Text == "" && b.Signature == "" {
		return
	}
	m := f.assistant(e)
	m.Content = append(m.Content, &Text{Text: b.Text, Signature: b.Signature})
}

func (f *Fold) call(e *chat.Event, b chat.AgentToolCall) {
	id, args := b.CallID, arguments(b.Params)
	if id == "" {
		id = "call" + strings.TrimPrefix(MessageID(e.ID, 0), "message")
		f.callsWithoutID = append(f.callsWithoutID, ToolCall{ID: id, Name: b.Tool})
	}
	f.toolNames[id] = b.Tool
	f.pending[id] = true
	if at, ok := f.asked[id]; ok {
		// A person approved the call. The approval request already contains it; update
		// its arguments to those that the person approved.
		delete(f.asked, id)
		f.rewrite(at, args)
		return
	}
	m := f.assistant(e)
	m.ToolCalls = append(m.ToolCalls, ToolCall{ID: id, Name: b.Tool, Arguments: args})
}

// rewrite changes the arguments of a call in an approval request. It copies the calls,
// because readers may hold the old slice.
func (f *Fold) rewrite(at callIndex, args string) {
	m := &f.messages[at.message]
	if m.ToolCalls[at.call].Arguments == args {
		return
	}
	calls := append([]ToolCall(nil), m.ToolCalls...)
	calls[at.call].Arguments = args
	m.ToolCalls = calls
}

// callOf returns the id of the call that a result belongs to. Old publishers send no
// id; then it is the oldest open call of that tool without an id.
func (f *Fold) callOf(e *chat.Event, id, tool string) string {
	if id != "" {
		return id
	}
	for i, c := range f.callsWithoutID {
		if c.Name == tool || tool == "" {
			f.callsWithoutID = slices.Delete(f.callsWithoutID, i, i+1)
			return c.ID
		}
	}
	return "call" + strings.TrimPrefix(MessageID(e.ID, 0), "message")
}

func arguments(params json.RawMessage) string {
	if len(params) == 0 || string(params) == "null" {
		return "{}"
	}
	return string(params)
}

func (f *Fold) result(e *chat.Event, b chat.AgentToolResult) {
	r := ToolReturn{ToolCallID: f.callOf(e, b.CallID, b.Tool), Status: Success}
	if parts, ok := resultParts(b.Result); ok {
		r.Parts = parts
	} else {
		r.Text = PackResult(true, b.Result, e.At.Time())
	}
	f.returned(e, 0, b.Tool, r)
}

// resultParts decodes a result that is a list of texts and images.
func resultParts(result json.RawMessage) ([]Part, bool) {
	if len(result) < 2 || result[0] != '[' || result[1] != '{' {
		return nil, false
	}
	parts, err := DecodeParts("", result)
	return parts, err == nil && len(parts) > 0
}

func (f *Fold) toolError(e *chat.Event, b chat.AgentToolError) {
	id := f.callOf(e, b.CallID, b.Tool)
	if f.denied[id] {
		delete(f.denied, id)
		return // the denial is already the result
	}
	text := b.Error
	if b.Code != "" && !strings.Contains(text, b.Code) {
		text = b.Code + ": " + text
	}
	f.returned(e, 0, b.Tool, ToolReturn{ToolCallID: id, Status: Failure, Text: PackResult(false, json.AppendString(nil, text), e.At.Time())})
}

// returned adds the result of a call to the open tool message; a new one is the n-th
// message that is made from e.
func (f *Fold) returned(e *chat.Event, n int, tool string, r ToolReturn) {
	delete(f.pending, r.ToolCallID)
	if d, ok := f.clientRuns[r.ToolCallID]; ok {
		r.Stdout, r.Stderr = d.Stdout, d.Stderr
		delete(f.clientRuns, r.ToolCallID)
	}
	if tool == "" {
		tool = f.toolNames[r.ToolCallID]
	}
	if f.open != openTool || f.turn != e.Turn {
		m := f.message(e, Tool, n)
		m.Name, m.ToolCallID, m.StepID = tool, r.ToolCallID, f.step
		m.ToolCalls = []ToolCall{}
		f.put(e, m)
		f.open = openTool
	}
	f.prevEvent = f.now
	m := f.openMessage()
	m.ToolReturns = append(m.ToolReturns, r)
	m.Content = append(m.Content, &Text{Text: r.PlainText()})
}

// model sets the model of the assistant messages since the last usage event.
func (f *Fold) model(name string) {
	if name == "" {
		return
	}
	for i := f.usage; i < len(f.messages); i++ {
		if m := &f.messages[i]; (m.Role == Assistant || m.IsApprovalRequest()) && m.Model == "" {
			m.Model = name
		}
	}
	f.usage = len(f.messages)
}

// child reports the launch, progress and end of a workstream that this one launched.
func (f *Fold) child(e *chat.Event) {
	switch b := e.Body.(type) {
	case chat.WorkstreamLaunched:
		text := "Workstream " + b.ID
		if b.Name != "" && b.Name != b.ID {
			text += " (" + b.Name + ")"
		}
		f.news(e, text+" was launched: "+b.Task)
	case chat.WorkstreamCompleted:
		text := "Workstream " + b.ID + " completed."
		if b.Summary != "" {
			text += " " + b.Summary
		}
		if len(b.Result) > 0 && string(b.Result) != "null" {
			text += "\nResult: " + string(b.Result)
		}
		f.news(e, text)
	case chat.WorkstreamFailed:
		f.news(e, "Workstream "+b.ID+" failed: "+b.Error)
	case chat.WorkstreamTimeout:
		f.news(e, strings.TrimSpace("Workstream "+b.ID+" ran out of time. "+b.Summary))
	case chat.WorkstreamWarning:
		f.news(e, strings.TrimSpace("Workstream "+b.ID+" is short of time. "+b.Message))
	case chat.WorkstreamCanceled:
		f.news(e, strings.TrimSpace("Workstream "+b.ID+" was canceled. "+b.Reason))
	case chat.WorkstreamProgress:
		if b.Phase == chat.PhaseDone && (b.Summary != "" || e.Actor == chat.System) { // an interactive workstream has answered, or was stopped
			f.news(e, chat.WorkstreamText(b))
		}
	}
}
