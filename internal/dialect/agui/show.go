package agui

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/aguiwire"
	"github.com/parley-hq/parley/internal/dialect/agui/tanstack"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/jsonpatch"
	"github.com/parley-hq/parley/internal/pages"
)

// show adds the frames of an event that belongs to a run. Outside of runs nothing is shown.
func (x *encoder) show(e *chat.Event) {
	if x.run == nil {
		delete(x.blocks, blockMessage(e.Workstream, chat.FinishedBlock(e.Body), e))
		return
	}
	line := e.Workstream
	switch b := e.Body.(type) {
	case chat.AgentText:
		x.finishBlock(e, b.Block, b.Text, false)
	case chat.AgentThinking:
		x.finishBlock(e, b.Block, b.Text, true)
	case chat.AgentToolCall:
		x.call(line, cmp.Or(b.CallID, string(e.ID)), b.Tool, b.Params)
	case chat.AgentToolResult:
		x.result(e, b.CallID, json.Text(b.Result), nil)
	case chat.AgentToolError:
		meta := map[string]any{"error": true}
		if b.Code != "" {
			meta["code"] = b.Code
		}
		x.result(e, b.CallID, b.Error, meta)
	case chat.AgentPlan:
		x.activity(line, "plan", "plan-"+cmp.Or(string(x.turn), string(e.ID)), b)
	case chat.AgentToolProgress:
		x.activity(line, "progress", "progress-"+cmp.Or(b.CallID, b.BatchID, b.Tool, string(e.ID)), b)
	case chat.AgentArtifact:
		x.activity(line, "artifact", "artifact-"+cmp.Or(b.ArtifactID, string(e.ID)), b)
	case chat.AgentStatus, chat.AgentError, chat.AgentShare:
		x.custom(line, strings.Replace(e.Type, "agent.", "parley.", 1), e.Payload)
	case chat.AgentUsage:
		x.run.usage = aguiwire.AddTokens(x.run.usage, b)
	case chat.TurnInput:
		x.steered(b)
	case chat.WorkstreamLaunched:
		x.open(b.ID)
	case chat.WorkstreamProgress:
		x.custom(b.ID, "parley.progress", e.Payload)
	case chat.WorkstreamWarning:
		x.custom(b.ID, "parley.warning", e.Payload)
	case chat.WorkstreamCompleted:
		x.endWork(b.ID, event{Type: "SUBAGENT_FINISHED", Result: workResult(b), Outcome: &outcome{Type: "success"}})
	case chat.WorkstreamFailed:
		x.endWork(b.ID, event{Type: "SUBAGENT_ERROR", Message: cmp.Or(b.Error, "the workstream failed"), Code: "failed"})
	case chat.WorkstreamTimeout:
		x.endWork(b.ID, event{Type: "SUBAGENT_ERROR", Message: cmp.Or(b.Summary, "the workstream's deadline has passed"), Code: "timeout"})
	case chat.WorkstreamCanceled:
		x.endWork(b.ID, event{Type: "SUBAGENT_ERROR", Message: cmp.Or(b.Reason, "the workstream was canceled"), Code: "canceled"})
	case chat.Unknown:
		x.unknown(e, b)
	}
}

// blockMessage is the id of the message that shows a block. Two workstreams may use the same id of a block.
func blockMessage(line string, b chat.BlockID, e *chat.Event) string {
	id := string(b)
	if id == "" {
		id = string(e.ID)
	}
	if line != "" {
		id = line + "/" + id
	}
	return strings.ToValidUTF8(id, "")
}

// block returns the state of the block that a message shows, new when nothing of it was seen.
func (x *encoder) block(id, line string, thinking bool) *block {
	if x.blocks[id] == nil {
		x.blocks[id] = &block{id: id, line: line, thinking: thinking}
	}
	return x.blocks[id]
}

// piece shows a piece of a block. Pieces that come between runs are left out; the end of the block shows them.
func (x *encoder) piece(p *chat.Preview) {
	if x.run == nil {
		return
	}
	b := x.block(blockMessage(p.Workstream, p.Block, nil), p.Workstream, p.Kind == chat.ThinkingBlock)
	if text := p.TextAfter(b.sent); text != "" {
		x.write(b, text)
		b.sent += len(text)
	}
}

