package nemo

import (
	"context"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// An execution is a turn: its id is the turn's. So executions need no store of
// their own, outlive restarts, and belong to who may see the session.

// execution is what is told of one. Which fields are there depends on the status.
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

const (
	statusRunning  = "running"
	statusAsking   = "interaction_required"
	statusOAuth    = "oauth_required"
	statusComplete = "completed"
	statusFailed   = "failed"
)

// promptExecution describes an open prompt of an execution.
func (d *Dialect) promptExecution(p *openPrompt) execution {
	e := execution{ID: p.execution, Status: statusAsking, InteractionID: p.uuid}
	e.ResponseURL = "/executions/" + e.ID + "/interactions/" + p.uuid + "/response"
	if p.Input != nil && p.Input.InputType == chat.InputOAuth {
		e.Status, e.AuthURL, e.OAuthState = statusOAuth, first(p.Input.URL, p.Input.Text), first(stateOf(p.Input), p.uuid)
		return e
	}
	e.Prompt = d.schema.plain().content(&p.Prompt, d.now())
	return e
}

// plain are the words for HTTP, which has one way of asking.
func (w *schema) plain() *schema { return &schemaNeMo }

// accepted is the answer to a request whose turn asks something.
func (d *Dialect) accepted(p *openPrompt) execution {
	e := d.promptExecution(p)
	e.StatusURL = "/executions/" + e.ID
	return e
}

// promptEvent is what a stream says when its turn asks something.
func (d *Dialect) promptEvent(p *openPrompt) execution {
	e := d.promptExecution(p)
	e.Type, e.Status = e.Status, ""
	return e
}

// turnReport is how a turn stands.
type turnReport struct {
	session chat.Session
	trigger chat.Event
	started bool
	turn    *turn
	prompt  *openPrompt // the oldest open one
	run     httpAnswer  // text, end and error
	changed chat.At
	items   []item // all that the turn showed
}

// report reads a turn out of the log, from the message that began it.
func (d *Dialect) report(ctx context.Context, c chat.Caller, sess chat.Session, trigger chat.Seq) (*turnReport, error) {
	rep := &turnReport{session: sess, run: httpAnswer{d: d, caller: c, session: sess.ID, trigger: trigger, createdAt: d.opt.Now()}}
	f := newFold(sess.ID, chat.Cursor{Seq: trigger - 1})
	after := trigger - 1
	for {
		facts, more, err := d.opt.Sessions.Read(ctx, c, sess.ID, chat.Range{After: after, Limit: 500})
		if err != nil {
			return nil, err
		}
		for _, fact := range facts {
			after = fact.Seq
			if fact.Seq == trigger {
				if rep.trigger, err = fact.Event(); err != nil {
					return nil, err
				}
			}
			items, err := f.take(&chat.Entry{Fact: fact})
			if err != nil {
				return nil, err
			}
			for i := range items {
				if err := rep.run.take(&items[i], func(*item) error { return nil }); err != nil {
					return nil, err
				}
				rep.changed = items[i].at
				if items[i].root == trigger {
					rep.items = append(rep.items, items[i])
				}
			}
			if rep.run.end != nil {
				rep.started, rep.turn = true, rep.run.end.turn
				return rep, nil
			}
		}
		if !more || len(facts) == 0 {
			break
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
	if rep.turn == nil && f.lastMessage.seq > trigger || rep.turn != nil && rep.turn.superseded {
		rep.run.err = &errorContent{Code: codeWorkflow, Message: "Superseded", Details: "a newer message in this conversation took the place of this one"}
		rep.run.end = &item{kind: itemEnd, outcome: chat.Stopped}
	}
	return rep, nil
}

// execution finds the turn that an execution id names.
func (d *Dialect) execution(ctx context.Context, c chat.Caller, name string) (*turnReport, error) {
	missing := chat.Errorf(chat.NotFound, "Execution %s not found", clip(name, 80))
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
	fact, err := d.opt.Sessions.Event(ctx, c, sess.ID, seq)
	if err != nil {
		return nil, err
	}
	e, err := fact.Event()
	if err != nil {
		return nil, err
	}
	b, ok := e.Body.(chat.TurnStarted)
	if !ok {
		return nil, missing
	}
	return d.report(ctx, c, sess, b.Trigger)
}

func (d *Dialect) showExecution(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	rep, err := d.execution(r.Context(), c, r.PathValue("id"))
	if err != nil {
		return err
	}
	e := execution{ID: r.PathValue("id"), Status: statusRunning}
	switch {
	case rep.run.err != nil:
		e.Status, e.Error = statusFailed, rep.run.err.Details
	case rep.run.end != nil && rep.run.end.outcome == chat.Stopped:
		e.Status, e.Error = statusFailed, "the turn was stopped"
	case rep.run.end != nil:
		e.Status, e.Result = statusComplete, rep.result()
	case rep.prompt != nil:
		e = d.promptExecution(rep.prompt)
	}
	sendJSON(w, r, http.StatusOK, e)
	return nil
}

// result is the answer in the form of the route that asked for it.
func (rep *turnReport) result() any {
	b, _ := rep.trigger.Body.(chat.UserMessage)
	schema := contextOf(b).SchemaType
	rt := &answerRoute{chat: schema == schemaChat || schema == schemaChatStream}
	rep.run.model, rep.run.createdAt = "unknown-model", rep.trigger.At.Time()
	return rt.result(&rep.run, b.PlainText())
}

// interactionResponse is a person's answer over HTTP.
type interactionResponse struct {
	Response *struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Selected json.RawMessage `json:"selected_option"`
		Values   []string        `json:"values"`
	} `json:"response"`
}

// text is what the one text of the other transport would be.
func (r *interactionResponse) text() (string, error) {
	switch r.Response.Type {
	case "text", "notification", "oauth_consent":
		return r.Response.Text, nil
	case "binary_choice", "radio", "checkbox", "dropdown":
	default:
		return "", refuse(codeMessage, "response.type %q is not one of text, binary_choice, radio, checkbox, dropdown, notification", clip(r.Response.Type, 40))
	}
	if len(r.Response.Values) > 0 {
		return string(appendJSON(nil, r.Response.Values)), nil
	}
	var one struct {
		ID    string `json:"id"`
		Value any    `json:"value"`
	}
	pick := func() string {
		if s, ok := one.Value.(string); ok && s != "" && s != placeholder {
			return s
		}
		return one.ID
	}
	if json.Unmarshal(r.Response.Selected, &one) == nil {
		return pick(), nil
	}
	var list []json.RawMessage
	if json.Unmarshal(r.Response.Selected, &list) == nil {
		var values []string
		for _, raw := range list {
			var s string
			if json.Unmarshal(raw, &s) == nil {
				values = append(values, s)
			} else if json.Unmarshal(raw, &one) == nil {
				values = append(values, pick())
			}
		}
		return string(appendJSON(nil, values)), nil
	}
	return "", refuse(codeMessage, "response.selected_option is an option {id, label, value}, or several of them for a checkbox")
}

// respond takes an answer: 204, 404 for what is not there, 400 for what was
// answered already.
func (d *Dialect) respond(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var body interactionResponse
	b, err := d.body(r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &body); err != nil || body.Response == nil {
		return refuse(codeMessage, "the body must be {\"response\":{\"type\":…}}")
	}
	text, err := body.text()
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
	err = d.answer(r.Context(), c, rep.session.ID, p, placeholder, text)
	if chat.CodeOf(err) == chat.Conflict {
		sendJSON(w, r, http.StatusBadRequest, map[string]string{"detail": chat.Public(err).Msg})
		return nil
	}
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// interaction finds the prompt that an id names, open or not.
func (d *Dialect) interaction(ctx context.Context, c chat.Caller, rep *turnReport, name string) (*chat.Prompt, error) {
	missing := chat.Errorf(chat.NotFound, "Interaction %s not found", clip(name, 80))
	id, ok := chat.ParseID("", name)
	if !ok {
		return nil, missing
	}
	sess, seq, err := d.opt.Sessions.ByID(ctx, c, id)
	if err != nil || sess.ID != rep.session.ID {
		return nil, missing
	}
	fact, err := d.opt.Sessions.Event(ctx, c, sess.ID, seq)
	if err != nil {
		return nil, err
	}
	e, err := fact.Event()
	if err != nil {
		return nil, err
	}
	p, ok := chat.AsPrompt(&e)
	if !ok || rep.turn == nil || e.Turn != rep.turn.id && e.Workstream == "" {
		return nil, missing
	}
	return &p, nil
}
