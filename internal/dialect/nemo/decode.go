package nemo

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// refusal is why a frame was not taken, with the protocol's code for it.
type refusal struct {
	code string
	err  *chat.Error
}

func (r *refusal) Error() string { return r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

func refuse(code, format string, args ...any) error {
	return &refusal{code, chat.Errorf(chat.Invalid, format, args...)}
}

// decodedMessage is what a client said to a conversation, understood.
type decodedMessage struct {
	ID      string // the client's name for it; "default" when it gave none
	Schema  string
	Thread  string
	Version string
	User    userInfo

	Last    message   // the user message that becomes a fact
	History []message // what came before it, for a new session
	System  string    // what the client tells the agent to be

	Extra map[string]json.RawMessage // the page's own top-level keys
	Trace string                     // traceparent
}

// key is the idempotency key of what was said. The protocol's placeholder is none.
func (s *decodedMessage) key() string {
	if s.ID == placeholder || len(s.ID) > chat.MaxClientID {
		return ""
	}
	return s.ID
}

// decodeFrame reads one frame. On an error the frame holds what could be read
// of it, so that the answer can name it.
func decodeFrame(b []byte) (clientFrame, error) {
	var f clientFrame
	b = bytes.TrimSpace(b)
	if err := wire.CheckJSON(b, 0); err != nil {
		f.names(b)
		return f, refuse(codeMessage, "the frame cannot be read: %v", err)
	}
	if len(b) == 0 || b[0] != '{' {
		return f, refuse(codeMessage, "a frame is one JSON object such as {\"type\":\"user_message\", …}")
	}
	if err := json.Unmarshal(b, &f); err != nil {
		f.names(b)
		return f, refuse(codeMessage, "the frame does not fit: %s", chat.JSONProblem(err))
	}
	switch {
	case f.Type == "":
		return f, refuse(codeMessageType, "the frame has no type: send user_message, user_interaction_message or auth_message")
	case f.Type == typeUser, f.Type == typeAuth:
	case answerTypes[f.Type]:
		f.Type = typeAnswer
	case serverTypes[f.Type]:
		return f, refuse(codeMessageType, "%s is sent by the server only", f.Type)
	default:
		return f, refuse(codeMessageType, "%q is not a type of message here: send user_message, user_interaction_message or auth_message", clip(f.Type, 60))
	}
	return f, nil
}

// names reads what a frame is and belongs to, where the rest of it cannot be read.
func (f *clientFrame) names(b []byte) {
	var names struct {
		Type         any `json:"type"`
		ID           any `json:"id"`
		Conversation any `json:"conversation_id"`
		Thread       any `json:"thread_id"`
	}
	if json.Unmarshal(b, &names) != nil {
		return
	}
	f.Type, _ = names.Type.(string)
	f.ID, _ = names.ID.(string)
	f.Conversation, _ = names.Conversation.(string)
	f.Thread, _ = names.Thread.(string)
}

// conversation is the client's name for the conversation, "" when it gave none.
func (f *clientFrame) conversation() string {
	for _, s := range []string{f.Conversation, f.Thread} {
		if s = strings.TrimSpace(s); s != "" && s != placeholder {
			return s
		}
	}
	return ""
}

// decodeUser reads a user message; raw is the whole frame.
func decodeUser(f *clientFrame, raw []byte) (*decodedMessage, error) {
	switch f.SchemaType {
	case schemaChat, schemaChatStream, schemaGenerate, schemaGenerateStream:
	case "":
		return nil, refuse(codeMessage, "the message has no schema_type: use chat_stream, chat, generate_stream or generate")
	default:
		return nil, refuse(codeMessage, "schema_type %q is not one of chat_stream, chat, generate_stream, generate", clip(f.SchemaType, 60))
	}
	s := &decodedMessage{ID: f.name(), Schema: f.SchemaType, Version: f.SchemaVersion, Thread: f.Thread}
	c, err := decodeContent(f.Content)
	if err != nil {
		return nil, err
	}
	if err := s.take(c.Messages, strings.HasPrefix(s.Schema, schemaGenerate)); err != nil {
		return nil, err
	}
	if s.User, err = decodeUserInfo(f.User); err != nil {
		return nil, err
	}
	s.Extra = extras(raw)
	return s, nil
}

// name is the client's id of the frame.
func (f *clientFrame) name() string {
	if f.ID == "" {
		return placeholder
	}
	return f.ID
}

// decodeContent reads the content of a message: {"messages": […]}, or in old
// clients a plain text or {"text": …}.
func decodeContent(raw json.RawMessage) (content, error) {
	var c content
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return c, refuse(codeContent, "the message has no content: send {\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"…\"}]}]}")
	}
	switch raw[0] {
	case '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return c, refuse(codeContent, "the content cannot be read: %s", chat.JSONProblem(err))
		}
		c.Text = s
	case '[':
		var p parts
		if err := json.Unmarshal(raw, &p); err != nil {
			return c, refuse(codeContent, "the content cannot be read: %s", chat.JSONProblem(err))
		}
		c.Messages = []message{{Role: "user", Content: p}}
	default:
		if err := json.Unmarshal(raw, &c); err != nil {
			return c, refuse(codeContent, "the content cannot be read: %s", chat.JSONProblem(err))
		}
	}
	if len(c.Messages) == 0 && c.Text != "" {
		c.Messages = []message{{Role: "user", Content: parts{{Type: "text", Text: c.Text}}}}
	}
	if len(c.Messages) == 0 {
		return c, refuse(codeContent, "the content has no messages")
	}
	return c, nil
}

