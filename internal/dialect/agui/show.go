package agui

import (
	"cmp"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/aguiwire"
	"github.com/parley-hq/parley/internal/attachment"
	"github.com/parley-hq/parley/internal/json"
)

// show adds the frames of an event that belongs to a run. Outside of runs nothing is shown.
func (x *encoder) show(e *chat.Event) {
	if x.run == nil {
		if b := chat.FinishedBlock(e.Body); b != "" {
			delete(x.blocks, blockKey(e.Workstream, b))
		}
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
		x.result(e, b.CallID, resultText(b.Result), nil)
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
		x.count(b)
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

func blockKey(line string, b chat.BlockID) string { return line + "/" + string(b) }

// block returns the state of a block, new when nothing of it was seen.
func (x *encoder) block(line string, id chat.BlockID, e *chat.Event, thinking bool) *block {
	key := blockKey(line, id)
	if id == "" {
		key = blockKey(line, chat.BlockID(e.ID))
	}
	b := x.blocks[key]
	if b == nil {
		b = &block{id: messageIDOf(line, id, e), line: line, thinking: thinking}
		x.blocks[key] = b
	}
	return b
}

// piece shows a piece of a block. Pieces that come between runs are left out; the end of the block shows them.
func (x *encoder) piece(p *chat.Preview) {
	if x.run == nil {
		return
	}
	b := x.block(p.Workstream, p.Block, nil, p.Kind == chat.ThinkingBlock)
	if p.Offset > b.sent || p.Offset+len(p.Text) <= b.sent {
		return
	}
	x.write(b, p.Text[b.sent-p.Offset:])
	b.sent = p.Offset + len(p.Text)
}

// write shows a text of a block, and the beginning of its message in this run.
func (x *encoder) write(b *block, text string) {
	tag := x.open(b.line)
	if !b.open {
		b.open = true
		if b.thinking {
			x.emit(event{Type: "REASONING_START", MessageID: b.id, Subagent: tag})
			x.emit(event{Type: "REASONING_MESSAGE_START", MessageID: b.id, Role: "reasoning", Subagent: tag})
		} else {
			x.emit(event{Type: "TEXT_MESSAGE_START", MessageID: b.id, Role: "assistant", Subagent: tag})
		}
	}
	typ := "TEXT_MESSAGE_CONTENT"
	if b.thinking {
		typ = "REASONING_MESSAGE_CONTENT"
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	x.emit(event{Type: typ, MessageID: b.id, Delta: &text, Subagent: tag})
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
	b := x.block(e.Workstream, id, e, thinking)
	if b.sent < len(text) {
		x.write(b, text[b.sent:])
	}
	x.closeBlock(b)
	if id == "" {
		id = chat.BlockID(e.ID)
	}
	delete(x.blocks, blockKey(e.Workstream, id))
}

// call shows a tool call once: an approval request and the call that follows it have the same id.
func (x *encoder) call(line, id, name string, params json.RawMessage) {
	if x.calls[id] != nil {
		return
	}
	x.calls[id] = &call{line: line}
	tag := x.open(line)
	args := string(orEmpty(params))
	x.emit(event{Type: "TOOL_CALL_START", CallID: id, CallName: cmp.Or(name, "tool"), Subagent: tag})
	x.emit(event{Type: "TOOL_CALL_ARGS", CallID: id, Delta: &args, Subagent: tag})
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
	x.emit(event{Type: "TOOL_CALL_RESULT", MessageID: string(e.ID) + "-" + id, CallID: id, Content: quote(text), Role: "tool", Subagent: x.open(c.line), Metadata: meta})
}

// resultText is the result of a tool as text: clients take no other form.
func resultText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

func quote(s string) json.RawMessage { return chat.AppendString(nil, s) }

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
	if patch := delta(x.run.shown[id], b); patch != nil {
		x.emit(event{Type: "ACTIVITY_DELTA", MessageID: id, Activity: kind, Patch: patch, Subagent: tag})
	} else {
		x.emit(event{Type: "ACTIVITY_SNAPSHOT", MessageID: id, Activity: kind, Content: b, Subagent: tag})
	}
	x.run.shown[id] = b
}

func (x *encoder) custom(line, name string, value json.RawMessage) {
	if len(value) > 0 && string(value) != "null" {
		x.emit(event{Type: "CUSTOM", Name: name, Value: value, Subagent: x.open(line)})
	}
}

// count adds tokens to those of the run.
func (x *encoder) count(u chat.AgentUsage) {
	i := 0
	for i < len(x.run.usage) && x.run.usage[i].Model != u.Model {
		i++
	}
	if i == len(x.run.usage) {
		x.run.usage = append(x.run.usage, aguiwire.Tokens{Model: u.Model})
	}
	t := &x.run.usage[i]
	t.Input += max(0, u.InputTokens)
	t.Output += max(0, u.OutputTokens)
	t.Total = t.Input + t.Output
	t.Reasoning += max(0, u.ReasoningTokens)
	t.Cached += max(0, u.CacheReadTokens)
	t.Written += max(0, u.CacheCreationTokens)
}

// steered shows messages of people that the running turn takes up.
func (x *encoder) steered(b chat.TurnInput) {
	for _, seq := range b.Sequences {
		e := x.messages[seq]
		if e == nil {
			continue
		}
		delete(x.messages, seq)
		m, text := e.Body.(chat.UserMessage), ""
		if text = m.PlainText(); text == "" {
			continue
		}
		id := messageID(e)
		x.emit(event{Type: "TEXT_MESSAGE_START", MessageID: id, Role: "user"})
		x.emit(event{Type: "TEXT_MESSAGE_CONTENT", MessageID: id, Delta: &text})
		x.emit(event{Type: "TEXT_MESSAGE_END", MessageID: id})
	}
}

// unknown shows the state that an agent behind AG-UI has, and events of types that only the agent and its page know.
func (x *encoder) unknown(e *chat.Event, b chat.Unknown) {
	switch state := stateOf(e); {
	case state != nil:
		tag := x.open(e.Workstream)
		if patch := delta(x.run.shown[""], state); patch != nil {
			x.emit(event{Type: "STATE_DELTA", Delta: patch, Subagent: tag})
		} else {
			x.emit(event{Type: "STATE_SNAPSHOT", Snapshot: state, Subagent: tag})
		}
		x.run.shown[""] = state
	case b.Name != "remote.round" && b.Name != "llm.message": // what only the agent and models read
		x.custom(e.Workstream, b.Name, b.Payload)
	}
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
	m := message{ID: messageID(e), Role: "user"}
	parts := userParts(e.Session, b)
	if len(parts) == 0 {
		m.Content = quote(b.PlainText())
		return m
	}
	m.Content, _ = json.Marshal(parts) // strings only
	return m
}

// userParts are the parts of a message, nil when it is only text.
func userParts(id chat.SessionID, b chat.UserMessage) (parts []part) {
	only := true
	if b.Text != "" {
		parts = append(parts, part{Type: "text", Text: b.Text})
	}
	for _, p := range b.Content {
		if p.Type == "text" {
			if b.Text == "" {
				parts = append(parts, part{Type: "text", Text: p.Text})
			}
			continue
		}
		only = false
		kind := p.Type
		if kind == "file" {
			kind = "document"
		}
		address := p.URL
		if p.Path != "" {
			address = attachment.URL(id, p.Path)
		}
		parts = append(parts, part{Type: kind, Source: aguiwire.NewSource(address, p.MediaType)})
	}
	if only {
		return nil
	}
	return parts
}