// write shows a text of a block, and the beginning of its message in this run.
func (x *encoder) write(b *block, text string) {
	tag := x.open(b.line)
	start, content, role := "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "assistant"
	if b.thinking {
		start, content, role = "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "reasoning"
	}
	if !b.open {
		b.open = true
		if b.thinking {
			x.emit(event{Type: "REASONING_START", MessageID: b.id, Subagent: tag})
		}
		x.emit(event{Type: start, MessageID: b.id, Role: role, Subagent: tag})
	}
	x.emitText(content, b.id, strings.ToValidUTF8(text, "\uFFFD"), tag)
}

func (x *encoder) closeBlock(b *block) {
	if !b.open {
		return
	}
	b.open = false
	if b.thinking {
		x.emit(event{Type: "REASONING_MESSAGE_END", MessageID: b.id, Subagent: b.line})
		x.emit(event{Type: "REASONING_END", MessageID: b.id, Subagent: b.line})
		return
	}
	x.emit(event{Type: "TEXT_MESSAGE_END", MessageID: b.id, Subagent: b.line})
}

// finishBlock shows the rest of a block.
func (x *encoder) finishBlock(e *chat.Event, id chat.BlockID, text string, thinking bool) {
	b := x.block(blockMessage(e.Workstream, id, e), e.Workstream, thinking)
	if b.sent < len(text) {
		x.write(b, text[b.sent:])
	}
	x.closeBlock(b)
	delete(x.blocks, b.id)
}

// call shows a tool call once: an approval request and the call that follows it have the same id.
func (x *encoder) call(line, id, name string, params json.RawMessage) {
	if x.calls[id] != nil {
		return
	}
	x.calls[id] = &call{line: line}
	tag := x.open(line)
	x.emit(event{Type: "TOOL_CALL_START", CallID: id, CallName: cmp.Or(name, "tool"), Subagent: tag})
	x.emit(event{Type: "TOOL_CALL_ARGS", CallID: id, Delta: string(aguiwire.Arguments(params)), Subagent: tag})
	x.emit(event{Type: "TOOL_CALL_END", CallID: id, Subagent: tag})
}

// result shows the first result of a call.
func (x *encoder) result(e *chat.Event, id, text string, meta map[string]any) {
	if id == "" {
		return // it cannot be assigned to a call
	}
	c := x.calls[id]
	if c == nil {
		c = &call{line: e.Workstream}
		x.calls[id] = c
	}
	if c.answered {
		return
	}
	c.answered = true
	if meta != nil && x.variant.tanstack {
		meta["tanstack"] = tanstack.Failed
	}
	x.emit(event{Type: "TOOL_CALL_RESULT", MessageID: string(e.ID) + "-" + id, CallID: id, Content: quote(text), Role: "tool", Subagent: x.open(c.line), Metadata: meta})
}

func quote(s string) json.RawMessage { return json.AppendString(nil, s) }

// activity shows something that each later event of the same id replaces.
func (x *encoder) activity(line, kind, id string, content any) {
	tag := x.open(line)
	if line != "" {
		id = line + "/" + id
	}
	b, err := json.Marshal(content)
	if err != nil {
		return
	}
	if patch := jsonpatch.Delta(x.run.shown[id], b); patch != nil {
		x.emit(event{Type: "ACTIVITY_DELTA", MessageID: id, Activity: kind, Patch: patch, Subagent: tag})
	} else {
		x.emit(event{Type: "ACTIVITY_SNAPSHOT", MessageID: id, Activity: kind, Content: b, Subagent: tag})
	}
	x.run.shown[id] = b
}

func (x *encoder) custom(line, name string, value json.RawMessage) {
	if json.NotNull(value) != nil {
		x.emit(event{Type: "CUSTOM", Name: name, Value: value, Subagent: x.open(line)})
	}
}

// steered shows messages of people that the running turn takes up.
func (x *encoder) steered(b chat.TurnInput) {
	for _, seq := range b.Sequences {
		e := x.messages[seq]
		if e == nil {
			continue
		}
		delete(x.messages, seq)
		if text := e.Body.(chat.UserMessage).PlainText(); text != "" {
			id := messageID(e)
			x.emit(event{Type: "TEXT_MESSAGE_START", MessageID: id, Role: "user"})
			x.emit(event{Type: "TEXT_MESSAGE_CONTENT", MessageID: id, Delta: text})
			x.emit(event{Type: "TEXT_MESSAGE_END", MessageID: id})
		}
	}
}

