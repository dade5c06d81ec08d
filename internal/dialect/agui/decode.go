package agui

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

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
	maxID       = 1024 // bytes of an id, as in package session
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

// roles are those of messages.
var roles = []string{"user", "assistant", "tool", "system", "developer", "reasoning", "activity"}

func (in *input) check() error {
	switch {
	case in.ThreadID == "":
		return chat.Errorf(chat.Invalid, "threadId is missing")
	case in.ThreadID == "." || in.ThreadID == ".." || in.ThreadID == "/": // no path can have them
		return chat.Errorf(chat.Invalid, "threadId cannot be %q", in.ThreadID)
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
	if n := len(in.Messages); n > 0 && !slices.Contains(roles, in.Messages[n-1].Role) {
		return chat.Errorf(chat.Invalid, "the last message has the role %q, which is not one of %s", text.Clip(in.Messages[n-1].Role, 40), strings.Join(roles, ", "))
	}
	for i := range in.Messages {
		in.Messages[i].Content = json.NotNull(in.Messages[i].Content) // clients refuse null when it comes back
	}
	for _, t := range in.Tools {
		if t.Name == "" {
			return chat.Errorf(chat.Invalid, "tools: a tool needs a name")
		}
	}
	for i := range in.Resume {
		e := &in.Resume[i]
		if e.Status != "resolved" && e.Status != "cancelled" {
			return chat.Errorf(chat.Invalid, "resume[%d]: status is resolved or cancelled", i)
		}
		e.Payload = json.NotNull(e.Payload)
	}
	return nil
}

// callsOf returns how many agents have called one another to answer the message of a request.
func callsOf(r *http.Request) (int, error) {
	v := r.Header.Get(aguiwire.CallsHeader)
	if v == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(v)
	switch {
	case err != nil || n < 0:
		return 0, chat.Errorf(chat.Invalid, "%s is a number, not %q", aguiwire.CallsHeader, text.Clip(v, 40))
	case n > aguiwire.MaxCalls:
		return 0, chat.Errorf(chat.Invalid, "more than %d agents have called one another to answer this message, so they probably call one another in a circle", aguiwire.MaxCalls)
	}
	return n, nil
}

// variantOf is the variant of answers to a request.
func variantOf(r *http.Request, version string) variant {
	tanstack := r.Header.Get("X-Run-Id") != "" || r.URL.Query().Get("offset") != ""
	return variant{v1: version != "", tanstack: tanstack, plain: !tanstack && !strings.HasPrefix(r.URL.Path, runtime)}
}

// additions returns what a request adds to the conversation: the newest user message if it is the last message of a person, and the
// results of tools after the last message of the assistant.
func (in *input) additions() (user *message, results map[string]message) {
	results = map[string]message{}
	for i := len(in.Messages) - 1; i >= 0; i-- {
		m := &in.Messages[i]
		switch m.Role {
		case "user":
			return m, results
		case "tool":
			if _, newer := results[m.CallID]; !newer {
				results[m.CallID] = *m
			}
		case "assistant":
			return nil, results
		}
	}
	return nil, results
}

// upToUser returns the messages of the page up to its newest user message.
func (in *input) upToUser() []message {
	for i := len(in.Messages); i > 0; i-- {
		if in.Messages[i-1].Role == "user" {
			return in.Messages[:i]
		}
	}
	return nil
}

// messageContext is the context of a user message.
func (in *input) messageContext() (json.RawMessage, error) {
	return json.Marshal(struct {
		Own    stored            `json:"agui"`
		Tools  []chat.ClientTool `json:"client_tools,omitempty"`
		System string            `json:"system,omitempty"`
	}{stored{Run: in.RunID, State: notEmpty(in.State), Props: notEmpty(in.Props), Calls: in.Calls}, in.Tools, in.system()})
}

// notEmpty is a value, nil when it is null or an empty object.
func notEmpty(raw json.RawMessage) json.RawMessage {
	if string(raw) == "{}" {
		return nil
	}
	return json.NotNull(raw)
}

// system is what the page adds to the agent's instructions: messages of the roles system and developer, and its context.
func (in *input) system() string {
	var texts []string
	for _, m := range in.Messages {
		if m.Role == "system" || m.Role == "developer" {
			texts = append(texts, strings.TrimSpace(aguiwire.Text(m.Content)))
		}
	}
	for _, c := range in.Context {
		texts = append(texts, strings.TrimSpace(strings.TrimPrefix(c.Description+": "+c.Value, ": ")))
	}
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "\n\n")
}

// userBody reads the content of a user message: a text, or a list of parts.
func userBody(m *message) (body chat.UserMessage, err error) {
	var parts []part
	if json.Unmarshal(m.Content, &body.Text) != nil && json.Unmarshal(m.Content, &parts) != nil {
		return body, chat.Errorf(chat.Invalid, "the content of a user message is a text or a list of parts")
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
	if len(body.Content) == 1 && body.Content[0].Type == "text" {
		body.Text, body.Content = body.Content[0].Text, nil
	}
	if len(body.Content) == 0 && strings.TrimSpace(body.Text) == "" {
		err = chat.Errorf(chat.Invalid, "the message is empty")
	}
	return body, err
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
