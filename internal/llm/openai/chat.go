package openai

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/internal/convert"
)

// The maximum lengths of ids and names that OpenAI accepts.
const (
	maxChatID = 40
	maxCallID = 64
	maxName   = 64
)

// participant matches the participant names that OpenAI accepts, if they are not too long.
var participant = regexp.MustCompile(`^[^\s<|\\/>]+$`)

func validParticipant(name string) bool {
	return utf8.RuneCountInString(name) <= maxName && participant.MatchString(name)
}

// reasons reports whether a model is an OpenAI reasoning model, which does not return
// its reasoning.
func reasons(model string) bool {
	if i := strings.LastIndexByte(model, '/'); i >= 0 {
		model = model[i+1:]
	}
	if strings.HasPrefix(model, "o1-mini") || strings.HasPrefix(model, "o1-preview") {
		return false
	}
	for _, family := range []string{"o1", "o3", "o4", "gpt-5"} {
		if strings.HasPrefix(model, family) {
			return true
		}
	}
	return false
}

// Chat converts a request for Chat Completions.
func Chat(r llm.Request) *ChatRequest {
	c := chatConverter{Request: convert.Request{Request: r}, ids: convert.NewNames(maxChatID, ""), tools: convert.ToolNames(r.Tools, maxName, "")}
	p := &ChatRequest{Model: r.Model, MaxCompletionTokens: max(r.MaxTokens, 0), Stream: true, StreamOptions: StreamOptions{IncludeUsage: true}}
	for _, m := range llm.Repair(r.Messages) {
		c.message(&m)
	}
	if len(c.out) == 0 {
		c.add(ChatMessage{Role: "user", Content: convert.Begins})
	}
	p.Messages = c.out
	for i := range r.Tools {
		t := &r.Tools[i]
		p.Tools = append(p.Tools, ChatTool{Type: "function", Function: Function{
			Name: c.tools.Of(t.Name), Description: t.Description, Parameters: convert.Parameters(t),
		}})
	}
	return p
}

type chatConverter struct {
	convert.Request
	ids, tools *convert.Names
	out        []ChatMessage
}

func (c *chatConverter) add(m ChatMessage) { c.out = append(c.out, m) }

func (c *chatConverter) message(m *llm.Message) {
	switch m.Role {
	case llm.System:
		c.system(c.Cut(m.PlainText()))
	case llm.User, llm.Summary:
		c.user(m)
	case llm.Assistant:
		c.assistant(m)
	case llm.Tool:
		for i := range m.ToolReturns {
			t := &m.ToolReturns[i]
			c.add(ChatMessage{Role: "tool", Content: c.Outcome(t), ToolCallID: c.ids.Of(t.ToolCallID)})
		}
	}
}

func (c *chatConverter) system(text string) {
	switch {
	case convert.Blank(text):
	case reasons(c.Model):
		c.add(ChatMessage{Role: "developer", Content: text})
	default:
		c.add(ChatMessage{Role: "system", Content: text})
	}
}

func (c *chatConverter) user(m *llm.Message) {
	u := ChatMessage{Role: "user"}
	if validParticipant(m.Name) {
		u.Name = m.Name
	}
	if convert.CountImages(m.Content) == 0 {
		text := m.PlainText()
		if text == "" {
			return
		}
		u.Content = c.Cut(text)
		c.add(u)
		return
	}
	var parts []ChatPart
	for _, p := range m.Content {
		switch p := p.(type) {
		case *llm.Text:
			if p.Text != "" {
				parts = append(parts, ChatPart{Type: "text", Text: c.Cut(p.Text)})
			}
		case *llm.Image:
			if url := imageURL(p.Source); url != "" {
				parts = append(parts, ChatPart{Type: "image_url", ImageURL: &ImageURL{URL: url, Detail: detail(p.Source.Detail)}})
			} else {
				parts = append(parts, ChatPart{Type: "text", Text: llm.MissingImage(p.Source)})
			}
		}
	}
	u.Content = parts
	c.add(u)
}

// imageURL returns the URL of an image, or a data URL with its data. It returns "" for
// an image that OpenAI does not accept.
func imageURL(s llm.ImageSource) string {
	url, mediaType, data, ok := convert.Picture(s, convert.WebTypes)
	if ok && url == "" {
		url = "data:" + mediaType + ";base64," + data
	}
	if !ok {
		return ""
	}
	return url
}

// detail returns a detail value that OpenAI accepts.
func detail(s string) string {
	switch s {
	case "low", "high":
		return s
	}
	return "auto"
}

func (c *chatConverter) assistant(m *llm.Message) {
	a := ChatMessage{Role: "assistant"}
	switch text := m.PlainText(); {
	case text != "":
		a.Content = c.Cut(text)
	case len(m.ToolCalls) == 0:
		return // it contains only reasoning
	case strings.Contains(c.Model, "gpt-oss"):
		a.Content = "" // gpt-oss does not accept a message without content
	}
	if validParticipant(m.Name) {
		a.Name = m.Name
	}
	for _, call := range m.ToolCalls {
		a.ToolCalls = append(a.ToolCalls, ChatCall{
			ID: c.ids.Of(call.ID), Type: "function",
			Function: CalledFunction{Name: c.tools.Of(call.Name), Arguments: string(llm.Object(call.Arguments))},
		})
	}
	if c.SameModel(m) {
		a.reason(m)
	}
	c.add(a)
}

// reason sets the reasoning fields that some servers return and accept. A signature
// belongs to one text; it is omitted when several texts are joined.
func (a *ChatMessage) reason(m *llm.Message) {
	var texts, signatures, redacted []string
	for _, p := range m.Content {
		switch p := p.(type) {
		case *llm.Reasoning:
			texts = append(texts, p.Text)
			if p.Signature != "" {
				signatures = append(signatures, p.Signature)
			}
		case *llm.RedactedReasoning:
			redacted = append(redacted, p.Data)
		}
	}
	if len(texts) > 0 {
		text := strings.Join(texts, "\n\n")
		a.ReasoningContent = &text
		if len(signatures) == 1 && len(texts) == 1 {
			a.ReasoningSignature = signatures[0]
		}
	}
	if len(redacted) == 1 {
		a.RedactedReasoning = redacted[0]
	}
}
