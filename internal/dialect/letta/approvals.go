package letta

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/turnlog"
)

// openApproval returns the open approval request of a conversation, nil when there is none.
func openApproval(st *chat.State) *chat.Prompt {
	return openPrompt(st, func(p *chat.Prompt) bool { return p.Approval != nil })
}

// openQuestion returns the open prompt of a kind that Letta's API does not have. The next message answers it.
func openQuestion(st *chat.State) *chat.Prompt {
	return openPrompt(st, func(p *chat.Prompt) bool { return p.Approval == nil })
}

func openPrompt(st *chat.State, fits func(*chat.Prompt) bool) *chat.Prompt {
	for _, p := range st.Prompts {
		if p.Workstream == mainLine && fits(p) {
			return p
		}
	}
	return nil
}

// promptMessage returns the id of the message that shows a prompt.
func promptMessage(st *chat.State, p *chat.Prompt) string {
	return llm.MessageID(chat.EventID(chat.MakeID(st.Number, p.Seq).Text(chat.EventPrefix)), 0)
}

// errPendingApproval refuses a message that comes while an approval request is open. The text is that of Letta's server.
func errPendingApproval(p *chat.Prompt, st *chat.State) error {
	r := &refusal{
		error: chat.Errorf(chat.Conflict, "CONFLICT: Cannot send a new message: The agent is waiting for approval on a tool call. "+
			"Please approve or deny the pending request before continuing."),
		pending: promptMessage(st, p),
	}
	if p.Turn != "" {
		r.run = llm.RunID(p.Turn)
	}
	return r
}

// decide answers an approval request.
func (q *request) decide(cv *conversation, req *sendRequest, st *chat.State) (*follower, error) {
	p := openApproval(st)
	if p == nil {
		return q.decideLate(cv, req)
	}
	decisions, err := req.approval.decisions(p, promptMessage(st, p))
	if err != nil {
		// It may be a repeated answer to an earlier request.
		e, findErr := q.sentWith(cv, req.approval.otid)
		if findErr != nil {
			return nil, findErr
		}
		if e == nil {
			return nil, err
		}
		return q.attachAnswer(cv, req, *e)
	}
	// Messages after the answer wait until the run has ended. They are stored in the same commit as the answer.
	drafts := []chat.Draft{chat.NewDraft(chat.UserApprovalResponse{RequestID: p.RequestID, Decisions: decisions}).As(req.approval.otid)}
	if len(req.messages) > 0 {
		more, err := q.drafts(cv, req)
		if err != nil {
			return nil, err
		}
		drafts = append(drafts, more...)
	}
	events, err := q.opt.Sessions.Append(q.ctx, q.caller, cv.session, drafts)
	if err != nil {
		e := chat.Public(err)
		if i := e.Draft(); i > 0 {
			return nil, errNotStored(drafts[i].ClientID, err)
		}
		if e.Code == chat.Conflict || e.Code == chat.NotFound { // another answer was first
			err = chat.Errorf(chat.Invalid, noApproval+": %s", e.Msg).Because(err)
		}
		return nil, err
	}
	return q.attachAnswer(cv, req, events[0])
}

// noApproval is the text of Letta's server for an answer without an open approval request.
const noApproval = "No tool call is currently awaiting approval"

// attachAnswer returns a follower of the run that an answer continues, and then of the run of the message that was sent
// with the answer.
func (q *request) attachAnswer(cv *conversation, req *sendRequest, answer chat.Event) (*follower, error) {
	f, err := q.attach(cv, req, answer)
	n := len(req.messages)
	if err != nil || n == 0 || answer.Type != (chat.UserApprovalResponse{}).Type() {
		return f, err
	}
	e, err := q.event(cv.session, answer.Seq+chat.Seq(n))
	if err != nil {
		return nil, err
	}
	if _, ok := e.Body.(chat.UserMessage); ok && e.Actor.Same(answer.Actor) && e.Via == via {
		f.next = e.Seq
	}
	return f, nil
}

// decisions returns the decisions for the calls of a prompt; message is the message that shows it. All calls must be decided.
func (a *approvalAnswer) decisions(p *chat.Prompt, message string) ([]chat.Decision, error) {
	calls := p.Approval.Calls
	if len(a.verdicts) == 0 {
		if a.request != "" && a.request != message && a.request != p.RequestID && (len(calls) != 1 || a.request != calls[0].CallID) {
			return nil, chat.Errorf(chat.Invalid, "Invalid approval request ID. Expected %s, but received %s.", message, clip(a.request))
		}
		out := make([]chat.Decision, len(calls))
		for i, call := range calls {
			out[i] = chat.Decision{CallID: call.CallID, Approve: *a.approve, Reason: a.reason}
		}
		return out, nil
	}
	var out []chat.Decision
	var want, got []string
	for _, call := range calls {
		want = append(want, call.CallID)
	}
	for _, v := range a.verdicts {
		id := v.CallID()
		if id == message && len(calls) == 1 {
			id = calls[0].CallID
		}
		got = append(got, id)
		out = append(out, decision(v, id))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		return nil, chat.Errorf(chat.Invalid, "Invalid tool call IDs. Expected [%s], but received [%s].", strings.Join(want, ", "), clip(strings.Join(got, ", ")))
	}
	return out, nil
}

// decision is a verdict about a call: an approval, or the result of a tool that the client ran.
func decision(v llm.Verdict, id string) chat.Decision {
	switch v := v.(type) {
	case *llm.ToolApproval:
		return chat.Decision{CallID: id, Approve: v.Approve, Reason: v.Reason}
	case *llm.ToolReturn:
		d := chat.Decision{CallID: id, Approve: true, Stdout: v.Stdout, Stderr: v.Stderr}
		switch {
		case v.Status == llm.Failure:
			d.Error = cmp.Or(v.PlainText(), strings.Join(v.Stderr, "\n"), "it failed without an error message")
		case v.Parts != nil:
			d.Result = llm.AppendParts(nil, v.Parts)
		default:
			d.Result = json.AppendString(nil, cmp.Or(v.Text, strings.Join(v.Stdout, "\n")))
		}
		return d
	}
	return chat.Decision{CallID: id}
}

