package letta

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

// sendBody is the body of a request to send messages. It has either messages or input; all other fields are optional.
type sendBody struct {
	Messages         []json.RawMessage `json:"messages"`
	Input            json.RawMessage   `json:"input"`
	AgentID          string            `json:"agent_id"`
	MaxSteps         *int              `json:"max_steps"`
	Streaming        *bool             `json:"streaming"`
	StreamTokens     bool              `json:"stream_tokens"`
	IncludePings     *bool             `json:"include_pings"`
	Background       bool              `json:"background"`
	ReturnTypes      []string          `json:"include_return_message_types"`
	ClientTools      json.RawMessage   `json:"client_tools"`
	ClientSkills     json.RawMessage   `json:"client_skills"`
	OverrideModel    string            `json:"override_model"`
	OverrideSystem   string            `json:"override_system"`
	System           string            `json:"system"`
	CompactionWanted bool              `json:"include_compaction_messages"`
	CallbackURL      string            `json:"callback_url"`
}

// sendRequest is a checked request to send messages.
type sendRequest struct {
	messages []inputMessage
	approval *approvalAnswer // the first message, when it answers an approval request
	options  options         // stored with the message
	tools    []chat.ClientTool
	stream   bool
	pings    bool
	kinds    []string // the wanted values of message_type; nil means all
	model    string   // override_model
	agentID  string
	callback string
	retry    bool // the client says that it sends the request again
}

// options are stored in the context of the message that begins a run, beside llm.Said.
type options struct {
	llm.Said
	Tokens       bool            `json:"stream_tokens,omitempty"` // streams of the run show previews
	Background   bool            `json:"background,omitempty"`
	Compaction   bool            `json:"include_compaction_messages,omitempty"` // streams of the run show its summaries
	MaxSteps     int             `json:"max_steps,omitempty"`
	System       string          `json:"-"` // stored where agents read it, see messageContext
	ClientSkills json.RawMessage `json:"client_skills,omitempty"`
}

// inputMessage is one message that a client sends.
type inputMessage struct {
	role    llm.Role
	content []llm.Part
	otid    string
	sender  string
	said    llm.Said
}

// read decodes a JSON body. An empty body leaves v unchanged.
func (q *request) read(v any) error {
	err := q.http.Read(q.Request, v)
	if chat.CodeOf(err) == chat.Invalid {
		err = &refusal{error: err, malformed: true}
	}
	return err
}

// readFields decodes a JSON object into v and returns its members with the given names.
func (q *request) readFields(v any, names []string) (map[string]json.RawMessage, error) {
	raw := json.RawMessage("{}")
	if err := q.read(&raw); err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := errors.Join(edge.Decode(raw, v), edge.Decode(raw, &fields)); err != nil {
		return nil, &refusal{error: err, malformed: true}
	}
	if fields == nil { // the body is null
		fields = map[string]json.RawMessage{}
	}
	maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool { return !slices.Contains(names, name) })
	return fields, nil
}

// isNull reports whether a member of an object is null.
func isNull(_ string, v json.RawMessage) bool { return string(v) == "null" }

// readSend reads a request to send messages. streaming is the default of its field streaming; fixed ignores that field.
func (q *request) readSend(streaming, fixed bool) (*sendRequest, error) {
	var b sendBody
	if err := q.read(&b); err != nil {
		return nil, err
	}
	if fixed {
		b.Streaming = nil
	}
	req, err := b.request(streaming)
	if err == nil {
		count := q.Header.Get("X-Stainless-Retry-Count")
		req.retry = count != "" && count != "0"
	}
	return req, err
}

