package remote

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// askName is the tool that AG-UI agents are offered: its calls are put to a
// person.
const askName = "ask_person"

var askTool = map[string]any{
	"name":        askName,
	"description": "Asks the person in the conversation a question and gives their answer. Use it only when the answer is needed to go on.",
	"parameters": map[string]any{
		"type": "object", "required": []string{"question"},
		"properties": map[string]any{
			"question": map[string]any{"type": "string", "description": "What to ask."},
			"options":  map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": "The possible answers, when only these are possible."},
		},
	},
}

// aguiInterrupt is what a run waits for.
type aguiInterrupt struct {
	ID      string          `json:"id"`
	Reason  string          `json:"reason"`
	Message string          `json:"message"`
	CallID  string          `json:"toolCallId"`
	Schema  json.RawMessage `json:"responseSchema"`
	Expires string          `json:"expiresAt"`
}

// Beginnings of a record's ids: which kind of question it was.
const (
	askedByTool      = "call:"
	askedByInterrupt = "interrupt:"
)

// questions is what a finished run waits for.
func (u *aguiRun) questions(ctx context.Context, e *aguiEvent) (asked []question, err error) {
	if e.Outcome != nil && e.Outcome.Type == "interrupt" {
		for i := range e.Outcome.Interrupts {
			asked = append(asked, u.interrupt(&e.Outcome.Interrupts[i]))
		}
	} else {
		for _, q := range u.graph {
			asked = append(asked, q.question(u.s))
		}
	}
	if len(asked) > 32 {
		return nil, u.a.unreadable("more than 32 questions at once", nil)
	}
	if len(asked) > 0 {
		return asked, nil
	}
	for _, id := range append([]string(nil), u.s.open...) {
		c := u.s.calls[id]
		if c.Tool == askName && !u.a.opt.NoAsk {
			asked = append(asked, question{id: askedByTool + c.CallID, body: toolQuestion(c.Params)})
			continue
		}
		if err := u.s.result(ctx, id, nil, "the agent gave no result, and nobody else runs this tool"); err != nil {
			return nil, err
		}
	}
	return asked, nil
}

// toolQuestion is a call of the tool as a question.
func toolQuestion(params json.RawMessage) chat.Body {
	var p struct {
		Question string   `json:"question"`
		Options  []string `json:"options"`
	}
	_ = json.Unmarshal(params, &p) // of another form: shown as it is
	if p.Question == "" {
		p.Question = string(params)
	}
	return choice(p.Question, p.Options)
}

// choice asks for one of some answers, or for any.
func choice(text string, options []string) chat.AgentInputRequest {
	if text == "" {
		text = "The agent needs your answer."
	}
	q := chat.AgentInputRequest{InputType: chat.InputText, Text: text}
	if len(options) > 0 && len(options) <= 100 {
		q.InputType = chat.InputRadio
		for _, o := range options {
			q.Options = append(q.Options, chat.Option{ID: o, Label: o, Value: o})
		}
	}
	return q
}

// interrupt is an interrupt as a question.
func (u *aguiRun) interrupt(in *aguiInterrupt) question {
	text := in.Message
	if text == "" {
		text = in.Reason
	}
	q := question{id: askedByInterrupt + in.ID}
	seconds := 0.0
	if t, err := time.Parse(time.RFC3339, in.Expires); err == nil {
		seconds = min(max(time.Until(t).Seconds(), 1), chat.MaxTimeout)
	}
	if c, ok := u.s.calls[in.CallID]; ok {
		q.id += "\napproval"
		q.body = chat.AgentApprovalRequest{Text: text, Timeout: seconds, Calls: []chat.ApprovalCall{{CallID: c.CallID, Tool: c.Tool, Params: c.Params}}}
		return q
	}
	form := formOf(in.Schema)
	body := choice(text, form.options)
	if form.yes {
		body.InputType = chat.InputBinary
		body.Options = []chat.Option{{ID: "yes", Label: "Yes", Value: "yes"}, {ID: "no", Label: "No", Value: "no"}}
	}
	body.Timeout, q.body = seconds, body
	q.id += "\n" + form.word()
	return q
}

// form is how the answer to an interrupt is to look.
type form struct {
	field   string // the answer is an object with this one field; "" is a plain value
	yes     bool   // true or false
	options []string
}

// word keeps a form in a record's id.
func (f form) word() string {
	if f.yes {
		return "yes " + f.field
	}
	return "text " + f.field
}

// formOf reads a JSON Schema, as far as it asks for one thing.
func formOf(schema json.RawMessage) form {
	type node struct {
		Type       string                     `json:"type"`
		Enum       []any                      `json:"enum"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	var n node
	if json.Unmarshal(schema, &n) != nil {
		return form{}
	}
	f := form{}
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
			return form{}
		}
		f.field, n = name, node{}
		_ = json.Unmarshal(raw, &n) // of another form: any text will do
	}
	f.yes = n.Type == "boolean"
	for _, e := range n.Enum {
		if s, ok := e.(string); ok {
			f.options = append(f.options, s)
		}
	}
	return f
}

// resume tells the agent what became of its questions: results of its calls go
// into the log, answers to interrupts are returned.
func (u *aguiRun) resume(ctx context.Context) ([]map[string]any, error) {
	var out []map[string]any
	for i := range u.r.answers {
		one := &u.r.answers[i]
		if callID, ok := strings.CutPrefix(one.id, askedByTool); ok {
			var body chat.Body = chat.AgentToolError{CallID: callID, Tool: askName, Error: "nobody answered"}
			if b, ok := one.body.(chat.UserInputResponse); ok {
				text, _ := json.Marshal(reply(b))
				body = chat.AgentToolResult{CallID: callID, Tool: askName, Result: text}
			}
			if _, err := u.s.store(ctx, body); err != nil {
				return nil, err
			}
			u.s.open = slices.DeleteFunc(u.s.open, func(id string) bool { return id == foreign(callID) })
			continue
		}
		if strings.HasPrefix(one.id, askedByGraph) {
			continue // see graphResume
		}
		id, word, _ := strings.Cut(strings.TrimPrefix(one.id, askedByInterrupt), "\n")
		entry := map[string]any{"interruptId": id, "status": "resolved"}
		switch b := one.body.(type) {
		case chat.UserApprovalResponse:
			entry["payload"] = decided(b)
		case chat.UserInputResponse:
			entry["payload"] = formed(word, reply(b))
		default:
			entry["status"] = "cancelled"
		}
		out = append(out, entry)
	}
	return out, nil
}

// decided is an approval as AG-UI agents expect it.
func decided(b chat.UserApprovalResponse) map[string]any {
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

// formed is an answer in the form that was asked for.
func formed(word, text string) any {
	kind, field, _ := strings.Cut(word, " ")
	var v any = text
	if kind == "yes" {
		v = text == "yes"
	} else if field == "" && strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid([]byte(text)) {
		v = json.RawMessage(text) // a person who knows what the agent wants
	}
	if field != "" {
		return map[string]any{field: v}
	}
	return v
}
