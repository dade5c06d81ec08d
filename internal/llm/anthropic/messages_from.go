package anthropic

import (
	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/internal/convert"
)

// FromMessage reads the answer of the Messages API: all of its blocks, in their
// order.
func FromMessage(m *sdk.Message, meta llm.Meta) (llm.Answer, error) {
	a := llm.Answer{Stop: stopOf(m.StopReason), Usage: usageOf(m.Usage)}
	a.Message.Model = convert.Either(meta.Model, m.Model)
	var b convert.Builder
	for i := range m.Content {
		block := &m.Content[i]
		switch block.Type {
		case "text":
			b.Text(block.Text)
		case "thinking":
			n := b.Add(&llm.Reasoning{Native: true, Signature: block.Signature}, true)
			b.Grow(n, block.Thinking)
		case "redacted_thinking":
			b.Add(&llm.RedactedReasoning{Data: block.Data}, false)
		case "tool_use":
			c := b.Call(i)
			c.ID, c.Name = block.ID, convert.Original(meta.Tools, block.Name, maxName, "")
			c.Arguments.Write(block.Input)
		}
	}
	return b.Answer(a)
}

func stopOf(s sdk.StopReason) llm.Stop {
	switch s {
	case sdk.StopReasonEndTurn, sdk.StopReasonStopSequence, sdk.StopReasonPauseTurn, "":
		return llm.StopEnd
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		return llm.StopLength
	case sdk.StopReasonToolUse:
		return llm.StopCalls
	case sdk.StopReasonRefusal:
		return llm.StopFilter
	}
	return llm.StopFailure
}

// usageOf counts the whole prompt; Anthropic counts apart what came from its cache
// and what went there.
func usageOf(u sdk.Usage) chat.Usage {
	return chat.Usage{
		InputTokens:  u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens,
		OutputTokens: u.OutputTokens, CacheReadTokens: u.CacheReadInputTokens, CacheCreationTokens: u.CacheCreationInputTokens,
		ReasoningTokens: u.OutputTokensDetails.ThinkingTokens,
	}
}

// Stream collects the events of a streamed answer.
type Stream struct {
	Meta   llm.Meta
	b      convert.Builder
	blocks map[int64]int // block → part
	calls  map[int64]*convert.Call
	model  string
	stop   sdk.StopReason
	usage  sdk.Usage
	ended  bool
}