func (b *sendBody) request(streaming bool) (*sendRequest, error) {
	req := &sendRequest{
		stream: streaming, pings: b.IncludePings == nil || *b.IncludePings, kinds: b.ReturnTypes, model: b.OverrideModel, agentID: b.AgentID, callback: b.CallbackURL,
		options: options{
			Tokens: b.StreamTokens, Background: b.Background, Compaction: b.CompactionWanted, System: cmp.Or(b.OverrideSystem, b.System),
			ClientSkills: nonEmpty(b.ClientSkills),
		},
	}
	if b.Streaming != nil {
		req.stream = *b.Streaming
	}
	if !req.stream && (b.StreamTokens || b.Background || !req.pings) {
		return nil, malformed("stream_tokens, background and include_pings only apply when streaming is true")
	}
	for _, kind := range b.ReturnTypes {
		if !slices.Contains(stream.Kinds, kind) {
			return nil, malformed("include_return_message_types: %q is not one of %s", clip(kind), strings.Join(stream.Kinds, ", "))
		}
	}
	if err := req.readTools(b.ClientTools); err != nil {
		return nil, err
	}
	if b.MaxSteps != nil {
		if *b.MaxSteps < 1 {
			return nil, malformed("max_steps must be at least 1")
		}
		req.options.MaxSteps = *b.MaxSteps
	}
	hasInput := len(b.Input) > 0 && string(b.Input) != "null"
	switch {
	case hasInput == (b.Messages != nil):
		return nil, malformed("give exactly one of messages and input")
	case hasInput:
		content, err := decodeContent("input", b.Input)
		req.messages = []inputMessage{{role: llm.User, content: content}}
		return req, err
	case len(b.Messages) == 0:
		return nil, malformed("messages: there must be at least one")
	}
	return req, req.readMessages(b.Messages)
}

// nonEmpty returns a JSON value, or nil when it is empty, null or an empty list.
func nonEmpty(raw json.RawMessage) json.RawMessage {
	if s := string(bytes.TrimSpace(raw)); s == "" || s == "null" || s == "[]" {
		return nil
	}
	return raw
}

// maxMessages bounds the messages of one request.
const maxMessages = 200

func (req *sendRequest) readMessages(messages []json.RawMessage) error {
	if len(messages) > maxMessages {
		return malformed("messages: one request sends at most %d", maxMessages)
	}
	for i, raw := range messages {
		m, answer, err := decodeMessage("messages["+itoa(i)+"]", raw)
		switch {
		case err != nil:
			return err
		case answer != nil && i > 0: // as with Letta's server
			return malformed("messages[%d]: the answer to an approval request must be the first message", i)
		case answer != nil:
			req.approval = answer
		default:
			req.messages = append(req.messages, m)
		}
	}
	return nil
}

// messageBody has the fields of all kinds of messages that clients send.
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

func decodeMessage(path string, raw json.RawMessage) (inputMessage, *approvalAnswer, error) {
	var b messageBody
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' {
		return inputMessage{}, nil, malformed("%s: it must be an object", path)
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return inputMessage{}, nil, malformed("%s: %s", path, chat.JSONProblem(err))
	}
	if len(b.OTID) > chat.MaxClientID {
		return inputMessage{}, nil, malformed("%s.otid: it has at most %d bytes", path, chat.MaxClientID)
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
		answer, err := b.approval(path, kind == "tool_return")
		return inputMessage{}, answer, err
	}
	return inputMessage{}, nil, malformed("%s.type: %q is not one of message, approval, tool_return", path, clip(kind))
}

func (b *messageBody) message(path string) (inputMessage, error) {
	m := inputMessage{role: llm.Role(b.Role), otid: b.OTID, sender: b.Sender, said: llm.Said{Name: b.Name, GroupID: b.Group, BatchItemID: b.Batch}}
	switch m.role {
	case llm.User, llm.Assistant:
	case llm.System:
		m.said.Role = llm.System
	default:
		return m, malformed("%s.role: %q is not one of user, system, assistant", path, clip(b.Role))
	}
	var err error
	m.content, err = decodeContent(path+".content", b.Content)
	return m, err
}

// decodeContent reads the content of a message: a text, or a list of texts and images.
func decodeContent(path string, raw json.RawMessage) ([]llm.Part, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, malformed("%s: it is missing", path)
	case raw[0] == '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, malformed("%s: it is not a text", path)
		}
		if text == "" {
			return nil, chat.Errorf(chat.Invalid, "%s: a message cannot be empty", path)
		}
		return llm.Texts(text), nil
	}
	parts, err := decodeParts(path, raw)
	if err != nil {
		return nil, err
	}
	parts = slices.DeleteFunc(parts, func(p llm.Part) bool {
		t, ok := p.(*llm.Text)
		return ok && t.Text == ""
	})
	if len(parts) == 0 {
		return nil, chat.Errorf(chat.Invalid, "%s: a message cannot be empty", path)
	}
	return parts, nil
}

