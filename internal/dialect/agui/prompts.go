package agui

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
)

// ask ends the run with a prompt.
func (x *encoder) ask(e *chat.Event) {
	p, waits := chat.AsPrompt(e)
	if p.Approval != nil && x.run != nil {
		for _, c := range p.Approval.Calls {
			x.call(p.Workstream, c.CallID, c.Tool, c.Params)
		}
	}
	switch {
	case !waits: // a notification has no answer
		if x.run != nil {
			x.custom(e.Workstream, "parley.notification", e.Payload)
		}
	case p.Approval != nil && p.Approval.Settled: // its answer follows
	default:
		x.prompts = append(x.prompts, &p)
		if x.run != nil {
			x.end()
		}
	}
}

// answered removes a prompt that an event closes. Calls that were refused get a result, because no other event says so.
func (x *encoder) answered(e *chat.Event) {
	id := chat.AnswerOf(e.Body)
	x.prompts = slices.DeleteFunc(x.prompts, func(p *chat.Prompt) bool { return p.RequestID == id })
	if b, ok := e.Body.(chat.UserApprovalResponse); ok && x.run != nil {
		for _, d := range b.Decisions {
			if !d.Approve && d.CallID != "" {
				x.result(e, d.CallID, cmp.Or(d.Reason, "The call was not approved."), map[string]any{"denied": true})
			}
		}
	}
}

// openOutcome is the outcome of a run that ends with prompts. Calls of client tools are no interrupts: the client runs them and
// sends the results.
func openOutcome(prompts []*chat.Prompt, f variant, runID string) *outcome {
	o := &outcome{Type: "interrupt"}
	var pending []string
	for _, p := range prompts {
		if p.Approval != nil {
			for _, c := range p.Approval.Calls {
				if c.Client {
					pending = append(pending, c.CallID)
				}
			}
		}
		o.Interrupts = append(o.Interrupts, interrupts(p, f, runID)...)
	}
	if len(o.Interrupts) > 0 {
		return o
	}
	o = &outcome{Type: "success"}
	if f.v1 {
		o.Pending = pending
	}
	return o
}

// interrupts are the questions of a prompt: one for each call of an approval request.
func interrupts(p *chat.Prompt, f variant, runID string) (out []interrupt) {
	base := interrupt{ID: p.RequestID, Subagent: p.Workstream}
	if p.Deadline > 0 {
		base.Expires = p.Deadline.Time().Format(time.RFC3339Nano)
	}
	about := map[string]any{"agent": p.Agent}
	base.Metadata = map[string]any{"parley": about}
	switch {
	case p.Approval != nil:
		for _, c := range p.Approval.Calls {
			if c.Client {
				continue
			}
			one := base
			one.ID, one.Reason, one.CallID = interruptID(p, c.CallID), "tool_call", c.CallID
			one.Message = cmp.Or(p.Approval.Text, "Approve the call of "+c.Tool+"?")
			one.Schema = json.RawMessage(approvalSchema)
			one.Metadata = map[string]any{"parley": map[string]any{"agent": p.Agent, "tool": c.Tool, "params": orEmpty(c.Params), "risk": c.Risk}}
			out = append(out, one)
		}
	case p.Permission != nil:
		base.Reason, base.Message = "permission", cmp.Or(p.Permission.Justification, "Permission for "+strings.Join(p.Permission.Scopes, ", ")+"?")
		base.Schema = permissionSchema(p.Permission)
		about["scopes"] = p.Permission.Scopes
		out = append(out, base)
	case p.Input != nil:
		base.Reason, base.Message, base.Schema = "input_required", p.Input.Text, inputSchema(p.Input)
		about["input_type"] = p.Input.InputType
		if len(p.Input.Options) > 0 {
			about["options"] = p.Input.Options
		}
		if p.Input.Placeholder != "" {
			about["placeholder"] = p.Input.Placeholder
		}
		if p.Input.URL != "" {
			about["url"] = p.Input.URL
		}
		out = append(out, base)
	}
	if f.tanstack {
		// TanStack's client answers interrupts without a schema, and needs to know that they are generic.
		for i := range out {
			out[i].Metadata["parley"].(map[string]any)["responseSchema"] = out[i].Schema
			out[i].Schema = nil
			out[i].Metadata["tanstack:interruptBinding"] = map[string]any{
				"v": 1, "kind": "generic", "interruptId": out[i].ID, "interruptedRunId": runID, "generation": 1,
			}
		}
	}
	return out
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return emptyObject
	}
	return raw
}

