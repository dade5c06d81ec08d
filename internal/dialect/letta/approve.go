package letta

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
)

// approvalIn is the approval request that the conversation waits with.
func approvalIn(st *chat.State) *chat.Prompt {
	return promptIn(st, func(p *chat.Prompt) bool { return p.Approval != nil })
}

// questionIn is the question for which the protocol has no words: the next
// message answers it.
func questionIn(st *chat.State) *chat.Prompt {
	return promptIn(st, func(p *chat.Prompt) bool { return p.Approval == nil })
}

func promptIn(st *chat.State, fits func(*chat.Prompt) bool) *chat.Prompt {
	for _, p := range st.Prompts {
		if p.Workstream == mainLine && fits(p) {
			return p
		}
	}
	return nil
}

// messageOf is the id of the message that an event made.
func messageOf(st *chat.State, seq chat.Seq) string {
	return llm.MessageID(chat.EventID(chat.MakeID(st.Number, seq).Text(chat.EventPrefix)), 0)
}

// errPending is the answer to a message that comes while an approval is awaited.
func errPending(p *chat.Prompt, st *chat.State) error {
	const text = "CONFLICT: Cannot send a new message: The agent is waiting for approval on a tool call. Please approve or deny the pending request before continuing."
	e := chat.Errorf(chat.Conflict, "%s", text).With(bodyDetail, map[string]any{
		"code": "PENDING_APPROVAL", "message": text, "pending_request_id": messageOf(st, p.Seq),
	})
	if p.Turn != "" {
		e = e.With(runDetail, llm.RunID(p.Turn))
	}
	return e
}

// decide answers an approval request.
func (d *Dialect) decide(ctx context.Context, c chat.Caller, p *place, a *ask, st *chat.State) (*follower, error) {
	pending := approvalIn(st)
	if pending == nil {
		return d.late(ctx, c, p, a)
	}
	decisions, err := a.approval.decisions(pending, messageOf(st, pending.Seq))
	if err != nil {
		// It may be a repeated answer to an earlier request.
		if e, ferr := d.sentBefore(ctx, c, p, a.approval.otid); ferr != nil || e != nil {
			if ferr != nil {
				return nil, ferr
			}
			return d.attachAnswer(ctx, c, p, a, *e)
		}
		return nil, err
	}
	// What is sent along waits until the run that goes on now has ended. Both are
	// one fact, so that a process that dies leaves no half of it.
	drafts := []chat.Draft{chat.NewDraft(chat.UserApprovalResponse{RequestID: pending.RequestID, Decisions: decisions}).As(a.approval.otid)}
	if len(a.messages) > 0 {
		along, err := d.drafts(ctx, c, p, a)
		if err != nil {
			return nil, err
		}
		drafts = append(drafts, along...)
	}
	events, err := d.opt.Sessions.Append(ctx, c, p.session, drafts)
	if err != nil {
		if i := chat.Public(err).Draft(); i > 0 {
			return nil, refused(drafts[i].ClientID, err)
		}
		return nil, invalid(err)
	}
	return d.attachAnswer(ctx, c, p, a, events[0])
}

// attachAnswer follows the run that an answer lets go on, and then that of the
// message which was sent along.
func (d *Dialect) attachAnswer(ctx context.Context, c chat.Caller, p *place, a *ask, e chat.Event) (*follower, error) {
	f, err := d.attach(ctx, c, p, a, e)
	if n := len(a.messages); err == nil && n > 0 && e.Type == (chat.UserApprovalResponse{}).Type() {
		along, err := d.event(ctx, c, p.session, e.Seq+chat.Seq(n))
		if err != nil {
			return nil, err
		}
		if _, ok := along.Body.(chat.UserMessage); ok && along.Actor.Same(e.Actor) && along.Via == via {
			f.then = along.Seq
		}
	}
	return f, err
}

// invalid makes an error of a lost race one of those that the clients know.
func invalid(err error) error {
	if e := chat.Public(err); e.Code == chat.Conflict || e.Code == chat.NotFound {
		return chat.Errorf(chat.Invalid, "No tool call is currently awaiting approval: %s", e.Msg).Because(err)
	}
	return err
}

