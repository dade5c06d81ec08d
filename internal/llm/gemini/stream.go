package gemini

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/internal/convert"
)

// Stream reads the pieces of a streamed answer.
type Stream struct {
	Meta   llm.Meta
	b      convert.Builder
	id     string
	finish string
	why    string // the reason why the prompt was blocked
	usage  chat.Usage
}

// Add reads the next event and returns the new deltas.
func (s *Stream) Add(data []byte) ([]llm.Delta, error) {
	var r response
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	if err := llm.ReportedError(r.Error); err != nil {
		return nil, err
	}
	s.id = cmp.Or(s.id, r.ResponseID)
	if u := r.Usage; u != nil {
		s.usage = chat.Usage{
			InputTokens: u.Prompt + u.ToolUsePrompt, OutputTokens: u.Candidates + u.Thoughts,
			CacheReadTokens: u.CachedContent, ReasoningTokens: u.Thoughts,
		}
	}
	s.why = cmp.Or(r.PromptFeedback.BlockReason, s.why)
	if len(r.Candidates) == 0 {
		return nil, nil
	}
	c := &r.Candidates[0]
	s.finish = cmp.Or(c.FinishReason, s.finish)
	var out []llm.Delta
	for i := range c.Content.Parts {
		out = append(out, s.part(&c.Content.Parts[i])...)
	}
	return out, nil
}

// Ended reports whether the answer is complete.
func (s *Stream) Ended() bool { return s.finish != "" || s.why != "" }

func (s *Stream) part(p *responsePart) []llm.Delta {
	switch {
	case p.Call != nil:
		return s.call(p.Call, p.Signature)
	case p.Thought:
		n := s.b.Think(p.Text)
		s.b.Part(n).(*llm.Reasoning).Signature = p.Signature
		return piece(llm.DeltaThinking, n, p.Text)
	case p.Text != "" || p.Signature != "":
		n := s.b.Text(p.Text)
		s.b.Part(n).(*llm.Text).Signature = p.Signature
		return piece(llm.DeltaText, n, p.Text)
	}
	return nil
}

func piece(kind llm.DeltaKind, n int, text string) []llm.Delta {
	if text == "" {
		return nil
	}
	return []llm.Delta{{Kind: kind, Index: n, Text: text}}
}

// call adds a call, and a content part that preserves its position and signature.
func (s *Stream) call(f *responseCall, signature string) []llm.Delta {
	var compact bytes.Buffer
	if len(f.Args) == 0 || string(f.Args) == "null" || json.Compact(&compact, f.Args) != nil {
		compact.WriteString("{}")
	}
	args := compact.Bytes()
	c := s.b.NewCall()
	c.ID, c.Name = f.ID, convert.Original(s.Meta.Tools, f.Name, maxName, extraSigns)
	if c.ID == "" {
		c.ID = s.callID(c.Key, f.Name, args)
	}
	c.Arguments.Write(args)
	s.b.Add(&llm.CallPart{ID: c.ID, Name: c.Name, Input: args, Signature: signature}, false)
	return []llm.Delta{{Kind: llm.DeltaCall, Index: c.Key, Text: string(args), CallID: c.ID, Name: c.Name}}
}

// callID returns an id for a call without one. The id is deterministic.
func (s *Stream) callID(n int, name string, args []byte) string {
	sum := sha256.Sum256(fmt.Append(nil, s.id, "\x00", n, "\x00", name, "\x00", string(args)))
	return "call_" + hex.EncodeToString(sum[:12])
}

// Answer returns the answer.
func (s *Stream) Answer() (*llm.Answer, error) {
	a := &llm.Answer{Stop: stopOf(s.finish), Usage: s.usage}
	if s.why != "" {
		a.Stop = llm.StopFilter
	}
	a.Message.Model = s.Meta.Model
	return s.b.Answer(a)
}

func stopOf(reason string) llm.Stop {
	switch reason {
	case "STOP":
		return llm.StopEnd
	case "MAX_TOKENS":
		return llm.StopLength
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY":
		return llm.StopFilter
	}
	return llm.StopFailure // also when the stream was cut off
}
