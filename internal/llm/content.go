package llm

import (
	"strings"

	"github.com/parley-hq/parley/internal/json"
)

// Part is a piece of a message's content. This file defines all implementations.
type Part interface {
	object
	// Kind returns the type name in JSON, such as "text".
	Kind() string
}

// Text is a text.
type Text struct {
	Text      string
	Signature string // Gemini's signature of the reasoning that led to this text

	kept kept
}

// Image is an image.
type Image struct {
	Source ImageSource

	kept kept
}

// ImageSource says where the data of an image is: at URL, in Data, or in the stored
// file FileID.
type ImageSource struct {
	Type      SourceType
	URL       string
	MediaType string
	Data      string // base64
	FileID    string
	Detail    string // low, high, auto

	kept kept
}

// SourceType is a kind of image source.
type SourceType string

// The kinds of image source.
const (
	SourceURL    SourceType = "url"
	SourceBase64 SourceType = "base64"
	SourceFile   SourceType = "letta"
)

// CallPart is the copy of a tool call in the content. It preserves the call's position
// and signature; the call itself is in Message.ToolCalls.
type CallPart struct {
	ID        string
	Name      string
	Input     json.RawMessage // an object
	Signature string

	kept kept
}

// ReturnPart is the older form of a tool result. It is only decoded, never created.
type ReturnPart struct {
	ToolCallID string
	Content    string
	IsError    bool

	kept kept
}

// Reasoning is reasoning text of a model.
type Reasoning struct {
	Native    bool // reasoning that the provider reports as such, not prompted text
	Text      string
	Signature string // required to send the reasoning back to Anthropic

	kept kept
}

// RedactedReasoning is reasoning that the provider returns only in encrypted form.
type RedactedReasoning struct {
	Data string

	kept kept
}

// OmittedReasoning is a placeholder for reasoning that was not sent.
type OmittedReasoning struct {
	Signature string

	kept kept
}

// SummarizedReasoning is reasoning in the form of OpenAI's Responses API.
type SummarizedReasoning struct {
	ID        string
	Summary   []SummaryText
	Encrypted string

	kept kept
}

// SummaryText is one piece of a summary.
type SummaryText struct {
	Index int
	Text  string

	kept kept
}

// Kind returns the type name in JSON.
func (*Text) Kind() string                { return "text" }
func (*Image) Kind() string               { return "image" }
func (*CallPart) Kind() string            { return "tool_call" }
func (*ReturnPart) Kind() string          { return "tool_return" }
func (*Reasoning) Kind() string           { return "reasoning" }
func (*RedactedReasoning) Kind() string   { return "redacted_reasoning" }
func (*OmittedReasoning) Kind() string    { return "omitted_reasoning" }
func (*SummarizedReasoning) Kind() string { return "summarized_reasoning" }

// kinds maps each type name to a constructor.
var kinds = map[string]func() Part{
	"text":                 func() Part { return &Text{} },
	"image":                func() Part { return &Image{} },
	"tool_call":            func() Part { return &CallPart{} },
	"tool_return":          func() Part { return &ReturnPart{} },
	"reasoning":            func() Part { return &Reasoning{} },
	"redacted_reasoning":   func() Part { return &RedactedReasoning{} },
	"omitted_reasoning":    func() Part { return &OmittedReasoning{} },
	"summarized_reasoning": func() Part { return &SummarizedReasoning{} },
}

func (p *Text) fields(f *codec) {
	f.keep(&p.kept)
	f.constant("type", p.Kind(), required)
	f.text("text", &p.Text, required)
	f.text("signature", &p.Signature, nullable)
}

func (p *Image) fields(f *codec) {
	f.keep(&p.kept)
	f.constant("type", p.Kind(), required)
	f.object("source", &p.Source)
}

func (s *ImageSource) fields(f *codec) {
	f.keep(&s.kept)
	f.word("type", (*string)(&s.Type), "url", "base64", "letta")
	switch s.Type {
	case SourceURL:
		f.text("url", &s.URL, required)
	case SourceBase64:
		f.text("media_type", &s.MediaType, required)
		f.text("data", &s.Data, required)
		f.text("detail", &s.Detail, nullable)
	case SourceFile:
		f.text("file_id", &s.FileID, required)
		f.text("media_type", &s.MediaType, nullable)
		f.text("data", &s.Data, nullable)
		f.text("detail", &s.Detail, nullable)
	}
}

func (p *CallPart) fields(f *codec) {
	f.keep(&p.kept)
	f.constant("type", p.Kind(), required)
	f.text("id", &p.ID, required)
	f.text("name", &p.Name, required)
	f.rawObject("input", &p.Input)
	f.text("signature", &p.Signature, nullable)
}

func (p *ReturnPart) fields(f *codec) {
	f.keep(&p.kept)
	f.constant("type", p.Kind(), required)
	f.text("tool_call_id", &p.ToolCallID, required)
	f.text("content", &p.Content, required)
	f.flag("is_error", &p.IsError)
}

func (p *Reasoning) fields(f *codec) {
	f.keep(&p.kept)
	f.constant("type", p.Kind(), required)
	f.flag("is_native", &p.Native)
	f.text("reasoning", &p.Text, required)
	f.text("signature", &p.Signature, nullable)
}

func (p *RedactedReasoning) fields(f *codec) {
	f.keep(&p.kept)
	f.constant("type", p.Kind(), required)
	f.text("data", &p.Data, required)
}

func (p *OmittedReasoning) fields(f *codec) {
	f.keep(&p.kept)
	f.constant("type", p.Kind(), required)
	f.text("signature", &p.Signature, nullable)
}

func (p *SummarizedReasoning) fields(f *codec) {
	f.keep(&p.kept)
	f.constant("type", p.Kind(), required)
	f.text("id", &p.ID, required)
	list(f, "summary", &p.Summary, required, func(s *SummaryText) object { return s })
	f.text("encrypted_content", &p.Encrypted, optional)
}

func (s *SummaryText) fields(f *codec) {
	f.keep(&s.kept)
	f.number("index", &s.Index)
	f.text("text", &s.Text, required)
}

// Texts returns content with one Text part per string.
func Texts(texts ...string) []Part {
	parts := make([]Part, len(texts))
	for i, t := range texts {
		parts[i] = &Text{Text: t}
	}
	return parts
}

// PlainText joins the texts of the parts with blank lines between them.
func PlainText(parts []Part) string {
	var texts []string
	for _, p := range parts {
		switch p := p.(type) {
		case *Text:
			if p.Text != "" {
				texts = append(texts, p.Text)
			}
		case *ReturnPart:
			texts = append(texts, p.Content)
		}
	}
	return strings.Join(texts, "\n\n")
}

// PlainText returns the summary as one text.
func (p *SummarizedReasoning) PlainText() string {
	var texts []string
	for _, s := range p.Summary {
		if s.Text != "" {
			texts = append(texts, s.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

// MissingImage returns the text that replaces an image that cannot be sent.
func MissingImage(s ImageSource) string {
	if s.FileID != "" {
		return "[Image omitted: " + s.FileID + "]"
	}
	return "[Image omitted]"
}
