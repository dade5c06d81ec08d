package llm

import (
	"encoding/json"
	"strings"

	"github.com/openai/openai-go/v3/responses"

	"github.com/parley-hq/parley/chat"
)

// FromOpenAIResponses reads the answer of the Responses API: every thought, text
// and call of it, in order.
func FromOpenAIResponses(r *responses.Response, meta Meta) (Answer, error) {
	a := Answer{Usage: responsesUsage(r.Usage), Stop: responsesStop(r)}
	a.Message.Model = either(meta.Model, r.Model)
	if r.Status == responses.ResponseStatusFailed {
		return a, chat.Errorf(chat.Unavailable, "the model failed: %s", either(r.Error.Message, "no reason was given")).With("code", string(r.Error.Code))
	}
	for i := range r.Output {
		item := &r.Output[i]
		switch item.Type {
		case "reasoning":
			a.Message.Content = append(a.Message.Content, summarized(item))
		case "message":
			for _, c := range item.Content {
				if text := either(c.Text, c.Refusal); text != "" {
					a.Message.Content = append(a.Message.Content, &Text{Text: text})
				}
			}
		case "function_call":
			a.Message.ToolCalls = append(a.Message.ToolCalls, ToolCall{
				ID: either(item.CallID, item.ID), Name: meta.original(item.Name, openAIName, ""), Arguments: settled(item.Arguments.OfString),
			})
		}
	}
	if len(a.Message.ToolCalls) == 0 && a.Message.PlainText() == "" {
		return a, errEmpty(a.Stop)
	}
	return checked(a)
}

func summarized(item *responses.ResponseOutputItemUnion) *SummarizedReasoning {
	p := &SummarizedReasoning{ID: item.ID, Summary: []SummaryText{}, Encrypted: item.EncryptedContent}
	for i, s := range item.Summary {
		p.Summary = append(p.Summary, SummaryText{Index: i, Text: s.Text})
	}
	return p
}

func responsesStop(r *responses.Response) Stop {
	switch r.Status {
	case responses.ResponseStatusIncomplete:
		if r.IncompleteDetails.Reason == "content_filter" {
			return StopFilter
		}
		return StopLength
	case responses.ResponseStatusFailed, responses.ResponseStatusCancelled:
		return StopFailure
	}
	return StopEnd
}

func responsesUsage(u responses.ResponseUsage) chat.Usage {
	return chat.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CacheReadTokens: u.InputTokensDetails.CachedTokens, CacheCreationTokens: u.InputTokensDetails.CacheWriteTokens,
		ReasoningTokens: u.OutputTokensDetails.ReasoningTokens,
	}
}

// OpenAIResponsesStream collects the events of a streamed answer.
type OpenAIResponsesStream struct {
	Meta  Meta
	items []responses.ResponseOutputItemUnion // as far as they are finished, by output index
	calls map[int64]*ToolCall
	final *responses.Response
	err   error
}

// Add takes the next event and returns what is new.
func (s *OpenAIResponsesStream) Add(e responses.ResponseStreamEventUnion) []Delta {
	at := int(e.OutputIndex)
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		return []Delta{{Kind: DeltaText, Index: at, Text: e.Delta}}
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return []Delta{{Kind: DeltaThinking, Index: at, Text: e.Delta}}
	case "response.reasoning_summary_part.added":
		if e.SummaryIndex > 0 { // as the whole is joined
			return []Delta{{Kind: DeltaThinking, Index: at, Text: "\n\n"}}
		}
	case "response.output_item.added":
		if e.Item.Type == "function_call" {
			c := s.call(e.OutputIndex)
			c.ID, c.Name = either(e.Item.CallID, e.Item.ID), s.Meta.original(e.Item.Name, openAIName, "")
			return []Delta{{Kind: DeltaCall, Index: at, CallID: c.ID, Name: c.Name}}
		}
	case "response.function_call_arguments.delta":
		c := s.call(e.OutputIndex)
		return []Delta{{Kind: DeltaCall, Index: at, Text: e.Delta, CallID: c.ID, Name: c.Name}}
	case "response.output_item.done":
		for len(s.items) <= at && at < 10_000 {
			s.items = append(s.items, responses.ResponseOutputItemUnion{})
		}
		if at < len(s.items) {
			s.items[at] = e.Item
		}
	case "response.completed", "response.incomplete", "response.failed":
		r := e.Response
		s.final = &r
	case "error":
		s.err = chat.Errorf(chat.Unavailable, "the model failed: %s", either(e.Message, "no reason was given")).With("code", e.Code)
	}
	return nil
}

func (s *OpenAIResponsesStream) call(at int64) *ToolCall {
	if s.calls == nil {
		s.calls = map[int64]*ToolCall{}
	}
	if s.calls[at] == nil {
		s.calls[at] = &ToolCall{}
	}
	return s.calls[at]
}

