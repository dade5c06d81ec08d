package edge

import (
	"bytes"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// ParseConsent reads a word for yes or no, for clients that can only send text.
func ParseConsent(text string) (approve, ok bool) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "yes", "y", "approve", "approved", "allow", "grant", "granted", "continue", "ok", "true":
		return true, true
	case "no", "n", "deny", "denied", "reject", "rejected", "cancel", "false":
		return false, true
	}
	return false, false
}

// Consent is the answer to an approval or a permission: all that it asks for, or nothing.
func Consent(p *chat.Prompt, approve bool) (a chat.Answer) {
	if p.Approval != nil {
		for _, call := range p.Approval.Calls {
			a.Decisions = append(a.Decisions, chat.Decision{CallID: call.CallID, Approve: approve})
		}
		return a
	}
	granted := []string{}
	if approve {
		granted = p.Permission.Scopes
	}
	a.Granted = &granted
	return a
}

// consentBody is what a page sends as JSON to decide about a call or a permission.
type consentBody struct {
	Approved *bool           `json:"approved"`
	Reason   string          `json:"reason"`
	Edited   json.RawMessage `json:"editedArgs"`
	Granted  *[]string       `json:"granted"`
	Denied   []string        `json:"denied"`
	Duration string          `json:"duration"`
}

// ReadConsent reads a decision. Some pages send only true, or only the scopes. null is no decision.
func ReadConsent(raw json.RawMessage) (c consentBody) {
	raw = json.NotNull(raw)
	var yes bool
	var scopes []string
	switch {
	case json.Unmarshal(raw, &yes) == nil:
		c.Approved = &yes
	case json.Unmarshal(raw, &scopes) == nil:
		c.Granted = &scopes
	case json.Unmarshal(raw, &c) != nil:
		c = consentBody{}
	}
	return c
}

// InputAnswer reads the answer to a question from JSON: a text, a list of choices, true for the first of two options, or an
// object with one of them.
func InputAnswer(in *chat.AgentInputRequest, raw json.RawMessage) (a chat.Answer) {
	var body map[string]json.RawMessage
	if json.Unmarshal(raw, &body) == nil && body != nil {
		raw = nil
		for _, name := range []string{"value", "values", "text", "answer"} {
			if raw == nil {
				raw = body[name]
			}
		}
	}
	var first bool
	switch {
	case len(raw) == 0 || string(raw) == "null": // right for a question that needs no answer
	case json.Unmarshal(raw, &a.Text) == nil:
	case json.Unmarshal(raw, &first) == nil && in.InputType == chat.InputBinary && len(in.Options) == 2: // an imported log may have others
		i := 1
		if first {
			i = 0
		}
		a.Values = []string{in.Options[i].Answer()}
	case json.Unmarshal(raw, &a.Values) == nil:
		if in.InputType == chat.InputText {
			a = chat.Answer{Text: strings.Join(a.Values, ", ")}
		}
	default: // a number, or anything else as a text
		a = chat.Answer{Text: string(bytes.TrimSpace(raw))} // Values may have a part of a list
	}
	return a
}
