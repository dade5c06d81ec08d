package openai

import (
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/respjson"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/internal/convert"
)

// FromChat reads the answer of Chat Completions.
func FromChat(c *sdk.ChatCompletion, meta llm.Meta) (llm.Answer, error) {
	a := llm.Answer{Usage: chatUsage(c.Usage)}
	a.Message.Model = convert.Either(meta.Model, c.Model)
	if len(c.Choices) == 0 {
		return convert.Finish(a)
	}
	choice := &c.Choices[0]
	a.Stop = chatStop(choice.FinishReason)
	reasoning := extra(choice.Message.JSON.ExtraFields, "reasoning_content", "reasoning")
	var b convert.Builder
	switch {
	case reasoning != "":
		b.Think(reasoning)
		b.Part(0).(*llm.Reasoning).Signature = extra(choice.Message.JSON.ExtraFields, "reasoning_content_signature")
	case reasons(a.Message.Model):
		b.Add(&llm.OmittedReasoning{}, false)
	}
	if data := extra(choice.Message.JSON.ExtraFields, "redacted_reasoning_content"); data != "" {
		b.Add(&llm.RedactedReasoning{Data: data}, false)
	}
	b.Text(convert.Either(choice.Message.Content, choice.Message.Refusal))
	for i, call := range choice.Message.ToolCalls {
		t := b.Call(i)
		t.ID, t.Name = call.ID, convert.Original(meta.Tools, call.Function.Name, maxName, "")
		t.Arguments.WriteString(call.Function.Arguments)
	}
	return b.Answer(a)
}

// extra reads a text that the SDK has no field for.
func extra(fields map[string]respjson.Field, keys ...string) string {
	for _, key := range keys {
		var s string
		if f, ok := fields[key]; ok && json.Unmarshal([]byte(f.Raw()), &s) == nil && s != "" {
			return s
		}
	}
	return ""
}

func chatStop(reason string) llm.Stop {
	switch reason {
	case "stop", "":
		return llm.StopEnd
	case "length":
		return llm.StopLength
	case "tool_calls", "function_call":
		return llm.StopCalls
	case "content_filter":
		return llm.StopFilter
	}
	return llm.StopFailure
}

func chatUsage(u sdk.CompletionUsage) chat.Usage {
	return chat.Usage{
		InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens,
		CacheReadTokens: u.PromptTokensDetails.CachedTokens, CacheCreationTokens: u.PromptTokensDetails.CacheWriteTokens,
		ReasoningTokens: u.CompletionTokensDetails.ReasoningTokens,
	}
}

// ChatStream collects the chunks of a streamed answer.
type ChatStream struct {
	Meta  llm.Meta
	b     convert.Builder
	model string
	stop  string
	usage chat.Usage
}

// Add takes the next chunk and returns what is new.
func (s *ChatStream) Add(c sdk.ChatCompletionChunk) []llm.Delta {
	s.model = convert.Either(s.model, c.Model)
	if c.Usage.TotalTokens > 0 || c.Usage.PromptTokens > 0 {
		s.usage = chatUsage(c.Usage)
	}
	var out []llm.Delta
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		s.stop = convert.Either(choice.FinishReason, s.stop)
		d := &choice.Delta
		if t := extra(d.JSON.ExtraFields, "reasoning_content", "reasoning"); t != "" {
			out = append(out, llm.Delta{Kind: llm.DeltaThinking, Index: s.b.Think(t), Text: t})
		}
		if t := convert.Either(d.Content, d.Refusal); t != "" {
			out = append(out, llm.Delta{Kind: llm.DeltaText, Index: s.b.Text(t), Text: t})
		}
		for _, call := range d.ToolCalls {
			t := s.b.Call(int(call.Index))
			t.ID = convert.Either(t.ID, call.ID)
			if t.Name == "" && call.Function.Name != "" {
				t.Name = convert.Original(s.Meta.Tools, call.Function.Name, maxName, "")
			}
			t.Arguments.WriteString(call.Function.Arguments)
			out = append(out, llm.Delta{Kind: llm.DeltaCall, Index: t.Key, Text: call.Function.Arguments, CallID: t.ID, Name: t.Name})
		}
	}
	return out
}