// take picks the user message that is said now out of a chat history. Workflows
// of the generate kind take the newest that has a text.
func (s *decodedMessage) take(list []message, needText bool) error {
	last := -1
	for i, m := range list {
		switch m.Role {
		case "user":
			if len(m.Content) > 0 && (!needText || m.Content.text() != "") {
				last = i
			}
		case "assistant", "system", "developer", "tool", "function":
		default:
			return refuse(codeContent, "role %q is not one of user, assistant, system, tool", clip(m.Role, 60))
		}
	}
	if last < 0 {
		if needText {
			return refuse(codeContent, "No user text content found in messages.")
		}
		return refuse(codeContent, "there is no user message in messages")
	}
	s.Last = list[last]
	for _, m := range list[:last] {
		switch m.Role {
		case "system", "developer":
			if t := m.Content.text(); t != "" {
				s.System = strings.TrimPrefix(s.System+"\n\n"+t, "\n\n")
			}
		case "user", "assistant":
			if len(m.Content) > 0 {
				s.History = append(s.History, m)
			}
		}
	}
	return nil
}

// unpack takes the query out of a message whose text is a JSON object with one,
// as the AI-Q UI sends it; what else is in there is kept as context. Any other
// text is left as it is.
func (s *decodedMessage) unpack() {
	if len(s.Last.Content) != 1 || !s.Last.Content[0].isText() {
		return
	}
	var all map[string]json.RawMessage
	if json.Unmarshal([]byte(s.Last.Content[0].Text), &all) != nil {
		return
	}
	var query string
	if json.Unmarshal(all["query"], &query) != nil || query == "" {
		return
	}
	delete(all, "query")
	s.Last.Content = parts{{Type: "text", Text: query}}
	if s.Extra == nil {
		s.Extra = map[string]json.RawMessage{}
	}
	for k, v := range all {
		if _, ok := s.Extra[k]; !ok {
			s.Extra[k] = v
		}
	}
}

// text is the text of the parts, lines apart.
func (p parts) text() string {
	var texts []string
	for _, one := range p {
		if one.isText() && one.Text != "" {
			texts = append(texts, one.Text)
		}
	}
	return strings.Join(texts, "\n")
}

func (p *part) isText() bool {
	return p.Type == "text" || p.Type == "input_text" || p.Type == "output_text"
}

// extras are the page's own top-level keys, as far as they are small.
func extras(raw []byte) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	size := 0
	for k, v := range all {
		if isReserved(k) {
			delete(all, k)
			continue
		}
		size += len(k) + len(v)
	}
	if size > maxContext {
		return nil
	}
	return all
}

// maxContext bounds what a page can tell beside a message.
const maxContext = 64 << 10

// decodeAnswer reads the text that answers a prompt: the first of the last user
// message. An empty text is an answer too.
func decodeAnswer(raw json.RawMessage) (string, error) {
	c, err := decodeContent(raw)
	if err != nil {
		return "", err
	}
	for i := len(c.Messages) - 1; i >= 0; i-- {
		m := c.Messages[i]
		if m.Role != "user" {
			continue
		}
		for _, p := range m.Content {
			if p.isText() {
				return p.Text, nil
			}
		}
		if len(m.Content) > 0 {
			return "", refuse(codeData, "an answer is a text")
		}
		return "", nil
	}
	return "", refuse(codeContent, "the answer has no user message")
}

// decodeAuth reads the token of an auth_message.
func decodeAuth(raw json.RawMessage) (string, error) {
	var p authPayload
	if err := json.Unmarshal(raw, &p); err != nil || len(raw) == 0 || raw[0] != '{' {
		return "", refuse(codeAuth, "auth_message needs a payload {\"method\":\"jwt\" or \"api_key\", \"token\":\"…\"}")
	}
	switch p.Method {
	case "jwt", "api_key", "bearer":
		if p.Token == "" {
			return "", refuse(codeAuth, "the payload has no token")
		}
		return p.Token, nil
	case "basic":
		if p.Password == "" {
			return "", refuse(codeAuth, "the payload has no password")
		}
		return p.Password, nil // a token of this server in the place of the password
	}
	return "", refuse(codeAuth, "method %q is not one of jwt, api_key, basic", clip(p.Method, 40))
}

func clip(s string, most int) string {
	if len(s) > most {
		return cutBytes(s, most) + "…"
	}
	return s
}

// cutBytes cuts a text to so many bytes without splitting a character.
func cutBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
