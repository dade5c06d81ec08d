package nemo

import (
	"cmp"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// event folds one event. Events that are not named here are not shown.
func (f *fold) event(e *chat.Event) {
	switch b := e.Body.(type) {
	case chat.UserMessage:
		f.userMessage(e, b)
		return
	case chat.UserMessageWithdrawn:
		f.queued = slices.DeleteFunc(f.queued, func(m queuedMessage) bool { return m.trigger == b.Sequence })
		return
	case chat.TurnStarted:
		f.turnStarted(e, b)
		return
	case chat.TurnInput:
		f.queued = slices.DeleteFunc(f.queued, func(m queuedMessage) bool { return slices.Contains(b.Sequences, m.trigger) })
		return
	case chat.AgentInputRequest, chat.AgentApprovalRequest, chat.AgentPermissionRequest:
		f.prompt(e)
		return
	case chat.WorkstreamLaunched:
		f.workLaunched(e, b)
		return
	case chat.WorkstreamProgress:
		f.workProgress(e, b.ID, "progress", "Progress", progressText(b))
		return
	case chat.WorkstreamWarning:
		f.workProgress(e, b.ID, string(e.ID), "Warning", warningText(b))
		return
	}
	if id := chat.AnswerOf(e.Body); id != "" {
		f.prompts = slices.DeleteFunc(f.prompts, func(a *openPrompt) bool { return a.RequestID == id })
		return
	}
	if f.workEnded(e) {
		return
	}
	if !strings.HasPrefix(e.Type, "agent.") && e.Type != "turn.completed" {
		return
	}
	if e.Via == via {
		return // history that a client imported: it has it
	}
	t := f.turn(e.Turn, e.Workstream)
	switch b := e.Body.(type) {
	case chat.AgentText:
		f.text(t, e, b)
	case chat.AgentThinking:
		f.thinkingDone(t, e, b)
	case chat.AgentTrace:
		t.trace = b.TraceID
	case chat.TurnCompleted:
		f.turnEnded(t, e, b)
	default:
		f.tools(t, e)
	}
}

// userMessage queues a user message. A message from NeMo supersedes the turns that NeMo started before: its UI cannot
// tell two answers apart.
func (f *fold) userMessage(e *chat.Event, b chat.UserMessage) {
	if e.Workstream != "" {
		return
	}
	m := queuedMessageOf(e, b)
	if m.fromNeMo {
		for _, t := range f.turns {
			t.superseded = t.superseded || t.fromNeMo && t.workstream == ""
		}
		f.prompts = slices.DeleteFunc(f.prompts, func(p *openPrompt) bool { return p.turn.superseded })
	}
	f.lastMessage = m
	if len(f.queued) >= 100 { // no agent takes them
		f.queued = f.queued[1:]
	}
	f.queued = append(f.queued, m)
}

func queuedMessageOf(e *chat.Event, b chat.UserMessage) queuedMessage {
	m := queuedMessage{trigger: e.Seq, parent: eventUUID(e.ID), fromNeMo: e.Via == via}
	if m.fromNeMo {
		c := contextOf(b)
		m.parent = cmp.Or(c.MessageID, e.ClientID, placeholder)
		m.version, m.thread = c.SchemaVersion, c.ThreadID
		m.atOnce = c.SchemaType == schemaChat || c.SchemaType == schemaGenerate
	}
	return m
}

func (f *fold) turnStarted(e *chat.Event, b chat.TurnStarted) {
	t := &turn{id: b.TurnID, workstream: e.Workstream, uuid: turnUUID(b.TurnID), queuedMessage: f.lastMessage}
	if i := f.queueIndex(b.Trigger); i >= 0 {
		t.queuedMessage = f.queued[i]
		f.queued = slices.Delete(f.queued, i, i+1)
	}
	t.trigger = b.Trigger
	// A newer message of NeMo that waits supersedes the messages before it, too.
	last := f.lastMessage
	t.superseded = t.fromNeMo && t.workstream == "" && last.fromNeMo && last.trigger > t.trigger && t.trigger != 0 && f.queueIndex(last.trigger) >= 0
	f.turns[t.id] = t
}

func (f *fold) queueIndex(seq chat.Seq) int {
	return slices.IndexFunc(f.queued, func(m queuedMessage) bool { return m.trigger == seq })
}

func (f *fold) text(t *turn, e *chat.Event, b chat.AgentText) {
	if e.Workstream != "" {
		return
	}
	have := 0
	if b.Block != "" {
		have = f.sent[b.Block]
		delete(f.sent, b.Block)
	}
	if have <= len(b.Text) {
		f.appendText(t, b.Block, b.Text[have:], e.At, have > 0)
	}
	if t.id == "" && b.Final {
		// Outside of a turn there is no other end.
		f.show(t, item{kind: itemEnd, id: t.uuid, at: e.At, outcome: chat.Done})
	}
}

func (f *fold) thinkingDone(t *turn, e *chat.Event, b chat.AgentThinking) {
	delete(f.thinking, b.Block)
	if b.Text != "" {
		f.step(t, item{id: derivedID(string(t.id), string(b.Block)), name: "Thinking", text: b.Text, at: e.At, raw: "LLM_END", data: e.Payload})
	}
}

func (f *fold) tools(t *turn, e *chat.Event) {
	switch b := e.Body.(type) {
	case chat.AgentToolCall:
		c := call{id: eventUUID(e.ID), tool: b.Tool, params: b.Params}
		if t.calls == nil {
			t.calls = map[string]call{}
		}
		t.calls[b.CallID] = c
		f.step(t, item{id: c.id, name: "Tool: " + b.Tool, text: toolStart(b), at: e.At, raw: "TOOL_START", data: e.Payload})
	case chat.AgentToolResult:
		c := t.call(b.CallID, b.Tool, e)
		delete(t.calls, b.CallID)
		f.step(t, item{id: c.id, name: "Tool: " + c.tool, text: toolEnd(c.params, b.Result), at: e.At, raw: "TOOL_END", data: e.Payload})
	case chat.AgentToolError:
		c := t.call(b.CallID, b.Tool, e)
		delete(t.calls, b.CallID)
		f.step(t, item{id: c.id, name: "Tool: " + c.tool, text: toolFailed(c.params, b.Error), at: e.At, raw: "TOOL_END", data: e.Payload})
	case chat.AgentToolProgress:
		f.progress(t, e, b)
	case chat.AgentPlan:
		f.step(t, item{id: derivedID(string(t.id), "plan"), name: "Plan", text: planText(b), at: e.At, raw: "CUSTOM", data: e.Payload})
	case chat.AgentStatus:
		if b.Message != "" {
			f.step(t, item{id: derivedID(string(t.id), "status"), name: "Status", text: b.Message, at: e.At, raw: "CUSTOM", data: e.Payload})
		}
	case chat.AgentError:
		f.step(t, item{id: eventUUID(e.ID), name: "Error", text: b.Message, at: e.At, raw: "CUSTOM", data: e.Payload})
	case chat.AgentArtifact:
		f.step(t, item{id: eventUUID(e.ID), name: artifactName(b), text: artifactText(f.session, b), at: e.At, raw: "CUSTOM", data: e.Payload})
	}
}

// call finds the call that a result belongs to.
func (t *turn) call(id, tool string, e *chat.Event) call {
	c, ok := t.calls[id]
	if !ok {
		c = call{id: eventUUID(e.ID), tool: tool}
	}
	c.tool = cmp.Or(c.tool, "tool")
	return c
}

// progress is shown for each tenth, not for each event.
func (f *fold) progress(t *turn, e *chat.Event, b chat.AgentToolProgress) {
	c, ok := t.calls[b.CallID]
	if !ok {
		return
	}
	step := max(1, b.Total/10)
	if b.Done < c.shown+step && b.Done != b.Total && c.shown != 0 {
		return
	}
	c.shown = max(1, b.Done)
	t.calls[b.CallID] = c
	f.step(t, item{id: c.id, name: "Tool: " + c.tool, text: toolProgress(c.params, b), at: e.At, raw: "TOOL_START", data: e.Payload})
}

// turnEnded shows the end of a turn: the text that is shown at once, the error, the end and the trace.
func (f *fold) turnEnded(t *turn, e *chat.Event, b chat.TurnCompleted) {
	defer delete(f.turns, t.id)
	f.prompts = slices.DeleteFunc(f.prompts, func(a *openPrompt) bool { return a.Turn == t.id && t.id != "" })
	if t.workstream != "" {
		return // the turn of the main line continues
	}
	if t.atOnce && len(t.text) > 0 {
		f.show(t, item{kind: itemText, id: t.uuid, text: string(t.text), at: e.At})
	}
	if b.Outcome == chat.Failed || b.Outcome == chat.Interrupted {
		problem := errorContent{Code: codeWorkflow, Message: "The agent failed", Details: b.Error}
		if b.Outcome == chat.Interrupted {
			problem.Message = "The agent could not continue"
		}
		if problem.Details == "" {
			problem.Details = "No reason was given."
		}
		if !t.visible {
			// The UI shows an error only in an answer that has something else.
			f.step(t, item{id: derivedID(string(t.id), "failure"), name: "Error", text: problem.Details, at: e.At, raw: "CUSTOM", data: e.Payload})
		}
		f.show(t, item{kind: itemError, id: derivedID(string(t.id), "error"), err: problem, at: e.At})
	}
	f.show(t, item{kind: itemEnd, id: t.uuid, at: e.At, outcome: b.Outcome, usage: b.Usage})
	f.show(t, item{kind: itemTrace, id: derivedID(string(t.id), "trace"), text: cmp.Or(t.trace, t.uuid), at: e.At})
}

func (f *fold) prompt(e *chat.Event) {
	t := f.turn(e.Turn, e.Workstream)
	if b, ok := e.Body.(chat.AgentInputRequest); ok && b.InputType == chat.InputNotification {
		f.show(t, item{kind: itemNotice, id: eventUUID(e.ID), at: e.At, notice: &chat.Prompt{RequestID: b.RequestID, Seq: e.Seq, Input: &b, AskedAt: e.At}})
		return
	}
	p, ok := chat.AsPrompt(e)
	if !ok || t.superseded || p.Approval != nil && p.Approval.Settled {
		return
	}
	a := &openPrompt{Prompt: p, uuid: eventUUID(e.ID), turn: t, root: f.rootMessage(t), execution: t.uuid}
	for _, main := range f.turns {
		if main.workstream == "" && main.trigger == a.root {
			a.execution = main.uuid // prompts of a workstream belong to the turn that launched it
		}
	}
	f.prompts = append(f.prompts, a)
}

func (f *fold) workLaunched(e *chat.Event, b chat.WorkstreamLaunched) {
	t := f.turn(e.Turn, e.Workstream)
	w := workStep{id: eventUUID(e.ID), root: f.rootMessage(t), launched: b}
	f.work[b.ID] = w
	name, text := functionStart(b)
	f.step(t, item{id: w.id, name: name, text: text, at: e.At, raw: "FUNCTION_START", data: e.Payload})
}

// workProgress shows the progress of a workstream below its step. An item with the same name replaces the one before.
func (f *fold) workProgress(e *chat.Event, id, name, kind, text string) {
	w, ok := f.work[id]
	if !ok { // the reader has not seen its launch
		w = workStep{launched: chat.WorkstreamLaunched{ID: id}}
	}
	f.step(f.turn(e.Turn, e.Workstream), item{root: w.root, id: derivedID(string(f.session)+id, name), parent: w.id, name: kind + ": " + workName(w.launched), text: text, at: e.At, raw: "CUSTOM", data: e.Payload})
}

// workEnded shows the end of a workstream.
func (f *fold) workEnded(e *chat.Event) bool {
	var id, state, summary string
	switch b := e.Body.(type) {
	case chat.WorkstreamCompleted:
		id, summary = b.ID, b.Summary
	case chat.WorkstreamFailed:
		id, state, summary = b.ID, "failed", b.Error
	case chat.WorkstreamTimeout:
		id, state, summary = b.ID, "timeout", b.Summary
	case chat.WorkstreamCanceled:
		id, state = b.ID, "canceled"
	default:
		return false
	}
	w, ok := f.work[id]
	if !ok {
		w = workStep{id: eventUUID(e.ID), launched: chat.WorkstreamLaunched{ID: id}}
	}
	delete(f.work, id)
	name, text := functionEnd(w.launched, state, summary)
	f.step(f.turn(e.Turn, e.Workstream), item{root: w.root, id: w.id, name: name, text: text, at: e.At, raw: "FUNCTION_END", data: e.Payload})
	return true
}

// messageContext is what the context of a stored message says about the NeMo message.
type messageContext struct {
	SchemaType    string                     `json:"schema_type,omitempty"`
	SchemaVersion string                     `json:"schema_version,omitempty"`
	MessageID     string                     `json:"message_id,omitempty"` // when it is not the idempotency key
	ThreadID      string                     `json:"thread_id,omitempty"`
	Traceparent   string                     `json:"traceparent,omitempty"`
	Extra         map[string]json.RawMessage `json:"extra,omitempty"`
}

// contextOf reads the context of a message; it is empty for messages of other dialects.
func contextOf(b chat.UserMessage) messageContext {
	var c struct {
		Nemo messageContext `json:"nemo"`
	}
	if len(b.Context) == 0 || json.Unmarshal(b.Context, &c) != nil {
		return messageContext{}
	}
	return c.Nemo
}
