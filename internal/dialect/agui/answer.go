package agui

import (
	"cmp"
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/text"
)

// answer answers the open prompts that the request names. It returns false when the request names none, open or closed.
func (d *Dialect) answer(ctx context.Context, t *target, st *chat.State, in *input, results map[string]message) (bool, error) {
	for {
		done, err := d.tryAnswer(ctx, t, st, in, results)
		if chat.ReasonOf(err) != chat.PromptEnded {
			return done, err
		}
		// Another answer was first in this moment. What has been stored of this request is found again.
		if st, err = d.opt.Sessions.State(ctx, t.caller, t.session); err != nil {
			return false, err
		}
		t.extra = nil
	}
}

func (d *Dialect) tryAnswer(ctx context.Context, t *target, st *chat.State, in *input, results map[string]message) (bool, error) {
	entries := map[string]resumeEntry{}
	for _, e := range in.Resume {
		entries[e.ID] = e
	}
	type planned struct {
		prompt *chat.Prompt
		answer chat.Answer
		cancel bool
	}
	var plan []planned
	for _, p := range st.Prompts {
		a, ok, err := answerTo(p, entries, results)
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		one := planned{prompt: p, answer: a}
		if _, err := a.Body(p); err != nil {
			if p.Input == nil || entries[p.RequestID].Status != "cancelled" {
				return false, err
			}
			one.cancel = true // a question that needs an answer: its turn is stopped
		}
		plan = append(plan, one)
	}
	first := chat.MaxSeq
	closed, err := d.closedPrompts(ctx, t, st, in.Resume, results)
	if err != nil {
		return false, err
	}
	for _, end := range closed {
		first = min(first, end.event.Seq)
		if end.differs {
			t.extra = append(t.extra, answeredElsewhere(end))
		}
	}
	for _, one := range plan {
		if one.cancel {
			if _, err := d.opt.Sessions.Stop(ctx, t.caller, t.session, one.prompt.Workstream, "the question was cancelled"); err != nil {
				return false, err
			}
			t.stopping = one.prompt.RequestID
			first = min(first, st.Last+1)
			continue
		}
		one.answer.ClientID = answerKey(one.prompt.Seq, in.RunID)
		e, err := d.opt.Sessions.Answer(ctx, t.caller, t.session, one.prompt.RequestID, one.answer)
		if err != nil {
			return false, err
		}
		first = min(first, e.Seq)
	}
	if first == chat.MaxSeq {
		return len(in.Resume) > 0, d.attach(ctx, t, st)
	}
	return true, d.continueAt(ctx, t, first)
}

// closedPrompt is a prompt that a request answers and that has ended before.
type closedPrompt struct {
	id      string // the interrupt's
	event   chat.Event
	differs bool // the request says something else
}

// closedPrompts finds how the prompts ended that a request names and that are not open. A resume entry that names no prompt of the
// session is refused; a tool message may belong to a call that the agent itself ran.
func (d *Dialect) closedPrompts(ctx context.Context, t *target, st *chat.State, entries []resumeEntry, results map[string]message) ([]closedPrompt, error) {
	wanted := map[string]resumeEntry{}
	for _, e := range entries {
		wanted[e.ID] = e
	}
	for _, p := range st.Prompts {
		delete(wanted, p.RequestID)
		if p.Approval != nil {
			for _, c := range p.Approval.Calls {
				delete(wanted, interruptID(p, c.CallID))
			}
		}
	}
	if len(wanted) == 0 && len(results) == 0 {
		return nil, nil
	}
	var out []closedPrompt
	ends := map[string]chat.Event{}
	for e, err := range d.opt.Sessions.Events(ctx, t.caller, t.session, chat.Range{Limit: recentPrompts, Desc: true, Types: primeTypes}) {
		if err != nil {
			return nil, err
		}
		p, ok := chat.AsPrompt(&e)
		if !ok {
			ends[chat.AnswerOf(e.Body)] = e
			continue
		}
		end, closed := ends[p.RequestID]
		if !closed {
			continue
		}
		for _, id := range interruptIDs(&p) {
			if entry, ok := wanted[id]; ok {
				out = append(out, closedPrompt{id: id, event: end, differs: entry.Status == "resolved" && differs(&p, &end, entry)})
				delete(wanted, id)
			}
		}
		if p.Approval != nil && len(entries) == 0 {
			for _, c := range p.Approval.Calls {
				if _, ok := results[c.CallID]; ok && c.Client {
					out = append(out, closedPrompt{id: c.CallID, event: end})
				}
			}
		}
		if len(wanted) == 0 && (len(results) == 0 || len(out) > 0) {
			break
		}
	}
	for id := range wanted {
		return nil, chat.Errorf(chat.Invalid, "resume: this thread has no question %q", text.Clip(id, 80))
	}
	return out, nil
}

// interruptIDs are the ids of the interrupts of a prompt.
func interruptIDs(p *chat.Prompt) (ids []string) {
	for _, i := range interrupts(p, form{}, "") {
		ids = append(ids, i.ID)
	}
	return ids
}

// differs reports whether a resume entry says something else than the event that closed the prompt.
func differs(p *chat.Prompt, end *chat.Event, e resumeEntry) bool {
	switch b := end.Body.(type) {
	case chat.UserInputResponse:
		a, err := inputAnswer(p.Input, e)
		if err != nil {
			return true
		}
		body, err := a.Body(p)
		same, ok := body.(chat.UserInputResponse)
		return err != nil || !ok || same.Text != b.Text || !slices.Equal(same.Values, b.Values)
	case chat.UserApprovalResponse:
		for _, stored := range b.Decisions {
			if interruptID(p, stored.CallID) == e.ID {
				d, err := approvalDecision(stored.CallID, e)
				return err != nil || d.Approve != stored.Approve || d.Reason != stored.Reason || !chat.SameJSON(orEmpty(d.Params), orEmpty(stored.Params))
			}
		}
	case chat.UserPermissionResponse:
		a, err := permissionAnswer(p.Permission.Scopes, e)
		if err != nil {
			return true
		}
		body, err := a.Body(p)
		same, ok := body.(chat.UserPermissionResponse)
		return err != nil || !ok || !slices.Equal(same.Granted, b.Granted)
	}
	return true
}

// answeredElsewhere tells the page that somebody else was first.
func answeredElsewhere(c closedPrompt) event {
	by := cmp.Or(c.event.Actor.Name, c.event.Actor.ID)
	how := "answered"
	if b, ok := c.event.Body.(chat.PromptClosed); ok {
		how = string(b.Reason)
	}
	return event{Type: "CUSTOM", Name: "parley.answered", Value: object(map[string]any{"interruptId": c.id, "how": how, "by": by, "at": c.event.At})}
}
