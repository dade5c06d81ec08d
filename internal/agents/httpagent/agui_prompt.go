package httpagent

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/aguiwire"
	"github.com/parley-hq/parley/internal/json"
)

// askName is the tool that AG-UI agents are offered. Its calls become prompts.
const askName = "ask_person"

var askTool = chat.ClientTool{
	Name:        askName,
	Description: "Asks the person in the conversation a question and gives their answer. Use it only when the answer is needed to go on.",
	Parameters: json.RawMessage(`{"type":"object","required":["question"],"properties":{` +
		`"question":{"type":"string","description":"What to ask."},` +
		`"options":{"type":"array","items":{"type":"string"},"description":"The possible answers, when only these are possible."}}}`),
}

// ofPage reports whether the sender of the message runs a tool.
func ofPage(turn *agent.Turn, tool string) bool {
	return slices.ContainsFunc(turn.ClientTools(), func(t chat.ClientTool) bool { return t.Name == tool })
}

// runsElsewhere reports whether the endpoint only asks for a tool: the page runs it, or a person answers.
func (a *Agent) runsElsewhere(turn *agent.Turn, tool string) bool {
	return a.opt.Protocol == AGUI && (ofPage(turn, tool) || tool == askName && !a.opt.NoAsk)
}

// Prefixes of the ids in a roundRecord: the kind of the prompt.
const (
	toolPrompt      = "call:"
	pagePrompt      = "page:" // for the calls that the sender of the message runs
	interruptPrompt = "interrupt:"
)

// prompts returns the prompts that a finished run waits for. Open calls that nobody
// runs end with an error, unless the run waits for answers.
func (u *aguiRun) prompts(ctx context.Context, e *aguiEvent) (prompts []promptRequest, err error) {
	if e.Outcome != nil && e.Outcome.Type == "interrupt" {
		for i := range e.Outcome.Interrupts {
			prompts = append(prompts, u.interrupt(&e.Outcome.Interrupts[i]))
		}
	} else {
		for _, q := range u.graphPrompts {
			prompts = append(prompts, q.request(u.out))
		}
	}
	asked := map[string]bool{} // calls whose approval the run waits for
	for _, p := range prompts {
		if b, ok := p.body.(chat.AgentApprovalRequest); ok {
			for _, c := range b.Calls {
				asked[c.CallID] = true
			}
		}
	}
	waits := len(prompts) > 0
	var page chat.AgentApprovalRequest
	for _, id := range slices.Clone(u.out.openCalls) {
		c := u.out.calls[id]
		switch {
		case asked[c.CallID]:
		case ofPage(u.r.turn, c.Tool):
			page.Calls = append(page.Calls, chat.ApprovalCall{CallID: c.CallID, Tool: c.Tool, Params: c.Params, Client: true})
		case waits:
		case c.Tool == askName && !u.a.opt.NoAsk:
			prompts = append(prompts, promptRequest{id: toolPrompt + c.CallID, body: toolPromptBody(c.Params)})
		default:
			if err := u.out.result(ctx, id, nil, "the agent ended its run without a result of this call"); err != nil {
				return nil, err
			}
		}
	}
	if len(prompts)+len(page.Calls) > maxPrompts {
		return nil, u.a.tooManyPrompts()
	}
	if len(page.Calls) > 0 {
		prompts = append(prompts, promptRequest{id: pagePrompt, body: page})
	}
	return prompts, nil
}

// toolPromptBody is a call of ask_person as a prompt.
func toolPromptBody(params json.RawMessage) chat.Body {
	var p struct {
		Question string   `json:"question"`
		Options  []string `json:"options"`
	}
	_ = json.Unmarshal(params, &p) // other parameters are shown as they are
	if p.Question == "" {
		p.Question = string(params)
	}
	return choice(p.Question, p.Options)
}

// choice is a prompt for one of the options, or for a text when there are none.
func choice(text string, options []string) chat.AgentInputRequest {
	q := chat.AgentInputRequest{InputType: chat.InputText, Text: cmp.Or(text, "The agent needs your answer.")}
	if len(options) > 0 && len(options) <= 100 {
		q.InputType = chat.InputRadio
		for _, o := range options {
			q.Options = append(q.Options, chat.Option{ID: o, Label: o, Value: o})
		}
	}
	return q
}

