package gemini

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"google.golang.org/genai"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/internal/convert"
)

// FromResponse reads a whole answer of Gemini.
func FromResponse(r *genai.GenerateContentResponse, meta llm.Meta) (llm.Answer, error) {
	s := Stream{Meta: meta}
	s.Add(r)
	return s.Answer()
}

// Stream collects the pieces of a streamed answer.
type Stream struct {
	Meta   llm.Meta
	b      convert.Builder
	id     string
	model  string
	finish genai.FinishReason
	why    string // it was blocked
	usage  chat.Usage
}

// Add takes the next piece and returns what is new.
func (s *Stream) Add(r *genai.GenerateContentResponse) []llm.Delta {
	if r == nil {
		return nil
	}
	s.id, s.model = convert.Either(s.id, r.ResponseID), convert.Either(s.model, r.ModelVersion)
	if u := r.UsageMetadata; u != nil {
		s.usage = chat.Usage{
			InputTokens:     int64(u.PromptTokenCount + u.ToolUsePromptTokenCount),
			OutputTokens:    int64(u.CandidatesTokenCount + u.ThoughtsTokenCount),
			CacheReadTokens: int64(u.CachedContentTokenCount), ReasoningTokens: int64(u.ThoughtsTokenCount),
		}
	}
	if f := r.PromptFeedback; f != nil && f.BlockReason != "" {
		s.why = string(f.BlockReason)
	}
	if len(r.Candidates) == 0 || r.Candidates[0] == nil {
		return nil
	}
	c := r.Candidates[0]
	if c.FinishReason != "" {
		s.finish = c.FinishReason
	}
	if c.Content == nil {
		return nil
	}
	var out []llm.Delta
	for _, p := range c.Content.Parts {
		if p != nil {
			out = append(out, s.part(p)...)
		}
	}
	return out
}

