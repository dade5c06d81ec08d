package openai

import (
	"cmp"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/internal/convert"
)

// answerOf converts a response: its reasoning, texts and calls, in order.
func answerOf(r *response, meta llm.Meta) (*llm.Answer, error) {
	a := &llm.Answer{Usage: responsesUsage(&r.Usage), Stop: responsesStop(r)}
	a.Message.Model = meta.Model
	for i := range r.Output {
		item := &r.Output[i]
		switch item.Type {
		case "reasoning":
			a.Message.Content = append(a.Message.Content, summarized(item))
		case "message":
			for _, c := range item.Content {
				if text := cmp.Or(c.Text, c.Refusal); text != "" {
					a.Message.Content = append(a.Message.Content, &llm.Text{Text: text})
				}
			}
		case "function_call":
			a.Message.ToolCalls = append(a.Message.ToolCalls, llm.ToolCall{
				ID: cmp.Or(item.CallID, item.ID), Name: convert.Original(meta.Tools, item.Name, maxName, ""), Arguments: llm.Settle(string(item.Arguments)),
			})
		}
	}
	if len(a.Message.ToolCalls) == 0 && a.Message.PlainText() == "" {
		return a, convert.Empty(a.Stop)
	}
	return convert.Finish(a)
}

func summarized(item *outputItem) *llm.SummarizedReasoning {
	p := &llm.SummarizedReasoning{ID: item.ID, Summary: []llm.SummaryText{}, Encrypted: item.EncryptedContent}
	for i, s := range item.Summary {
		p.Summary = append(p.Summary, llm.SummaryText{Index: i, Text: s.Text})
	}
	return p
}

func responsesStop(r *response) llm.Stop {
	switch r.Status {
	case "incomplete":
		if r.IncompleteDetails.Reason == "content_filter" {
			return llm.StopFilter
		}
		return llm.StopLength
	case "failed", "cancelled":
		return llm.StopFailure
	}
	return llm.StopEnd
}

func responsesUsage(u *responsesTokens) chat.Usage {
	return chat.Usage{
		InputTokens: int64(u.Input), OutputTokens: int64(u.Output),
		CacheReadTokens: int64(u.InputDetails.Cached), CacheCreationTokens: int64(u.InputDetails.CacheWrite),
		ReasoningTokens: int64(u.OutputDetails.Reasoning),
	}
}

// ResponsesStream reads the events of a streamed answer.
type ResponsesStream struct {
	Meta  llm.Meta
	items []outputItem // the complete items, by output index
	calls map[int]*llm.ToolCall
	final *response
}

// maxItems is the limit for output indexes.
const maxItems = 10_000

// Add reads the next event and returns the new deltas.
func (s *ResponsesStream) Add(data []byte) ([]llm.Delta, error) {
	var e responsesEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, err
	}
	if err := llm.ReportedError(e.Error); err != nil {
		return nil, err
	}
	at, text := e.OutputIndex, string(e.Delta)
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		return []llm.Delta{{Kind: llm.DeltaText, Index: at, Text: text}}, nil
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return []llm.Delta{{Kind: llm.DeltaThinking, Index: at, Text: text}}, nil
	case "response.reasoning_summary_part.added":
		if e.SummaryIndex > 0 { // same separator as PlainText
			return []llm.Delta{{Kind: llm.DeltaThinking, Index: at, Text: "\n\n"}}, nil
		}
	case "response.output_item.added":
		if e.Item.Type == "function_call" {
			c := s.call(at)
			c.ID, c.Name = cmp.Or(e.Item.CallID, e.Item.ID), convert.Original(s.Meta.Tools, e.Item.Name, maxName, "")
			return []llm.Delta{{Kind: llm.DeltaCall, Index: at, CallID: c.ID, Name: c.Name}}, nil
		}
	case "response.function_call_arguments.delta":
		c := s.call(at)
		return []llm.Delta{{Kind: llm.DeltaCall, Index: at, Text: text, CallID: c.ID, Name: c.Name}}, nil
	case "response.output_item.done":
		for len(s.items) <= at && at < maxItems {
			s.items = append(s.items, outputItem{})
		}
		if at >= 0 && at < len(s.items) {
			s.items[at] = e.Item
		}
	case "response.completed", "response.incomplete":
		s.final = &e.Response
	case "response.failed":
		return nil, &llm.EndpointError{Code: e.Response.Error.Code, Message: e.Response.Error.Message}
	case "error":
		return nil, &llm.EndpointError{Code: e.Code, Message: e.Message}
	}
	return nil, nil
}

func (s *ResponsesStream) call(at int) *llm.ToolCall {
	if s.calls == nil {
		s.calls = map[int]*llm.ToolCall{}
	}
	if s.calls[at] == nil {
		s.calls[at] = &llm.ToolCall{}
	}
	return s.calls[at]
}

// Ended reports whether the answer is complete.
func (s *ResponsesStream) Ended() bool { return s.final != nil }

// Answer returns the answer. If the stream was cut off, the answer contains the items
// that were complete.
func (s *ResponsesStream) Answer() (*llm.Answer, error) {
	if s.final == nil {
		a, err := answerOf(&response{Output: s.items}, s.Meta)
		a.Stop = llm.StopFailure
		return a, err
	}
	final := *s.final
	if len(final.Output) == 0 { // some servers omit the output in the final event
		final.Output = s.items
	}
	return answerOf(&final, s.Meta)
}
