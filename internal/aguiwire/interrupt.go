package aguiwire

import (
	"cmp"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Interrupt is a question that the next run answers.
type Interrupt struct {
	ID       string          `json:"id"`
	Reason   string          `json:"reason"`
	Message  string          `json:"message,omitempty"`
	CallID   string          `json:"toolCallId,omitempty"`
	Schema   json.RawMessage `json:"responseSchema,omitempty"`
	Expires  string          `json:"expiresAt,omitempty"`
	Subagent string          `json:"subagentRunId,omitempty"`
	Metadata map[string]any  `json:"metadata,omitempty"`
}

// AboutKey is the key in the metadata of an interrupt under which Parley describes the prompt.
const AboutKey = "parley"

// About is what the agent kind reads of the description of a prompt.
type About struct {
	InputType   chat.InputType `json:"input_type"`
	Options     []chat.Option  `json:"options"`
	Placeholder string         `json:"placeholder"`
	URL         string         `json:"url"`
	Scopes      []string       `json:"scopes"`
	Risk        string         `json:"risk"`
	Expires     string         `json:"expiresAt"` // see HideDeadline
}

// About returns the description of the prompt. It is empty when the interrupt is of another server.
func (i *Interrupt) About() (about About) {
	b, err := json.Marshal(i.Metadata[AboutKey])
	if err != nil || json.Unmarshal(b, &about) != nil {
		return About{}
	}
	return about
}

// Interrupts returns the questions of a prompt: one for each call of an approval request. Calls of client tools have none.
func Interrupts(p *chat.Prompt) (out []Interrupt) {
	base := Interrupt{ID: p.RequestID, Subagent: p.Workstream}
	if p.Deadline > 0 {
		base.Expires = p.Deadline.Time().Format(time.RFC3339Nano)
	}
	add := func(one Interrupt, schema json.RawMessage, about map[string]any) {
		about["agent"] = p.Agent
		one.Schema, one.Metadata = schema, map[string]any{AboutKey: about}
		out = append(out, one)
	}
	switch {
	case p.Approval != nil:
		for _, c := range p.Approval.Calls {
			if !c.Client {
				base.ID, base.Reason, base.CallID = InterruptID(p, c.CallID), "tool_call", c.CallID
				base.Message = cmp.Or(p.Approval.Text, "Approve the call of "+c.Tool+"?")
				add(base, json.RawMessage(approvalSchema), map[string]any{"tool": c.Tool, "params": Arguments(c.Params), "risk": c.Risk})
			}
		}
	case p.Permission != nil:
		base.Reason, base.Message = "permission", cmp.Or(p.Permission.Justification, "Permission for "+strings.Join(p.Permission.Scopes, ", ")+"?")
		add(base, permissionSchema(p.Permission), map[string]any{"scopes": p.Permission.Scopes})
	case p.Input != nil:
		about := map[string]any{"input_type": p.Input.InputType}
		if len(p.Input.Options) > 0 {
			about["options"] = p.Input.Options
		}
		if p.Input.Placeholder != "" {
			about["placeholder"] = p.Input.Placeholder
		}
		if p.Input.URL != "" {
			about["url"] = p.Input.URL
		}
		base.Reason, base.Message = "input_required", p.Input.Text
		add(base, inputSchema(p.Input), about)
	}
	return out
}

// HideDeadline moves the deadline to the description, for clients before 1.0: after the deadline they send no answer at all, also
// not cancelled, and the thread would be locked in their page.
func (i *Interrupt) HideDeadline() {
	if about, ok := i.Metadata[AboutKey].(map[string]any); ok && i.Expires != "" {
		about["expiresAt"], i.Expires = i.Expires, ""
	}
}

// InterruptID is the id of the interrupt for one call of an approval request.
func InterruptID(p *chat.Prompt, callID string) string { return p.RequestID + "/" + callID }

const approvalSchema = `{"type":"object","properties":{"approved":{"type":"boolean"},"reason":{"type":"string"},"editedArgs":{"type":"object"}},"required":["approved"]}`

// schema is the part of JSON Schema that describes answers.
type schema struct {
	Type       string             `json:"type"`
	Enum       []string           `json:"enum,omitempty"`
	Items      *schema            `json:"items,omitempty"`
	Min        int                `json:"minItems,omitempty"`
	Max        int                `json:"maxItems,omitempty"`
	Properties map[string]*schema `json:"properties,omitempty"`
	Required   []string           `json:"required,omitempty"`
}

func inputSchema(in *chat.AgentInputRequest) json.RawMessage {
	value := &schema{Type: "string"}
	for _, o := range in.Options {
		value.Enum = append(value.Enum, o.Answer())
	}
	switch in.InputType {
	case chat.InputCheckbox:
		value = &schema{Type: "array", Items: value, Min: in.Min, Max: in.Max}
	case chat.InputBinary: // true is the first option
		value = &schema{Type: "boolean"}
	}
	s := schema{Type: "object", Properties: map[string]*schema{"value": value}}
	if in.Required == nil || *in.Required {
		s.Required = []string{"value"}
	}
	b, _ := json.Marshal(s) // texts and numbers only
	return b
}

func permissionSchema(p *chat.AgentPermissionRequest) json.RawMessage {
	b, _ := json.Marshal(schema{Type: "object", Required: []string{"granted"}, Properties: map[string]*schema{
		"granted":  {Type: "array", Items: &schema{Type: "string", Enum: p.Scopes}},
		"duration": {Type: "string", Enum: []string{"once", "session", "always"}},
	}}) // texts only
	return b
}
