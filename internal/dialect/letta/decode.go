package letta

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/wire"
)

// sendBody is a request to send messages; all fields are optional except exactly
// one of messages and input.
type sendBody struct {
	Messages          []json.RawMessage `json:"messages"`
	Input             json.RawMessage   `json:"input"`
	AgentID           string            `json:"agent_id"`
	MaxSteps          *int              `json:"max_steps"`
	Streaming         *bool             `json:"streaming"`
	StreamTokens      bool              `json:"stream_tokens"`
	IncludePings      *bool             `json:"include_pings"`
	Background        bool              `json:"background"`
	ReturnTypes       []string          `json:"include_return_message_types"`
	ClientTools       json.RawMessage   `json:"client_tools"`
	ClientSkills      json.RawMessage   `json:"client_skills"`
	OverrideModel     string            `json:"override_model"`
	OverrideSystem    string            `json:"override_system"`
	System            string            `json:"system"`
	CompactionWanted  bool              `json:"include_compaction_messages"`
	CallbackURL       string            `json:"callback_url"`
	UseAssistant      *bool             `json:"use_assistant_message"`
	AssistantTool     string            `json:"assistant_message_tool_name"`
	AssistantArgument string            `json:"assistant_message_tool_kwarg"`
}

// ask is a request to send messages, understood.
type ask struct {
	messages []input
	approval *approval // the first message, when it answers an approval request
	options  options   // what is kept with the message
	tools    []chat.ClientTool
	stream   bool
	pings    bool
	types    []string
	model    string // another one for this message
	form     form
	agentID  string
	callback string
	retry    bool // the client says that it sends this again
}

// options are kept in the context of the message that begins a run, beside what
// llm.Said has there.
type options struct {
	llm.Said
	Tokens       bool            `json:"stream_tokens,omitempty"` // streams of the run show text as it is written
	Background   bool            `json:"background,omitempty"`
	Compaction   bool            `json:"include_compaction_messages,omitempty"` // streams of the run show summaries that are made in it
	MaxSteps     int             `json:"max_steps,omitempty"`
	System       string          `json:"-"` // stands where agents look for it
	ClientSkills json.RawMessage `json:"client_skills,omitempty"`
}

// input is one message that somebody sends.
type input struct {
	role    llm.Role
	content []llm.Part
	otid    string
	sender  string
	said    llm.Said
}

// unfit is a request whose form is wrong; the real server answers those with
// another status than requests that cannot be done.
func unfit(format string, args ...any) error {
	return chat.Errorf(chat.Invalid, format, args...).With(statusDetail, http.StatusUnprocessableEntity)
}

// readJSON reads a body into v; an empty one is an empty object.
func (d *Dialect) readJSON(r *http.Request, v any) error {
	b, err := wire.ReadBody(r, d.opt.MaxBody)
	if errors.Is(err, wire.ErrTooLarge) {
		return chat.Errorf(chat.TooLarge, "a request body has at most %d bytes", d.opt.MaxBody)
	}
	if err != nil {
		return chat.Errorf(chat.Invalid, "the body could not be read to its end").Because(err)
	}
	return decodeJSON(b, v)
}

func decodeJSON(b []byte, v any) error {
	if b = bytes.TrimSpace(b); len(b) == 0 {
		return nil
	}
	if err := wire.CheckJSON(b, 0); err != nil {
		return unfit("the body is not JSON that can be read here: %s", err)
	}
	if b[0] != '{' {
		return unfit("the body must be an object")
	}
	if err := json.Unmarshal(b, v); err != nil {
		var t *json.UnmarshalTypeError
		if errors.As(err, &t) {
			return unfit("%s: it cannot be a %s", first(t.Field, "body"), t.Value)
		}
		return unfit("the body is not valid JSON")
	}
	return nil
}

// readSend reads a request to send messages. stream is what it means when it
// does not say.
func (d *Dialect) readSend(r *http.Request, stream, always bool) (*ask, error) {
	var b sendBody
	if err := d.readJSON(r, &b); err != nil {
		return nil, err
	}
	a, err := b.ask(stream, always)
	if err == nil {
		a.retry = r.Header.Get("X-Stainless-Retry-Count") != "" && r.Header.Get("X-Stainless-Retry-Count") != "0"
	}
	return a, err
}

func (b *sendBody) ask(stream, always bool) (*ask, error) {
	a := &ask{stream: stream, pings: true, types: b.ReturnTypes, model: b.OverrideModel, agentID: b.AgentID, callback: b.CallbackURL}
	if b.Streaming != nil && !always {
		a.stream = *b.Streaming
	}
	if b.IncludePings != nil {
		a.pings = *b.IncludePings
	}
	if !a.stream && (b.StreamTokens || b.Background || !a.pings) {
		return nil, unfit("stream_tokens, background and include_pings only apply when streaming is true")
	}
	for _, t := range b.ReturnTypes {
		if !slices.Contains(kinds, t) {
			return nil, unfit("include_return_message_types: %q is not one of %s", clip(t), strings.Join(kinds, ", "))
		}
	}
	a.options = options{
		Tokens: b.StreamTokens, Background: b.Background, Compaction: b.CompactionWanted, System: first(b.OverrideSystem, b.System),
		ClientSkills: list(b.ClientSkills),
	}
	if err := a.readTools(b.ClientTools); err != nil {
		return nil, err
	}
	if b.MaxSteps != nil {
		if *b.MaxSteps < 1 {
			return nil, unfit("max_steps must be at least 1")
		}
		a.options.MaxSteps = *b.MaxSteps
	}
	a.form = form{assistant: b.UseAssistant == nil || *b.UseAssistant, tool: b.AssistantTool, argument: b.AssistantArgument, summaries: b.CompactionWanted}
	hasInput := len(b.Input) > 0 && string(b.Input) != "null"
	switch {
	case hasInput == (b.Messages != nil):
		return nil, unfit("give exactly one of messages and input")
	case hasInput:
		content, err := contentOf("input", b.Input)
		if err != nil {
			return nil, err
		}
		a.messages = []input{{role: llm.User, content: content}}
		return a, nil
	case len(b.Messages) == 0:
		return nil, unfit("messages: there must be at least one")
	}
	return a, a.read(b.Messages)
}

