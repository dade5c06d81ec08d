package openai

import (
	"bytes"
	"cmp"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/internal/convert"
)

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

// ChatStream reads the chunks of a streamed answer.
type ChatStream struct {
	Meta  llm.Meta
	b     convert.Builder
	stop  string
	usage chat.Usage
	added []llm.Delta // memory for Add
}

// Add reads the next chunk and returns the new deltas, which are valid until the next call.
func (s *ChatStream) Add(data []byte) ([]llm.Delta, error) {
	out := s.added[:0]
	defer func() { s.added = out }()
	if t, ok := onlyContent(data); ok {
		if t != "" {
			out = append(out, llm.Delta{Kind: llm.DeltaText, Index: s.b.Text(t), Text: t})
		}
		return out, nil
	}
	var c Chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	if err := llm.ReportedError(c.Error); err != nil {
		return nil, err
	}
	if c.Usage.Total > 0 || c.Usage.Prompt > 0 {
		s.usage = c.Tokens()
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Index != 0 {
			continue
		}
		s.stop = cmp.Or(string(choice.FinishReason), s.stop)
		d := &choice.Delta
		if t := cmp.Or(string(d.ReasoningContent), string(d.Reasoning)); t != "" {
			out = append(out, llm.Delta{Kind: llm.DeltaThinking, Index: s.b.Think(t), Text: t})
		}
		if t := cmp.Or(string(d.Content), string(d.Refusal)); t != "" {
			out = append(out, llm.Delta{Kind: llm.DeltaText, Index: s.b.Text(t), Text: t})
		}
		for _, call := range d.ToolCalls {
			t := s.b.Call(int(call.Index))
			t.ID = cmp.Or(t.ID, call.ID)
			if t.Name == "" && call.Function.Name != "" {
				t.Name = convert.Original(s.Meta.Tools, call.Function.Name, maxName, "")
			}
			arguments := string(call.Function.Arguments)
			t.Arguments.WriteString(arguments)
			out = append(out, llm.Delta{Kind: llm.DeltaCall, Index: t.Key, Text: arguments, CallID: t.ID, Name: t.Name})
		}
	}
	return out, nil
}

// onlyContent returns the text of a chunk that has one choice with nothing but a text, as most chunks do: it is several times
// faster than reading any chunk. ok is false for other chunks.
func onlyContent(data []byte) (content string, ok bool) {
	var choices, delta []byte // of several with the same name the last one counts
	chunk := json.Fields{Rest: data}
	for chunk.Next() {
		switch string(chunk.Key) {
		case "choices":
			choices = chunk.Value
		case "error", "usage":
			needNull(&chunk)
		default:
			skip(&chunk)
		}
	}
	if !chunk.Done() || len(choices) == 0 || choices[0] != '[' {
		return "", false
	}
	choice := json.Fields{Rest: choices[1:]}
	for choice.Next() {
		switch string(choice.Key) {
		case "delta":
			delta = choice.Value
		case "index":
			if string(choice.Value) != "0" {
				choice.Stop()
			}
		case "finish_reason":
			needNull(&choice)
		default:
			skip(&choice)
		}
	}
	if !choice.Ended() || !choice.Skip(']') || len(choice.Rest) > 0 {
		return "", false
	}
	part := json.Fields{Rest: delta}
	for part.Next() {
		switch string(part.Key) {
		case "content":
			part.Text(&content)
			ok = true
		case "refusal", "reasoning_content", "reasoning", "tool_calls":
			needNull(&part)
		default:
			skip(&part)
		}
	}
	return content, ok && part.Done()
}

// needNull stops at a value that is not null.
func needNull(f *json.Fields) {
	if string(f.Value) != "null" {
		f.Stop()
	}
}

// skip skips a field, but stops at a name with escapes, which may be any name.
func skip(f *json.Fields) {
	if bytes.IndexByte(f.Key, '\\') >= 0 {
		f.Stop()
	}
}

// Ended reports whether the model has sent a finish reason.
func (s *ChatStream) Ended() bool { return s.stop != "" }

// Answer returns the answer. If there is only reasoning, the reasoning is the answer,
// because some models write the whole answer there.
func (s *ChatStream) Answer() (*llm.Answer, error) {
	a := &llm.Answer{Usage: s.usage, Stop: chatStop(s.stop)}
	a.Message.Model = s.Meta.Model
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