// Answer returns what came together. Reasoning alone counts as the answer where
// a model has put all of it there.
func (s *ChatStream) Answer() (llm.Answer, error) {
	a := llm.Answer{Usage: s.usage, Stop: chatStop(s.stop)}
	a.Message.Model = convert.Either(s.Meta.Model, s.model)
	a.Message.Content, a.Message.ToolCalls = s.b.Content(), s.b.ToolCalls()
	if len(a.Message.Content) == 1 && len(a.Message.ToolCalls) == 0 {
		if r, ok := a.Message.Content[0].(*llm.Reasoning); ok && a.Stop == llm.StopEnd {
			a.Message.Content = llm.Texts(r.Text)
		}
	}
	if len(a.Message.Content)+len(a.Message.ToolCalls) > 0 && reasons(a.Message.Model) {
		a.Message.Content = append([]llm.Part{&llm.OmittedReasoning{}}, a.Message.Content...)
	}
	return convert.Finish(a)
}

// chatWire is a message of Chat Completions as it is on the wire.
type chatWire struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Name       string          `json:"name"`
	ToolCallID string          `json:"tool_call_id"`
	Refusal    string          `json:"refusal"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
	Reasoning string `json:"reasoning_content"`
	Signature string `json:"reasoning_content_signature"`
	Redacted  string `json:"redacted_reasoning_content"`
}

// chatPart is a part of a message's content.
type chatPart struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	ImageURL struct {
		URL    string `json:"url"`
		Detail string `json:"detail"`
	} `json:"image_url"`
}

// FromChatRequest reads the messages of a request to Chat Completions. model is
// put on what the assistant said, "" for not known.
func FromChatRequest(messages []sdk.ChatCompletionMessageParamUnion, model string) ([]llm.Message, error) {
	b, err := json.Marshal(messages)
	if err != nil {
		return nil, chat.Errorf(chat.Invalid, "the messages cannot be written as JSON").Because(err)
	}
	return ReadChat(b, model)
}

// ReadChat reads the messages of a request to Chat Completions from JSON.
// Results that follow each other become one tool message.
func ReadChat(raw json.RawMessage, model string) ([]llm.Message, error) {
	var wires []chatWire
	if err := json.Unmarshal(raw, &wires); err != nil {
		return nil, chat.Errorf(chat.Invalid, "messages: not a list of chat messages").Because(err).With("path", "messages")
	}
	var out []llm.Message
	for i := range wires {
		w := &wires[i]
		bad := func(what string) error { return convert.Refused("messages", i, what) }
		parts, ok := chatContent(w.Content)
		if !ok {
			return nil, bad("content must be a text, a list of parts or null")
		}
		m := llm.Message{Name: w.Name, Content: parts}
		if len(w.ToolCalls) > 0 && w.Role != "assistant" {
			return nil, bad("only an assistant has tool_calls")
		}
		switch w.Role {
		case "system", "developer":
			m.Role = llm.System
		case "user":
			m.Role = llm.User
		case "assistant":
			m.Role, m.Model = llm.Assistant, model
			w.assistant(&m)
		case "tool", "function":
			if w.ToolCallID == "" {
				return nil, bad("a tool's message needs tool_call_id")
			}
			out = convert.AddReturn(out, w.ToolCallID, w.Name, parts, convert.SaysError(parts))
			continue
		default:
			return nil, bad("role is not one of system, developer, user, assistant, tool")
		}
		if w.ToolCallID != "" {
			return nil, bad("only a tool's message has tool_call_id")
		}
		out = append(out, m)
	}
	return out, nil
}

func (w *chatWire) assistant(m *llm.Message) {
	var head []llm.Part
	if w.Reasoning != "" {
		head = append(head, &llm.Reasoning{Native: true, Text: w.Reasoning, Signature: w.Signature})
	}
	if w.Redacted != "" {
		head = append(head, &llm.RedactedReasoning{Data: w.Redacted})
	}
	if w.Refusal != "" && len(m.Content) == 0 {
		m.Content = llm.Texts(w.Refusal)
	}
	m.Content = append(head, m.Content...)
	for _, c := range w.ToolCalls {
		m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
}

func chatContent(raw json.RawMessage) ([]llm.Part, bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return []llm.Part{}, true
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if text == "" {
			return []llm.Part{}, true
		}
		return llm.Texts(text), true
	}
	var wires []chatPart
	if json.Unmarshal(raw, &wires) != nil {
		return nil, false
	}
	parts := []llm.Part{}
	for _, p := range wires {
		switch {
		case p.Type == "image_url":
			parts = append(parts, convert.Image(p.ImageURL.URL, p.ImageURL.Detail))
		case p.Text != "" || p.Refusal != "":
			parts = append(parts, &llm.Text{Text: convert.Either(p.Text, p.Refusal)})
		}
	}
	return parts, true
}
