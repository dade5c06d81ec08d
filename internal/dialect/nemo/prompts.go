package nemo

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/text"
)

// promptGone is the toolkit's default text for a prompt that timed out.
const promptGone = "This prompt is no longer available."

// The values of an approval.
const (
	valueContinue = "continue"
	valueCancel   = "cancel"
)

// approveOrReject at the end of a prompt makes the AI-Q UI show two buttons, which answer with these words.
const approveOrReject = "\n\nReply **approve** to proceed, **reject** to cancel."

var continueCancel = []chat.Option{
	{ID: valueContinue, Label: "Continue", Value: valueContinue},
	{ID: valueCancel, Label: "Cancel", Value: valueCancel},
}

// inputRequest is a prompt of any kind as an input request: approvals and permissions become a choice of two.
func inputRequest(p *chat.Prompt) chat.AgentInputRequest {
	switch {
	case p.Approval != nil:
		s := p.Approval.Text
		for _, c := range p.Approval.Calls {
			if s == "" {
				s = "May I run this?"
			}
			s += "\n" + c.Tool
			if params := string(c.Params); params != "" && params != "null" {
				s += " " + text.Clip(params, 2000)
			}
			if c.Risk != "" {
				s += " (" + c.Risk + ")"
			}
		}
		return chat.AgentInputRequest{InputType: chat.InputBinary, Text: s, Options: continueCancel}
	case p.Permission != nil:
		s := "May I have permission for: " + strings.Join(p.Permission.Scopes, ", ") + "?"
		if p.Permission.Justification != "" {
			s += "\n" + p.Permission.Justification
		}
		return chat.AgentInputRequest{InputType: chat.InputBinary, Text: s, Options: continueCancel}
	}
	return *p.Input
}

// decodeChoice turns the one text that a client can send into an answer.
func decodeChoice(p *chat.Prompt, s string) (chat.Answer, error) {
	if p.Input != nil {
		return chat.Answer{Text: s}, nil
	}
	yes, ok := edge.ParseConsent(s)
	if !ok {
		return chat.Answer{}, refuse(codeData, "%q is not one of the options: continue, cancel", text.Clip(s, 80))
	}
	return edge.Consent(p, yes), nil
}

// expandNumbers replaces the numbers of options by the options: the AI-Q UI shows a numbered list, and its users type the
// answer. Other texts stay as they are.
func expandNumbers(p *chat.Prompt, s string) string {
	if p.Input == nil || len(p.Input.Options) == 0 {
		return s
	}
	parts := strings.Split(s, ",")
	for i, part := range parts {
		part = strings.TrimSpace(part)
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 || n > len(p.Input.Options) || slices.ContainsFunc(p.Input.Options, func(o chat.Option) bool { return o.ID == part || o.Label == part || o.Answer() == part }) {
			return s
		}
		parts[i] = p.Input.Options[n-1].Answer()
	}
	return strings.Join(parts, ", ")
}

// promptContent is a prompt in the form of the schema.
func (s *schema) promptContent(p *chat.Prompt, now chat.At) any {
	in := inputRequest(p)
	required := in.Required == nil || *in.Required
	c := promptContent{oldPromptContent: oldPromptContent{InputType: string(in.InputType), Text: in.Text}, Error: cmp.Or(in.Error, promptGone)}
	if p.Deadline != 0 {
		left := max(1, int(math.Round(float64(p.Deadline-now)/1e6)))
		c.Timeout = &left
	}
	switch in.InputType {
	case chat.InputText:
		c.Placeholder, c.Required = &in.Placeholder, &required
	case chat.InputOAuth:
		c.Text = cmp.Or(in.URL, c.Text)
	case chat.InputNotification:
	default:
		c.Required = &required
		if s.plainOptions && p.Input == nil {
			c.InputType, c.Text = "approval", c.Text+approveOrReject
			break
		}
		c.Options = s.options(in)
		if s.plainOptions && in.InputType != chat.InputBinary {
			c.InputType = "multiple_choice"
		}
	}
	if s.promptTimeouts {
		return c
	}
	if s.humanTypes && in.InputType == chat.InputDropdown {
		c.Interaction = "system_human_interaction_name"
	}
	return c.oldPromptContent
}

func (s *schema) options(in chat.AgentInputRequest) any {
	var labels []string
	var list []option
	for _, o := range in.Options {
		one := option{ID: cmp.Or(o.ID, o.Answer()), Label: cmp.Or(o.Label, o.Answer()), Value: o.Answer()}
		if in.InputType != chat.InputBinary {
			one.Description = &o.Description
		}
		labels, list = append(labels, one.Label), append(list, one)
	}
	if s.plainOptions {
		return labels
	}
	return list
}

// appendPrompt appends the frame of a prompt. Its id changes when the prompt is sent again later: the UI restarts its
// countdown only then.
func (e *encoder) appendPrompt(dst []byte, p *openPrompt, now chat.At) []byte {
	h := e.head(e.promptType(string(inputRequest(&p.Prompt).InputType)), p.turn, p.frameID(now), now)
	h.Status = "in_progress"
	h.Content = e.promptContent(&p.Prompt, now)
	return appendJSON(dst, h)
}

// frameID is the id of the frame that shows the prompt now. The low bits of an event's id are free for this.
func (p *openPrompt) frameID(now chat.At) string {
	id, ok := chat.ParseID("", p.uuid)
	if !ok {
		return p.uuid
	}
	if late := (now - p.AskedAt) / 1e6; late > 0 {
		id[15] |= byte(late%127 + 1)
	}
	return id.UUID()
}

// matches reports whether a client's parent_id names this prompt.
func (p *openPrompt) matches(id string) bool {
	if id == p.RequestID {
		return true
	}
	mine, ok := chat.ParseID("", p.uuid)
	other, ok2 := chat.ParseID("", id)
	if !ok || !ok2 {
		return false
	}
	mine[15] &^= 0x7f
	other[15] &^= 0x7f
	return mine == other
}

// promptText is a prompt as text, for routes that cannot report prompts.
func promptText(p *chat.Prompt) string {
	in := inputRequest(p)
	s := in.Text
	if in.InputType == chat.InputOAuth {
		s = cmp.Or(in.URL, s)
	}
	for _, o := range in.Options {
		s += "\n- " + o.Answer()
		if o.Label != "" && o.Label != o.Answer() {
			s += fmt.Sprintf(" (%s)", o.Label)
		}
	}
	return s
}
