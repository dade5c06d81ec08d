package llm

import (
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// UserBody converts the content of a user message to an event body. The body's text has
// all texts, because many readers use only the text. If there are other parts or several
// texts, the body's content has all parts in order.
func UserBody(content Parts, sender string) chat.UserMessage {
	b := chat.UserMessage{UserID: sender}
	var texts []string
	for _, p := range content {
		switch p := p.(type) {
		case *Text:
			if p.Text != "" {
				texts = append(texts, p.Text)
				b.Content = append(b.Content, chat.Part{Type: "text", Text: p.Text})
			}
		case *Image:
			b.Content = append(b.Content, chatImage(p.Source))
		}
	}
	b.Text = strings.Join(texts, "\n")
	if len(texts) == 1 && b.Content[0].Type == "text" {
		b.Content = b.Content[1:] // the text field contains it
	}
	if len(b.Content) == 0 {
		b.Content = nil
	}
	return b
}

func chatImage(s ImageSource) chat.Part {
	p := chat.Part{Type: "image", MediaType: s.MediaType, Detail: s.Detail}
	switch {
	case s.Type == SourceURL:
		p.URL = s.URL
	case s.Data != "":
		p.URL = dataURL(s)
	default:
		p.Path = s.FileID
	}
	return p
}

func dataURL(s ImageSource) string {
	mediaType := s.MediaType
	if mediaType == "" {
		mediaType = "image/jpeg"
	}
	return "data:" + mediaType + ";base64," + s.Data
}

// AnswerBodies converts a model's answer to event bodies: its content, then its calls.
// A Fold of them returns an equivalent message.
func AnswerBodies(m *Message) (bodies []chat.Body) {
	add := func(b chat.Body) { bodies = append(bodies, b) }
	for _, p := range m.Content {
		switch p := p.(type) {
		case *Text:
			if p.Text != "" || p.Signature != "" {
				add(chat.AgentText{Text: p.Text, Signature: p.Signature})
			}
		case *Reasoning:
			if p.Text != "" || p.Signature != "" {
				add(chat.AgentThinking{Text: p.Text, Signature: p.Signature})
			}
		case *RedactedReasoning:
			if strings.HasPrefix(p.Data, "{") {
				add(opaque("", p))
			} else if p.Data != "" {
				add(chat.AgentThinking{Redacted: p.Data})
			}
		case *SummarizedReasoning:
			add(opaque(p.PlainText(), p))
		case *OmittedReasoning, *CallPart:
			add(opaque("", p))
		}
	}
	for _, c := range m.ToolCalls {
		add(chat.AgentToolCall{CallID: c.ID, Tool: c.Name, Params: params(c.Arguments)})
	}
	return bodies
}

// opaque stores a part that has no event type of its own. Readers see its text; a Fold
// restores the part.
func opaque(text string, p Part) chat.AgentThinking {
	return chat.AgentThinking{Text: text, Redacted: string(appendPart(nil, p))}
}

// params returns a call's arguments as JSON. Malformed arguments are wrapped as in
// Object; the agent recognises the wrapper and does not run the tool.
func params(arguments string) json.RawMessage {
	if strings.TrimSpace(arguments) == "" {
		return json.RawMessage("{}")
	}
	if json.Valid([]byte(arguments)) {
		return json.RawMessage(arguments)
	}
	return unread(arguments)
}
