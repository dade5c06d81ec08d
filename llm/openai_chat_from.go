package llm

import (
	"encoding/json"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/respjson"

	"github.com/parley-hq/parley/chat"
)

// FromOpenAIChat reads the answer of Chat Completions.
func FromOpenAIChat(c *openai.ChatCompletion, meta Meta) (Answer, error) {
	a := Answer{Usage: chatUsage(c.Usage)}
	a.Message.Model = either(meta.Model, c.Model)
	if len(c.Choices) == 0 {
		return checked(a)
	}
	choice := &c.Choices[0]
	a.Stop = chatStop(choice.FinishReason)
	reasoning := extra(choice.Message.JSON.ExtraFields, "reasoning_content", "reasoning")
	var b builder
	switch {
	case reasoning != "":
		b.think(reasoning)
		b.parts[0].(*Reasoning).Signature = extra(choice.Message.JSON.ExtraFields, "reasoning_content_signature")
	case reasons(a.Message.Model):
		b.add(&OmittedReasoning{}, false)
	}
	if data := extra(choice.Message.JSON.ExtraFields, "redacted_reasoning_content"); data != "" {
		b.add(&RedactedReasoning{Data: data}, false)
	}
	b.text(either(choice.Message.Content, choice.Message.Refusal))
	for i, call := range choice.Message.ToolCalls {
		t := b.call(i)
		t.id, t.name = call.ID, meta.original(call.Function.Name, openAIName, "")
		t.arguments.WriteString(call.Function.Arguments)
	}
	return b.answer(a)
}

// answer finishes what was collected.
func (b *builder) answer(a Answer) (Answer, error) {
	a.Message.Content, a.Message.ToolCalls = b.content(), b.toolCalls()
	if len(a.Message.ToolCalls) == 0 && onlyHidden(a.Message.Content) {
		a.Message.Content = nil // that there was a thought is no answer
	}
	return checked(a)
}

func onlyHidden(parts []Part) bool {
	for _, p := range parts {
		if _, ok := p.(*OmittedReasoning); !ok {
			return false
		}
	}
	return true
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
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

func chatStop(reason string) Stop {
	switch reason {
	case "stop", "":
		return StopEnd
	case "length":
		return StopLength
	case "tool_calls", "function_call":
		return StopCalls
	case "content_filter":
		return StopFilter
	}
	return StopFailure
}

func chatUsage(u openai.CompletionUsage) chat.Usage {
	return chat.Usage{
		InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens,
		CacheReadTokens: u.PromptTokensDetails.CachedTokens, CacheCreationTokens: u.PromptTokensDetails.CacheWriteTokens,
		ReasoningTokens: u.CompletionTokensDetails.ReasoningTokens,
	}
}

// OpenAIChatStream collects the chunks of a streamed answer.
type OpenAIChatStream struct {
	Meta  Meta
	b     builder
	model string
	stop  string
	usage chat.Usage
}

// Add takes the next chunk and returns what is new.
func (s *OpenAIChatStream) Add(c openai.ChatCompletionChunk) []Delta {
	s.model = either(s.model, c.Model)
	if c.Usage.TotalTokens > 0 || c.Usage.PromptTokens > 0 {
		s.usage = chatUsage(c.Usage)
	}
	var out []Delta
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		s.stop = either(choice.FinishReason, s.stop)
		d := &choice.Delta
		if t := extra(d.JSON.ExtraFields, "reasoning_content", "reasoning"); t != "" {
			out = append(out, Delta{Kind: DeltaThinking, Index: s.b.think(t), Text: t})
		}
		if t := either(d.Content, d.Refusal); t != "" {
			out = append(out, Delta{Kind: DeltaText, Index: s.b.text(t), Text: t})
		}
		for _, call := range d.ToolCalls {
			t := s.b.call(int(call.Index))
			t.id = either(t.id, call.ID)
			if t.name == "" && call.Function.Name != "" {
				t.name = s.Meta.original(call.Function.Name, openAIName, "")
			}
			t.arguments.WriteString(call.Function.Arguments)
			out = append(out, Delta{Kind: DeltaCall, Index: t.key, Text: call.Function.Arguments, CallID: t.id, Name: t.name})
		}
	}
	return out
}

