package llm

import (
	"strings"

	"github.com/parley-hq/parley/internal/json"
)

// Part is a piece of a message's content. This file defines all implementations.
type Part interface {
	// Kind returns the type name in JSON, such as "text".
	Kind() string
}

// Parts are the content of a message or the result of a tool.
type Parts []Part

// Text is a text.
type Text struct {
	Text      string `json:"text"`
	Signature string `json:"signature,omitempty"` // Gemini's signature of the reasoning that led to this text
}

// Image is an image.
type Image struct {
	Source ImageSource `json:"source"`
}

// ImageSource says where the data of an image is: at URL, in Data, or in the stored
// file FileID.
type ImageSource struct {
	Type      SourceType `json:"type"`
	URL       string     `json:"url,omitempty"`
	FileID    string     `json:"file_id,omitempty"`
	MediaType string     `json:"media_type,omitempty"`
	Data      string     `json:"data,omitempty"`   // base64
	Detail    string     `json:"detail,omitempty"` // low, high, auto
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
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"` // an object
	Signature string          `json:"signature,omitempty"`
}

// Reasoning is reasoning text of a model.
type Reasoning struct {
	Native    bool   `json:"is_native"` // reasoning that the provider reports as such, not prompted text
	Text      string `json:"reasoning"`
	Signature string `json:"signature,omitempty"` // required to send the reasoning back to Anthropic
}

// RedactedReasoning is reasoning that the provider returns only in encrypted form.
type RedactedReasoning struct {
	Data string `json:"data"`
}

// OmittedReasoning is a placeholder for reasoning that was not sent.
type OmittedReasoning struct {
	Signature string `json:"signature,omitempty"`
}

// SummarizedReasoning is reasoning in the form of OpenAI's Responses API.
type SummarizedReasoning struct {
	ID        string        `json:"id"`
	Summary   []SummaryText `json:"summary"`
	Encrypted string        `json:"encrypted_content,omitempty"`
}

// SummaryText is one piece of a summary.
type SummaryText struct {
	Index int    `json:"index"`
	Text  string `json:"text"`
}

// Kind returns the type name in JSON.
func (*Text) Kind() string                { return "text" }
func (*Image) Kind() string               { return "image" }
func (*CallPart) Kind() string            { return "tool_call" }
func (*Reasoning) Kind() string           { return "reasoning" }
func (*RedactedReasoning) Kind() string   { return "redacted_reasoning" }
func (*OmittedReasoning) Kind() string    { return "omitted_reasoning" }
func (*SummarizedReasoning) Kind() string { return "summarized_reasoning" }

// kinds maps each type name to a constructor.
var kinds = map[string]func() Part{
	"text":                 func() Part { return &Text{} },
	"image":                func() Part { return &Image{} },
	"tool_call":            func() Part { return &CallPart{} },
	"reasoning":            func() Part { return &Reasoning{} },
	"redacted_reasoning":   func() Part { return &RedactedReasoning{} },
	"omitted_reasoning":    func() Part { return &OmittedReasoning{} },
	"summarized_reasoning": func() Part { return &SummarizedReasoning{} },
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
		if t, ok := p.(*Text); ok && t.Text != "" {
			texts = append(texts, t.Text)
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
