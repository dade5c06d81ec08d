package llm

import (
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// ImportedType is the type of an event that contains a complete message, for messages
// without an event type of their own: system messages and summaries made elsewhere. A
// Fold returns the contained message.
const ImportedType = "llm.message"

// Drafts converts messages to drafts that can be appended to a session. A Fold of the
// result returns equivalent messages. Drafts is used to import conversations and to
// store a model's answer in the log. Every draft has a client id derived from the otid
// or id of its message, so an import can be repeated.
//
// In a session with an agent, imported user messages would start turns. Import into a
// session whose agent is "none".
func Drafts(messages []Message) ([]chat.Draft, error) {
	d := drafter{tools: map[string]string{}}
	for i := range messages {
		from := len(d.out)
		if err := d.message(&messages[i]); err != nil {
			return nil, err
		}
		made := d.out[from:]
		for j := range made {
			made[j].ClientID = clientID(&messages[i], j)
			if err := made[j].Settle(); err != nil {
				e := *chat.Public(err)
				e.Msg = index(i) + ": " + e.Msg
				return nil, e.With("index", i)
			}
		}
	}
	return d.out, nil
}

func clientID(m *Message, n int) string {
	id := m.OTID
	if id == "" {
		id = m.ID
	}
	if id == "" || len(id) > chat.MaxClientID-8 {
		return ""
	}
	if n > 0 {
		id += "/" + strconv.Itoa(n)
	}
	return id
}

type drafter struct {
	out     []chat.Draft
	tools   map[string]string // call → tool
	request *Message          // the approval request without a response yet
}

func (d *drafter) add(b chat.Body) { d.out = append(d.out, chat.NewDraft(b)) }

func (d *drafter) message(m *Message) error {
	switch {
	case m.Role == User:
		if b, ok := userMessage(m); ok {
			d.add(b)
		}
	case m.Role == Assistant:
		d.assistant(m)
	case m.Role == Tool:
		d.results(m)
	case m.IsApprovalRequest():
		d.content(m.Content)
		b := chat.AgentApprovalRequest{RequestID: requestID(m)}
		for _, c := range m.ToolCalls {
			d.tools[c.ID] = c.Name
			b.Calls = append(b.Calls, chat.ApprovalCall{CallID: c.ID, Tool: c.Name, Params: params(c.Arguments)})
		}
		d.request = m
		d.add(b)
	case m.Role == Approval:
		d.decisions(m)
	default:
		return d.whole(m)
	}
	return nil
}

// whole stores a message unchanged in an event of type ImportedType.
func (d *drafter) whole(m *Message) error {
	c := *m
	c.ID = "" // a Fold derives the id from the event
	if c.Role == "" {
		return chat.Errorf(chat.Invalid, "role: it is missing").With("path", "role")
	}
	d.add(chat.Unknown{Name: ImportedType, Payload: c.AppendJSON(nil)})
	return nil
}

// userMessage converts a user message. The text of the body contains all texts,
// because many readers use only the text. If there are other parts or several texts,
// the body's content has all parts in order.
func userMessage(m *Message) (chat.UserMessage, bool) {
	b := chat.UserMessage{UserID: m.SenderID}
	var texts []string
	for _, p := range m.Content {
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
	return b, b.Text != "" || len(b.Content) > 0
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

func (d *drafter) assistant(m *Message) {
	d.content(m.Content)
	for _, c := range m.ToolCalls {
		d.tools[c.ID] = c.Name
		d.add(chat.AgentToolCall{CallID: c.ID, Tool: c.Name, Params: params(c.Arguments)})
	}
	if m.Model != "" {
		d.add(chat.AgentUsage{Model: m.Model})
	}
}

func (d *drafter) content(parts []Part) {
	for _, p := range parts {
		switch p := p.(type) {
		case *Text:
			if p.Text != "" || p.Signature != "" {
				d.add(chat.AgentText{Text: p.Text, Signature: p.Signature})
			}
		case *Reasoning:
			if !p.Native {
				d.add(opaque(p.Text, p))
			} else if p.Text != "" || p.Signature != "" {
				d.add(chat.AgentThinking{Text: p.Text, Signature: p.Signature})
			}
		case *RedactedReasoning:
			if strings.HasPrefix(p.Data, "{") {
				d.add(opaque("", p))
			} else if p.Data != "" {
				d.add(chat.AgentThinking{Redacted: p.Data})
			}
		case *SummarizedReasoning:
			d.add(opaque(p.PlainText(), p))
		case *OmittedReasoning, *CallPart, *Image, *ReturnPart:
			d.add(opaque("", p))
		}
	}
}

// opaque stores a part that has no event type of its own. Readers see its text; a Fold
// restores the part.
func opaque(text string, p Part) chat.AgentThinking {
	return chat.AgentThinking{Text: text, Redacted: string(encodeObject(nil, p))}
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

func (d *drafter) results(m *Message) {
	for _, r := range returnsOf(m) {
		tool := d.tools[r.ToolCallID]
		if tool == "" && len(m.ToolReturns) <= 1 {
			tool = m.Name
		}
		d.result(tool, &r)
	}
}

func (d *drafter) result(tool string, r *ToolReturn) {
	message, failed, wrapped := UnpackResult(r.Text)
	if !wrapped {
		message = chat.AppendString(nil, r.Text)
	}
	if r.Parts != nil {
		message = AppendParts(nil, r.Parts)
	}
	if r.Status == Failure || failed {
		var text string
		if r.Parts != nil {
			text = PlainText(r.Parts)
		} else if json.Unmarshal(message, &text) != nil {
			text = string(message)
		}
		d.add(chat.AgentToolError{CallID: r.ToolCallID, Tool: tool, Error: text})
		return
	}
	d.add(chat.AgentToolResult{CallID: r.ToolCallID, Tool: tool, Result: message})
}

func (d *drafter) decisions(m *Message) {
	var b chat.UserApprovalResponse
	for _, v := range verdictsOf(m, d.request) {
		switch v := v.(type) {
		case *ToolApproval:
			b.Decisions = append(b.Decisions, chat.Decision{CallID: v.ToolCallID, Approve: v.Approve, Reason: v.Reason})
		case *ToolReturn: // the client ran the tool, so the call was approved
			b.Decisions = append(b.Decisions, chat.Decision{CallID: v.ToolCallID, Approve: true})
		}
	}
	if len(b.Decisions) == 0 {
		return
	}
	b.RequestID = requestID(m)
	if d.request != nil {
		b.RequestID = requestID(d.request)
	}
	d.request = nil
	d.add(b)
	for _, v := range m.Approvals {
		if r, ok := v.(*ToolReturn); ok {
			d.result(d.tools[r.ToolCallID], r)
		}
	}
}

// requestID returns the id of an approval request's prompt.
func requestID(m *Message) string {
	for _, id := range []string{m.ID, m.OTID, m.ToolCallID} {
		if id != "" && len(id) <= 128 {
			return id
		}
	}
	return "approval"
}