// decodeParts reads a list of texts and images.
func decodeParts(path string, raw json.RawMessage) ([]llm.Part, error) {
	parts, err := llm.DecodeParts(path, raw)
	if err != nil {
		return nil, &refusal{error: err, malformed: true}
	}
	for _, p := range parts {
		if img, ok := p.(*llm.Image); ok {
			if err := checkImage(path, &img.Source); err != nil {
				return nil, err
			}
		}
	}
	return parts, nil
}

// checkImage accepts images at http, https and data addresses. Others, such as file addresses, are refused.
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
	return chat.Errorf(chat.Invalid, "%s: an image must have an http, https or data address, not %q", path, clip(s.URL))
}

// approvalAnswer answers an approval request.
type approvalAnswer struct {
	verdicts []llm.Verdict // nil: approve and reason are for all calls
	approve  *bool
	reason   string
	request  string
	otid     string
}

// readTools reads the tools that the client runs.
func (req *sendRequest) readTools(raw json.RawMessage) error {
	if raw = nonEmpty(raw); raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, &req.tools); err != nil {
		return malformed("client_tools: it must be a list of {name, description, parameters}")
	}
	for i, t := range req.tools {
		if t.Name == "" {
			return malformed("client_tools[%d].name: it is missing", i)
		}
		if p := bytes.TrimSpace(t.Parameters); len(p) > 0 && p[0] != '{' && string(p) != "null" {
			return malformed("client_tools[%d].parameters: it must be a JSON Schema", i)
		}
		if string(bytes.TrimSpace(t.Parameters)) == "null" {
			req.tools[i].Parameters = nil
		}
	}
	return nil
}

func (b *messageBody) approval(path string, returns bool) (*approvalAnswer, error) {
	a := &approvalAnswer{approve: b.Approve, reason: b.Reason, otid: b.OTID}
	if b.Request != nil {
		a.request = *b.Request
	}
	items, key := b.Approvals, "approvals"
	if returns {
		items, key = b.Returns, "tool_returns"
	}
	for i, raw := range items {
		v, err := decodeVerdict(path+"."+key+"["+itoa(i)+"]", raw)
		if err != nil {
			return nil, err
		}
		a.verdicts = append(a.verdicts, v)
	}
	if len(a.verdicts) == 0 && a.approve == nil {
		return nil, malformed("%s.%s: there must be at least one", path, key)
	}
	return a, nil
}

func decodeVerdict(path string, raw json.RawMessage) (llm.Verdict, error) {
	var v struct {
		CallID  string          `json:"tool_call_id"`
		Approve *bool           `json:"approve"`
		Reason  string          `json:"reason"`
		Status  string          `json:"status"`
		Return  json.RawMessage `json:"tool_return"`
		Stdout  []string        `json:"stdout"`
		Stderr  []string        `json:"stderr"`
	}
	if err := json.Unmarshal(raw, &v); err != nil || v.CallID == "" {
		return nil, malformed("%s: it must be an object with tool_call_id and approve, or with tool_call_id, tool_return and status", path)
	}
	if v.Approve != nil {
		return &llm.ToolApproval{ToolCallID: v.CallID, Approve: *v.Approve, Reason: v.Reason}, nil
	}
	r := &llm.ToolReturn{ToolCallID: v.CallID, Status: llm.Status(v.Status), Stdout: v.Stdout, Stderr: v.Stderr}
	if r.Status != llm.Success && r.Status != llm.Failure {
		return nil, malformed("%s: it needs approve, or the status of what the client ran: success or error", path)
	}
	if v.Return = bytes.TrimSpace(v.Return); len(v.Return) > 0 && v.Return[0] == '[' {
		var err error
		r.Parts, err = decodeParts(path+".tool_return", v.Return)
		return r, err
	}
	if len(v.Return) > 0 && string(v.Return) != "null" && json.Unmarshal(v.Return, &r.Text) != nil {
		return nil, malformed("%s.tool_return: it must be a text, or a list of texts and images", path)
	}
	return r, nil
}
