package nemo

import (
	"bytes"
	"cmp"
	"maps"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/wire"
)

// refusal is the reason why a frame is refused, with the protocol's code for it.
type refusal struct {
	code string
	err  *chat.Error
}

func (r *refusal) Error() string { return r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

func refuse(code, format string, args ...any) error {
	return &refusal{code, chat.Errorf(chat.Invalid, format, args...)}
}

// decodedMessage is a user message of a client.
type decodedMessage struct {
	ID      string // the client's id of it; "default" when it has none
	Schema  string
	Thread  string
	Version string
	User    userInfo

	Last    message   // the user message to store
	History []message // the messages before it, for a new session
	System  string    // the system messages

	Extra map[string]json.RawMessage // the client's own top-level keys
	Trace string                     // traceparent
}

// key is the idempotency key of the message, "" for the protocol's placeholder.
func (m *decodedMessage) key() string {
	if m.ID == placeholder || len(m.ID) > chat.MaxClientID {
		return ""
	}
	return m.ID
}

// decodeFrame decodes one frame. With an error the frame holds what could be decoded, so that the error can name it.
func decodeFrame(b []byte) (clientFrame, error) {
	var f clientFrame
	b = bytes.TrimSpace(b)
	if err := wire.CheckJSON(b, 0); err != nil {
		f.decodeNames(b)
		return f, refuse(codeMessage, "the frame cannot be read: %v", err)
	}
	if len(b) == 0 || b[0] != '{' {
		return f, refuse(codeMessage, "a frame is one JSON object such as {\"type\":\"user_message\", …}")
	}
	if err := json.Unmarshal(b, &f); err != nil {
		f.decodeNames(b)
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
		return f, refuse(codeMessageType, "%q is not a type of message here: send user_message, user_interaction_message or auth_message", text.Clip(f.Type, 60))
	}
	return f, nil
}

// decodeNames decodes the type and the ids of a frame whose other fields do not fit.
func (f *clientFrame) decodeNames(b []byte) {
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

// conversation is the client's name of the conversation, "" when the frame has none.
func (f *clientFrame) conversation() string {
	for _, s := range []string{f.Conversation, f.Thread} {
		if s = strings.TrimSpace(s); s != "" && s != placeholder {
			return s
		}
	}
	return ""
}

// name is the client's id of the frame.
func (f *clientFrame) name() string { return cmp.Or(f.ID, placeholder) }

// decodeUser decodes a user message; raw is the whole frame.
func decodeUser(f *clientFrame, raw []byte) (*decodedMessage, error) {
	switch f.SchemaType {
	case schemaChat, schemaChatStream, schemaGenerate, schemaGenerateStream:
	case "":
		return nil, refuse(codeMessage, "the message has no schema_type: use chat_stream, chat, generate_stream or generate")
	default:
		return nil, refuse(codeMessage, "schema_type %q is not one of chat_stream, chat, generate_stream, generate", text.Clip(f.SchemaType, 60))
	}
	m := &decodedMessage{ID: f.name(), Schema: f.SchemaType, Version: f.SchemaVersion, Thread: f.Thread, Extra: extraKeys(raw)}
	list, err := decodeContent(f.Content)
	if err == nil {
		err = m.take(list, strings.HasPrefix(m.Schema, schemaGenerate))
	}
	if err == nil {
		m.User, err = decodeUserInfo(f.User)
	}
	return m, err
}

// decodeContent decodes the content of a message: {"messages": […]}, or from old clients a text, a list of parts or
// {"text": …}.
func decodeContent(raw json.RawMessage) ([]message, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, refuse(codeContent, "the message has no content: send {\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"…\"}]}]}")
	}
	var c struct {
		Messages []message `json:"messages"`
		Text     string    `json:"text"`
	}
	var p parts
	var err error
	if raw[0] == '"' || raw[0] == '[' {
		err = json.Unmarshal(raw, &p)
	} else {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		return nil, refuse(codeContent, "the content cannot be read: %s", chat.JSONProblem(err))
	}
	if raw[0] == '"' && p[0].Text == "" {
		p = nil
	}
	if c.Text != "" {
		p = parts{{Type: "text", Text: c.Text}}
	}
	if len(c.Messages) == 0 && (p != nil || raw[0] == '[') {
		c.Messages = []message{{Role: "user", Content: p}}
	}
	if len(c.Messages) == 0 {
		return nil, refuse(codeContent, `the content has no messages: send {"messages":[{"role":"user","content":[{"type":"text","text":"…"}]}]}`)
	}
	return c.Messages, nil
}

// take picks the user message to store from a chat history: the last one. Workflows of the generate kind take the last
// one with a text.
func (m *decodedMessage) take(list []message, needText bool) error {
	last := -1
	for i, one := range list {
		switch one.Role {
		case "user":
			if len(one.Content) > 0 && (!needText || one.Content.text() != "") {
				last = i
			}
		case "assistant", "system", "developer", "tool", "function":
		default:
			return refuse(codeContent, "role %q is not one of user, assistant, system, tool", text.Clip(one.Role, 60))
		}
	}
	if last < 0 {
		if needText {
			return refuse(codeContent, "No user text content found in messages.")
		}
		return refuse(codeContent, `no message has the role user and a content: send {"messages":[{"role":"user","content":"…"}]}`)
	}
	m.Last = list[last]
	for _, one := range list[:last] {
		switch one.Role {
		case "system", "developer":
			if t := one.Content.text(); t != "" {
				m.System = strings.TrimPrefix(m.System+"\n\n"+t, "\n\n")
			}
		case "user", "assistant":
			if len(one.Content) > 0 {
				m.History = append(m.History, one)
			}
		}
	}
	return nil
}

// unpackQuery replaces a text that is a JSON object with a query by the query, as the AI-Q UI sends it. The other keys
// of the object are kept as context.
func (m *decodedMessage) unpackQuery() {
	if len(m.Last.Content) != 1 || !m.Last.Content[0].isText() {
		return
	}
	var all map[string]json.RawMessage
	if json.Unmarshal([]byte(m.Last.Content[0].Text), &all) != nil {
		return
	}
	var query string
	if json.Unmarshal(all["query"], &query) != nil || query == "" {
		return
	}
	delete(all, "query")
	m.Last.Content = parts{{Type: "text", Text: query}}
	maps.Copy(all, m.Extra)
	m.Extra = all
}

// text is the text of the parts, one line each.
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

// maxContext bounds the client's own top-level keys of a message.
const maxContext = 64 << 10

// extraKeys are the client's own top-level keys, unless they are too large together.
func extraKeys(raw []byte) map[string]json.RawMessage {
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

// decodeAnswer decodes the answer to a prompt: the first text of the last user message, which may be empty.
func decodeAnswer(raw json.RawMessage) (string, error) {
	list, err := decodeContent(raw)
	if err != nil {
		return "", err
	}
	for i := len(list) - 1; i >= 0; i-- {
		m := list[i]
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

// decodeAuth decodes the token of an auth_message.
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
		return p.Password, nil // a token of this server as the password
	}
	return "", refuse(codeAuth, "method %q is not one of jwt, api_key, basic", text.Clip(p.Method, 40))
}

// userInfo is the user of a frame. It is for display; the identity comes from the credential.
type userInfo struct {
	name, email string
	info        chat.Info
}

// apply returns the caller with the name, email and info of the user.
func (u userInfo) apply(c chat.Caller) chat.Caller {
	c.Actor.Name, c.Actor.Email, c.Actor.Info = cmp.Or(u.name, c.Actor.Name), cmp.Or(u.email, c.Actor.Email), cmp.Or(u.info, c.Actor.Info)
	return c
}

// decodeUserInfo decodes the user of a frame. The protocol's placeholders, and anything but an object, are ignored.
func decodeUserInfo(raw json.RawMessage) (u userInfo, err error) {
	var all map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &all) != nil {
		return u, nil
	}
	u.name, u.email = userField(all["name"]), userField(all["email"])
	delete(all, "name")
	delete(all, "email")
	if u.info, err = chat.ReadInfo(appendJSON(nil, all)); err != nil {
		return u, refuse(codeMessage, "the user has too much information: beside name and email there is room for %d bytes", chat.MaxActorInfo)
	}
	return u, nil
}

func userField(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil || s == placeholder || s == "string" {
		return ""
	}
	return cutBytes(strings.ReplaceAll(s, "\x00", ""), chat.MaxActorField)
}

// cutBytes cuts a text to at most max bytes without splitting a character.
func cutBytes(s string, max int) string {
	return strings.ToValidUTF8(s[:min(max, len(s))], "")
}
