package llm

import (
	"encoding/json"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/parley-hq/parley/chat"
)

// FromAnthropic reads the answer of the Messages API: all of its blocks, in
// their order.
func FromAnthropic(m *anthropic.Message, meta Meta) (Answer, error) {
	a := Answer{Stop: anthropicStop(m.StopReason), Usage: anthropicUsage(m.Usage)}
	a.Message.Model = either(meta.Model, m.Model)
	var b builder
	for i := range m.Content {
		block := &m.Content[i]
		switch block.Type {
		case "text":
			b.text(block.Text)
		case "thinking":
			n := b.add(&Reasoning{Native: true, Signature: block.Signature}, true)
			b.texts[n].WriteString(block.Thinking)
		case "redacted_thinking":
			b.add(&RedactedReasoning{Data: block.Data}, false)
		case "tool_use":
			c := b.call(i)
			c.id, c.name = block.ID, meta.original(block.Name, anthropicName, "")
			c.arguments.Write(block.Input)
		}
	}
	return b.answer(a)
}

func anthropicStop(s anthropic.StopReason) Stop {
	switch s {
	case anthropic.StopReasonEndTurn, anthropic.StopReasonStopSequence, anthropic.StopReasonPauseTurn, "":
		return StopEnd
	case anthropic.StopReasonMaxTokens, anthropic.StopReasonModelContextWindowExceeded:
		return StopLength
	case anthropic.StopReasonToolUse:
		return StopCalls
	case anthropic.StopReasonRefusal:
		return StopFilter
	}
	return StopFailure
}

// anthropicUsage counts the whole prompt; Anthropic counts apart what came from
// its cache and what went there.
func anthropicUsage(u anthropic.Usage) chat.Usage {
	return chat.Usage{
		InputTokens:  u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens,
		OutputTokens: u.OutputTokens, CacheReadTokens: u.CacheReadInputTokens, CacheCreationTokens: u.CacheCreationInputTokens,
		ReasoningTokens: u.OutputTokensDetails.ThinkingTokens,
	}
}

// AnthropicStream collects the events of a streamed answer.
type AnthropicStream struct {
	Meta   Meta
	b      builder
	blocks map[int64]int // block → part
	calls  map[int64]*callBuilder
	model  string
	stop   anthropic.StopReason
	usage  anthropic.Usage
	ended  bool
}

// Add takes the next event and returns what is new.
func (s *AnthropicStream) Add(e anthropic.MessageStreamEventUnion) []Delta {
	switch e.Type {
	case "message_start":
		s.model, s.usage = e.Message.Model, e.Message.Usage
	case "content_block_start":
		return s.start(e.Index, &e.ContentBlock)
	case "content_block_delta":
		return s.piece(e.Index, &e.Delta)
	case "message_delta":
		s.stop = e.Delta.StopReason
		s.count(e.Usage)
	case "message_stop":
		s.ended = true
	}
	return nil
}

func (s *AnthropicStream) start(at int64, block *anthropic.ContentBlockStartEventContentBlockUnion) []Delta {
	if s.blocks == nil {
		s.blocks, s.calls = map[int64]int{}, map[int64]*callBuilder{}
	}
	switch block.Type {
	case "text":
		s.blocks[at] = s.b.add(&Text{}, true)
		return s.grow(at, DeltaText, block.Text)
	case "thinking":
		s.blocks[at] = s.b.add(&Reasoning{Native: true, Signature: block.Signature}, true)
		return s.grow(at, DeltaThinking, block.Thinking)
	case "redacted_thinking":
		s.b.add(&RedactedReasoning{Data: block.Data}, false)
	case "tool_use":
		c := s.b.call(int(at))
		c.id, c.name = block.ID, s.Meta.original(block.Name, anthropicName, "")
		s.calls[at] = c
		return []Delta{{Kind: DeltaCall, Index: int(at), CallID: c.id, Name: c.name}}
	}
	return nil
}

func (s *AnthropicStream) grow(at int64, kind DeltaKind, text string) []Delta {
	n, ok := s.blocks[at]
	if !ok || text == "" {
		return nil
	}
	s.b.texts[n].WriteString(text)
	return []Delta{{Kind: kind, Index: int(at), Text: text}}
}

func (s *AnthropicStream) piece(at int64, d *anthropic.MessageStreamEventUnionDelta) []Delta {
	switch d.Type {
	case "text_delta":
		return s.grow(at, DeltaText, d.Text)
	case "thinking_delta":
		return s.grow(at, DeltaThinking, d.Thinking)
	case "signature_delta":
		if n, ok := s.blocks[at]; ok {
			if r, ok := s.b.parts[n].(*Reasoning); ok {
				r.Signature += d.Signature
			}
		}
	case "input_json_delta":
		if c := s.calls[at]; c != nil {
			c.arguments.WriteString(d.PartialJSON)
			return []Delta{{Kind: DeltaCall, Index: int(at), Text: d.PartialJSON, CallID: c.id, Name: c.name}}
		}
	}
	return nil
}

