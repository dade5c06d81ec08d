package nemo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// promptGone is what the real server says by default.
const promptGone = "This prompt is no longer available."

// The values of an approval.
const (
	valueContinue = "continue"
	valueCancel   = "cancel"
)

// approveOrReject at the end of a question makes the AI-Q UI draw two buttons,
// which answer with these words.
const approveOrReject = "\n\nReply **approve** to proceed, **reject** to cancel."

var continueCancel = []chat.Option{
	{ID: valueContinue, Label: "Continue", Value: valueContinue},
	{ID: valueCancel, Label: "Cancel", Value: valueCancel},
}

// inputRequest is a prompt of any kind as an input request: approvals and
// permissions become a choice of two.
func inputRequest(p *chat.Prompt) chat.AgentInputRequest {
	switch {
	case p.Approval != nil:
		text := p.Approval.Text
		for _, c := range p.Approval.Calls {
			if text == "" {
				text = "May I run this?"
			}
			text += "\n" + c.Tool
			if params := string(c.Params); params != "" && params != "null" {
				text += " " + clip(params, 2000)
			}
			if c.Risk != "" {
				text += " (" + c.Risk + ")"
			}
		}
		return chat.AgentInputRequest{InputType: chat.InputBinary, Text: text, Options: continueCancel}
	case p.Permission != nil:
		text := "May I have permission for: " + strings.Join(p.Permission.Scopes, ", ") + "?"
		if p.Permission.Justification != "" {
			text += "\n" + p.Permission.Justification
		}
		return chat.AgentInputRequest{InputType: chat.InputBinary, Text: text, Options: continueCancel}
	}
	return *p.Input
}

// decodeChoice turns the one text that a client can send into an answer.
func decodeChoice(p *chat.Prompt, text string) (chat.Answer, error) {
	if p.Input != nil {
		return chat.Answer{Text: text}, nil
	}
	var yes bool
	switch word := strings.ToLower(strings.TrimSpace(text)); word {
	case valueContinue, "yes", "y", "approve", "approved", "true", "ok":
		yes = true
	case valueCancel, "no", "n", "deny", "denied", "reject", "false":
	default:
		return chat.Answer{}, refuse(codeData, "%q is not one of the options: continue, cancel", clip(text, 80))
	}
	if p.Approval != nil {
		var a chat.Answer
		for _, c := range p.Approval.Calls {
			a.Decisions = append(a.Decisions, chat.Decision{CallID: c.CallID, Approve: yes})
		}
		return a, nil
	}
	granted := []string{}
	if yes {
		granted = p.Permission.Scopes
	}
	return chat.Answer{Granted: &granted}, nil
}

// expandNumbers turns the numbers of options into the options, where a client is
// shown a numbered list and types what it wants. Other texts stay as they are.
func expandNumbers(p *chat.Prompt, text string) string {
	if p.Input == nil || len(p.Input.Options) == 0 {
		return text
	}
	parts := strings.Split(text, ",")
	for i, part := range parts {
		part = strings.TrimSpace(part)
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 || n > len(p.Input.Options) || slices.ContainsFunc(p.Input.Options, func(o chat.Option) bool { return o.ID == part || o.Label == part || o.Answer() == part }) {
			return text
		}
		parts[i] = p.Input.Options[n-1].Answer()
	}
	return strings.Join(parts, ", ")
}

// content is a prompt as the protocol words it.
func (w *schema) content(p *chat.Prompt, now chat.At) any {
	in := inputRequest(p)
	required := in.Required == nil || *in.Required
	c := promptContent{InputType: string(in.InputType), Text: in.Text, Error: in.Error}
	if c.Error == "" {
		c.Error = promptGone
	}
	if s := secondsLeft(p.Deadline, now); s > 0 {
		c.Timeout = &s
	}
	switch in.InputType {
	case chat.InputText:
		c.Placeholder, c.Required = &in.Placeholder, &required
	case chat.InputOAuth:
		if in.URL != "" {
			c.Text = in.URL
		}
	case chat.InputNotification:
	default:
		c.Required = &required
		if w.plainOptions && p.Input == nil {
			c.InputType, c.Text = "approval", c.Text+approveOrReject
			break
		}
		c.Options = w.options(in)
		if w.plainOptions && in.InputType != chat.InputBinary {
			c.InputType = "multiple_choice"
		}
	}
	if w.promptTimeouts {
		return c
	}
	old := oldPromptContent{InputType: c.InputType, Text: c.Text, Placeholder: c.Placeholder, Options: c.Options, Required: c.Required}
	if w.humanTypes && in.InputType == chat.InputDropdown {
		old.Interaction = "system_human_interaction_name"
	}
	return old
}

func (w *schema) options(in chat.AgentInputRequest) any {
	if w.plainOptions {
		var labels []string
		for _, o := range in.Options {
			label := o.Label
			if label == "" {
				label = o.Answer()
			}
			labels = append(labels, label)
		}
		return labels
	}
	var list []option
	for _, o := range in.Options {
		one := option{ID: o.ID, Label: o.Label, Value: o.Answer()}
		if one.Label == "" {
			one.Label = one.Value
		}
		if one.ID == "" {
			one.ID = one.Value
		}
		if in.InputType != chat.InputBinary {
			one.Description = &o.Description
		}
		list = append(list, one)
	}
	return list
}

// appendPrompt asks. The frame's id changes when the prompt is shown again
// later, because the UI starts its countdown anew only then.
func (v *encoder) appendPrompt(dst []byte, a *openPrompt, now chat.At) []byte {
	h := v.head(v.promptType(string(inputRequest(&a.Prompt).InputType)), a.turn, a.frameID(now), now)
	h.Status = "in_progress"
	h.Content = v.content(&a.Prompt, now)
	return appendJSON(dst, h)
}

// frameID is the id of the frame that shows the prompt at this moment. The low
// bits of an event's id are free for this.
func (a *openPrompt) frameID(now chat.At) string {
	id, ok := chat.ParseID("", a.uuid)
	if !ok {
		return a.uuid
	}
	if late := (now - a.AskedAt) / 1e6; late > 0 {
		id[15] |= byte(late%127 + 1)
	}
	return id.UUID()
}

// matches reports whether a client's parent_id means this prompt.
func (a *openPrompt) matches(id string) bool {
	if id == a.RequestID {
		return true
	}
	mine, ok := chat.ParseID("", a.uuid)
	other, ok2 := chat.ParseID("", id)
	if !ok || !ok2 {
		return false
	}
	mine[15] &^= 0x7f
	other[15] &^= 0x7f
	return mine == other
}

// promptText is a prompt as a text, for routes that have no other words.
func promptText(p *chat.Prompt) string {
	in := inputRequest(p)
	s := in.Text
	if in.InputType == chat.InputOAuth && in.URL != "" {
		s = in.URL
	}
	for _, o := range in.Options {
		s += "\n- " + o.Answer()
		if o.Label != "" && o.Label != o.Answer() {
			s += fmt.Sprintf(" (%s)", o.Label)
		}
	}
	return s
}
