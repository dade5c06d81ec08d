package nemo

import (
	"cmp"
	"context"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// An execution is a turn, and has its id. So executions need no store of their own, survive restarts, and have the access
// rules of the session.

// execution is the state of one. Which fields it has depends on the status.
type execution struct {
	Type          string `json:"event_type,omitempty"` // in streams
	ID            string `json:"execution_id"`
	Status        string `json:"status,omitempty"`
	StatusURL     string `json:"status_url,omitempty"`
	InteractionID string `json:"interaction_id,omitempty"`
	Prompt        any    `json:"prompt,omitempty"`
	ResponseURL   string `json:"response_url,omitempty"`
	AuthURL       string `json:"auth_url,omitempty"`
	OAuthState    string `json:"oauth_state,omitempty"`
	Result        any    `json:"result,omitempty"`
	Error         string `json:"error,omitempty"`
}

// promptExecution is an execution that waits for the answer to a prompt.
func (d *Dialect) promptExecution(p *openPrompt) execution {
	e := execution{ID: p.execution, Status: "interaction_required", InteractionID: p.uuid}
	e.ResponseURL = "/executions/" + e.ID + "/interactions/" + p.uuid + "/response"
	if p.Input != nil && p.Input.InputType == chat.InputOAuth {
		e.Status, e.AuthURL, e.OAuthState = "oauth_required", cmp.Or(p.Input.URL, p.Input.Text), cmp.Or(stateOf(p.Input), p.uuid)
		return e
	}
	e.Prompt = schemaNeMo.promptContent(&p.Prompt, d.now()) // HTTP has one form of prompts
	return e
}

// turnReport is how far the answer to a message is.
type turnReport struct {
	session chat.Session
	trigger chat.Event
	started bool
	turn    *turn
	prompt  *openPrompt // the oldest open one
	answer  httpAnswer  // text, end and error
	changed chat.At
	items   []item // of the answer
}

// report reads the answer to a message from the log.
func (d *Dialect) report(ctx context.Context, c chat.Caller, sess chat.Session, trigger chat.Seq) (*turnReport, error) {
	rep := &turnReport{session: sess, answer: httpAnswer{d: d, caller: c, session: sess.ID, trigger: trigger, createdAt: d.opt.Now()}}
	f := newFold(sess.ID, chat.Cursor{Seq: trigger - 1})
	for fact, err := range d.opt.Sessions.Facts(ctx, c, sess.ID, chat.Range{After: trigger - 1}) {
		if err != nil {
			return nil, err
		}
		if fact.Seq == trigger {
			if rep.trigger, err = fact.Event(); err != nil {
				return nil, err
			}
		}
		items, err := f.take(&core.Entry{Fact: fact})
		if err != nil {
			return nil, err
		}
		for i := range items {
			_ = rep.answer.take(&items[i], func(*item) error { return nil })
			rep.changed = items[i].at
			if items[i].root == trigger {
				rep.items = append(rep.items, items[i])
			}
		}
		if rep.answer.end != nil {
			rep.started, rep.turn = true, rep.answer.end.turn
			return rep, nil
		}
	}
	for _, t := range f.turns {
		if t.trigger == trigger {
			rep.started, rep.turn = true, t
		}
	}
	for _, p := range f.prompts {
		if p.root == trigger && rep.prompt == nil {
			rep.prompt = p
		}
	}
	if rep.turn == nil && f.lastMessage.trigger > trigger || rep.turn != nil && rep.turn.superseded {
		rep.answer.err = &errorContent{Code: codeWorkflow, Message: "Superseded", Details: "a newer message in this conversation replaced this one"}
		rep.answer.end = &item{kind: itemEnd, outcome: chat.Stopped}
	}
	return rep, nil
}

// execution finds the turn that an execution id names.
func (d *Dialect) execution(ctx context.Context, c chat.Caller, name string) (*turnReport, error) {
	missing := chat.Errorf(chat.NotFound, "Execution %s not found", text.Clip(name, 80))
	id, ok := chat.ParseID("", name)
	if !ok {
		return nil, missing
	}
	sess, seq, err := d.opt.Sessions.ByID(ctx, c, id)
	if err != nil {
		if chat.CodeOf(err) == chat.NotFound {
			return nil, missing
		}
		return nil, err
	}
	e, err := d.opt.Sessions.Event(ctx, c, sess.ID, seq)
	if err != nil {
		return nil, err
	}
	b, ok := e.Body.(chat.TurnStarted)
	if !ok {
		return nil, missing
	}
	return d.report(ctx, c, sess, b.Trigger)
}

func (d *Dialect) showExecution(r *http.Request, c chat.Caller) (any, error) {
	rep, err := d.execution(r.Context(), c, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	e := execution{ID: r.PathValue("id"), Status: "running"}
	switch {
	case rep.answer.err != nil:
		e.Status, e.Error = "failed", rep.answer.err.Details
	case rep.answer.end != nil && rep.answer.end.outcome == chat.Stopped:
		e.Status, e.Error = "failed", "the turn was stopped"
	case rep.answer.end != nil:
		e.Status, e.Result = "completed", rep.result()
	case rep.prompt != nil:
		e = d.promptExecution(rep.prompt)
	}
	return e, nil
}

// result is the answer in the form of the route that asked for it.
func (rep *turnReport) result() any {
	b, _ := rep.trigger.Body.(chat.UserMessage)
	schema := contextOf(b).SchemaType
	rep.answer.model, rep.answer.createdAt = "unknown-model", rep.trigger.At.Time()
	return rep.answer.result(schema == schemaChat || schema == schemaChatStream, b.PlainText())
}

// interactionResponse is the answer to a prompt over HTTP.
type interactionResponse struct {
	Response *struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Selected json.RawMessage `json:"selected_option"`
		Values   []string        `json:"values"`
	} `json:"response"`
}

// selectedOption is an option as clients send it back.
type selectedOption struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}