// Answer returns what came together. When the stream was cut off, that is what
// was finished until then.
func (s *OpenAIResponsesStream) Answer() (Answer, error) {
	if s.err != nil {
		return Answer{Stop: StopFailure}, s.err
	}
	if s.final == nil {
		a, err := FromOpenAIResponses(&responses.Response{Output: s.items}, s.Meta)
		a.Stop = StopFailure
		return a, err
	}
	final := *s.final
	if len(final.Output) == 0 { // some servers repeat nothing at the end
		final.Output = s.items
	}
	return FromOpenAIResponses(&final, s.Meta)
}

// responsesWire is an input item as it is on the wire.
type responsesWire struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ID        string          `json:"id"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	Encrypted string          `json:"encrypted_content"`
	Summary   []struct {
		Text string `json:"text"`
	} `json:"summary"`
}

// FromOpenAIResponsesRequest reads the input of a request to the Responses API.
// What the assistant thinks, says and calls in a row becomes one message. model
// is put on it, "" for not known.
func FromOpenAIResponsesRequest(items responses.ResponseInputParam, model string) ([]Message, error) {
	b, err := json.Marshal(items)
	if err != nil {
		return nil, chat.Errorf(chat.Invalid, "the input cannot be written as JSON").Because(err)
	}
	return ReadOpenAIResponses(b, model)
}

// ReadOpenAIResponses reads the input of a request to the Responses API from
// JSON.
func ReadOpenAIResponses(raw json.RawMessage, model string) ([]Message, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []Message{{Role: User, Content: Texts(text)}}, nil
	}
	var wires []responsesWire
	if err := json.Unmarshal(raw, &wires); err != nil {
		return nil, chat.Errorf(chat.Invalid, "input: not a text or a list of items").Because(err).With("path", "input")
	}
	var out []Message
	assistant := func() *Message {
		if n := len(out) - 1; n >= 0 && out[n].Role == Assistant {
			return &out[n]
		}
		out = append(out, Message{Role: Assistant, Model: model, Content: []Part{}})
		return &out[len(out)-1]
	}
	for i := range wires {
		w := &wires[i]
		bad := func(what string) error {
			at := "input" + index(i)
			return chat.Errorf(chat.Invalid, "%s: %s", at, what).With("path", at)
		}
		switch {
		case w.Type == "reasoning":
			m := assistant()
			p := &SummarizedReasoning{ID: w.ID, Summary: []SummaryText{}, Encrypted: w.Encrypted}
			for j, s := range w.Summary {
				p.Summary = append(p.Summary, SummaryText{Index: j, Text: s.Text})
			}
			m.Content = append(m.Content, p)
		case w.Type == "function_call":
			m := assistant()
			m.ToolCalls = append(m.ToolCalls, ToolCall{ID: w.CallID, Name: w.Name, Arguments: w.Arguments})
		case w.Type == "function_call_output":
			parts, ok := responsesContent(w.Output)
			if !ok || w.CallID == "" {
				return nil, bad("a function_call_output needs call_id and output")
			}
			failed := saysError(parts)
			if len(parts) > 1 {
				if t, ok := parts[0].(*Text); ok && t.Text == "Error:" {
					parts, failed = parts[1:], true
				}
			}
			out = addReturn(out, w.CallID, w.Name, parts, failed)
		case w.Type == "message" || w.Type == "" && w.Role != "":
			parts, ok := responsesContent(w.Content)
			if !ok {
				return nil, bad("content must be a text or a list of parts")
			}
			switch w.Role {
			case "assistant":
				m := assistant()
				m.Content = append(m.Content, parts...)
			case "system", "developer":
				out = append(out, Message{Role: System, Content: parts})
			case "user":
				out = append(out, Message{Role: User, Content: parts})
			default:
				return nil, bad("role is not one of user, assistant, system, developer")
			}
		default:
			return nil, bad("items of type " + strings.ToValidUTF8(clip(w.Type), "") + " are not understood")
		}
	}
	return out, nil
}

func responsesContent(raw json.RawMessage) ([]Part, bool) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if text == "" {
			return []Part{}, true
		}
		return Texts(text), true
	}
	var wires []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Refusal  string `json:"refusal"`
		ImageURL string `json:"image_url"`
		Detail   string `json:"detail"`
	}
	if json.Unmarshal(raw, &wires) != nil {
		return nil, false
	}
	parts := []Part{}
	for _, p := range wires {
		switch {
		case p.Type == "input_image":
			parts = append(parts, imageFrom(p.ImageURL, p.Detail))
		case p.Text != "" || p.Refusal != "":
			parts = append(parts, &Text{Text: either(p.Text, p.Refusal)})
		}
	}
	return parts, true
}
