package agui

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/attachment"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/turnlog"
)

// start does what a request for a run asks for: it stores the newest message, or answers prompts. It returns the run to show.
func (d *Dialect) start(ctx context.Context, c chat.Caller, agent string, in *input, f variant) (*target, error) {
	t := &target{caller: c, thread: in.ThreadID, runID: in.RunID, variant: f}
	user, results := in.additions()
	defer d.Lock(c, in.ThreadID)()
	sess, err := d.findBranch(ctx, c, in)
	missing := chat.CodeOf(err) == chat.NotFound
	switch {
	case err != nil && !missing:
		return nil, err
	case missing && len(in.Resume) > 0:
		return nil, chat.Errorf(chat.NotFound, "there is no thread %q with open questions", text.Clip(in.ThreadID, 80))
	case missing && user == nil:
		return t, nil // nothing is stored for a request that adds nothing
	}
	var draft chat.Draft
	var attachments []attachment.File
	if user != nil { // before a session is created for the message
		if draft, attachments, err = d.draft(ctx, c, sess.ID, in, user); err != nil {
			return nil, err
		}
	}
	if missing {
		sess, err = d.create(ctx, c, agent, in)
	}
	if err == nil && sess.Agent == chat.NoAgent && infoOf(&sess).Import {
		sess, err = d.importHistory(ctx, c, agent, &sess, in)
	}
	if err != nil {
		return nil, err
	}
	t.session = sess.ID
	if err := d.Asked(ctx, c, sess.ID, in.answered()); err != nil {
		return nil, err
	}
	st, err := d.Sessions.State(ctx, c, sess.ID)
	if err == nil {
		err = c.May(&st.Session, chat.Answerer)
	}
	if err == nil && st.Session.Agent != agent {
		err = chat.Errorf(chat.Conflict, "this thread is answered by the agent %q; begin another one with %q", st.Session.Agent, agent)
	}
	if err != nil {
		return nil, err
	}
	if len(in.Resume) > 0 || len(results) > 0 {
		done, err := d.answer(ctx, t, st, in, results)
		if err == nil && done && user != nil {
			err = d.sayNext(ctx, t, user.ID, draft, attachments)
		}
		if done || err != nil {
			return t, err
		}
	}
	if user == nil {
		return t, d.showAgain(ctx, t, st, in)
	}
	return t, d.say(ctx, t, st, in, user.ID, draft, attachments)
}

// draft makes the draft of a user message, and the files to store before it. id is empty when there is no session yet.
func (d *Dialect) draft(ctx context.Context, c chat.Caller, id chat.SessionID, in *input, m *message) (draft chat.Draft, files []attachment.File, err error) {
	if m.ID == "" || len(m.ID) > chat.MaxClientID {
		return draft, nil, chat.Errorf(chat.Invalid, "messages: a message needs an id of 1 to %d bytes", chat.MaxClientID)
	}
	body, err := userBody(m)
	if err == nil {
		body.Context, err = in.messageContext()
	}
	if err != nil {
		return draft, nil, err
	}
	return d.Draft(ctx, c, id, m.ID, body)
}

// say stores the message, unless it is stored already, and shows the run that answers it.
func (d *Dialect) say(ctx context.Context, t *target, st *chat.State, in *input, id string, draft chat.Draft, attachments []attachment.File) error {
	e, err := d.sent(ctx, t, id)
	if err != nil {
		return err
	}
	if e != nil {
		if _, reply := e.Body.(chat.UserInputResponse); reply {
			return d.continueAt(ctx, t, e.Seq)
		}
	}
	replaced, err := d.replaced(ctx, t, st, in, e, &draft)
	if err == nil && replaced != nil {
		e, err = nil, d.fork(ctx, t, st, replaced, id)
	}
	if err != nil {
		return err
	}
	if e == nil {
		asks := slices.IndexFunc(st.Prompts, func(p *chat.Prompt) bool { return p.Workstream == mainLine })
		if turn := st.Line(mainLine).Turn; turn != nil && turn.Stopping {
			asks = -1 // the prompts end with the turn, and the next one answers the message
		}
		if asks >= 0 && replaced == nil {
			// When another answer is first in this moment it is a message like any other.
			if err := d.reply(ctx, t, st, st.Prompts[asks], in, id, draft); chat.ReasonOf(err) != chat.PromptEnded {
				return err
			}
		}
		if e, err = d.Store(ctx, t.caller, t.session, draft, attachments); err != nil {
			return err
		}
	}
	if !sameText(e, &draft) {
		return chat.Errorf(chat.Conflict, "the message id %q was used before for another text; a new message needs a new id", text.Clip(draft.ClientID, 80))
	}
	t.message = e.Seq
	if replaced == nil && in.emptyReasoning(t.variant) != nil {
		t.extra = append(t.extra, in.resetSnapshot(t.variant))
	}
	return nil
}