// Answer returns what came together. Reasoning alone counts as the answer where
// a model has put all of it there.
func (s *OpenAIChatStream) Answer() (Answer, error) {
	a := Answer{Usage: s.usage, Stop: chatStop(s.stop)}
	a.Message.Model = either(s.Meta.Model, s.model)
	a.Message.Content, a.Message.ToolCalls = s.b.content(), s.b.toolCalls()
	if len(a.Message.Content) == 1 && len(a.Message.ToolCalls) == 0 {
		if r, ok := a.Message.Content[0].(*Reasoning); ok && a.Stop == StopEnd {
			a.Message.Content = Texts(r.Text)
		}
	}
	if len(a.Message.Content)+len(a.Message.ToolCalls) > 0 && reasons(a.Message.Model) {
		a.Message.Content = append([]Part{&OmittedReasoning{}}, a.Message.Content...)
	}
	return checked(a)
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

// FromOpenAIChatRequest reads the messages of a request to Chat Completions.
// model is put on what the assistant said, "" for not known.
func FromOpenAIChatRequest(messages []openai.ChatCompletionMessageParamUnion, model string) ([]Message, error) {
	b, err := json.Marshal(messages)
	if err != nil {
		return nil, chat.Errorf(chat.Invalid, "the messages cannot be written as JSON").Because(err)
	}
	return ReadOpenAIChat(b, model)
}

// ReadOpenAIChat reads the messages of a request to Chat Completions from JSON.
// Results that follow each other become one tool message.
func ReadOpenAIChat(raw json.RawMessage, model string) ([]Message, error) {
	var wires []chatWire
	if err := json.Unmarshal(raw, &wires); err != nil {
		return nil, chat.Errorf(chat.Invalid, "messages: not a list of chat messages").Because(err).With("path", "messages")
	}
	var out []Message
	for i := range wires {
		w := &wires[i]
		bad := func(what string) error {
			at := "messages" + index(i)
			return chat.Errorf(chat.Invalid, "%s: %s", at, what).With("path", at)
		}
		parts, ok := chatContent(w.Content)
		if !ok {
			return nil, bad("content must be a text, a list of parts or null")
		}
		m := Message{Name: w.Name, Content: parts}
		if len(w.ToolCalls) > 0 && w.Role != "assistant" {
			return nil, bad("only an assistant has tool_calls")
		}
		switch w.Role {
		case "system", "developer":
			m.Role = System
		case "user":
			m.Role = User
		case "assistant":
			m.Role, m.Model = Assistant, model
			w.assistant(&m)
		case "tool", "function":
			if w.ToolCallID == "" {
				return nil, bad("a tool's message needs tool_call_id")
			}
			out = addReturn(out, w.ToolCallID, w.Name, parts, saysError(parts))
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

func (w *chatWire) assistant(m *Message) {
	var head []Part
	if w.Reasoning != "" {
		head = append(head, &Reasoning{Native: true, Text: w.Reasoning, Signature: w.Signature})
	}
	if w.Redacted != "" {
		head = append(head, &RedactedReasoning{Data: w.Redacted})
	}
	if w.Refusal != "" && len(m.Content) == 0 {
		m.Content = Texts(w.Refusal)
	}
	m.Content = append(head, m.Content...)
	for _, c := range w.ToolCalls {
		m.ToolCalls = append(m.ToolCalls, ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
}

func chatContent(raw json.RawMessage) ([]Part, bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return []Part{}, true
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if text == "" {
			return []Part{}, true
		}
		return Texts(text), true
	}
	var wires []chatPart
	if json.Unmarshal(raw, &wires) != nil {
		return nil, false
	}
	parts := []Part{}
	for _, p := range wires {
		switch {
		case p.Type == "image_url":
			parts = append(parts, imageFrom(p.ImageURL.URL, p.ImageURL.Detail))
		case p.Text != "" || p.Refusal != "":
			parts = append(parts, &Text{Text: either(p.Text, p.Refusal)})
		}
	}
	return parts, true
}

// saysError reports whether an answer begins as an error does that its provider
// has no mark for.
func saysError(parts []Part) bool { return strings.HasPrefix(plainText(parts), "Error: ") }

// imageFrom reads a picture that is given by URL, or in one.
func imageFrom(url, detail string) *Image {
	if mediaType, data, ok := cutDataURL(url); ok {
		if detail == "auto" {
			detail = ""
		}
		return &Image{Source: ImageSource{Type: SourceBase64, MediaType: mediaType, Data: data, Detail: detail}}
	}
	return &Image{Source: ImageSource{Type: SourceURL, URL: url}}
}

// addReturn adds a tool's answer to the tool message at the end, or begins one.
func addReturn(out []Message, id, name string, parts []Part, failed bool) []Message {
	r := ToolReturn{ToolCallID: id, Status: Success}
	if countImages(parts) > 0 {
		r.Parts = parts
	} else {
		r.Text = plainText(parts)
	}
	if _, wrapped, _ := UnpackResult(r.Text); failed || wrapped {
		r.Status = Failure
	}
	if n := len(out) - 1; n >= 0 && out[n].Role == Tool {
		out[n].ToolReturns = append(out[n].ToolReturns, r)
		return out
	}
	return append(out, Message{Role: Tool, Name: name, ToolCallID: id, ToolReturns: []ToolReturn{r}})
}
