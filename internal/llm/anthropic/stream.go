package anthropic

import (
	"cmp"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/internal/convert"
)

// Stream reads the events of a streamed answer.
type Stream struct {
	Meta   llm.Meta
	b      convert.Builder
	blocks map[int]int // block index → part index
	calls  map[int]*convert.Call
	stop   string
	usage  usage
	ended  bool
}

// Add reads the next event and returns the new deltas.
func (s *Stream) Add(data []byte) ([]llm.Delta, error) {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, err
	}
	if err := llm.ReportedError(e.Error); err != nil {
		return nil, err
	}
	switch e.Type {
	case "message_start":
		s.usage = e.Message.Usage
	case "content_block_start":
		return s.start(e.Index, &e.ContentBlock), nil
	case "content_block_delta":
		return s.piece(e.Index, &e.Delta), nil
	case "message_delta":
		s.stop = e.Delta.StopReason
		s.count(e.Usage)
	case "message_stop":
		s.ended = true
	}
	return nil, nil
}

// Ended reports whether the answer is complete.
func (s *Stream) Ended() bool { return s.ended || s.stop != "" }

func (s *Stream) start(at int, block *answerBlock) []llm.Delta {
	if s.blocks == nil {
		s.blocks, s.calls = map[int]int{}, map[int]*convert.Call{}
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
		c := s.b.Call(at)
		c.ID, c.Name = block.ID, convert.Original(s.Meta.Tools, block.Name, maxName, "")
		s.calls[at] = c
		return []llm.Delta{{Kind: llm.DeltaCall, Index: at, CallID: c.ID, Name: c.Name}}
	}
	return nil
}

func (s *Stream) grow(at int, kind llm.DeltaKind, text string) []llm.Delta {
	n, ok := s.blocks[at]
	if !ok || text == "" {
		return nil
	}
	s.b.Grow(n, text)
	return []llm.Delta{{Kind: kind, Index: at, Text: text}}
}

func (s *Stream) piece(at int, d *delta) []llm.Delta {
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
			return []llm.Delta{{Kind: llm.DeltaCall, Index: at, Text: d.PartialJSON, CallID: c.ID, Name: c.Name}}
		}
	}
	return nil
}

// count applies the totals of the final event. It keeps the totals of the first event
// where the final one has none.
func (s *Stream) count(u usage) {
	s.usage.Output, s.usage.Details = u.Output, u.Details
	s.usage.Input = cmp.Or(u.Input, s.usage.Input)
	s.usage.CacheRead = cmp.Or(u.CacheRead, s.usage.CacheRead)
	s.usage.CacheCreation = cmp.Or(u.CacheCreation, s.usage.CacheCreation)
}

// Answer returns the answer.
func (s *Stream) Answer() (*llm.Answer, error) {
	a := &llm.Answer{Stop: stopOf(s.stop), Usage: usageOf(s.usage)}
	if !s.Ended() {
		a.Stop = llm.StopFailure // the stream was cut off
	}
	a.Message.Model = s.Meta.Model
	return s.b.Answer(a)
}

func stopOf(reason string) llm.Stop {
	switch reason {
	case "end_turn", "stop_sequence", "pause_turn", "":
		return llm.StopEnd
	case "max_tokens", "model_context_window_exceeded":
		return llm.StopLength
	case "tool_use":
		return llm.StopCalls
	case "refusal":
		return llm.StopFilter
	}
	return llm.StopFailure
}

// usageOf converts the usage. Anthropic reports cache reads and writes separately; the
// result includes them in the input tokens.
func usageOf(u usage) chat.Usage {
	return chat.Usage{
		InputTokens:  u.Input + u.CacheRead + u.CacheCreation,
		OutputTokens: u.Output, CacheReadTokens: u.CacheRead, CacheCreationTokens: u.CacheCreation,
		ReasoningTokens: u.Details.Thinking,
	}
}