// emptyReasoning returns the reasoning messages that the page has of the runs after its newest message, without its text. Clients keep reasoning that a
// snapshot leaves out, and would append the same text to it. TanStack's client keeps none.
func (in *input) emptyReasoning(f variant) (empty []message) {
	for _, m := range in.Messages[len(in.upToUser()):] {
		if m.Role == "reasoning" && !f.tanstack {
			empty = append(empty, message{ID: m.ID, Role: m.Role, Content: quote(""), Subagent: m.Subagent})
		}
	}
	return empty
}

// resetSnapshot returns the snapshot that removes from a page what it has of the runs after its newest message.
func (in *input) resetSnapshot(f variant) event {
	return event{Type: "MESSAGES_SNAPSHOT", Messages: append(slices.Clone(in.upToUser()), in.emptyReasoning(f)...)}
}

// sameText reports whether a stored message has the text of a draft.
func sameText(e *chat.Event, draft *chat.Draft) bool {
	b, ok := e.Body.(chat.UserMessage)
	return ok && b.PlainText() == draft.Body.(chat.UserMessage).PlainText()
}

// showAgain handles a request that adds nothing, such as that of a page that lost its connection: the runs that answer its newest message are
// shown from their start.
func (d *Dialect) showAgain(ctx context.Context, t *target, st *chat.State, in *input) error {
	if said := in.upToUser(); len(said) > 0 {
		e, err := d.sent(ctx, t, said[len(said)-1].ID)
		if err != nil {
			return err
		}
		if e != nil && !storedOf(e).Imported {
			// The page has parts of these runs; the snapshot removes them.
			t.extra = append(t.extra, in.resetSnapshot(t.variant))
			t.message, t.rest = e.Seq, true
			if _, reply := e.Body.(chat.UserInputResponse); reply {
				t.message = 0
				err = d.continueAt(ctx, t, e.Seq)
			}
			return err
		}
	}
	return d.attach(ctx, t, st)
}

// sayNext stores a message that was sent together with answers, unless it is stored already. Its run is shown after the run that the
// answers continue.
func (d *Dialect) sayNext(ctx context.Context, t *target, id string, draft chat.Draft, attachments []attachment.File) error {
	e, err := d.sent(ctx, t, id)
	if err != nil || e != nil {
		return err
	}
	if e, err = d.Store(ctx, t.caller, t.session, draft, attachments); err == nil && e.Seq > t.from {
		t.then = e.Seq
	}
	return err
}

// Bounds of the searches among the newest events.
const (
	recentMessages = 50
	recentPrompts  = 1000
)

// sent returns the message that pages know by an id, nil when there is none.
func (d *Dialect) sent(ctx context.Context, t *target, id string) (*chat.Event, error) {
	if e, err := d.Message(ctx, t.caller, t.session, id); err != nil || e != nil {
		return e, err
	}
	// It may be of another person, or the answer to a question.
	recent := chat.Range{Limit: recentMessages, Desc: true, Workstream: &mainLine, Types: []string{chat.UserMessage{}.Type(), chat.UserInputResponse{}.Type()}}
	for e, err := range d.Sessions.Events(ctx, t.caller, t.session, recent) {
		if err != nil || messageID(&e) == id {
			return &e, err
		}
	}
	return nil, nil
}

// reply handles a message that comes while the turn waits for an answer, from a client that knows no interrupts: it answers a
// question, and otherwise the run says again what is asked. The message would wait behind the prompt for ever.
func (d *Dialect) reply(ctx context.Context, t *target, st *chat.State, p *chat.Prompt, in *input, id string, draft chat.Draft) error {
	if p.Input != nil && len(st.Prompts) == 1 {
		a := chat.Answer{Text: draft.Body.(chat.UserMessage).PlainText(), ClientID: answerKey(p.Seq, in.RunID, id)}
		if _, err := a.Body(p); err == nil {
			e, err := d.Sessions.Answer(ctx, t.caller, t.session, p.RequestID, a)
			if err != nil {
				return err
			}
			return d.continueAt(ctx, t, e.Seq)
		}
	}
	return d.attach(ctx, t, st)
}

// attach shows the running turn, or what the thread waits for, or nothing.
func (d *Dialect) attach(ctx context.Context, t *target, st *chat.State) (err error) {
	if t.base, err = turnlog.Last(ctx, d.Sessions, t.caller, t.session, st.Last); err != nil || t.base == nil {
		return err
	}
	t.from, t.rest = t.base.Seq, true
	if len(st.Prompts) > 0 || st.Line(mainLine).Turn == nil {
		t.from = chat.MaxSeq // only what it waits for is shown
	}
	return nil
}

// continueAt shows the run that begins at or after an event that has closed a prompt.
func (d *Dialect) continueAt(ctx context.Context, t *target, seq chat.Seq) (err error) {
	t.from = seq
	if t.base, err = turnlog.Last(ctx, d.Sessions, t.caller, t.session, seq); err == nil && t.base == nil {
		err = chat.Errorf(chat.Conflict, "the answered question belongs to no run; the answer is stored")
	}
	return err
}
