package llm

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/genai"

	"github.com/parley-hq/parley/chat"
)

// FromGemini reads a whole answer of Gemini.
func FromGemini(r *genai.GenerateContentResponse, meta Meta) (Answer, error) {
	s := GeminiStream{Meta: meta}
	s.Add(r)
	return s.Answer()
}

// GeminiStream collects the pieces of a streamed answer.
type GeminiStream struct {
	Meta   Meta
	b      builder
	id     string
	model  string
	finish genai.FinishReason
	why    string // it was blocked
	usage  chat.Usage
}

// Add takes the next piece and returns what is new.
func (s *GeminiStream) Add(r *genai.GenerateContentResponse) []Delta {
	if r == nil {
		return nil
	}
	s.id, s.model = either(s.id, r.ResponseID), either(s.model, r.ModelVersion)
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
	var out []Delta
	for _, p := range c.Content.Parts {
		if p != nil {
			out = append(out, s.part(p)...)
		}
	}
	return out
}

func (s *GeminiStream) part(p *genai.Part) []Delta {
	signature := ""
	if len(p.ThoughtSignature) > 0 {
		signature = base64.StdEncoding.EncodeToString(p.ThoughtSignature)
	}
	switch {
	case p.FunctionCall != nil:
		return s.call(p.FunctionCall, signature)
	case p.Thought:
		n := s.b.think(p.Text)
		s.b.parts[n].(*Reasoning).Signature = signature
		return piece(DeltaThinking, n, p.Text)
	case p.Text != "" || signature != "":
		n := s.b.text(p.Text)
		s.b.parts[n].(*Text).Signature = signature
		return piece(DeltaText, n, p.Text)
	}
	return nil
}

func piece(kind DeltaKind, n int, text string) []Delta {
	if text == "" {
		return nil
	}
	return []Delta{{Kind: kind, Index: n, Text: text}}
}

// call keeps a call, and its place and signature among the content.
func (s *GeminiStream) call(f *genai.FunctionCall, signature string) []Delta {
	args, err := json.Marshal(f.Args)
	if err != nil || f.Args == nil {
		args = []byte("{}")
	}
	c := s.b.call(len(s.b.calls))
	c.id, c.name = f.ID, s.Meta.original(f.Name, geminiName, geminiExtra)
	if c.id == "" {
		c.id = s.callID(c.key, f.Name, args)
	}
	c.arguments.Write(args)
	s.b.add(&CallPart{ID: c.id, Name: c.name, Input: args, Signature: signature}, false)
	return []Delta{{Kind: DeltaCall, Index: c.key, Text: string(args), CallID: c.id, Name: c.name}}
}

// callID names a call that Gemini gave no name: after the answer it stands in,
// so that the same answer read twice has the same calls.
func (s *GeminiStream) callID(n int, name string, args []byte) string {
	sum := sha256.Sum256(fmt.Append(nil, s.id, "\x00", n, "\x00", name, "\x00", string(args)))
	return "call_" + hex.EncodeToString(sum[:12])
}

// Answer returns what came together.
func (s *GeminiStream) Answer() (Answer, error) {
	a := Answer{Stop: geminiStop(s.finish), Usage: s.usage}
	if s.why != "" {
		a.Stop = StopFilter
	}
	a.Message.Model = either(s.Meta.Model, s.model)
	return s.b.answer(a)
}

func geminiStop(f genai.FinishReason) Stop {
	switch f {
	case genai.FinishReasonStop:
		return StopEnd
	case genai.FinishReasonMaxTokens:
		return StopLength
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonBlocklist, genai.FinishReasonProhibitedContent,
		genai.FinishReasonSPII, genai.FinishReasonImageSafety:
		return StopFilter
	}
	return StopFailure // also when the stream was cut off
}

// FromGeminiRequest reads the conversation of a request to Gemini. model is put
// on what the model said, "" for not known. Calls without an id are named after
// their place.
func FromGeminiRequest(contents []*genai.Content, config *genai.GenerateContentConfig, model string) []Message {
	var out []Message
	if config != nil && config.SystemInstruction != nil {
		for _, p := range config.SystemInstruction.Parts {
			if p != nil && p.Text != "" {
				out = append(out, Message{Role: System, Content: Texts(p.Text)})
			}
		}
	}
	g := geminiReader{out: out, model: model}
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

type geminiReader struct {
	out    []Message
	model  string
	calls  int
	unpaid []ToolCall // calls without an answer yet
}

func (g *geminiReader) said(c *genai.Content) {
	s := GeminiStream{Meta: Meta{Model: g.model}, id: fmt.Sprint("request ", g.calls)}
	for _, p := range c.Parts {
		if p != nil {
			s.part(p)
		}
	}
	g.calls++
	m := Message{Role: Assistant, Model: g.model, Content: s.b.content(), ToolCalls: s.b.toolCalls()}
	g.unpaid = append([]ToolCall(nil), m.ToolCalls...)
	g.out = append(g.out, m)
}

func (g *geminiReader) heard(c *genai.Content) {
	var said []Part
	for _, p := range c.Parts {
		switch {
		case p == nil:
		case p.FunctionResponse != nil:
			g.answered(p.FunctionResponse)
		case p.InlineData != nil:
			said = append(said, &Image{Source: ImageSource{
				Type: SourceBase64, MediaType: p.InlineData.MIMEType, Data: base64.StdEncoding.EncodeToString(p.InlineData.Data),
			}})
		case p.FileData != nil:
			said = append(said, &Image{Source: ImageSource{Type: SourceURL, URL: p.FileData.FileURI}})
		case p.Text != "":
			said = append(said, &Text{Text: p.Text})
		}
	}
	if len(said) == 0 {
		return
	}
	// Pictures beside a tool's answers are theirs.
	if n := len(g.out) - 1; n >= 0 && g.out[n].Role == Tool && answers(c) {
		rs := g.out[n].ToolReturns
		last := &rs[len(rs)-1]
		last.Parts = append(Texts(last.Text), said...)
		last.Text = ""
		return
	}
	g.out = append(g.out, Message{Role: User, Content: said})
}

func (g *geminiReader) answered(f *genai.FunctionResponse) {
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
	g.out = addReturn(g.out, id, f.Name, Texts(text), failed)
}