func (o selectedOption) text() string {
	if s, ok := o.Value.(string); ok && s != "" && s != placeholder {
		return s
	}
	return o.ID
}

// text is the answer as the one text that a WebSocket client would send.
func (r *interactionResponse) text() (string, error) {
	switch r.Response.Type {
	case "text", "notification", "oauth_consent":
		return r.Response.Text, nil
	case "binary_choice", "radio", "checkbox", "dropdown":
	default:
		return "", refuse(codeMessage, "response.type %q is not one of text, binary_choice, radio, checkbox, dropdown, notification", text.Clip(r.Response.Type, 40))
	}
	if len(r.Response.Values) > 0 {
		return string(appendJSON(nil, r.Response.Values)), nil
	}
	var one selectedOption
	if json.Unmarshal(r.Response.Selected, &one) == nil {
		return one.text(), nil
	}
	var list []json.RawMessage
	if json.Unmarshal(r.Response.Selected, &list) != nil {
		return "", refuse(codeMessage, "response.selected_option is an option {id, label, value}, or several of them for a checkbox")
	}
	var values []string
	for _, raw := range list {
		var s string
		if json.Unmarshal(raw, &s) == nil {
			values = append(values, s)
		} else if json.Unmarshal(raw, &one) == nil {
			values = append(values, one.text())
		}
	}
	return string(appendJSON(nil, values)), nil
}

// respond stores the answer to a prompt: 204, 404 when the prompt does not exist, 400 when it is answered already.
func (d *Dialect) respond(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var body interactionResponse
	if err := d.http.Read(r, &body); err != nil {
		return err
	}
	if body.Response == nil {
		return refuse(codeMessage, "the body must be {\"response\":{\"type\":…}}")
	}
	answer, err := body.text()
	if err != nil {
		return err
	}
	rep, err := d.execution(r.Context(), c, r.PathValue("id"))
	if err != nil {
		return err
	}
	p, err := d.interaction(r.Context(), c, rep, r.PathValue("interaction"))
	if err != nil {
		return err
	}
	switch err = d.answer(r.Context(), c, rep.session.ID, p, placeholder, answer); {
	case chat.CodeOf(err) == chat.Conflict:
		d.http.Send(w, r, http.StatusBadRequest, map[string]string{"detail": chat.Public(err).Msg})
		return nil
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// interaction finds the prompt that an id names, open or not.
func (d *Dialect) interaction(ctx context.Context, c chat.Caller, rep *turnReport, name string) (*chat.Prompt, error) {
	missing := chat.Errorf(chat.NotFound, "Interaction %s not found", text.Clip(name, 80))
	id, ok := chat.ParseID("", name)
	if !ok {
		return nil, missing
	}
	sess, seq, err := d.opt.Sessions.ByID(ctx, c, id)
	if chat.CodeOf(err) == chat.NotFound || err == nil && sess.ID != rep.session.ID {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	e, err := d.opt.Sessions.Event(ctx, c, sess.ID, seq)
	if err != nil {
		return nil, err
	}
	p, ok := chat.AsPrompt(&e)
	if !ok || rep.turn == nil || e.Turn != rep.turn.id && e.Workstream == "" {
		return nil, missing
	}
	return &p, nil
}