// unknown shows the state that an agent behind AG-UI has, and events of types that only the agent and its page know.
func (x *encoder) unknown(e *chat.Event, b chat.Unknown) {
	switch state := stateOf(e); {
	case state != nil:
		tag := x.open(e.Workstream)
		if patch := jsonpatch.Delta(x.run.shown[""], state); patch != nil {
			x.emit(event{Type: "STATE_DELTA", Delta: patch, Subagent: tag})
		} else {
			x.emit(event{Type: "STATE_SNAPSHOT", Snapshot: state, Subagent: tag})
		}
		x.run.shown[""] = state
	case b.Name != "remote.round" && b.Name != "llm.message": // what only the agent and models read
		x.custom(e.Workstream, b.Name, b.Payload)
	}
}

// stateOf is the state that an event has, nil when it has none.
func stateOf(e *chat.Event) json.RawMessage {
	b, ok := e.Body.(chat.Unknown)
	if !ok {
		return storedOf(e).State
	}
	var r struct {
		State json.RawMessage `json:"state"`
	}
	if b.Name != "remote.round" || json.Unmarshal(b.Payload, &r) != nil {
		return nil
	}
	return json.NotNull(r.State)
}

// open starts the subagent of a workstream if that has not happened in this run. It returns the tag for its events.
func (x *encoder) open(line string) string {
	if _, started := x.run.subagents[line]; line == "" || started {
		return line
	}
	ev := event{Type: "SUBAGENT_STARTED", Subagent: line, Name: line}
	if w := x.work[line]; w != nil {
		ev.Name, ev.About, ev.Parent = cmp.Or(w.name, line), w.task, x.open(w.parent)
	}
	x.run.subagents[line] = true
	x.emit(ev)
	return line
}

// endWork ends the subagent of a workstream. A subagent ends once in a run.
func (x *encoder) endWork(id string, ev event) {
	x.open(id)
	if !x.run.subagents[id] {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(x.blocks)) {
		if b := x.blocks[key]; b.line == id {
			x.closeBlock(b)
		}
	}
	x.run.subagents[id] = false
	ev.Subagent = id
	x.emit(ev)
}

func workResult(b chat.WorkstreamCompleted) json.RawMessage {
	result := json.NotNull(b.Result)
	if result == nil && b.Summary != "" {
		result = quote(b.Summary)
	}
	return result
}

// messageID is the id by which clients know a message of a person.
func messageID(e *chat.Event) string {
	if _, id := senderOf(e); id != "" {
		return id
	}
	if e.Via == via {
		return cmp.Or(storedOf(e).MessageID, e.ClientID, string(e.ID))
	}
	return string(e.ID)
}

// userMessage is a message of a person.
func userMessage(e *chat.Event) message {
	b, _ := e.Body.(chat.UserMessage)
	var parts []part
	files := false
	for _, p := range pages.Parts(e.Session, b) {
		if p.URL == "" {
			parts = append(parts, part{Type: "text", Text: p.Text})
			continue
		}
		files = true
		if p.Type == "file" || p.Type == "text" {
			p.Type = "document"
		}
		parts = append(parts, part{Type: p.Type, Source: aguiwire.NewSource(p.URL, p.MediaType)})
	}
	m := message{ID: messageID(e), Role: "user", Content: quote(b.PlainText())}
	if files {
		m.Content = pages.Marshal(parts)
	}
	return m
}

// messageTypes are the events that messageOf shows as messages.
var messageTypes = []string{
	chat.UserMessage{}.Type(), chat.AgentText{}.Type(), chat.AgentThinking{}.Type(), chat.AgentToolCall{}.Type(), chat.AgentToolResult{}.Type(), chat.AgentToolError{}.Type(),
}

// messageOf is an event as a message.
func messageOf(e *chat.Event) (m message, ok bool) {
	switch b := e.Body.(type) {
	case chat.UserMessage:
		return userMessage(e), true
	case chat.AgentText:
		return message{ID: blockMessage("", b.Block, e), Role: "assistant", Content: quote(b.Text)}, b.Text != ""
	case chat.AgentThinking:
		return message{ID: blockMessage("", b.Block, e), Role: "reasoning", Content: quote(b.Text)}, b.Text != ""
	case chat.AgentToolCall:
		return message{ID: string(e.ID), Role: "assistant", Calls: []aguiwire.Call{aguiwire.NewCall(cmp.Or(b.CallID, string(e.ID)), b.Tool, b.Params)}}, true
	case chat.AgentToolResult:
		return message{ID: string(e.ID), Role: "tool", CallID: b.CallID, Content: quote(json.Text(b.Result))}, b.CallID != ""
	case chat.AgentToolError:
		return message{ID: string(e.ID), Role: "tool", CallID: b.CallID, Content: quote(b.Error), Error: b.Error}, b.CallID != ""
	}
	return m, false
}