// interrupt is an interrupt as a prompt.
func (u *aguiRun) interrupt(in *aguiwire.Interrupt) promptRequest {
	text := cmp.Or(in.Message, in.Reason)
	q := promptRequest{id: interruptPrompt + in.ID}
	about, seconds := in.About(), 0.0
	if t, err := time.Parse(time.RFC3339, cmp.Or(in.Expires, about.Expires)); err == nil {
		seconds = min(max(time.Until(t).Seconds(), 1), chat.MaxTimeout)
	}
	if c, ok := u.out.calls[in.CallID]; ok {
		q.id += "\napproval"
		q.body = chat.AgentApprovalRequest{Text: text, Timeout: seconds, Calls: []chat.ApprovalCall{{CallID: c.CallID, Tool: c.Tool, Params: c.Params, Risk: about.Risk}}}
		return q
	}
	if len(about.Scopes) > 0 {
		q.id += "\npermission"
		q.body = chat.AgentPermissionRequest{Scopes: about.Scopes, Justification: in.Message, Timeout: seconds}
		return q
	}
	answer := parseAnswerSchema(in.Schema)
	body := choice(text, answer.options)
	switch {
	case answer.boolean:
		body.InputType = chat.InputBinary
		body.Options = []chat.Option{{ID: "yes", Label: "Yes", Value: "yes"}, {ID: "no", Label: "No", Value: "no"}}
	case answer.list && len(body.Options) > 0:
		body.InputType, body.Min, body.Max = chat.InputCheckbox, answer.min, answer.max
	}
	if asked := parleyQuestion(body, about, answer); asked != nil {
		body = *asked
		answer.boolean = false // a Parley server takes the option itself
	}
	body.Timeout = seconds
	q.id, q.body = q.id+"\n"+answer.encode(), body
	return q
}

// parleyQuestion is the question as another Parley server describes it, nil when there is no valid description.
func parleyQuestion(q chat.AgentInputRequest, about aguiwire.About, answer answerSchema) *chat.AgentInputRequest {
	if about.InputType == "" || about.InputType == chat.InputNotification {
		return nil
	}
	q.InputType, q.Options, q.Placeholder, q.URL = about.InputType, about.Options, about.Placeholder, about.URL
	if answer.optional {
		q.Required = new(bool)
	}
	d := chat.NewDraft(q)
	if d.Normalize() != nil {
		return nil
	}
	return &q
}

// answerSchema describes the answer to an interrupt.
type answerSchema struct {
	field   string // the answer is an object with this one field; "" is a plain value
	boolean bool   // the value is true or false
	list    bool   // the value is a list, of the options if there are some
	options []string

	min, max int  // of a list
	optional bool // the value may be left out
}

// encode writes the schema into the id of a prompt; answerPayload reads it.
func (s answerSchema) encode() string {
	switch {
	case s.boolean:
		return "yes " + s.field
	case s.list:
		return "list " + s.field
	}
	return "text " + s.field
}

