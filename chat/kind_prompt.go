package chat

import (
	"cmp"

	"github.com/parley-hq/parley/internal/json"
)

// InputType says what a person is asked for.
type InputType string

// The kinds of input.
const (
	InputText         InputType = "text"
	InputBinary       InputType = "binary_choice"
	InputRadio        InputType = "radio"
	InputCheckbox     InputType = "checkbox"
	InputDropdown     InputType = "dropdown"
	InputNotification InputType = "notification" // shown; it has no answer
	InputOAuth        InputType = "oauth_consent"
)

// AgentInputRequest asks a person for input.
type AgentInputRequest struct {
	RequestID   string    `json:"request_id,omitempty"` // filled in by the server when absent
	InputType   InputType `json:"input_type"`
	Text        string    `json:"text"`
	Options     []Option  `json:"options,omitempty"`
	Min         int       `json:"min,omitempty"` // fewest choices of a checkbox
	Max         int       `json:"max,omitempty"` // most choices; 0 is no limit
	Placeholder string    `json:"placeholder,omitempty"`
	Required    *bool     `json:"required,omitempty"` // nil means true
	Timeout     float64   `json:"timeout,omitempty"`  // seconds; 0 means no deadline
	Deadline    At        `json:"deadline,omitzero"`  // until when it can be answered; of this and timeout the earlier one counts
	Error       string    `json:"error,omitempty"`    // shown after the deadline
	URL         string    `json:"url,omitempty"`      // the page on which the person consents
}

// Option is one choice.
type Option struct {
	ID          string `json:"id"`
	Label       string `json:"label"`
	Value       string `json:"value,omitempty"` // the id when absent
	Description string `json:"description,omitempty"`
}

// AgentApprovalRequest asks a person to approve tool calls before they run.
type AgentApprovalRequest struct {
	RequestID string         `json:"request_id,omitempty"`
	Text      string         `json:"text,omitempty"`
	Calls     []ApprovalCall `json:"calls"`
	Timeout   float64        `json:"timeout,omitempty"`
	Deadline  At             `json:"deadline,omitzero"`
	Settled   bool           `json:"settled,omitempty"` // by the session's settings: the answer follows at once, and no person is asked
}

// ApprovalCall is one call that waits for approval.
type ApprovalCall struct {
	CallID string          `json:"call_id"`
	Tool   string          `json:"tool"`
	Params json.RawMessage `json:"params,omitempty"`
	Risk   string          `json:"risk,omitempty"`
	Always bool            `json:"always,omitempty"` // a person decides, whatever the session's settings say
	Client bool            `json:"client,omitempty"` // the sender of the message runs it: the answer brings the result, or refuses
}

// AgentPermissionRequest asks a person to grant scopes.
type AgentPermissionRequest struct {
	RequestID     string          `json:"request_id,omitempty"`
	Scopes        []string        `json:"scopes"`
	Justification string          `json:"justification,omitempty"`
	Tool          string          `json:"requested_tool,omitempty"` // the exact call it is for
	Params        json.RawMessage `json:"requested_args,omitempty"`
	Timeout       float64         `json:"timeout,omitempty"`
	Deadline      At              `json:"deadline,omitzero"`
}

// PromptClosed says that a prompt ended without an answer.
type PromptClosed struct {
	RequestID string      `json:"request_id"`
	Reason    CloseReason `json:"reason"`
}

// CloseReason says why a prompt ended without an answer.
type CloseReason string

// The reasons.
const (
	Expired   CloseReason = "expired"
	Withdrawn CloseReason = "withdrawn"
)

// Type is the type on the wire.
func (AgentInputRequest) Type() string      { return "agent.input_request" }
func (AgentApprovalRequest) Type() string   { return "agent.approval_request" }
func (AgentPermissionRequest) Type() string { return "agent.permission_request" }
func (PromptClosed) Type() string           { return "prompt.closed" }

// MaxTimeout is the longest time a prompt can be open when it has a limit, in seconds.
const MaxTimeout = 366 * 24 * 3600

func checkTimeout(s float64) error {
	if s < 0 || s > MaxTimeout {
		return Errorf(Invalid, "a timeout is between 0 (none) and %d seconds", MaxTimeout)
	}
	return nil
}

func (b AgentInputRequest) check() error {
	if err := checkTimeout(b.Timeout); err != nil {
		return err
	}
	switch b.InputType {
	case InputText, InputNotification, InputOAuth:
		return nil
	case InputBinary:
		if len(b.Options) != 2 {
			return Errorf(Invalid, "a binary_choice has exactly 2 options")
		}
	case InputRadio, InputCheckbox, InputDropdown:
		if len(b.Options) == 0 || len(b.Options) > 1000 {
			return Errorf(Invalid, "a prompt of type %s has 1 to 1000 options", b.InputType)
		}
	default:
		return Errorf(Invalid, "input_type %q is not one of text, binary_choice, radio, checkbox, dropdown, notification, oauth_consent", string(b.InputType))
	}
	if b.Min < 0 || b.Max < 0 || b.Max > 0 && b.Min > b.Max || b.Min > len(b.Options) {
		return Errorf(Invalid, "min and max do not fit the options")
	}
	return nil
}

func (b AgentApprovalRequest) check() error {
	if len(b.Calls) == 0 || len(b.Calls) > 100 {
		return Errorf(Invalid, "an approval request names 1 to 100 calls")
	}
	for _, c := range b.Calls {
		if c.CallID == "" || c.Tool == "" {
			return Errorf(Invalid, "each call of an approval request needs call_id and tool")
		}
	}
	return checkTimeout(b.Timeout)
}

func (b AgentPermissionRequest) check() error {
	if len(b.Scopes) == 0 || len(b.Scopes) > 100 {
		return Errorf(Invalid, "a permission request names 1 to 100 scopes")
	}
	return checkTimeout(b.Timeout)
}

func (PromptClosed) check() error { return nil }

func init() {
	register(func(p json.RawMessage) (b AgentInputRequest, err error) {
		var in struct {
			AgentInputRequest
			Options  json.RawMessage `json:"options"` // objects, or plain texts in old publishers
			Question string          `json:"question"`
		}
		if err = object(p, &in); err != nil {
			return b, err
		}
		b = in.AgentInputRequest
		b.Text = cmp.Or(b.Text, in.Question)
		if len(in.Options) > 0 && json.Unmarshal(in.Options, &b.Options) != nil {
			var plain []string
			if err := json.Unmarshal(in.Options, &plain); err != nil {
				return b, Errorf(Invalid, "options must be objects {id, label} or texts")
			}
			b.Options = nil
			for _, s := range plain {
				b.Options = append(b.Options, Option{ID: s, Label: s})
			}
		}
		if b.InputType == "" {
			b.InputType = InputText
			if len(b.Options) > 0 {
				b.InputType = InputRadio
			}
		}
		return b, nil
	})
	register(plain[AgentApprovalRequest])
	register(plain[AgentPermissionRequest])
	register(plain[PromptClosed])
}
