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
	case chat.UserMessageWithdrawn:
		f.unqueue(b.Sequence)
	case chat.TurnInput:
		f.unqueue(b.Sequences...)
	case chat.TurnStarted:
		f.turnStarted(e, b)
	case chat.AgentInputRequest, chat.AgentApprovalRequest, chat.AgentPermissionRequest:
		f.prompt(e)
	case chat.WorkstreamLaunched:
		f.workLaunched(e, b)
	case chat.WorkstreamProgress:
		f.workProgress(e, b.ID, "progress", "Progress", progressText(b))
	case chat.WorkstreamWarning:
		f.workProgress(e, b.ID, string(e.ID), "Warning", warningText(b))
	case chat.WorkstreamCompleted:
		f.workEnded(e, b.ID, b.Summary)
	case chat.WorkstreamFailed:
		f.workEnded(e, b.ID, "failed\n"+b.Error)
	case chat.WorkstreamTimeout:
		f.workEnded(e, b.ID, "timeout\n"+b.Summary)
	case chat.WorkstreamCanceled:
		f.workEnded(e, b.ID, "canceled")
	default:
		if id := chat.AnswerOf(e.Body); id != "" {
			f.prompts = slices.DeleteFunc(f.prompts, func(p *openPrompt) bool { return p.RequestID == id })
		} else if e.Via != via && (e.Type == "turn.completed" || strings.HasPrefix(e.Type, "agent.")) {
			f.agentEvent(f.turn(e.Turn, e.Workstream), e) // agent events of this dialect are imported: the client has them
		}
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
	t := &turn{id: b.TurnID, workstream: e.Workstream, uuid: turnUUID(b.TurnID), queuedMessage: f.lastMessage, begun: e.Seq <= f.from}
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

func (f *fold) unqueue(triggers ...chat.Seq) {
	f.queued = slices.DeleteFunc(f.queued, func(m queuedMessage) bool { return slices.Contains(triggers, m.trigger) })
}

func (f *fold) queueIndex(seq chat.Seq) int {
	return slices.IndexFunc(f.queued, func(m queuedMessage) bool { return m.trigger == seq })
}

// agentEvent folds an event of a turn.
func (f *fold) agentEvent(t *turn, e *chat.Event) {
	switch b := e.Body.(type) {
	case chat.AgentText:
		f.text(t, e, b)
	case chat.AgentThinking:
		delete(f.thinking, b.Block)
		if b.Text != "" {
			f.eventStep(t, e, derivedID(string(t.id), string(b.Block)), "Thinking", b.Text, "LLM_END")
		}
	case chat.AgentTrace:
		t.trace = b.TraceID
	case chat.TurnCompleted:
		f.turnEnded(t, e, b)
	case chat.AgentToolCall:
		if t.calls == nil {
			t.calls = map[string]call{}
		}
		c := call{id: eventUUID(e.ID), tool: b.Tool, params: b.Params}
		t.calls[b.CallID] = c
		f.eventStep(t, e, c.id, "Tool: "+b.Tool, fence("Input", b.Params), "TOOL_START")
	case chat.AgentToolProgress:
		f.toolProgress(t, e, b)
	case chat.AgentToolResult:
		f.toolEnded(t, e, b.CallID, b.Tool, fence("Output", b.Result))
	case chat.AgentToolError:
		f.toolEnded(t, e, b.CallID, b.Tool, fenceText("Error", b.Error))
	case chat.AgentPlan:
		f.eventStep(t, e, derivedID(string(t.id), "plan"), "Plan", planText(b), "CUSTOM")
	case chat.AgentStatus:
		if b.Message != "" {
			f.eventStep(t, e, derivedID(string(t.id), "status"), "Status", b.Message, "CUSTOM")
		}
	case chat.AgentError:
		f.eventStep(t, e, eventUUID(e.ID), "Error", b.Message, "CUSTOM")
	case chat.AgentArtifact:
		f.eventStep(t, e, eventUUID(e.ID), "Artifact: "+cmp.Or(b.Title, b.ArtifactType), artifactText(f.session, b), "CUSTOM")
	}
}

// eventStep shows an event as a step; raw is its type in the toolkit's stream of steps.
func (f *fold) eventStep(t *turn, e *chat.Event, id, name, text, raw string) {
	f.step(t, item{id: id, name: name, text: text, at: e.At, raw: raw, data: e.Payload})
}