// decideLate handles an answer when no approval request is open. The same answer again continues the response; any other
// answer is refused with the outcome of the request.
func (q *request) decideLate(cv *conversation, req *sendRequest) (*follower, error) {
	e, err := q.sentWith(cv, req.approval.otid)
	if err != nil {
		return nil, err
	}
	if e != nil {
		return q.attachAnswer(cv, req, *e)
	}
	ids := []string{req.approval.request}
	for _, v := range req.approval.verdicts {
		ids = append(ids, v.CallID())
	}
	if e, err = q.approvalEnd(cv, ids); err != nil {
		return nil, err
	}
	if e == nil {
		return nil, chat.Errorf(chat.Invalid, noApproval+".")
	}
	b, ok := e.Body.(chat.UserApprovalResponse)
	if ok && req.retry && e.Actor.Same(q.caller.Actor) && req.approval.same(b) {
		return q.attachAnswer(cv, req, *e)
	}
	return nil, chat.Errorf(chat.Invalid, noApproval+": %s", describeEnd(e))
}

// describeEnd says how an approval request ended.
func describeEnd(e *chat.Event) string {
	if b, ok := e.Body.(chat.PromptClosed); ok {
		if b.Reason == chat.Expired {
			return "this one was not answered in time; it expired at " + e.At.String() + "."
		}
		return "this one was withdrawn at " + e.At.String() + ", because its run was stopped or ended."
	}
	return "this one was answered by " + cmp.Or(e.Actor.Name, e.Actor.ID) + " at " + e.At.String() + "."
}

// same reports whether an answer has the same decisions as a stored one.
func (a *approvalAnswer) same(b chat.UserApprovalResponse) bool {
	for _, stored := range b.Decisions {
		sent := chat.Decision{CallID: stored.CallID, Approve: a.approve != nil && *a.approve, Reason: a.reason}
		for _, v := range a.verdicts {
			if v.CallID() == stored.CallID {
				sent = decision(v, stored.CallID)
			}
		}
		if sent.Approve != stored.Approve || sent.Reason != stored.Reason || sent.Error != stored.Error || !bytes.Equal(sent.Result, stored.Result) ||
			!slices.Equal(sent.Stdout, stored.Stdout) || !slices.Equal(sent.Stderr, stored.Stderr) {
			return false
		}
	}
	return true
}

// approvalEnd returns the event that ended the newest approval request with one of the ids: ids of calls, of messages or
// of requests.
func (q *request) approvalEnd(cv *conversation, ids []string) (*chat.Event, error) {
	for p, err := range turnlog.ClosedPrompts(q.ctx, q.opt.Sessions, q.caller, cv.session) {
		if err != nil {
			return nil, err
		}
		if p.Approval == nil || p.Workstream != mainLine {
			continue
		}
		if slices.Contains(ids, p.RequestID) || slices.Contains(ids, llm.MessageID(p.Asked, 0)) ||
			slices.ContainsFunc(p.Approval.Calls, func(c chat.ApprovalCall) bool { return slices.Contains(ids, c.CallID) }) {
			return &p.End, nil
		}
	}
	return nil, nil
}

// replyTo is the answer that a message gives to a question.
func replyTo(p *chat.Prompt, m *inputMessage) (chat.Body, error) {
	answer := chat.Answer{Text: llm.PlainText(m.content)}
	if p.Input == nil {
		yes, ok := edge.ParseConsent(answer.Text)
		if !ok {
			return nil, chat.Errorf(chat.Invalid, "the agent asks for permission for %s: answer yes or no", strings.Join(p.Permission.Scopes, ", "))
		}
		answer = edge.Consent(p, yes)
	}
	return answer.Body(p)
}

// reply answers a question with the last message of a request.
func (q *request) reply(cv *conversation, req *sendRequest, p *chat.Prompt) (*follower, error) {
	last := req.messages[len(req.messages)-1]
	body, err := replyTo(p, &last)
	if err != nil {
		return nil, err
	}
	drafts, err := q.drafts(cv, req)
	if err != nil {
		return nil, err
	}
	n := len(drafts) - 1
	drafts[n] = chat.NewDraft(body).As(last.otid) // the messages before it start no turn
	events, err := q.opt.Sessions.Append(q.ctx, q.caller, cv.session, drafts)
	if err != nil {
		return nil, err
	}
	return q.attach(cv, req, events[n])
}

// repliedBefore returns the answer that the last message of a request gave to a question which has ended, nil when there is none: a
// client that lost the response to its answer sends it again.
func (q *request) repliedBefore(cv *conversation, req *sendRequest) (*chat.Event, error) {
	last := req.messages[len(req.messages)-1]
	e, err := q.sentWith(cv, last.otid)
	if err != nil || e == nil || chat.AnswerOf(e.Body) == "" {
		return nil, err
	}
	for p, err := range turnlog.ClosedPrompts(q.ctx, q.opt.Sessions, q.caller, cv.session) {
		if err != nil {
			return nil, err
		}
		if p.End.Seq != e.Seq || p.Approval != nil {
			continue
		}
		body, err := replyTo(&p.Prompt, &last)
		if err != nil {
			return nil, nil // another text than that answer
		}
		draft := chat.NewDraft(body)
		if same, err := stores(e, &draft); err != nil || !same {
			return nil, err
		}
		return e, nil
	}
	return nil, nil
}