// decisions are what a client decided, one for each call that waits. Nothing is
// decided unless all are named.
func (p *approval) decisions(pending *chat.Prompt, request string) ([]chat.Decision, error) {
	calls := pending.Approval.Calls
	if len(p.verdicts) == 0 {
		if p.request != "" && p.request != request && p.request != pending.RequestID && (len(calls) != 1 || p.request != calls[0].CallID) {
			return nil, chat.Errorf(chat.Invalid, "Invalid approval request ID. Expected %s, but received %s.", request, clip(p.request))
		}
		out := make([]chat.Decision, len(calls))
		for i, call := range calls {
			out[i] = chat.Decision{CallID: call.CallID, Approve: *p.approve, Reason: p.reason}
		}
		return out, nil
	}
	var out []chat.Decision
	var want, got []string
	for _, call := range calls {
		want = append(want, call.CallID)
	}
	for _, v := range p.verdicts {
		id := v.CallID()
		if id == request && len(calls) == 1 {
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

// decision is what a client says of a call: whether it may be made or, when the
// client has made it, what came of it.
func decision(v llm.Verdict, id string) chat.Decision {
	switch v := v.(type) {
	case *llm.ToolApproval:
		return chat.Decision{CallID: id, Approve: v.Approve, Reason: v.Reason}
	case *llm.ToolReturn:
		d := chat.Decision{CallID: id, Approve: true, Stdout: v.Stdout, Stderr: v.Stderr}
		switch {
		case v.Status == llm.Failure:
			d.Error = first(v.PlainText(), strings.Join(v.Stderr, "\n"), "it failed without saying why")
		case v.Parts != nil:
			d.Result = llm.AppendParts(nil, v.Parts)
		default:
			d.Result = chat.AppendString(nil, first(v.Text, strings.Join(v.Stdout, "\n")))
		}
		return d
	}
	return chat.Decision{CallID: id}
}

// late answers who approves what nobody waits for: the same answer again is a
// retry, everything else is told what became of the request.
func (d *Dialect) late(ctx context.Context, c chat.Caller, p *place, a *ask) (*follower, error) {
	e, err := d.sentBefore(ctx, c, p, a.approval.otid)
	if err != nil {
		return nil, err
	}
	if e == nil {
		var ids []string
		for _, v := range a.approval.verdicts {
			ids = append(ids, v.CallID())
		}
		ids = append(ids, a.approval.request)
		if e, err = d.decided(ctx, c, p, ids); err != nil {
			return nil, err
		}
		if e == nil {
			return nil, chat.Errorf(chat.Invalid, "No tool call is currently awaiting approval.")
		}
		if b, ok := e.Body.(chat.UserApprovalResponse); !ok || !a.retry || !e.Actor.Same(c.Actor) || !a.approval.same(b) {
			return nil, chat.Errorf(chat.Invalid, "No tool call is currently awaiting approval: %s", ended(e))
		}
	}
	return d.attachAnswer(ctx, c, p, a, *e)
}

// ended says how a request ended.
func ended(e *chat.Event) string {
	if b, ok := e.Body.(chat.PromptClosed); ok {
		if b.Reason == chat.Expired {
			return "nobody answered this one in time, it expired at " + e.At.String() + "."
		}
		return "this one was withdrawn at " + e.At.String() + ", because its run was stopped or ended."
	}
	return "this one was answered by " + first(e.Actor.Name, e.Actor.ID) + " at " + e.At.String() + "."
}

// same reports whether an answer says what was said before.
func (p *approval) same(b chat.UserApprovalResponse) bool {
	for _, d := range b.Decisions {
		said := chat.Decision{CallID: d.CallID, Approve: p.approve != nil && *p.approve, Reason: p.reason}
		for _, v := range p.verdicts {
			if v.CallID() == d.CallID {
				said = decision(v, d.CallID)
			}
		}
		if said.Approve != d.Approve || said.Reason != d.Reason || said.Error != d.Error || !bytes.Equal(said.Result, d.Result) ||
			!slices.Equal(said.Stdout, d.Stdout) || !slices.Equal(said.Stderr, d.Stderr) {
			return false
		}
	}
	return true
}

// decided finds how the newest approval request that is named ended.
func (d *Dialect) decided(ctx context.Context, c chat.Caller, p *place, ids []string) (*chat.Event, error) {
	facts, _, err := d.opt.Sessions.Read(ctx, c, p.session, chat.Range{
		Limit: recentSent, Desc: true, Workstream: &mainLine, Types: []string{
			chat.AgentApprovalRequest{}.Type(), chat.UserApprovalResponse{}.Type(), chat.PromptClosed{}.Type(),
		},
	})
	if err != nil {
		return nil, err
	}
	ends := map[string]chat.Event{}
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			return nil, err
		}
		b, ok := e.Body.(chat.AgentApprovalRequest)
		if !ok {
			ends[chat.AnswerOf(e.Body)] = e
			continue
		}
		named := slices.Contains(ids, b.RequestID) || slices.Contains(ids, llm.MessageID(e.ID, 0)) ||
			slices.ContainsFunc(b.Calls, func(c chat.ApprovalCall) bool { return slices.Contains(ids, c.CallID) })
		if end, ok := ends[b.RequestID]; named && ok {
			return &end, nil
		}
	}
	return nil, nil
}

// reply answers a question by the message that a client sends.
func (d *Dialect) reply(ctx context.Context, c chat.Caller, p *place, a *ask, q *chat.Prompt) (*follower, error) {
	last := a.messages[len(a.messages)-1]
	answer := chat.Answer{ClientID: last.otid}
	text := llm.PlainText(last.content)
	if q.Input != nil {
		answer.Text = text
	} else {
		granted := []string{}
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "yes", "y", "ok", "true", "allow", "grant", "granted", "approve", "continue":
			granted = q.Permission.Scopes
		case "no", "n", "false", "deny", "denied", "reject", "cancel":
		default:
			return nil, chat.Errorf(chat.Invalid, "the agent asks for permission for %s: answer yes or no", strings.Join(q.Permission.Scopes, ", "))
		}
		answer.Granted = &granted
	}
	body, err := answer.Body(q)
	if err != nil {
		return nil, err
	}
	drafts, err := d.drafts(ctx, c, p, a)
	if err != nil {
		return nil, err
	}
	n := len(drafts) - 1
	drafts[n] = chat.NewDraft(body).As(last.otid) // what stands before it is there to be read
	events, err := d.opt.Sessions.Append(ctx, c, p.session, drafts)
	if err != nil {
		return nil, err
	}
	return d.attach(ctx, c, p, a, events[n])
}