// parseAnswerSchema reads a JSON Schema that asks for one value. Any other schema asks for
// plain text.
func parseAnswerSchema(schema json.RawMessage) answerSchema {
	type node struct {
		Type       string                     `json:"type"`
		Enum       []any                      `json:"enum"`
		Items      json.RawMessage            `json:"items"`
		Min        int                        `json:"minItems"`
		Max        int                        `json:"maxItems"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	var n node
	if json.Unmarshal(schema, &n) != nil {
		return answerSchema{}
	}
	out := answerSchema{}
	if n.Type == "object" || len(n.Properties) > 0 {
		name := ""
		switch {
		case len(n.Required) == 1:
			name = n.Required[0]
		case len(n.Properties) == 1:
			for name = range n.Properties {
			}
		}
		raw, ok := n.Properties[name]
		if !ok {
			return answerSchema{}
		}
		out.field, out.optional, n = name, !slices.Contains(n.Required, name), node{}
		_ = json.Unmarshal(raw, &n) // a property with another schema accepts any text
	}
	if n.Type == "array" {
		out.list, out.min, out.max = true, n.Min, n.Max
		items := n.Items
		n = node{}
		_ = json.Unmarshal(items, &n) // a list of anything
	}
	out.boolean = n.Type == "boolean" && !out.list
	for _, e := range n.Enum {
		if s, ok := e.(string); ok {
			out.options = append(out.options, s)
		}
	}
	return out
}

// resume stores the results of calls of ask_person and of the page's tools, and
// returns the answers to interrupts.
func (u *aguiRun) resume(ctx context.Context) ([]map[string]any, error) {
	var out []map[string]any
	for i := range u.r.answers {
		one := &u.r.answers[i]
		if callID, ok := strings.CutPrefix(one.id, toolPrompt); ok {
			var body chat.Body = chat.AgentToolError{CallID: callID, Tool: askName, Error: "nobody answered"}
			if b, ok := one.body.(chat.UserInputResponse); ok {
				text, _ := json.Marshal(answerText(b))
				body = chat.AgentToolResult{CallID: callID, Tool: askName, Result: text}
			}
			if _, err := u.out.store(ctx, body); err != nil {
				return nil, err
			}
			u.out.closeCall(endpointCallID(callID))
			continue
		}
		if one.id == pagePrompt && one.prompt.Approval != nil {
			if err := u.pageResults(ctx, one); err != nil {
				return nil, err
			}
			continue
		}
		if strings.HasPrefix(one.id, graphPromptID) {
			continue // sent by graphResume
		}
		id, schema, _ := strings.Cut(strings.TrimPrefix(one.id, interruptPrompt), "\n")
		entry := map[string]any{"interruptId": id, "status": "resolved"}
		switch b := one.body.(type) {
		case chat.UserApprovalResponse:
			entry["payload"] = approvalPayload(b)
		case chat.UserInputResponse:
			entry["payload"] = answerPayload(schema, b)
		case chat.UserPermissionResponse:
			entry["payload"] = map[string]any{"granted": append([]string{}, b.Granted...), "denied": append([]string{}, b.Denied...), "duration": b.Duration}
		default:
			entry["status"] = "cancelled"
		}
		out = append(out, entry)
	}
	return out, nil
}

// pageResults stores the results of the calls that the sender of the message ran.
func (u *aguiRun) pageResults(ctx context.Context, one *promptAnswer) error {
	b, _ := one.body.(chat.UserApprovalResponse) // none when the prompt was closed
	for _, c := range one.prompt.Approval.Calls {
		d, problem := chat.Decision{}, "nobody ran the tool"
		if i := slices.IndexFunc(b.Decisions, func(d chat.Decision) bool { return d.CallID == c.CallID }); i >= 0 {
			if d, problem = b.Decisions[i], b.Decisions[i].Error; !d.Approve {
				problem = cmp.Or(d.Reason, "the call was refused")
			}
		}
		if err := u.out.result(ctx, endpointCallID(c.CallID), d.Result, problem); err != nil {
			return err
		}
	}
	return nil
}

// approvalPayload is an approval as AG-UI agents expect it.
func approvalPayload(b chat.UserApprovalResponse) map[string]any {
	out := map[string]any{"approved": false}
	if len(b.Decisions) == 0 {
		return out
	}
	d := b.Decisions[0]
	out["approved"] = d.Approve
	if d.Reason != "" {
		out["reason"] = d.Reason
	}
	if len(d.Params) > 0 {
		out["editedArgs"] = d.Params
	}
	return out
}

// answerPayload is an answer according to an encoded schema.
func answerPayload(schema string, b chat.UserInputResponse) any {
	kind, field, _ := strings.Cut(schema, " ")
	text := answerText(b)
	var v any = text
	switch {
	case kind == "yes":
		v = text == "yes"
	case kind == "list" && len(b.Values) == 0 && text != "":
		v = []string{text}
	case kind == "list":
		v = append([]string{}, b.Values...) // never null
	case field == "" && strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid([]byte(text)):
		v = json.RawMessage(text) // a person may answer with an object
	}
	if field != "" {
		return map[string]any{field: v}
	}
	return v
}
