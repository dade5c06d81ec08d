package agui

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/aguiwire"
	"github.com/parley-hq/parley/internal/dialect/agui/tanstack"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
)

// ask ends the run with a prompt.
func (x *encoder) ask(e *chat.Event) {
	if x.run == nil {
		return
	}
	p, waits := chat.AsPrompt(e)
	if p.Approval != nil {
		for _, c := range p.Approval.Calls {
			x.call(p.Workstream, c.CallID, c.Tool, c.Params)
		}
	}
	switch {
	case !waits: // a notification has no answer
		x.custom(e.Workstream, "parley.notification", e.Payload)
	case p.Approval == nil || !p.Approval.Settled: // else its answer follows
		x.end()
	}
}

// denied shows the calls that an answer refuses with a result, because no other event says so.
func (x *encoder) denied(e *chat.Event) {
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
	o := &outcome{Type: "success"}
	for _, p := range prompts {
		if p.Approval != nil && f.v1 {
			for _, c := range p.Approval.Calls {
				if c.Client {
					o.Pending = append(o.Pending, c.CallID)
				}
			}
		}
		o.Interrupts = append(o.Interrupts, aguiwire.Interrupts(p)...)
	}
	for i := range o.Interrupts {
		if f.tanstack {
			tanstack.Bind(&o.Interrupts[i], runID)
		} else if !f.v1 {
			o.Interrupts[i].HideDeadline()
		}
	}
	if len(o.Interrupts) > 0 {
		o.Type, o.Pending = "interrupt", nil
	}
	return o
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
	e, given := entries[p.RequestID]
	switch {
	case p.Approval != nil:
		for _, c := range p.Approval.Calls {
			var d chat.Decision
			if m, ran := results[c.CallID]; c.Client && ran {
				d = toolDecision(c.CallID, m)
			} else if e, given := entries[aguiwire.InterruptID(p, c.CallID)]; given && !c.Client {
				if d, err = approvalDecision(c.CallID, e); err != nil {
					return a, false, err
				}
			} else {
				return a, false, nil
			}
			a.Decisions = append(a.Decisions, d)
		}
		return a, true, nil
	case !given:
	case p.Permission != nil:
		a, err = permissionAnswer(p, e)
	case e.Status != "cancelled":
		a = edge.InputAnswer(p.Input, e.Payload)
	}
	return a, given && err == nil, err
}

// toolDecision is the result of a tool that the client ran: a text, or the parts of the content when some are not text.
func toolDecision(callID string, m message) chat.Decision {
	d := chat.Decision{CallID: callID, Approve: true, Error: m.Error}
	var parts []part
	switch {
	case m.Error != "":
	case json.Unmarshal(m.Content, &parts) == nil && slices.ContainsFunc(parts, func(p part) bool { return p.Type != "text" }):
		d.Result = m.Content
	default:
		d.Result = quote(aguiwire.Text(m.Content))
	}
	return d
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
	if d.Approve {
		d.Params = json.NotNull(c.Edited)
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