func (f *fold) text(t *turn, e *chat.Event, b chat.AgentText) {
	if e.Workstream != "" {
		return
	}
	have := f.sent[b.Block]
	delete(f.sent, b.Block)
	if have <= len(b.Text) {
		f.appendText(t, b.Block, b.Text[have:], e.At, have > 0)
	}
	if t.id == "" && b.Final { // outside of a turn there is no other end
		f.show(t, item{kind: itemEnd, id: t.uuid, at: e.At, outcome: chat.Done})
	}
}

// toolEnded shows the result of a call. It repeats the input, because a step with the same id and name replaces the one
// before it.
func (f *fold) toolEnded(t *turn, e *chat.Event, callID, tool, result string) {
	c, ok := t.calls[callID]
	if !ok {
		c = call{id: eventUUID(e.ID), tool: tool}
	}
	delete(t.calls, callID)
	f.eventStep(t, e, c.id, "Tool: "+cmp.Or(c.tool, "tool"), toolInput(c.params)+"\n\n"+result, "TOOL_END")
}

// toolProgress shows the progress of a call for each tenth, not for each event.
func (f *fold) toolProgress(t *turn, e *chat.Event, b chat.AgentToolProgress) {
	c, ok := t.calls[b.CallID]
	if !ok || c.shown != 0 && b.Done != b.Total && b.Done < c.shown+max(1, b.Total/10) {
		return
	}
	c.shown = max(1, b.Done)
	t.calls[b.CallID] = c
	f.eventStep(t, e, c.id, "Tool: "+c.tool, toolInput(c.params)+"\n\n"+toolProgressText(b), "TOOL_START")
}

// turnEnded shows the end of a turn: the text that is shown at once, the error, the end and the trace.
func (f *fold) turnEnded(t *turn, e *chat.Event, b chat.TurnCompleted) {
	delete(f.turns, t.id)
	f.prompts = slices.DeleteFunc(f.prompts, func(p *openPrompt) bool { return p.Turn == t.id && t.id != "" })
	if t.workstream != "" {
		return // the turn of the main line continues
	}
	if t.atOnce && len(t.text) > 0 {
		f.show(t, item{kind: itemText, id: t.uuid, text: string(t.text), at: e.At})
	}
	if b.Outcome == chat.Failed || b.Outcome == chat.Interrupted {
		problem := errorContent{Code: codeWorkflow, Message: "The agent failed", Details: cmp.Or(b.Error, "No reason was given.")}
		if b.Outcome == chat.Interrupted {
			problem.Message = "The agent could not continue"
		}
		if !t.visible { // the UI shows an error only in an answer that has something else
			f.eventStep(t, e, derivedID(string(t.id), "failure"), "Error", problem.Details, "CUSTOM")
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
	f.eventStep(t, e, w.id, "Function Start: "+w.name(), fenceText("Function Input", b.Task), "FUNCTION_START")
}

// workProgress shows the progress of a workstream below its step. An item with the same name replaces the one before.
func (f *fold) workProgress(e *chat.Event, id, name, kind, text string) {
	w, ok := f.work[id]
	if !ok { // the reader has not seen its launch
		w = workStep{launched: chat.WorkstreamLaunched{ID: id}}
	}
	f.step(f.turn(e.Turn, e.Workstream), item{root: w.root, id: derivedID(string(f.session)+id, name), parent: w.id, name: kind + ": " + w.name(), text: text, at: e.At, raw: "CUSTOM", data: e.Payload})
}

// workEnded shows the end of a workstream. The name of the step differs from that of the launch: the UI drops the steps
// inside a step that is replaced.
func (f *fold) workEnded(e *chat.Event, id, result string) {
	w, ok := f.work[id]
	if !ok {
		w = workStep{id: eventUUID(e.ID), launched: chat.WorkstreamLaunched{ID: id}}
	}
	delete(f.work, id)
	text := fenceText("Function Input", w.launched.Task) + fenceText("Function Output", strings.TrimSpace(result))
	f.step(f.turn(e.Turn, e.Workstream), item{root: w.root, id: w.id, name: "Function Complete: " + w.name(), text: text, at: e.At, raw: "FUNCTION_END", data: e.Payload})
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