func (s *Stream) part(p *genai.Part) []llm.Delta {
	signature := ""
	if len(p.ThoughtSignature) > 0 {
		signature = base64.StdEncoding.EncodeToString(p.ThoughtSignature)
	}
	switch {
	case p.FunctionCall != nil:
		return s.call(p.FunctionCall, signature)
	case p.Thought:
		n := s.b.Think(p.Text)
		s.b.Part(n).(*llm.Reasoning).Signature = signature
		return piece(llm.DeltaThinking, n, p.Text)
	case p.Text != "" || signature != "":
		n := s.b.Text(p.Text)
		s.b.Part(n).(*llm.Text).Signature = signature
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

// call keeps a call, and its place and signature among the content.
func (s *Stream) call(f *genai.FunctionCall, signature string) []llm.Delta {
	args, err := json.Marshal(f.Args)
	if err != nil || f.Args == nil {
		args = []byte("{}")
	}
	c := s.b.NewCall()
	c.ID, c.Name = f.ID, convert.Original(s.Meta.Tools, f.Name, maxName, extraSigns)
	if c.ID == "" {
		c.ID = s.callID(c.Key, f.Name, args)
	}
	c.Arguments.Write(args)
	s.b.Add(&llm.CallPart{ID: c.ID, Name: c.Name, Input: args, Signature: signature}, false)
	return []llm.Delta{{Kind: llm.DeltaCall, Index: c.Key, Text: string(args), CallID: c.ID, Name: c.Name}}
}

// callID names a call that Gemini gave no name: after the answer it stands in,
// so that the same answer read twice has the same calls.
func (s *Stream) callID(n int, name string, args []byte) string {
	sum := sha256.Sum256(fmt.Append(nil, s.id, "\x00", n, "\x00", name, "\x00", string(args)))
	return "call_" + hex.EncodeToString(sum[:12])
}

// Answer returns what came together.
func (s *Stream) Answer() (llm.Answer, error) {
	a := llm.Answer{Stop: stopOf(s.finish), Usage: s.usage}
	if s.why != "" {
		a.Stop = llm.StopFilter
	}
	a.Message.Model = convert.Either(s.Meta.Model, s.model)
	return s.b.Answer(a)
}

func stopOf(f genai.FinishReason) llm.Stop {
	switch f {
	case genai.FinishReasonStop:
		return llm.StopEnd
	case genai.FinishReasonMaxTokens:
		return llm.StopLength
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonBlocklist, genai.FinishReasonProhibitedContent,
		genai.FinishReasonSPII, genai.FinishReasonImageSafety:
		return llm.StopFilter
	}
	return llm.StopFailure // also when the stream was cut off
}

// FromRequest reads the conversation of a request to Gemini. model is put on what
// the model said, "" for not known. Calls without an id are named after their
// place.
func FromRequest(contents []*genai.Content, config *genai.GenerateContentConfig, model string) []llm.Message {
	var out []llm.Message
	if config != nil && config.SystemInstruction != nil {
		for _, p := range config.SystemInstruction.Parts {
			if p != nil && p.Text != "" {
				out = append(out, llm.Message{Role: llm.System, Content: llm.Texts(p.Text)})
			}
		}
	}
	g := reader{out: out, model: model}
	for _, c := range contents {
		switch {
		case c == nil:
		case c.Role == genai.RoleModel:
			g.said(c)
		default:
			g.heard(c)
		}
	}
	return g.out
}

type reader struct {
	out    []llm.Message
	model  string
	calls  int
	unpaid []llm.ToolCall // calls without an answer yet
}

func (g *reader) said(c *genai.Content) {
	s := Stream{Meta: llm.Meta{Model: g.model}, id: fmt.Sprint("request ", g.calls)}
	for _, p := range c.Parts {
		if p != nil {
			s.part(p)
		}
	}
	g.calls++
	m := llm.Message{Role: llm.Assistant, Model: g.model, Content: s.b.Content(), ToolCalls: s.b.ToolCalls()}
	g.unpaid = append([]llm.ToolCall(nil), m.ToolCalls...)
	g.out = append(g.out, m)
}

func (g *reader) heard(c *genai.Content) {
	var said []llm.Part
	for _, p := range c.Parts {
		switch {
		case p == nil:
		case p.FunctionResponse != nil:
			g.answered(p.FunctionResponse)
		case p.InlineData != nil:
			said = append(said, &llm.Image{Source: llm.ImageSource{
				Type: llm.SourceBase64, MediaType: p.InlineData.MIMEType, Data: base64.StdEncoding.EncodeToString(p.InlineData.Data),
			}})
		case p.FileData != nil:
			said = append(said, &llm.Image{Source: llm.ImageSource{Type: llm.SourceURL, URL: p.FileData.FileURI}})
		case p.Text != "":
			said = append(said, &llm.Text{Text: p.Text})
		}
	}
	if len(said) == 0 {
		return
	}
	// Pictures beside a tool's answers are theirs.
	if n := len(g.out) - 1; n >= 0 && g.out[n].Role == llm.Tool && answers(c) {
		rs := g.out[n].ToolReturns
		last := &rs[len(rs)-1]
		last.Parts = append(llm.Texts(last.Text), said...)
		last.Text = ""
		return
	}
	g.out = append(g.out, llm.Message{Role: llm.User, Content: said})
}

func (g *reader) answered(f *genai.FunctionResponse) {
	id := f.ID
	for i, c := range g.unpaid {
		if id == c.ID || id == "" && f.Name == c.Name {
			id = c.ID
			g.unpaid = append(g.unpaid[:i], g.unpaid[i+1:]...)
			break
		}
	}
	var content any = f.Response
	failed := false
	if v, ok := f.Response["output"]; ok {
		content = v
	} else if v, ok := f.Response["error"]; ok {
		content, failed = v, true
	}
	text, ok := content.(string)
	if !ok {
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if enc.Encode(content) == nil {
			text = strings.TrimSuffix(b.String(), "\n")
		}
	}
	g.out = convert.AddReturn(g.out, id, f.Name, llm.Texts(text), failed)
}
