package agui

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/aguiwire"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/pages"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/turnlog"
)

// answer answers the open prompts that the request names. It returns false when the request names none, open or closed.
func (d *Dialect) answer(ctx context.Context, t *target, st *chat.State, in *input, results map[string]message) (bool, error) {
	for {
		done, err := d.tryAnswer(ctx, t, st, in, results)
		if chat.ReasonOf(err) != chat.PromptEnded {
			return done, err
		}
		// Another answer was first in this moment. What has been stored of this request is found again.
		if st, err = d.Sessions.State(ctx, t.caller, t.session); err != nil {
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
	first, err := d.endedBefore(ctx, t, st, entries, results)
	if err != nil {
		return false, err
	}
	for _, one := range plan {
		if one.cancel {
			if _, err := d.Sessions.Stop(ctx, t.caller, t.session, one.prompt.Workstream, "the question was cancelled"); err != nil {
				return false, err
			}
			t.closing = one.prompt.RequestID
			first = min(first, st.Last+1)
			continue
		}
		one.answer.ClientID = answerKey(one.prompt.Seq, in.RunID, "")
		e, err := d.Sessions.Answer(ctx, t.caller, t.session, one.prompt.RequestID, one.answer)
		if chat.ReasonOf(err) == chat.PromptEnded && d.stillOpen(ctx, t, one.prompt.RequestID) { // its deadline has passed
			t.closing, e.Seq, err = one.prompt.RequestID, st.Last+1, nil
			t.extra = append(t.extra, answeredElsewhere(t.closing, &chat.Event{At: one.prompt.Deadline, Body: chat.PromptClosed{Reason: chat.Expired}}))
		}
		if err != nil {
			return false, err
		}
		first = min(first, e.Seq)
	}
	if first == chat.MaxSeq {
		return len(in.Resume) > 0, d.attach(ctx, t, st)
	}
	if err := d.continueAt(ctx, t, first); err != nil || len(plan) > 0 {
		return true, err
	}
	fits, err := d.endsBefore(ctx, t, in, first)
	if err == nil && !fits {
		err = d.showAgain(ctx, t, st, in)
	}
	return true, err
}

// endsBefore reports whether the page has all texts of the turn before an event, and nothing of what follows. Clients keep the
// interrupts that they have answered until a run ends: a page that lost its connection in that run sends the answer again, with what
// it has.
func (d *Dialect) endsBefore(ctx context.Context, t *target, in *input, seq chat.Seq) (bool, error) {
	said := in.upToUser()
	if len(said) == 0 { // the client sends no history
		return true, nil
	}
	shown := map[string]*message{}
	for i := range in.Messages {
		shown[in.Messages[i].ID] = &in.Messages[i]
	}
	before, calls := map[string]bool{}, map[string]bool{} // blocks before the event, and calls after it
	for e, err := range d.Sessions.Events(ctx, t.caller, t.session, chat.Range{After: t.base.Seq - 1}) {
		if err != nil {
			return false, err
		}
		if e.Seq >= seq {
			if b, ok := e.Body.(chat.AgentToolCall); ok {
				calls[cmp.Or(b.CallID, string(e.ID))] = true
			}
			continue
		}
		before[blockMessage(e.Workstream, chat.FinishedBlock(e.Body), &e)] = true
		switch b := e.Body.(type) {
		case chat.AgentToolCall:
			before[b.CallID] = true
		case chat.AgentApprovalRequest:
			for _, c := range b.Calls {
				before[c.CallID] = true
			}
		}
		m, ok := messageOf(&e)
		if ok = ok && e.Workstream == mainLine && (m.Role == "assistant" && m.Calls == nil || m.Role == "reasoning"); !ok {
			continue
		}
		// Not every client keeps what the agent was thinking.
		if has := shown[m.ID]; has == nil && m.Role == "assistant" || has != nil && aguiwire.Text(has.Content) != aguiwire.Text(m.Content) {
			return false, nil
		}
	}
	return !slices.ContainsFunc(in.Messages[len(said):], func(m message) bool {
		return (m.Role == "assistant" || m.Role == "reasoning") && aguiwire.Text(m.Content) != "" && !before[m.ID] ||
			slices.ContainsFunc(m.Calls, func(c aguiwire.Call) bool { return calls[c.ID] && !before[c.ID] })
	}), nil
}

// stillOpen reports whether a prompt that takes no answers is open in the log.
func (d *Dialect) stillOpen(ctx context.Context, t *target, id string) bool {
	st, err := d.Sessions.State(ctx, t.caller, t.session)
	return err == nil && st.Prompt(id) != nil
}

// endedBefore finds the prompts that a request names and that have ended before. It returns the first event that ended one of them,
// MaxSeq when there is none. For prompts that ended differently from what the request says, it adds their real end to t.extra. A
// resume entry that names no prompt of the session is refused; a tool message may belong to a call that the agent itself ran.
func (d *Dialect) endedBefore(ctx context.Context, t *target, st *chat.State, entries map[string]resumeEntry, results map[string]message) (chat.Seq, error) {
	first, wanted := chat.MaxSeq, maps.Clone(entries)
	for _, p := range st.Prompts {
		for _, id := range interruptIDs(p) {
			delete(wanted, id)
		}
	}
	if len(wanted) == 0 && len(results) == 0 {
		return first, nil
	}
	for p, err := range turnlog.ClosedPrompts(ctx, d.Sessions, t.caller, t.session) {
		if err != nil {
			return first, err
		}
		for _, id := range interruptIDs(&p.Prompt) {
			entry, ok := wanted[id]
			if !ok {
				continue
			}
			if first = min(first, p.End.Seq); entry.Status == "resolved" && differs(&p, entries, results) {
				t.extra = append(t.extra, answeredElsewhere(id, &p.End))
			}
			delete(wanted, id)
		}
		if p.Approval != nil && len(entries) == 0 && slices.ContainsFunc(p.Approval.Calls, func(c chat.ApprovalCall) bool { return c.Client && results[c.CallID].Role != "" }) {
			first = min(first, p.End.Seq)
		}
		if len(wanted) == 0 && (len(results) == 0 || first < chat.MaxSeq) {
			break
		}
	}
	for id := range wanted {
		return first, chat.Errorf(chat.Invalid, "resume: this thread has no question %q", text.Clip(id, 80))
	}
	return first, nil
}

// answered returns the ids of the interrupts that a request answers.
func (in *input) answered() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, e := range in.Resume {
			if !yield(e.ID) {
				return
			}
		}
	}
}

