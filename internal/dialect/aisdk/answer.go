package aisdk

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/turnlog"
)

// answer stores the answers in a page's assistant message. The response continues the message behind the last prompt that the
// page has, also when somebody else has answered first. It is empty while a question that the page has is open.
func (d *Dialect) answer(ctx context.Context, c chat.Caller, req *sendRequest, legacy bool) (target, error) {
	defer d.Lock(c, req.chat)()
	sess, err := d.find(ctx, c, req.chat)
	if err == nil {
		err = c.May(&sess, chat.Answerer)
	}
	if err != nil {
		return target{}, err
	}
	given := req.message.answers()
	if len(given.approvals)+len(given.outputs) == 0 {
		return target{}, invalid("There is nothing to send: the last message is the agent's, and it has no answer.")
	}
	turn, err := d.turnOfMessage(ctx, c, sess.ID, req.message.ID)
	if err == nil {
		err = d.Asked(ctx, c, sess.ID, slices.Values(given.ids()))
	}
	if err != nil {
		return target{}, err
	}
	all, err := d.promptsOf(ctx, c, sess.ID, turn.Seq, legacy)
	if err != nil {
		return target{}, err
	}
	var drafts []chat.Draft
	var last *asked // of those that the page has
	found := false
	for _, p := range all {
		answered := given.mentions(&p.Prompt)
		if found = found || answered; answered || given.shows(&p.Prompt) {
			last = p
		}
		if !answered || !p.open {
			continue
		}
		draft, err := given.draft(&p.Prompt)
		if err != nil {
			return target{}, err
		}
		drafts = append(drafts, draft)
		p.open = false
	}
	if !found {
		return target{}, invalid("The answer does not belong to a question of the agent; load the chat again.")
	}
	if err := d.storeAnswers(ctx, c, sess.ID, drafts); err != nil {
		return target{}, err
	}
	if req.message.goesOn(&last.Prompt) { // the response would be appended to the part that the page has
		return target{}, chat.Errorf(chat.Conflict, "The answer is stored, and the page has a part of what follows: resume the chat, or load it again.")
	}
	t := target{session: sess.ID, turn: turn.Seq, at: segment{last.at.message, last.at.index + 1}}
	t.run = runID(turn.Turn, t.at)
	open := slices.DeleteFunc(all[:slices.Index(all, last)+1], func(p *asked) bool { return !p.open || p.at.message != last.at.message })
	t.nothing = len(open) > 0
	if slices.ContainsFunc(open, func(p *asked) bool { return given.shows(&p.Prompt) }) && !slices.ContainsFunc(open, func(p *asked) bool { return given.inLastStep(&p.Prompt) }) {
		// After a proper end the page would send the same again, and so on: it looks at the last step only.
		err = chat.Errorf(chat.Conflict, "The answer is stored. The agent also waits for an answer to an earlier question of its message.")
	}
	return t, err
}

// storeAnswers stores answers to prompts. A prompt that has ended meanwhile keeps its first answer.
func (d *Dialect) storeAnswers(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) error {
	for i := range drafts {
		if _, err := d.Sessions.Append(ctx, c, id, drafts[i:i+1]); err != nil && chat.ReasonOf(err) != chat.PromptEnded {
			return err
		}
	}
	return nil
}

// answerFirst stores the answers to open prompts that a page has given but not sent before its next message, and returns the
// state behind them. A prompt that is not answered wholly stays open.
func (d *Dialect) answerFirst(ctx context.Context, c chat.Caller, st *chat.State, given *answers) (*chat.State, error) {
	var drafts []chat.Draft
	for _, p := range st.Prompts {
		if draft, err := given.draft(p); err == nil {
			drafts = append(drafts, draft)
		}
	}
	if len(drafts) == 0 {
		return st, nil
	}
	if err := d.storeAnswers(ctx, c, st.Session.ID, drafts); err != nil {
		return nil, err
	}
	return d.Sessions.State(ctx, c, st.Session.ID)
}

// turnOfMessage returns turn.started of an assistant message, or of the running turn when the page does not name it.
func (d *Dialect) turnOfMessage(ctx context.Context, c chat.Caller, id chat.SessionID, message string) (*chat.Event, error) {
	turn, _, ok := parseRun(message)
	if !ok {
		st, err := d.Sessions.State(ctx, c, id)
		if err != nil {
			return nil, err
		}
		if t := st.Line(mainLine).Turn; t != nil {
			turn = t.ID
		}
	}
	return d.started(ctx, c, id, turn)
}

// started returns turn.started of a turn.
func (d *Dialect) started(ctx context.Context, c chat.Caller, id chat.SessionID, turn chat.TurnID) (*chat.Event, error) {
	e, err := turnlog.Started(ctx, d.Sessions, c, id, turn)
	if err == nil && e == nil {
		err = chat.Errorf(chat.NotFound, "The agent's message is not part of this chat; load the chat again.")
	}
	return e, err
}

// asked is a prompt of a turn.
type asked struct {
	prompt
	open bool
}

// promptsOf returns the prompts that were shown in a turn.
func (d *Dialect) promptsOf(ctx context.Context, c chat.Caller, id chat.SessionID, turn chat.Seq, legacy bool) ([]*asked, error) {
	r := newRun(legacy)
	var all []*asked
	for e, err := range d.Sessions.Events(ctx, c, id, chat.Range{After: turn - 1}) {
		if err != nil {
			return nil, err
		}
		before := len(r.prompts)
		r.event(&e)
		if len(r.prompts) > before {
			all = append(all, &asked{prompt: *r.prompts[before], open: true})
		}
		if request := chat.AnswerOf(e.Body); request != "" {
			for _, a := range all {
				a.open = a.open && a.RequestID != request
			}
		}
		if r.ended && !slices.ContainsFunc(all, func(a *asked) bool { return a.open }) {
			break
		}
	}
	return all, nil
}
