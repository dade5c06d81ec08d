package aisdk

import (
	"maps"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
)

// answers are the decisions and outputs in an assistant message of a page, by the ids of approvals and calls. They count only
// for prompts that are open in the log.
type answers struct {
	approvals map[string]*pageApproval
	outputs   map[string]*pagePart
	calls     map[string]bool // all calls of the message; true for those of its last step
}

// ids returns the ids of what is answered.
func (a *answers) ids() []string {
	return slices.AppendSeq(slices.Collect(maps.Keys(a.approvals)), maps.Keys(a.outputs))
}

// answers collects what the page has answered.
func (m *pageMessage) answers() answers {
	a := answers{approvals: map[string]*pageApproval{}, outputs: map[string]*pagePart{}, calls: map[string]bool{}}
	for i := range m.Parts {
		p := &m.Parts[i]
		if a.calls[p.Call] = true; p.Type == "step-start" {
			for id := range a.calls {
				a.calls[id] = false
			}
		}
		if p.Approval != nil && p.Approval.Approved != nil {
			a.approvals[p.Approval.ID] = p.Approval
		}
		if p.Call != "" && (p.State == stateOutput || p.State == stateError) {
			a.outputs[p.Call] = p
		}
	}
	return a
}

// mentions reports whether the page has answered a prompt, wholly or in part.
func (a *answers) mentions(p *chat.Prompt) bool {
	for _, id := range partsOf(p) {
		if a.outputs[id] != nil || a.approvals[id] != nil {
			return true
		}
	}
	return false
}

// shows reports whether the page has a prompt.
func (a *answers) shows(p *chat.Prompt) bool {
	return slices.ContainsFunc(partsOf(p), func(id string) bool { _, shown := a.calls[id]; return shown })
}

// inLastStep reports whether the last step of the page's message has a prompt.
func (a *answers) inLastStep(p *chat.Prompt) bool {
	return slices.ContainsFunc(partsOf(p), func(id string) bool { return a.calls[id] })
}

// goesOn reports whether the page has a text behind a prompt: a part of the response to its answer.
func (m *pageMessage) goesOn(p *chat.Prompt) bool {
	ids, text := partsOf(p), false
	for _, part := range slices.Backward(m.Parts) {
		if slices.Contains(ids, part.Call) {
			return text
		}
		text = text || part.Type == "text" && part.Text != ""
	}
	return false
}

// draft returns the event that answers a prompt.
func (a *answers) draft(p *chat.Prompt) (chat.Draft, error) {
	answer, err := a.to(p)
	if err != nil {
		return chat.Draft{}, err
	}
	body, err := answer.Body(p)
	if err != nil {
		return chat.Draft{}, err
	}
	draft := chat.NewDraft(body)
	draft.Via = via
	if err = edge.CheckSize(&draft); chat.CodeOf(err) == chat.TooLarge { // before another answer of the page is stored
		err = chat.Errorf(chat.TooLarge, "An answer has at most %d KiB.", chat.MaxEvent>>10).Because(err)
	}
	return draft, err
}

// to returns the page's answer to a prompt.
func (a *answers) to(p *chat.Prompt) (out chat.Answer, err error) {
	switch {
	case p.Input != nil:
		o := a.outputs[p.RequestID]
		if o == nil || o.State == stateError {
			return out, invalid("The question needs an answer; a failed tool is none.")
		}
		return edge.InputAnswer(p.Input, o.Output), nil
	case p.Permission != nil:
		yes, _, ok := a.decision(p.RequestID, p.RequestID)
		if !ok {
			return out, invalid("The request for permission is not decided.")
		}
		return edge.Consent(p, yes), nil
	}
	for _, c := range p.Approval.Calls {
		d := chat.Decision{CallID: c.CallID}
		if c.Client {
			if err := a.ran(&d, c.Tool); err != nil {
				return out, err
			}
		} else {
			var ok bool
			if d.Approve, d.Reason, ok = a.decision(p.RequestID, c.CallID); !ok {
				return out, invalid("The call of %s is not decided: an answer decides every call that the agent asks about.", c.Tool)
			}
		}
		out.Decisions = append(out.Decisions, d)
	}
	return out, nil
}

// ran reads what the page's own tool returned.
func (a *answers) ran(d *chat.Decision, tool string) error {
	o := a.outputs[d.CallID]
	switch {
	case o == nil:
		return invalid("The tool %s has no output yet.", tool)
	case o.State == stateError:
		d.Approve, d.Error = true, o.ErrorText
		if d.Error == "" {
			d.Error = "The tool failed in the page."
		}
	default:
		d.Approve, d.Result = true, o.Output
		if len(d.Result) == 0 {
			d.Result = json.RawMessage("null")
		}
	}
	return nil
}

// decision reads whether a call is approved: from its approval or, in version 5, from the output of the tool that asks.
func (a *answers) decision(request, call string) (approve bool, reason string, ok bool) {
	id := approvalID(request, call)
	if p := a.approvals[id]; p != nil {
		return *p.Approved, p.Reason, true
	}
	o := a.outputs[id]
	if o == nil || o.State == stateError {
		return false, "", o != nil
	}
	if said := edge.ReadConsent(o.Output); said.Approved != nil {
		return *said.Approved, said.Reason, true
	}
	approve, ok = edge.ParseConsent(edge.InputAnswer(&chat.AgentInputRequest{}, o.Output).Text)
	return approve, "", ok
}