// Add takes the next event and returns what is new.
func (s *Stream) Add(e sdk.MessageStreamEventUnion) []llm.Delta {
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

func (s *Stream) start(at int64, block *sdk.ContentBlockStartEventContentBlockUnion) []llm.Delta {
	if s.blocks == nil {
		s.blocks, s.calls = map[int64]int{}, map[int64]*convert.Call{}
	}
	switch block.Type {
	case "text":
		s.blocks[at] = s.b.Add(&llm.Text{}, true)
		return s.grow(at, llm.DeltaText, block.Text)
	case "thinking":
		s.blocks[at] = s.b.Add(&llm.Reasoning{Native: true, Signature: block.Signature}, true)
		return s.grow(at, llm.DeltaThinking, block.Thinking)
	case "redacted_thinking":
		s.b.Add(&llm.RedactedReasoning{Data: block.Data}, false)
	case "tool_use":
		c := s.b.Call(int(at))
		c.ID, c.Name = block.ID, convert.Original(s.Meta.Tools, block.Name, maxName, "")
		s.calls[at] = c
		return []llm.Delta{{Kind: llm.DeltaCall, Index: int(at), CallID: c.ID, Name: c.Name}}
	}
	return nil
}

func (s *Stream) grow(at int64, kind llm.DeltaKind, text string) []llm.Delta {
	n, ok := s.blocks[at]
	if !ok || text == "" {
		return nil
	}
	s.b.Grow(n, text)
	return []llm.Delta{{Kind: kind, Index: int(at), Text: text}}
}

func (s *Stream) piece(at int64, d *sdk.MessageStreamEventUnionDelta) []llm.Delta {
	switch d.Type {
	case "text_delta":
		return s.grow(at, llm.DeltaText, d.Text)
	case "thinking_delta":
		return s.grow(at, llm.DeltaThinking, d.Thinking)
	case "signature_delta":
		if n, ok := s.blocks[at]; ok {
			if r, ok := s.b.Part(n).(*llm.Reasoning); ok {
				r.Signature += d.Signature
			}
		}
	case "input_json_delta":
		if c := s.calls[at]; c != nil {
			c.Arguments.WriteString(d.PartialJSON)
			return []llm.Delta{{Kind: llm.DeltaCall, Index: int(at), Text: d.PartialJSON, CallID: c.ID, Name: c.Name}}
		}
	}
	return nil
}

// count takes the numbers at the end, which are totals; those that are missing
// there are known from the beginning.
func (s *Stream) count(u sdk.MessageDeltaUsage) {
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
func (s *Stream) Answer() (llm.Answer, error) {
	a := llm.Answer{Stop: stopOf(s.stop), Usage: usageOf(s.usage)}
	if !s.ended && s.stop == "" {
		a.Stop = llm.StopFailure // it was cut off
	}
	a.Message.Model = convert.Either(s.Meta.Model, s.model)
	return s.b.Answer(a)
}

// block is a block as it is on the wire.
type block struct {
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

// FromRequest reads the conversation of a request to the Messages API. model is
// put on what the assistant said, "" for not known.
func FromRequest(p sdk.MessageNewParams, model string) ([]llm.Message, error) {
	system, err := json.Marshal(p.System)
	if err != nil {
		return nil, chat.Errorf(chat.Invalid, "system cannot be written as JSON").Because(err)
	}
	messages, err := json.Marshal(p.Messages)
	if err != nil {
		return nil, chat.Errorf(chat.Invalid, "the messages cannot be written as JSON").Because(err)
	}
	return ReadMessages(system, messages, model)
}

// ReadMessages reads the conversation of a request to the Messages API from JSON;
// system may be empty, a text or blocks.
func ReadMessages(system, messages json.RawMessage, model string) ([]llm.Message, error) {
	var out []llm.Message
	blocks, ok := blocksOf(system)
	if !ok {
		return nil, chat.Errorf(chat.Invalid, "system: it must be a text or a list of blocks").With("path", "system")
	}
	for _, b := range blocks {
		out = append(out, llm.Message{Role: llm.System, Content: llm.Texts(b.Text)})
	}
	var wires []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(messages, &wires); err != nil {
		return nil, chat.Errorf(chat.Invalid, "messages: not a list of messages").Because(err).With("path", "messages")
	}
	for i, w := range wires {
		blocks, ok := blocksOf(w.Content)
		switch {
		case !ok:
			return nil, convert.Refused("messages", i, "content must be a text or a list of blocks")
		case w.Role == "assistant":
			out = append(out, said(blocks, model))
		case w.Role == "user":
			out = heard(out, blocks)
		default:
			return nil, convert.Refused("messages", i, "role is not user or assistant")
		}
	}
	return out, nil
}

func blocksOf(raw json.RawMessage) ([]block, bool) {
	var text string
	if len(raw) == 0 || string(raw) == "null" {
		return nil, true
	}
	if json.Unmarshal(raw, &text) == nil {
		return []block{{Type: "text", Text: text}}, true
	}
	var blocks []block
	return blocks, json.Unmarshal(raw, &blocks) == nil
}

func said(blocks []block, model string) llm.Message {
	m := llm.Message{Role: llm.Assistant, Model: model, Content: []llm.Part{}}
	for _, b := range blocks {
		switch b.Type {
		case "text":
			m.Content = append(m.Content, &llm.Text{Text: b.Text})
		case "thinking":
			m.Content = append(m.Content, &llm.Reasoning{Native: true, Text: b.Thinking, Signature: b.Signature})
		case "redacted_thinking":
			m.Content = append(m.Content, &llm.RedactedReasoning{Data: b.Data})
		case "tool_use":
			m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: b.ID, Name: b.Name, Arguments: llm.Settle(string(b.Input))})
		}
	}
	return m
}

// heard reads a user's message, in which tools and people speak.
func heard(out []llm.Message, blocks []block) []llm.Message {
	var said []llm.Part
	for _, b := range blocks {
		if b.Type != "tool_result" {
			said = append(said, partsOf(b)...)
			continue
		}
		inner, _ := blocksOf(b.Content)
		var parts []llm.Part
		for _, i := range inner {
			parts = append(parts, partsOf(i)...)
		}
		out = convert.AddReturn(out, b.ToolUseID, "", parts, b.IsError)
	}
	if len(said) > 0 {
		out = append(out, llm.Message{Role: llm.User, Content: said})
	}
	return out
}

func partsOf(b block) []llm.Part {
	switch b.Type {
	case "text":
		return []llm.Part{&llm.Text{Text: b.Text}}
	case "image":
		s := llm.ImageSource{Type: llm.SourceBase64, MediaType: b.Source.MediaType, Data: b.Source.Data}
		switch b.Source.Type {
		case "url":
			s = llm.ImageSource{Type: llm.SourceURL, URL: b.Source.URL}
		case "file":
			s = llm.ImageSource{Type: llm.SourceFile, FileID: b.Source.FileID}
		}
		return []llm.Part{&llm.Image{Source: s}}
	}
	return nil
}
