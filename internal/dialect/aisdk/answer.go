package aisdk

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/turnlog"
)

// answer stores the answers in a page's assistant message. The response continues the message behind the last prompt that the
// page has answered, also when somebody else was first.
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
	if err != nil {
		return target{}, err
	}
	all, err := d.promptsOf(ctx, c, sess.ID, turn.Seq, legacy)
	if err != nil {
		return target{}, err
	}
	var drafts []chat.Draft
	var last *asked
	for _, p := range all {
		if !given.mentions(&p.Prompt) {
			continue
		}
		last = p
		if !p.open {
			continue
		}
		draft, err := given.draft(&p.Prompt)
		if err != nil {
			return target{}, err
		}
		drafts = append(drafts, draft)
		p.open = false
	}
	if last == nil {
		return target{}, invalid("The answer does not belong to a question of the agent; load the chat again.")
	}
	if err := d.storeAnswers(ctx, c, sess.ID, drafts); err != nil {
		return target{}, err
	}
	t := target{session: sess.ID, turn: turn.Seq, at: segment{last.at.message, last.at.index + 1}}
	t.run = runID(turn.Turn, t.at)
	// The response is empty while an earlier question of the message is open.
	t.nothing = slices.ContainsFunc(all[:slices.Index(all, last)], func(p *asked) bool { return p.open && p.at.message == last.at.message })
	return t, nil
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