// interruptIDs are the ids of the interrupts of a prompt.
func interruptIDs(p *chat.Prompt) (ids []string) {
	for _, i := range aguiwire.Interrupts(p) {
		ids = append(ids, i.ID)
	}
	return ids
}

// differs reports whether a request says something else than the event that closed the prompt.
func differs(p *turnlog.ClosedPrompt, entries map[string]resumeEntry, results map[string]message) bool {
	a, _, err := answerTo(&p.Prompt, entries, results)
	if err != nil {
		return true
	}
	body, err := a.Body(&p.Prompt)
	if err != nil {
		return true
	}
	draft := chat.NewDraft(body)
	return draft.Normalize() != nil || !json.Same(draft.Payload, p.End.Payload)
}

// answeredElsewhere returns the event for a prompt that ended outside of this page: its answerer, or the reason of its end.
func answeredElsewhere(id string, end *chat.Event) event {
	by := cmp.Or(end.Actor.Name, end.Actor.ID)
	how, says := "answered", by+" has answered this question already, so your answer does not count."
	if b, ok := end.Body.(chat.PromptClosed); ok {
		how, says = string(b.Reason), "The question was withdrawn, so your answer does not count."
		if b.Reason == chat.Expired {
			says = "The deadline of the question has passed, so your answer does not count."
		}
	}
	return event{Type: "CUSTOM", Name: "parley.answered", Value: pages.Marshal(map[string]any{"interruptId": id, "how": how, "by": by, "at": end.At, "message": says})}
}
