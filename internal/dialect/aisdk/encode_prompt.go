package aisdk

import (
	"cmp"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/pages"
)

// Prompts of all lines are shown, because the page may be the only place where a person can answer.

// approvalID is the id of the approval of one call.
func approvalID(request, call string) string { return request + "/" + call }

// prompt shows a prompt and reports whether the event is one that waits for an answer.
func (r *run) prompt(e *chat.Event) bool {
	p, ok := chat.AsPrompt(e)
	if !ok || r.turn == "" || p.Approval != nil && p.Approval.Settled {
		return false
	}
	switch e.Body.(type) {
	case chat.AgentInputRequest:
		r.tool(p.RequestID, toolAsk, questionInput(&p), true)
	case chat.AgentApprovalRequest, chat.AgentPermissionRequest:
		for _, c := range callsOf(&p) {
			r.askAbout(p.RequestID, c.CallID, c.Tool, c.Params, c.Client)
		}
	}
	if p.Input == nil && (p.Deadline != 0 || p.Approval != nil && p.Approval.Text != "") {
		r.emit(chunk{Type: dataPrompt, ID: p.RequestID, Data: e.Payload})
	}
	r.endTexts()
	r.prompts = append(r.prompts, &prompt{Prompt: p, at: r.at})
	return true
}

// callsOf returns the calls that a prompt asks about. A request for permission is a call with the id of the request.
func callsOf(p *chat.Prompt) []chat.ApprovalCall {
	switch {
	case p.Approval != nil:
		return p.Approval.Calls
	case p.Permission == nil:
		return nil
	}
	b := p.Permission
	return []chat.ApprovalCall{{CallID: p.RequestID, Tool: cmp.Or(b.Tool, toolPermission), Params: pages.Marshal(struct {
		Scopes        []string        `json:"scopes"`
		Justification string          `json:"justification,omitempty"`
		Params        json.RawMessage `json:"requested_args,omitempty"`
	}{b.Scopes, b.Justification, b.Params})}}
}

// questionInput is the input of the tool that asks a person.
func questionInput(p *chat.Prompt) json.RawMessage {
	q := p.Input
	return pages.Marshal(struct {
		Text        string         `json:"text"`
		InputType   chat.InputType `json:"input_type"`
		Options     []chat.Option  `json:"options,omitempty"`
		Min         int            `json:"min,omitempty"`
		Max         int            `json:"max,omitempty"`
		Placeholder string         `json:"placeholder,omitempty"`
		URL         string         `json:"url,omitempty"`
		Deadline    chat.At        `json:"deadline,omitzero"`
	}{q.Text, q.InputType, q.Options, q.Min, q.Max, q.Placeholder, q.URL, p.Deadline})
}

// askAbout shows a call that waits for approval, or for the page to run it.
func (r *run) askAbout(request, id, tool string, params json.RawMessage, client bool) {
	approval := approvalID(request, id)
	if r.legacy && !client {
		r.tool(approval, toolApprove, pages.Marshal(struct {
			Tool  string          `json:"tool"`
			Input json.RawMessage `json:"input,omitempty"`
		}{tool, params}), true)
		return
	}
	r.tool(id, tool, params, client)
	if !client {
		r.emit(chunk{Type: chunkToolAsk, Approval: approval, Call: id})
	}
}

