package aisdk

import (
	"maps"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/attachment"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// Limits of a request. The page's history is not read, so it has no limit but that of the body.
const (
	maxParts          = 1000   // of a user message
	maxAssistantParts = 20_000 // a page sends its answer with all that the agent did in the turn
	maxTools          = 128
	maxMessageID      = 200 // bytes; it becomes a client_id
	maxChatID         = 1000
)

// Values of trigger.
const (
	triggerSubmit     = "submit-message"
	triggerRegenerate = "regenerate-message"
)

// sendBody is the body of a request that sends something. Pages add fields of their own, which are ignored.
type sendBody struct {
	ID        string            `json:"id"`
	Messages  []json.RawMessage `json:"messages"`
	Message   json.RawMessage   `json:"message"` // instead of messages, by pages that send only the last one
	Trigger   string            `json:"trigger"`
	MessageID string            `json:"messageId"`
	Agent     string            `json:"agent"`
	System    string            `json:"system"` // assistant-ui
	Tools     json.RawMessage   `json:"tools"`  // assistant-ui: by name
}

// sendRequest is what a page wants.
type sendRequest struct {
	chat       string // "" when the page does not name the chat
	agent      string
	regenerate bool
	edits      bool // the message may replace a stored one with its id
	message    pageMessage
	before     pageMessage     // the message before it, when that is the assistant's: it may have answers that were not sent
	context    json.RawMessage // of a user message
}

// pageMessage is a message as a page sends it.
type pageMessage struct {
	ID    string     `json:"id"`
	Role  string     `json:"role"`
	Parts []pagePart `json:"parts"`
}

// pagePart is a part of it.
type pagePart struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	URL       string          `json:"url,omitempty"`
	MediaType string          `json:"mediaType,omitempty"`
	Filename  string          `json:"filename,omitempty"`
	Call      string          `json:"toolCallId,omitempty"`
	State     string          `json:"state,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	ErrorText string          `json:"errorText,omitempty"`
	Approval  *pageApproval   `json:"approval,omitempty"`
}

// pageApproval is the page's decision about a call.
type pageApproval struct {
	ID       string `json:"id"`
	Approved *bool  `json:"approved,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

func invalid(format string, args ...any) error { return chat.Errorf(chat.Invalid, format, args...) }

// decodeSend decodes a body or a frame that [edge.CheckJSON] has checked.
func decodeSend(b []byte) (*sendRequest, error) {
	var in sendBody
	if err := edge.Decode(b, &in); err != nil {
		return nil, err
	}
	last := in.Message
	if n := len(in.Messages); n > 0 {
		last = in.Messages[n-1]
	}
	req := &sendRequest{chat: in.ID, agent: in.Agent, regenerate: in.Trigger == triggerRegenerate}
	switch {
	case in.Trigger != "" && in.Trigger != triggerSubmit && in.Trigger != triggerRegenerate:
		return nil, invalid("The trigger %q is not supported: it is %s or %s.", text.Clip(in.Trigger, 80), triggerSubmit, triggerRegenerate)
	case len(last) == 0:
		return nil, invalid("There is no message to send: messages is empty.")
	}
	if err := edge.Decode(last, &req.message); err != nil {
		return nil, err
	}
	m := &req.message
	req.edits = in.Trigger == "" || in.MessageID == m.ID // WorkflowChatTransport sends neither
	switch {
	case m.Role != roleUser && m.Role != roleAssistant:
		return nil, invalid("The last message has the role %q: send a user message, or an assistant message with answers.", text.Clip(m.Role, 80))
	case len(m.ID) > maxMessageID:
		return nil, invalid("The id of a message has at most %d bytes.", maxMessageID)
	case m.Role == roleUser && len(m.Parts) > maxParts:
		return nil, chat.Errorf(chat.TooLarge, "A message has at most %d parts.", maxParts)
	case len(m.Parts) > maxAssistantParts:
		return nil, chat.Errorf(chat.TooLarge, "A message of the agent has at most %d parts.", maxAssistantParts)
	case m.Role == roleUser && len(m.Parts) == 0:
		return nil, invalid("The message has no parts: send text or a file, in the form of versions 5, 6 and 7 of the AI SDK.")
	case req.chat == "" && len(in.Messages) > 0:
		// WorkflowChatTransport does not name the chat. The id of the first message stays the same.
		var first pageMessage
		if err := edge.Decode(in.Messages[0], &first); err != nil {
			return nil, err
		}
		req.chat = first.ID
	}
	if m.Role == roleAssistant {
		return req, nil
	}
	if n := len(in.Messages); n > 1 {
		var before pageMessage
		if edge.Decode(in.Messages[n-2], &before) == nil && before.Role == roleAssistant && len(before.Parts) <= maxAssistantParts {
			req.before = before
		}
	}
	var err error
	req.context, err = messageContext(in.System, in.Tools)
	return req, err
}

// messageContext is the context of a message: tools of the page and text for the agent, under the keys that agents read in
// every dialect.
func messageContext(system string, raw json.RawMessage) (json.RawMessage, error) {
	var byName map[string]struct {
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	if len(raw) > 0 && raw[0] == '{' {
		if err := edge.Decode(raw, &byName); err != nil {
			return nil, err
		}
	}
	if len(byName) > maxTools {
		return nil, chat.Errorf(chat.TooLarge, "A message has at most %d tools.", maxTools)
	}
	var tools []chat.ClientTool
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if name == "" || len(name) > 128 {
			return nil, invalid("The name of a tool has 1 to 128 bytes.")
		}
		schema := json.NotNull(byName[name].Parameters)
		if len(schema) > 0 && schema[0] != '{' {
			return nil, invalid("The parameters of the tool %q are not a JSON Schema.", name)
		}
		tools = append(tools, chat.ClientTool{Name: name, Description: byName[name].Description, Parameters: schema})
	}
	if system == "" && tools == nil {
		return nil, nil
	}
	return json.Marshal(struct {
		Tools  []chat.ClientTool `json:"client_tools,omitempty"`
		System string            `json:"system,omitempty"`
	}{tools, system})
}

// text returns the text of a message.
func (m *pageMessage) text() string {
	var texts []string
	for _, p := range m.Parts {
		if p.Type == "text" && p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// partTypes are the types of parts that the clients know, besides tool-NAME and data-NAME.
var partTypes = []string{"text", "file", "step-start", "reasoning", "reasoning-file", "source-url", "source-document", "dynamic-tool", "custom"}

// body returns a user message as it is stored. Data parts and parts that only an agent writes are ignored.
func (m *pageMessage) body() (b chat.UserMessage, err error) {
	b.Text = m.text()
	for _, p := range m.Parts {
		if !slices.Contains(partTypes, p.Type) && !strings.HasPrefix(p.Type, "tool-") && !isData(p.Type) {
			return b, invalid("The message has a part of the type %q, which is not supported: send text and files.", text.Clip(p.Type, 80))
		}
		if p.Type != "file" {
			continue
		}
		part, err := attachment.Part(chat.Part{MediaType: p.MediaType, Name: p.Filename}, p.URL)
		if err != nil {
			return b, err
		}
		b.Content = append(b.Content, part)
	}
	if b.Text == "" && len(b.Content) == 0 {
		return b, invalid("The message is empty: it has neither text nor a file.")
	}
	return b, nil
}