// interruptID is the id of the interrupt for one call of an approval request.
func interruptID(p *chat.Prompt, callID string) string { return p.RequestID + "/" + callID }

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

// runMark begins the client_id of an answer. The number of the prompt's event, the id of the run and, for a message that answers a
// question, its id follow.
const runMark = "agui-run:"

// answerKey is the client_id of a run's answer to a prompt, "" when the ids are too long for one. A request that is repeated after
// some of its answers were stored has the same keys.
func answerKey(prompt chat.Seq, runID, messageID string) string {
	key := runMark + strconv.FormatUint(uint64(prompt), 10) + ":" + runID
	if messageID != "" {
		key += "\n" + messageID
	}
	if runID == "" || len(key) > chat.MaxClientID {
		return ""
	}
	return key
}

// senderOf returns the ids of the run and of the message that brought an answer, "" when it came another way.
func senderOf(e *chat.Event) (run, message string) {
	if rest, ok := strings.CutPrefix(e.ClientID, runMark); ok {
		_, run, _ = strings.Cut(rest, ":")
		run, message, _ = strings.Cut(run, "\n")
	}
	return run, message
}

// answerTo makes the answer to a prompt from the entries and tool messages of a request. ok is false when some of the prompt's
// questions have no answer in them.
func answerTo(p *chat.Prompt, entries map[string]resumeEntry, results map[string]message) (a chat.Answer, ok bool, err error) {
	switch {
	case p.Approval != nil:
		for _, c := range p.Approval.Calls {
			var d chat.Decision
			if m, ran := results[c.CallID]; c.Client && ran {
				d = toolDecision(c.CallID, m)
			} else if e, given := entries[interruptID(p, c.CallID)]; given && !c.Client {
				if d, err = approvalDecision(c.CallID, e); err != nil {
					return a, false, err
				}
			} else {
				return a, false, nil
			}
			a.Decisions = append(a.Decisions, d)
		}
		return a, true, nil
	}
	e, given := entries[p.RequestID]
	switch {
	case !given:
	case p.Permission != nil:
		a, err = permissionAnswer(p, e)
	case e.Status != "cancelled":
		a = edge.InputAnswer(p.Input, e.Payload)
	}
	return a, given && err == nil, err
}

// toolDecision is the result of a tool that the client ran.
func toolDecision(callID string, m message) chat.Decision {
	d := chat.Decision{CallID: callID, Approve: true}
	if m.Error != "" {
		d.Error = m.Error
	} else {
		d.Result = toolResult(m.Content)
	}
	return d
}

// toolResult is the content of a tool message: a text, or the parts when some are not text.
func toolResult(content json.RawMessage) json.RawMessage {
	var parts []part
	if json.Unmarshal(content, &parts) == nil && slices.ContainsFunc(parts, func(p part) bool { return p.Type != "text" }) {
		return content
	}
	return quote(contentText(content))
}

func approvalDecision(callID string, e resumeEntry) (chat.Decision, error) {
	d := chat.Decision{CallID: callID}
	if e.Status == "cancelled" {
		d.Reason = "The person cancelled the question."
		return d, nil
	}
	c := edge.ReadConsent(e.Payload)
	if c.Approved == nil {
		return d, chat.Errorf(chat.Invalid, "resume: the payload for a tool call is {approved, reason?, editedArgs?}")
	}
	d.Approve, d.Reason = *c.Approved, c.Reason
	if d.Approve && string(c.Edited) != "null" {
		d.Params = c.Edited
	}
	return d, nil
}

func permissionAnswer(p *chat.Prompt, e resumeEntry) (a chat.Answer, err error) {
	c := edge.ReadConsent(e.Payload)
	switch {
	case e.Status == "cancelled":
		return edge.Consent(p, false), nil
	case c.Granted != nil:
		a.Granted, a.Denied = c.Granted, c.Denied
	case c.Approved != nil:
		a = edge.Consent(p, *c.Approved)
	default:
		err = chat.Errorf(chat.Invalid, "resume: the payload for a permission is {granted: [scopes], duration?}")
	}
	a.Duration = c.Duration
	return a, err
}
