package edge

import (
	"strings"

	"github.com/parley-hq/parley/chat"
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
