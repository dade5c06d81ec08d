package agui

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/aguiwire"
	"github.com/parley-hq/parley/internal/attachment"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// Limits of a request. A page sends its whole conversation each time, so there may be many messages.
const (
	maxMessages = 20_000
	maxParts    = 100
	maxTools    = 256
	maxResume   = 1000
	maxID       = 1024 // bytes of an id, as session.MaxForeign
	maxState    = 256 << 10
)

// decodeInput reads the body of a run.
func decodeInput(b []byte) (*input, error) {
	var in input
	if err := edge.Decode(b, &in); err != nil {
		return nil, err
	}
	in.ThreadID, in.RunID = cmp.Or(in.ThreadID, in.PythonThread), cmp.Or(in.RunID, in.PythonRun)
	return &in, in.check()
}

func (in *input) check() error {
	switch {
	case in.ThreadID == "":
		return chat.Errorf(chat.Invalid, "threadId is missing")
	case len(in.ThreadID) > maxID || len(in.RunID) > maxID:
		return chat.Errorf(chat.Invalid, "threadId and runId have at most %d bytes", maxID)
	case len(in.Messages) > maxMessages:
		return chat.Errorf(chat.TooLarge, "a request has at most %d messages; only the newest one is read", maxMessages)
	case len(in.Tools) > maxTools:
		return chat.Errorf(chat.TooLarge, "a request has at most %d tools", maxTools)
	case len(in.Resume) > maxResume:
		return chat.Errorf(chat.TooLarge, "a request has at most %d resume entries", maxResume)
	case len(in.State) > maxState || len(in.Props) > maxState:
		return chat.Errorf(chat.TooLarge, "state and forwardedProps have at most %d KiB each", maxState>>10)
	}
	if in.Version != "" && in.Version != "1" && !strings.HasPrefix(in.Version, "1.") {
		return chat.Errorf(chat.Invalid, "protocolVersion %q is not supported: this server speaks 1.0 and, without the field, 0.0.x", text.Clip(in.Version, 40))
	}
	for i := range in.Messages {
		if string(in.Messages[i].Content) == "null" { // clients refuse it when it comes back
			in.Messages[i].Content = nil
		}
	}
	for i := range in.Resume {
		e := &in.Resume[i]
		if e.Status != "resolved" && e.Status != "cancelled" {
			return chat.Errorf(chat.Invalid, "resume[%d]: status is resolved or cancelled", i)
		}
		if string(e.Payload) == "null" {
			e.Payload = nil
		}
	}
	return nil
}

// variantOf is the variant of answers to a request.
func variantOf(r *http.Request, version string) variant {
	tanstack := r.Header.Get("X-Run-Id") != "" || r.URL.Query().Get("offset") != ""
	return variant{v1: version != "", tanstack: tanstack, plain: !tanstack && !strings.HasPrefix(r.URL.Path, runtime)}
}

// news returns what a request adds to the conversation: the newest user message if it is the last message of a person, and the
// results of tools after the last message of the assistant.
func (in *input) news() (user *message, results map[string]message) {
	for i := len(in.Messages) - 1; i >= 0; i-- {
		m := &in.Messages[i]
		switch m.Role {
		case "user":
			return m, results
		case "tool":
			if results == nil {
				results = map[string]message{}
			}
			if _, newer := results[m.CallID]; !newer {
				results[m.CallID] = *m
			}
		case "assistant":
			if len(results) > 0 {
				return nil, results // the results of its calls
			}
			return nil, nil
		}
	}
	return nil, results
}

// afterUser returns how many messages the page has up to its newest user message, and whether it has more than those.
func (in *input) afterUser() (n int, more bool) {
	for i := len(in.Messages) - 1; i >= 0; i-- {
		if in.Messages[i].Role == "user" {
			return i + 1, i+1 < len(in.Messages)
		}
	}
	return 0, false
}

// clientID is the idempotency key of a message. Ids that are too long are hashed; the id itself is stored with the message.
func clientID(id string) string {
	if len(id) <= chat.MaxClientID && utf8.ValidString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "agui-" + hex.EncodeToString(sum[:])
}