// answered shows how a prompt has ended.
func (r *run) answered(e *chat.Event) {
	request := chat.AnswerOf(e.Body)
	i := slices.IndexFunc(r.prompts, func(p *prompt) bool { return p.RequestID == request })
	if i < 0 {
		return
	}
	p := r.prompts[i]
	r.prompts = slices.Delete(r.prompts, i, i+1)
	if isReply(e) {
		r.follow(e.Seq) // the page shows the answer as a message
		return
	}
	var reason chat.CloseReason
	switch b := e.Body.(type) {
	case chat.UserInputResponse:
		r.output(request, chunk{Type: chunkToolOutput, Output: inputOutput(b)})
	case chat.UserApprovalResponse:
		for i := range b.Decisions {
			r.decided(p, &b.Decisions[i])
		}
	case chat.UserPermissionResponse:
		r.granted(p, b)
	case chat.PromptClosed:
		reason = b.Reason
		text := "The question was withdrawn."
		if b.Reason == chat.Expired {
			text = "Nobody answered in time."
		}
		for _, id := range partsOf(&p.Prompt, r.legacy) {
			r.output(id, chunk{Type: chunkToolError, Error: text})
		}
	}
	r.emit(chunk{Type: dataAnswered, ID: request, Data: pages.Marshal(struct {
		RequestID string           `json:"request_id"`
		By        chat.Actor       `json:"by"`
		At        chat.At          `json:"at"`
		Reason    chat.CloseReason `json:"reason,omitempty"`
	}{request, e.Actor, e.At, reason})})
	// Without a step behind it an answered part makes the page send again: the usual sendAutomaticallyWhen looks at the
	// last step only.
	if !slices.ContainsFunc(r.prompts, func(o *prompt) bool { return o.at.message == r.at.message }) {
		r.newStep = true
		r.part()
	}
}

// isReply reports whether an answer was sent as a message of the page.
func isReply(e *chat.Event) bool {
	_, ok := e.Body.(chat.UserInputResponse)
	return ok && e.Via == via && e.ClientID != ""
}

// inputOutput is the answer to a question as the output of its tool.
func inputOutput(b chat.UserInputResponse) json.RawMessage {
	if len(b.Values) > 1 {
		return pages.Marshal(b.Values)
	}
	return json.AppendString(nil, b.Text+strings.Join(b.Values, ""))
}

// decided shows the decision about a call. The result of an approved call comes from the agent.
func (r *run) decided(p *prompt, d *chat.Decision) {
	id := d.CallID
	client := slices.ContainsFunc(p.Approval.Calls, func(c chat.ApprovalCall) bool { return c.CallID == id && c.Client })
	switch {
	case r.legacy && !client:
		r.output(approvalID(p.RequestID, id), chunk{Type: chunkToolOutput, Output: pages.Marshal(map[string]bool{"approved": d.Approve})})
	case len(d.Result) > 0:
		r.output(id, chunk{Type: chunkToolOutput, Output: d.Result})
	case d.Error != "":
		r.output(id, chunk{Type: chunkToolError, Error: d.Error})
	case !d.Approve && client:
		r.output(id, chunk{Type: chunkToolError, Error: cmp.Or(d.Reason, "The call was refused.")})
	case !d.Approve:
		r.output(id, chunk{Type: chunkToolDenied})
	}
}

// granted shows the answer to a request for permission.
func (r *run) granted(p *prompt, b chat.UserPermissionResponse) {
	switch {
	case r.legacy:
		r.output(approvalID(p.RequestID, p.RequestID), chunk{Type: chunkToolOutput, Output: pages.Marshal(map[string]bool{"approved": len(b.Granted) > 0})})
	case len(b.Granted) == 0:
		r.output(p.RequestID, chunk{Type: chunkToolDenied})
	default:
		r.output(p.RequestID, chunk{Type: chunkToolOutput, Output: pages.Marshal(struct {
			Granted  []string `json:"granted"`
			Denied   []string `json:"denied,omitempty"`
			Duration string   `json:"duration,omitempty"`
		}{b.Granted, b.Denied, b.Duration})})
	}
}

// partsOf returns the ids of the tool parts that show a prompt.
func partsOf(p *chat.Prompt, legacy bool) (ids []string) {
	if p.Input != nil {
		return []string{p.RequestID}
	}
	for _, c := range callsOf(p) {
		if legacy && !c.Client {
			c.CallID = approvalID(p.RequestID, c.CallID)
		}
		ids = append(ids, c.CallID)
	}
	return ids
}