// list is a JSON value, unless it says nothing.
func list(raw json.RawMessage) json.RawMessage {
	if s := string(bytes.TrimSpace(raw)); s == "" || s == "null" || s == "[]" {
		return nil
	}
	return raw
}

// maxMessages bounds what one request sends.
const maxMessages = 200

func (a *ask) read(messages []json.RawMessage) error {
	if len(messages) > maxMessages {
		return unfit("messages: one request sends at most %d", maxMessages)
	}
	for i, raw := range messages {
		m, p, err := readMessage("messages["+itoa(i)+"]", raw)
		switch {
		case err != nil:
			return err
		case p != nil && i > 0:
			// The real server takes an answer only in the first place.
			return unfit("messages[%d]: the answer to an approval request must be the first message", i)
		case p != nil:
			a.approval = p
		default:
			a.messages = append(a.messages, m)
		}
	}
	return nil
}

// messageBody is any of the messages that can be sent.
type messageBody struct {
	Type    *string         `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Name    string          `json:"name"`
	OTID    string          `json:"otid"`
	Sender  string          `json:"sender_id"`
	Group   string          `json:"group_id"`
	Batch   string          `json:"batch_item_id"`

	Approvals []json.RawMessage `json:"approvals"`
	Returns   []json.RawMessage `json:"tool_returns"`
	Approve   *bool             `json:"approve"`
	Request   *string           `json:"approval_request_id"`
	Reason    string            `json:"reason"`
}

func readMessage(path string, raw json.RawMessage) (input, *approval, error) {
	var b messageBody
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' {
		return input{}, nil, unfit("%s: it must be an object", path)
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		var t *json.UnmarshalTypeError
		if errors.As(err, &t) {
			return input{}, nil, unfit("%s.%s: it cannot be a %s", path, t.Field, t.Value)
		}
		return input{}, nil, unfit("%s: it is not valid JSON", path)
	}
	if len(b.OTID) > chat.MaxClientID {
		return input{}, nil, unfit("%s.otid: it has at most %d bytes", path, chat.MaxClientID)
	}
	kind := "message"
	if b.Type != nil {
		kind = *b.Type
	} else if b.Approve != nil || b.Request != nil {
		kind = "approval"
	}
	switch kind {
	case "message":
		m, err := b.message(path)
		return m, nil, err
	case "approval", "tool_return":
		p, err := b.approval(path, kind == "tool_return")
		return input{}, p, err
	}
	return input{}, nil, unfit("%s.type: %q is not one of message, approval, tool_return", path, clip(kind))
}

func (b *messageBody) message(path string) (input, error) {
	m := input{otid: b.OTID, sender: b.Sender, said: llm.Said{Name: b.Name, GroupID: b.Group, BatchItemID: b.Batch}}
	switch m.role = llm.Role(b.Role); m.role {
	case llm.User, llm.System, llm.Assistant:
	default:
		return m, unfit("%s.role: %q is not one of user, system, assistant", path, clip(b.Role))
	}
	if m.role == llm.System {
		m.said.Role = llm.System
	}
	var err error
	m.content, err = contentOf(path+".content", b.Content)
	return m, err
}

// contentOf reads what is said: a text, or a list of texts and images.
func contentOf(path string, raw json.RawMessage) ([]llm.Part, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, unfit("%s: it is missing", path)
	case raw[0] == '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, unfit("%s: it is not a text", path)
		}
		if text == "" {
			return nil, chat.Errorf(chat.Invalid, "%s: a message cannot be empty", path)
		}
		return llm.Texts(text), nil
	}
	parts, err := llm.DecodeParts(path, raw)
	if err != nil {
		return nil, chat.Public(err).With(statusDetail, http.StatusUnprocessableEntity)
	}
	said := parts[:0]
	for _, p := range parts {
		switch p := p.(type) {
		case *llm.Text:
			if p.Text == "" {
				continue
			}
		case *llm.Image:
			if err := checkImage(path, &p.Source); err != nil {
				return nil, err
			}
		}
		said = append(said, p)
	}
	if len(said) == 0 {
		return nil, chat.Errorf(chat.Invalid, "%s: a message cannot be empty", path)
	}
	return said, nil
}

// checkImage lets through what can be shown later: nobody is sent to the files
// of the machine.
func checkImage(path string, s *llm.ImageSource) error {
	if s.Type != llm.SourceURL {
		return nil
	}
	if mediaType, data, ok := llm.CutDataURL(s.URL); ok {
		*s = llm.ImageSource{Type: llm.SourceBase64, MediaType: mediaType, Data: data, Detail: s.Detail}
		return nil
	}
	for _, scheme := range []string{"https://", "http://"} {
		if len(s.URL) > len(scheme) && strings.EqualFold(s.URL[:len(scheme)], scheme) {
			return nil
		}
	}
	return chat.Errorf(chat.Invalid, "%s: an image is at an http, https or data address, not at %q", path, clip(s.URL))
}
