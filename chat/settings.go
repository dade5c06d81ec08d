package chat

import (
	"slices"
	"strings"
)

// Approvals says who decides about calls of tools that need approval.
type Approvals string

// The ways to approve.
const (
	ApproveAsk    Approvals = "ask"    // a person; the default
	ApproveReview Approvals = "review" // the server where the risk is low, else a person
	ApproveAll    Approvals = "all"    // the server, for all calls that do not require a person
)

// Settings are what people have chosen for the agents of a session. They apply
// from the next turn on; Approvals and CompleteAfterTurn apply at once. An agent
// ignores settings that it does not support.
type Settings struct {
	Approvals Approvals `json:"approvals,omitempty"`
	Model     string    `json:"model,omitempty"`   // of an agent that offers several
	Effort    string    `json:"effort,omitempty"`  // how much reasoning the model does
	Tools     []string  `json:"tools,omitempty"`   // that it may use: see Allowed
	Without   []string  `json:"without,omitempty"` // servers whose tools it does not use

	// CompleteAfterTurn ends the session when the last turn of the main line has
	// ended, no message waits and no workstream runs. A user message reopens it.
	CompleteAfterTurn bool `json:"complete_after_turn,omitempty"`
}

// maxSettings bounds the lists and texts of settings.
const maxSettings = 256

func (s *Settings) check() error {
	switch s.Approvals {
	case "", ApproveAsk, ApproveReview, ApproveAll:
	default:
		return Errorf(Invalid, "approvals %q is not one of ask, review, all", string(s.Approvals)).With("field", "settings.approvals")
	}
	if len(s.Tools) > maxSettings || len(s.Without) > maxSettings {
		return Errorf(TooLarge, "the lists in settings have at most %d entries", maxSettings)
	}
	for _, word := range slices.Concat([]string{s.Model, s.Effort}, s.Tools, s.Without) {
		if len(word) > maxSettings {
			return Errorf(TooLarge, "the words in settings have at most %d bytes", maxSettings)
		}
	}
	return nil
}

// Same reports whether both say the same.
func (s *Settings) Same(o *Settings) bool {
	return s.CompleteAfterTurn == o.CompleteAfterTurn && s.Approvals == o.Approvals && s.Model == o.Model && s.Effort == o.Effort && slices.Equal(s.Tools, o.Tools) && slices.Equal(s.Without, o.Without)
}

// Approves returns the decisions that the server makes by the settings, nil when
// a person is to be asked.
func (s *Settings) Approves(b AgentApprovalRequest) []Decision {
	if s.Approvals != ApproveAll && s.Approvals != ApproveReview {
		return nil
	}
	var all []Decision
	for _, c := range b.Calls {
		if c.Always || c.Client || s.Approvals == ApproveReview && c.Risk != "low" {
			return nil
		}
		all = append(all, Decision{CallID: c.CallID, Approve: true, Reason: "by the settings of the session"})
	}
	return all
}

// Allowed reports whether a list of names lets a tool be used. A name with a minus
// forbids the tool. If there are names without a sign, only those tools and the ones
// with a plus may be used; otherwise all that are not forbidden.
func Allowed(names []string, tool string) bool {
	if slices.Contains(names, "-"+tool) {
		return false
	}
	only := false
	for _, name := range names {
		if name == tool || name == "+"+tool {
			return true
		}
		only = only || !strings.HasPrefix(name, "+") && !strings.HasPrefix(name, "-")
	}
	return !only
}
