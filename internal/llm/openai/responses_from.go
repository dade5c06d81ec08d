package openai

import (
	"strings"

	"github.com/openai/openai-go/v3/responses"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/internal/convert"
)

// FromResponse reads the answer of the Responses API: every thought, text and call
// of it, in order.
func FromResponse(r *responses.Response, meta llm.Meta) (llm.Answer, error) {
	a := llm.Answer{Usage: responsesUsage(r.Usage), Stop: responsesStop(r)}
	a.Message.Model = convert.Either(meta.Model, r.Model)
	if r.Status == responses.ResponseStatusFailed {
		return a, chat.Errorf(chat.Unavailable, "the model failed: %s", convert.Either(r.Error.Message, "no reason was given")).With("code", string(r.Error.Code)).WithReason(chat.AgentFailed)
	}
	for i := range r.Output {
		item := &r.Output[i]
		switch item.Type {
		case "reasoning":
			a.Message.Content = append(a.Message.Content, summarized(item))
		case "message":
			for _, c := range item.Content {
				if text := convert.Either(c.Text, c.Refusal); text != "" {
					a.Message.Content = append(a.Message.Content, &llm.Text{Text: text})
				}
			}
		case "function_call":
			a.Message.ToolCalls = append(a.Message.ToolCalls, llm.ToolCall{
				ID: convert.Either(item.CallID, item.ID), Name: convert.Original(meta.Tools, item.Name, maxName, ""), Arguments: llm.Settle(item.Arguments.OfString),
			})
		}
	}
	if len(a.Message.ToolCalls) == 0 && a.Message.PlainText() == "" {
		return a, convert.Empty(a.Stop)
	}
	return convert.Finish(a)
}

func summarized(item *responses.ResponseOutputItemUnion) *llm.SummarizedReasoning {
	p := &llm.SummarizedReasoning{ID: item.ID, Summary: []llm.SummaryText{}, Encrypted: item.EncryptedContent}
	for i, s := range item.Summary {
		p.Summary = append(p.Summary, llm.SummaryText{Index: i, Text: s.Text})
	}
	return p
}

func responsesStop(r *responses.Response) llm.Stop {
	switch r.Status {
	case responses.ResponseStatusIncomplete:
		if r.IncompleteDetails.Reason == "content_filter" {
			return llm.StopFilter
		}
		return llm.StopLength
	case responses.ResponseStatusFailed, responses.ResponseStatusCancelled:
		return llm.StopFailure
	}
	return llm.StopEnd
}

func responsesUsage(u responses.ResponseUsage) chat.Usage {
	return chat.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CacheReadTokens: u.InputTokensDetails.CachedTokens, CacheCreationTokens: u.InputTokensDetails.CacheWriteTokens,
		ReasoningTokens: u.OutputTokensDetails.ReasoningTokens,
	}
}

// ResponsesStream collects the events of a streamed answer.
type ResponsesStream struct {
	Meta  llm.Meta
	items []responses.ResponseOutputItemUnion // as far as they are finished, by output index
	calls map[int64]*llm.ToolCall
	final *responses.Response
	err   error
}

// Add takes the next event and returns what is new.
func (s *ResponsesStream) Add(e responses.ResponseStreamEventUnion) []llm.Delta {
	at := int(e.OutputIndex)
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		return []llm.Delta{{Kind: llm.DeltaText, Index: at, Text: e.Delta}}
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return []llm.Delta{{Kind: llm.DeltaThinking, Index: at, Text: e.Delta}}
	case "response.reasoning_summary_part.added":
		if e.SummaryIndex > 0 { // as the whole is joined
			return []llm.Delta{{Kind: llm.DeltaThinking, Index: at, Text: "\n\n"}}
		}
	case "response.output_item.added":
		if e.Item.Type == "function_call" {
			c := s.call(e.OutputIndex)
			c.ID, c.Name = convert.Either(e.Item.CallID, e.Item.ID), convert.Original(s.Meta.Tools, e.Item.Name, maxName, "")
			return []llm.Delta{{Kind: llm.DeltaCall, Index: at, CallID: c.ID, Name: c.Name}}
		}
	case "response.function_call_arguments.delta":
		c := s.call(e.OutputIndex)
		return []llm.Delta{{Kind: llm.DeltaCall, Index: at, Text: e.Delta, CallID: c.ID, Name: c.Name}}
	case "response.output_item.done":
		for len(s.items) <= at && at < 10_000 {
			s.items = append(s.items, responses.ResponseOutputItemUnion{})
		}
		if at >= 0 && at < len(s.items) {
			s.items[at] = e.Item
		}
	case "response.completed", "response.incomplete", "response.failed":
		r := e.Response
		s.final = &r
	case "error":
		s.err = chat.Errorf(chat.Unavailable, "the model failed: %s", convert.Either(e.Message, "no reason was given")).With("code", e.Code).WithReason(chat.AgentFailed)
	}
	return nil
}