// count takes the numbers at the end, which are totals; those that are missing
// there are known from the beginning.
func (s *AnthropicStream) count(u anthropic.MessageDeltaUsage) {
	s.usage.OutputTokens = u.OutputTokens
	s.usage.OutputTokensDetails = u.OutputTokensDetails
	for _, c := range []struct {
		into *int64
		n    int64
	}{
		{&s.usage.InputTokens, u.InputTokens}, {&s.usage.CacheReadInputTokens, u.CacheReadInputTokens},
		{&s.usage.CacheCreationInputTokens, u.CacheCreationInputTokens},
	} {
		if c.n > 0 {
			*c.into = c.n
		}
	}
}

// Answer returns what came together.
func (s *AnthropicStream) Answer() (Answer, error) {
	a := Answer{Stop: anthropicStop(s.stop), Usage: anthropicUsage(s.usage)}
	if !s.ended && s.stop == "" {
		a.Stop = StopFailure // it was cut off
	}
	a.Message.Model = either(s.Meta.Model, s.model)
	return s.b.answer(a)
}

// anthropicBlock is a block as it is on the wire.
type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	IsError   bool            `json:"is_error"`
	Content   json.RawMessage `json:"content"`
	Source    struct {
		Type      string `json:"type"`
		URL       string `json:"url"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
		FileID    string `json:"file_id"`
	} `json:"source"`
}

// FromAnthropicRequest reads the conversation of a request to the Messages API.
// model is put on what the assistant said, "" for not known.
func FromAnthropicRequest(p anthropic.MessageNewParams, model string) ([]Message, error) {
	system, err := json.Marshal(p.System)
	if err != nil {
		return nil, chat.Errorf(chat.Invalid, "system cannot be written as JSON").Because(err)
	}
	messages, err := json.Marshal(p.Messages)
	if err != nil {
		return nil, chat.Errorf(chat.Invalid, "the messages cannot be written as JSON").Because(err)
	}
	return ReadAnthropic(system, messages, model)
}

// ReadAnthropic reads the conversation of a request to the Messages API from
// JSON; system may be empty, a text or blocks.
func ReadAnthropic(system, messages json.RawMessage, model string) ([]Message, error) {
	var out []Message
	blocks, ok := anthropicBlocks(system)
	if !ok {
		return nil, chat.Errorf(chat.Invalid, "system: it must be a text or a list of blocks").With("path", "system")
	}
	for _, b := range blocks {
		out = append(out, Message{Role: System, Content: Texts(b.Text)})
	}
	var wires []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(messages, &wires); err != nil {
		return nil, chat.Errorf(chat.Invalid, "messages: not a list of messages").Because(err).With("path", "messages")
	}
	for i, w := range wires {
		at := "messages" + index(i)
		blocks, ok := anthropicBlocks(w.Content)
		switch {
		case !ok:
			return nil, chat.Errorf(chat.Invalid, "%s: content must be a text or a list of blocks", at).With("path", at)
		case w.Role == "assistant":
			out = append(out, anthropicSaid(blocks, model))
		case w.Role == "user":
			out = anthropicHeard(out, blocks)
		default:
			return nil, chat.Errorf(chat.Invalid, "%s: role is not user or assistant", at).With("path", at)
		}
	}
	return out, nil
}

func anthropicBlocks(raw json.RawMessage) ([]anthropicBlock, bool) {
	var text string
	if len(raw) == 0 || string(raw) == "null" {
		return nil, true
	}
	if json.Unmarshal(raw, &text) == nil {
		return []anthropicBlock{{Type: "text", Text: text}}, true
	}
	var blocks []anthropicBlock
	return blocks, json.Unmarshal(raw, &blocks) == nil
}

func anthropicSaid(blocks []anthropicBlock, model string) Message {
	m := Message{Role: Assistant, Model: model, Content: []Part{}}
	for _, b := range blocks {
		switch b.Type {
		case "text":
			m.Content = append(m.Content, &Text{Text: b.Text})
		case "thinking":
			m.Content = append(m.Content, &Reasoning{Native: true, Text: b.Thinking, Signature: b.Signature})
		case "redacted_thinking":
			m.Content = append(m.Content, &RedactedReasoning{Data: b.Data})
		case "tool_use":
			m.ToolCalls = append(m.ToolCalls, ToolCall{ID: b.ID, Name: b.Name, Arguments: settled(string(b.Input))})
		}
	}
	return m
}

// anthropicHeard reads a user's message, in which tools and people speak.
func anthropicHeard(out []Message, blocks []anthropicBlock) []Message {
	var said []Part
	for _, b := range blocks {
		if b.Type != "tool_result" {
			said = append(said, anthropicPart(b)...)
			continue
		}
		inner, _ := anthropicBlocks(b.Content)
		var parts []Part
		for _, i := range inner {
			parts = append(parts, anthropicPart(i)...)
		}
		out = addReturn(out, b.ToolUseID, "", parts, b.IsError)
	}
	if len(said) > 0 {
		out = append(out, Message{Role: User, Content: said})
	}
	return out
}

func anthropicPart(b anthropicBlock) []Part {
	switch b.Type {
	case "text":
		return []Part{&Text{Text: b.Text}}
	case "image":
		s := ImageSource{Type: SourceBase64, MediaType: b.Source.MediaType, Data: b.Source.Data}
		switch b.Source.Type {
		case "url":
			s = ImageSource{Type: SourceURL, URL: b.Source.URL}
		case "file":
			s = ImageSource{Type: SourceFile, FileID: b.Source.FileID}
		}
		return []Part{&Image{Source: s}}
	}
	return nil
}