// messageContext is the context of a user message.
func (in *input) messageContext(m *message) (json.RawMessage, error) {
	own := stored{Run: in.RunID}
	if id := clientID(m.ID); id != m.ID {
		own.MessageID = m.ID
	}
	if s := strings.TrimSpace(string(in.State)); s != "" && s != "null" && s != "{}" {
		own.State = in.State
	}
	if s := strings.TrimSpace(string(in.Props)); s != "" && s != "null" && s != "{}" {
		own.Props = in.Props
	}
	var tools []chat.ClientTool
	for _, t := range in.Tools {
		if t.Name == "" {
			return nil, chat.Errorf(chat.Invalid, "tools: a tool needs a name")
		}
		tools = append(tools, chat.ClientTool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return json.Marshal(struct {
		Own    stored            `json:"agui"`
		Tools  []chat.ClientTool `json:"client_tools,omitempty"`
		System string            `json:"system,omitempty"`
	}{own, tools, in.system()})
}

// system is what the page adds to the agent's instructions: its context, and messages of the roles system and developer.
func (in *input) system() string {
	var b strings.Builder
	add := func(s string) {
		if s = strings.TrimSpace(s); s != "" {
			if b.Len() > 0 {
				b.WriteString("\n\n")
			}
			b.WriteString(s)
		}
	}
	for _, m := range in.Messages {
		if m.Role == "system" || m.Role == "developer" {
			add(contentText(m.Content))
		}
	}
	for _, c := range in.Context {
		add(strings.TrimPrefix(c.Description+": "+c.Value, ": "))
	}
	return b.String()
}

// contentText is the text of a content: a text, or the texts of its parts.
func contentText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []part
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	var out []string
	for _, p := range parts {
		if p.Type == "text" && p.Text != "" {
			out = append(out, p.Text)
		}
	}
	return strings.Join(out, "\n")
}

// userBody reads the content of a user message.
func userBody(m *message) (body chat.UserMessage, err error) {
	if json.Unmarshal(m.Content, &body.Text) == nil {
		if strings.TrimSpace(body.Text) == "" {
			return body, chat.Errorf(chat.Invalid, "the message is empty")
		}
		return body, nil
	}
	var parts []part
	if err := json.Unmarshal(m.Content, &parts); err != nil {
		return body, chat.Errorf(chat.Invalid, "the content of a user message is a text or a list of parts").Because(err)
	}
	if len(parts) > maxParts {
		return body, chat.Errorf(chat.TooLarge, "a message has at most %d parts", maxParts)
	}
	for i, p := range parts {
		one, err := userPart(&p)
		if err != nil {
			return body, chat.Errorf(chat.Invalid, "content[%d]: %s", i, chat.Public(err).Msg).Because(err)
		}
		if one.Type != "text" || one.Text != "" {
			body.Content = append(body.Content, one)
		}
	}
	if len(body.Content) == 0 {
		return body, chat.Errorf(chat.Invalid, "the message is empty")
	}
	if len(body.Content) == 1 && body.Content[0].Type == "text" {
		body.Text, body.Content = body.Content[0].Text, nil
	}
	return body, nil
}

// userPart reads a part of a message.
func userPart(p *part) (out chat.Part, err error) {
	source := p.Source
	out.Type, out.Name = p.Type, p.Name
	switch p.Type {
	case "text":
		return chat.Part{Type: "text", Text: p.Text}, nil
	case "image", "audio", "video":
	case "document":
		out.Type = "file"
	case "binary":
		out.Type = "" // that of the media type
		source = &aguiwire.Source{Type: "url", Value: p.URL, MediaType: p.MediaType}
		if p.Data != "" {
			source.Type, source.Value = "data", p.Data
		}
	default:
		return out, chat.Errorf(chat.Invalid, "type %q is not one of text, image, audio, video, document", text.Clip(p.Type, 40))
	}
	if source == nil || source.Value == "" {
		return out, chat.Errorf(chat.Invalid, "a part of type %s needs a source", p.Type)
	}
	out.MediaType = source.MediaType
	switch source.Type {
	case "url":
		return attachment.Part(out, source.Value)
	case "data":
		return attachment.Data(out, source.Value)
	}
	return out, chat.Errorf(chat.Invalid, "a source of type %q is not offered: send the data or an address", text.Clip(source.Type, 40))
}