func (s *ResponsesStream) call(at int64) *llm.ToolCall {
	if s.calls == nil {
		s.calls = map[int64]*llm.ToolCall{}
	}
	if s.calls[at] == nil {
		s.calls[at] = &llm.ToolCall{}
	}
	return s.calls[at]
}

// Answer returns what came together. When the stream was cut off, that is what
// was finished until then.
func (s *ResponsesStream) Answer() (llm.Answer, error) {
	if s.err != nil {
		return llm.Answer{Stop: llm.StopFailure}, s.err
	}
	if s.final == nil {
		a, err := FromResponse(&responses.Response{Output: s.items}, s.Meta)
		a.Stop = llm.StopFailure
		return a, err
	}
	final := *s.final
	if len(final.Output) == 0 { // some servers repeat nothing at the end
		final.Output = s.items
	}
	return FromResponse(&final, s.Meta)
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

// FromResponsesRequest reads the input of a request to the Responses API. What the
// assistant thinks, says and calls in a row becomes one message. model is put on
// it, "" for not known.
func FromResponsesRequest(items responses.ResponseInputParam, model string) ([]llm.Message, error) {
	b, err := json.Marshal(items)
	if err != nil {
		return nil, chat.Errorf(chat.Invalid, "the input cannot be written as JSON").Because(err)
	}
	return ReadResponses(b, model)
}

// ReadResponses reads the input of a request to the Responses API from JSON.
func ReadResponses(raw json.RawMessage, model string) ([]llm.Message, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []llm.Message{{Role: llm.User, Content: llm.Texts(text)}}, nil
	}
	var wires []responsesWire
	if err := json.Unmarshal(raw, &wires); err != nil {
		return nil, chat.Errorf(chat.Invalid, "input: not a text or a list of items").Because(err).With("path", "input")
	}
	var out []llm.Message
	assistant := func() *llm.Message {
		if n := len(out) - 1; n >= 0 && out[n].Role == llm.Assistant {
			return &out[n]
		}
		out = append(out, llm.Message{Role: llm.Assistant, Model: model, Content: []llm.Part{}})
		return &out[len(out)-1]
	}
	for i := range wires {
		w := &wires[i]
		bad := func(what string) error { return convert.Refused("input", i, what) }
		switch {
		case w.Type == "reasoning":
			m := assistant()
			p := &llm.SummarizedReasoning{ID: w.ID, Summary: []llm.SummaryText{}, Encrypted: w.Encrypted}
			for j, s := range w.Summary {
				p.Summary = append(p.Summary, llm.SummaryText{Index: j, Text: s.Text})
			}
			m.Content = append(m.Content, p)
		case w.Type == "function_call":
			m := assistant()
			m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: w.CallID, Name: w.Name, Arguments: w.Arguments})
		case w.Type == "function_call_output":
			parts, ok := responsesContent(w.Output)
			if !ok || w.CallID == "" {
				return nil, bad("a function_call_output needs call_id and output")
			}
			failed := convert.SaysError(parts)
			if len(parts) > 1 {
				if t, ok := parts[0].(*llm.Text); ok && t.Text == "Error:" {
					parts, failed = parts[1:], true
				}
			}
			out = convert.AddReturn(out, w.CallID, w.Name, parts, failed)
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
				out = append(out, llm.Message{Role: llm.System, Content: parts})
			case "user":
				out = append(out, llm.Message{Role: llm.User, Content: parts})
			default:
				return nil, bad("role is not one of user, assistant, system, developer")
			}
		default:
			return nil, bad("items of type " + clipped(w.Type) + " are not understood")
		}
	}
	return out, nil
}

func responsesContent(raw json.RawMessage) ([]llm.Part, bool) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if text == "" {
			return []llm.Part{}, true
		}
		return llm.Texts(text), true
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
	parts := []llm.Part{}
	for _, p := range wires {
		switch {
		case p.Type == "input_image":
			parts = append(parts, convert.Image(p.ImageURL, p.Detail))
		case p.Text != "" || p.Refusal != "":
			parts = append(parts, &llm.Text{Text: convert.Either(p.Text, p.Refusal)})
		}
	}
	return parts, true
}

// clipped is the beginning of a foreign text, fit to stand in an error.
func clipped(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return strings.ToValidUTF8(s, "")
}
