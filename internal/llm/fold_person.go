package llm

import (
	"bytes"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// fromPerson converts a user message, or the task of a workstream, to a message.
func (f *Fold) fromPerson(e *chat.Event) (Message, bool) {
	m := f.message(e, User, 0)
	m.OTID = e.ClientID
	switch b := e.Body.(type) {
	case chat.UserMessage:
		m.Content = userContent(b)
		m.SenderID, m.Name = e.Actor.ID, e.Actor.Name
		if b.UserID != "" {
			m.SenderID = b.UserID
		}
		said(b.Context).into(&m)
	case chat.WorkstreamLaunched:
		m.Content = Texts(b.Task)
	case chat.WorkstreamMessage:
		m.Content = Texts(b.Text)
	}
	return m, len(m.Content) > 0
}

// Said contains the fields of a message that a session event has no fields for. It is
// stored in the message's context under SaidKey.
type Said struct {
	Role        Role   `json:"role,omitempty"` // system, if no participant wrote the message
	Name        string `json:"name,omitempty"`
	GroupID     string `json:"group_id,omitempty"`
	BatchItemID string `json:"batch_item_id,omitempty"`
}

// SaidKey is the key of Said in a message's context.
const SaidKey = "letta"

func said(context json.RawMessage) (s Said) {
	if len(context) == 0 || !bytes.Contains(context, []byte(`"`+SaidKey+`"`)) {
		return s
	}
	var c map[string]json.RawMessage
	if json.Unmarshal(context, &c) == nil {
		_ = json.Unmarshal(c[SaidKey], &s) // another client may use the key differently
	}
	return s
}

func (s Said) into(m *Message) {
	if s.Role == System {
		m.Role = System
	}
	if s.Name != "" {
		m.Name = s.Name
	}
	m.GroupID, m.BatchItemID = s.GroupID, s.BatchItemID
}

// userContent returns the parts of a user message. If the parts contain the message's
// text, only the parts are used, in their order.
func userContent(b chat.UserMessage) []Part {
	var parts []Part
	separate := b.Text != "" && b.Text != chat.UserMessage{Content: b.Content}.PlainText()
	if separate {
		parts = append(parts, &Text{Text: b.Text})
	}
	for _, p := range b.Content {
		switch {
		case p.Type == "text" && p.Text != "":
			if !separate || p.Text != b.Text { // some clients send the text twice
				parts = append(parts, &Text{Text: p.Text})
			}
		case p.Type == "image":
			parts = append(parts, imagePart(p))
		default:
			parts = append(parts, &Text{Text: filePart(p)})
		}
	}
	return parts
}

// imagePart converts an image. An image that is an artifact of the session has its
// path as FileID; the agent adds the data before it sends the message.
func imagePart(p chat.Part) Part {
	if mediaType, data, ok := CutDataURL(p.URL); ok {
		return &Image{Source: ImageSource{Type: SourceBase64, MediaType: mediaType, Data: data, Detail: p.Detail}}
	}
	if p.URL != "" {
		return &Image{Source: ImageSource{Type: SourceURL, URL: p.URL}}
	}
	return &Image{Source: ImageSource{Type: SourceFile, FileID: p.Path, MediaType: p.MediaType, Detail: p.Detail}}
}

// CutDataURL splits a base64 data: URL; ok is false for any other URL.
func CutDataURL(url string) (mediaType, data string, ok bool) {
	rest, ok := strings.CutPrefix(url, "data:")
	if !ok {
		return "", "", false
	}
	head, data, ok := strings.Cut(rest, ",")
	if !ok {
		return "", "", false
	}
	mediaType, ok = strings.CutSuffix(head, ";base64")
	if mediaType == "" {
		mediaType = "image/jpeg"
	}
	return mediaType, data, ok
}

// filePart describes a file that the model cannot read directly.
func filePart(p chat.Part) string {
	where := p.Path
	if where == "" && !strings.HasPrefix(p.URL, "data:") {
		where = p.URL
	}
	var about []string
	for _, s := range []string{p.Name, p.MediaType, where} {
		if s != "" {
			about = append(about, s)
		}
	}
	if len(about) == 0 {
		return "[" + p.Type + "]"
	}
	return "[" + p.Type + ": " + strings.Join(about, ", ") + "]"
}

// ask adds a prompt to the messages.
func (f *Fold) ask(e *chat.Event) {
	switch b := e.Body.(type) {
	case chat.AgentApprovalRequest:
		f.prompt[b.RequestID] = e.Body
		m := f.message(e, Approval, 0)
		m.Content = []Part{}
		m.OTID, m.ToolCallID, m.StepID = m.ID, b.Calls[0].CallID, f.step
		if m.StepID == "" {
			m.StepID = stepID(e.ID)
			f.step = m.StepID
		}
		for i, c := range b.Calls {
			f.toolNames[c.CallID] = c.Tool
			f.asked[c.CallID] = callIndex{len(f.messages), i}
			m.ToolCalls = append(m.ToolCalls, ToolCall{ID: c.CallID, Name: c.Tool, Arguments: arguments(c.Params)})
		}
		f.put(e, m)
	case chat.AgentInputRequest:
		if b.InputType != chat.InputNotification {
			f.prompt[b.RequestID] = e.Body
		}
		f.asks(e, inputText(b))
	case chat.AgentPermissionRequest:
		f.prompt[b.RequestID] = e.Body
		text := "I need permission for: " + strings.Join(b.Scopes, ", ") + "."
		if b.Justification != "" {
			text += " " + b.Justification
		}
		f.asks(e, text)
	}
}

// asks adds a question to the assistant message.
func (f *Fold) asks(e *chat.Event, text string) {
	if text == "" {
		return
	}
	m := f.assistant(e)
	m.Content = append(m.Content, &Text{Text: text})
}

func inputText(b chat.AgentInputRequest) string {
	var s strings.Builder
	s.WriteString(b.Text)
	if b.URL != "" && !strings.Contains(b.Text, b.URL) {
		s.WriteString("\n\n" + b.URL) // the page on which consent is given
	}
	for _, o := range b.Options {
		s.WriteString("\n- " + o.Answer())
		if o.Label != "" && o.Label != o.Answer() {
			s.WriteString(": " + o.Label)
		}
	}
	return s.String()
}

// answered adds the answer or the end of a prompt.
func (f *Fold) answered(e *chat.Event) {
	id := chat.AnswerOf(e.Body)
	asked, known := f.prompt[id]
	if known {
		delete(f.prompt, id)
	}
	switch b := e.Body.(type) {
	case chat.UserInputResponse:
		text := b.Text
		if len(b.Values) > 0 {
			text = strings.Join(b.Values, ", ")
		}
		if text == "" {
			text = "(no answer)"
		}
		f.answer(e, text)
	case chat.UserPermissionResponse:
		var says []string
		if len(b.Granted) > 0 {
			says = append(says, "Granted: "+strings.Join(b.Granted, ", ")+".")
		}
		if len(b.Denied) > 0 || len(says) == 0 {
			says = append(says, strings.TrimSuffix("Denied: "+strings.Join(b.Denied, ", "), ": ")+".")
		}
		f.answer(e, strings.Join(says, " "))
	case chat.UserApprovalResponse:
		f.decided(e, b.Decisions)
	case chat.PromptClosed:
		if request, ok := asked.(chat.AgentApprovalRequest); ok {
			decisions := make([]chat.Decision, len(request.Calls))
			for i, c := range request.Calls {
				decisions[i] = chat.Decision{CallID: c.CallID, Reason: closedBecause(b.Reason)}
			}
			f.decided(e, decisions)
		} else if known {
			f.notice(e, "The question was not answered: "+closedBecause(b.Reason)+".")
		}
	}
}

func closedBecause(r chat.CloseReason) string {
	if r == chat.Expired {
		return "nobody answered in time"
	}
	return "it was withdrawn"
}

func (f *Fold) answer(e *chat.Event, text string) {
	m := f.message(e, User, 0)
	m.OTID, m.SenderID, m.Name = e.ClientID, e.Actor.ID, e.Actor.Name
	m.Content = Texts(text)
	f.put(e, m)
}

// verdict converts the decision on one call: an approval or denial or, if the client
// ran the call itself, the result.
func verdict(d *chat.Decision, e *chat.Event) Verdict {
	if !d.Ran() {
		return &ToolApproval{ToolCallID: d.CallID, Approve: d.Approve, Reason: d.Reason}
	}
	r := &ToolReturn{ToolCallID: d.CallID, Status: Success, Stdout: d.Stdout, Stderr: d.Stderr}
	if parts, ok := resultParts(d.Result); ok {
		r.Parts = parts
		return r
	}
	message := d.Result
	if d.Error != "" {
		r.Status, message = Failure, json.AppendString(nil, d.Error)
	}
	r.Text = PackResult(r.Status == Success, message, e.At.Time())
	return r
}

// decided adds the response to an approval request. A denied call gets its result
// immediately, so that every call has one.
func (f *Fold) decided(e *chat.Event, decisions []chat.Decision) {
	m := f.message(e, Approval, 0)
	m.OTID, m.SenderID, m.StepID = e.ClientID, e.Actor.ID, f.step
	m.Approvals = make([]Verdict, len(decisions))
	for i, d := range decisions {
		m.Approvals[i] = verdict(&d, e)
	}
	f.put(e, m)
	for _, d := range decisions {
		at, asked := f.asked[d.CallID]
		if d.Approve {
			if asked && len(d.Params) > 0 {
				f.rewrite(at, string(d.Params))
			}
			if d.Ran() {
				f.clientRuns[d.CallID] = d
			}
			continue
		}
		delete(f.asked, d.CallID)
		f.denied[d.CallID] = true
		text := PackResult(false, json.AppendString(nil, denial(d.Reason)), e.At.Time())
		f.returned(e, 1, "", ToolReturn{ToolCallID: d.CallID, Status: Failure, Text: text})
	}
}
