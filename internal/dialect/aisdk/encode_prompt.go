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
		r.askAbout(&p)
	}
	for _, id := range partsOf(&p) {
		if c := r.calls[id]; c != nil {
			c.asked = true
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

// askAbout shows calls that wait for approval, or for the page to run them. The usual sendAutomaticallyWhen looks at the last step of a
// message only: it sends approvals when no other call of the step is open, and outputs of the page's tools without the approvals of the
// step. So approvals begin a step if any other call of the present one is open.
func (r *run) askAbout(p *chat.Prompt) {
	var approvals []chat.ApprovalCall
	for _, c := range callsOf(p) {
		if c.Client {
			r.tool(c.CallID, c.Tool, c.Params, true)
		} else {
			approvals = append(approvals, c)
		}
	}
	for id, c := range r.calls {
		if len(approvals) > 0 && !r.legacy && c.message == r.at.message && c.step == r.step && !c.done && !c.asked &&
			!slices.ContainsFunc(approvals, func(a chat.ApprovalCall) bool { return a.CallID == id }) {
			r.newStep = true
		}
	}
	for i := range approvals {
		r.askToApprove(p.RequestID, &approvals[i])
	}
}

// askToApprove shows a call that waits for approval. One that an earlier step shows is shown again under the id of its approval.
func (r *run) askToApprove(request string, c *chat.ApprovalCall) {
	approval := approvalID(request, c.CallID)
	if r.legacy {
		r.tool(approval, toolApprove, pages.Marshal(struct {
			Tool  string          `json:"tool"`
			Input json.RawMessage `json:"input,omitempty"`
		}{c.Tool, c.Params}), true)
		return
	}
	id := c.CallID
	if known := r.calls[id]; known != nil && known.message == r.at.message && !known.done && (r.newStep || known.step != r.step) {
		id = approval
	}
	r.tool(id, c.Tool, c.Params, false)
	r.emit(chunk{Type: chunkToolAsk, Approval: approval, Call: id})
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
		for _, id := range partsOf(&p.Prompt) {
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
	if r.waits() < 0 {
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
	if approval := approvalID(p.RequestID, id); r.legacy || d.Approve {
		r.output(approval, chunk{Type: chunkToolOutput, Output: pages.Marshal(map[string]bool{"approved": d.Approve})})
	} else {
		r.output(approval, chunk{Type: chunkToolDenied})
	}
	switch {
	case len(d.Result) > 0:
		r.output(id, chunk{Type: chunkToolOutput, Output: d.Result})
	case d.Error != "":
		r.output(id, chunk{Type: chunkToolError, Error: d.Error})
	case !d.Approve && client:
		r.output(id, chunk{Type: chunkToolError, Error: cmp.Or(d.Reason, "The call was refused.")})
	case !d.Approve && !r.legacy:
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

// partsOf returns the ids that the tool parts of a prompt may have.
func partsOf(p *chat.Prompt) (ids []string) {
	if p.Input != nil {
		return []string{p.RequestID}
	}
	for _, c := range callsOf(p) {
		ids = append(ids, c.CallID, approvalID(p.RequestID, c.CallID))
	}
	return ids
}
