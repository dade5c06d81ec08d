package aisdk

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/attachment"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/turnlog"
)

// mainLine is the line of the turns that pages see.
var mainLine = ""

// send does what a page asks for and returns what the response shows.
func (d *Dialect) send(ctx context.Context, c chat.Caller, req *sendRequest, legacy bool) (target, error) {
	if req.chat == "" {
		return target{}, invalid("The request does not say which chat it is for: id is missing.")
	}
	var t target
	var err error
	if req.message.Role == roleAssistant {
		t, err = d.answer(ctx, c, req, legacy)
	} else {
		t, err = d.sendMessage(ctx, c, req)
	}
	t.legacy = legacy
	return t, err
}

// sendMessage sends a user message, again or for the first time.
func (d *Dialect) sendMessage(ctx context.Context, c chat.Caller, req *sendRequest) (target, error) {
	m := &req.message
	if m.ID == "" {
		m.ID = "m-" + rand.Text()
	}
	body, err := m.body()
	if err != nil {
		return target{}, err
	}
	sess, err := d.find(ctx, c, req.chat)
	if err != nil && chat.CodeOf(err) != chat.NotFound {
		return target{}, err
	}
	// Nothing is created for a message that is refused.
	if err := d.files.Resolve(ctx, c, sess.ID, body.Content); err != nil {
		return target{}, err
	}
	uploads := attachment.Extract(body.Content, attachment.Uploads)
	body.Context = req.context
	draft := chat.NewDraft(body).As(m.ID)
	draft.Via = via
	if err := edge.CheckSize(&draft); err != nil {
		return target{}, err
	}
	if sess.ID == "" {
		title := text.Clip(strings.Join(strings.Fields(body.PlainText()), " "), 80)
		if err := d.create(ctx, c, req.chat, chat.NewSession{Agent: req.agent, Title: title}); err != nil {
			return target{}, err
		}
	}
	sess, unlock, err := d.lock(ctx, c, req.chat)
	if err != nil {
		return target{}, err
	}
	defer unlock()
	if sess.Agent == chat.NoAgent {
		return target{}, invalid("This chat has no agent that answers.")
	}
	st, err := d.opt.Sessions.State(ctx, c, sess.ID)
	if err != nil {
		return target{}, err
	}
	given := req.before.answers()
	asks := slices.ContainsFunc(st.Prompts, func(p *chat.Prompt) bool { return p.Workstream == mainLine || given.mentions(p) })
	if !asks && !req.regenerate && !req.edits {
		return d.append(ctx, c, sess.ID, draft, uploads)
	}
	sent, err := d.sentAs(ctx, c, sess.ID, m.ID)
	switch {
	case err != nil:
		return target{}, err
	case sent != nil && (req.regenerate || req.edits && !same(sent, &draft)):
		if req.regenerate {
			uploads = nil // the fork has those of the stored message
			if draft, err = draft.WithBody(sent.Body); err != nil {
				return target{}, err
			}
		}
		return d.replace(ctx, c, &sess, req.chat, sent, draft, uploads)
	case sent != nil:
		return d.repeat(ctx, c, sent, &draft)
	}
	if st, err = d.answerFirst(ctx, c, st, &given); err != nil {
		return target{}, err
	}
	if t, answered, err := d.reply(ctx, c, st, &draft, &body); answered || err != nil {
		return t, err
	}
	return d.append(ctx, c, sess.ID, draft, uploads)
}

// repeat returns the response to a message that was sent before.
func (d *Dialect) repeat(ctx context.Context, c chat.Caller, sent *chat.Event, draft *chat.Draft) (target, error) {
	if !same(sent, draft) && !isReply(sent) {
		return target{}, chat.Errorf(chat.Conflict, "Another message of this chat has the same id; load the chat again.")
	}
	return d.attach(ctx, c, sent)
}

// same reports whether a stored message has the text and the files of a draft. The page's tools may have changed since.
func same(e *chat.Event, d *chat.Draft) bool {
	stored, ok := e.Body.(chat.UserMessage)
	sent, _ := d.Body.(chat.UserMessage)
	return ok && stored.Text == sent.Text && slices.Equal(stored.Content, sent.Content)
}

// append stores a user message with its files. The same message again is the stored one.
func (d *Dialect) append(ctx context.Context, c chat.Caller, id chat.SessionID, draft chat.Draft, uploads []attachment.File) (target, error) {
	if err := d.files.Put(ctx, c, id, uploads); err != nil {
		return target{}, err
	}
	events, err := d.opt.Sessions.Append(ctx, c, id, []chat.Draft{draft})
	if chat.ReasonOf(err) == chat.ClientIDReused { // a reply to a question, or another message
		sent, findErr := d.sentAs(ctx, c, id, draft.ClientID)
		if findErr != nil || sent == nil {
			return target{}, cmp.Or(findErr, err)
		}
		return d.repeat(ctx, c, sent, &draft)
	}
	if err != nil {
		return target{}, err
	}
	return d.attach(ctx, c, &events[0])
}

// sentAs returns the message or reply that the caller sent with an id, nil when there is none. Messages of other clients
// have the id of their event.
func (d *Dialect) sentAs(ctx context.Context, c chat.Caller, id chat.SessionID, message string) (*chat.Event, error) {
	e, err := d.opt.Sessions.Sent(ctx, c, id, message)
	if parsed, ok := chat.ParseID(chat.EventPrefix, message); ok && e == nil && err == nil {
		_, seq, _ := parsed.Parts() // a fork has the same numbers
		var found chat.Event
		if found, err = d.opt.Sessions.Event(ctx, c, id, seq); chat.CodeOf(err) == chat.NotFound {
			return nil, nil
		}
		e = &found
	}
	if err != nil || e == nil || e.Workstream != mainLine {
		return nil, err
	}
	switch e.Body.(type) {
	case chat.UserMessage, chat.UserInputResponse:
		return e, nil
	}
	return nil, nil
}

// reply answers an open question with a message. It refuses a message that would wait behind an open approval: the page could
// not show the question again while it waits.
func (d *Dialect) reply(ctx context.Context, c chat.Caller, st *chat.State, draft *chat.Draft, body *chat.UserMessage) (t target, answered bool, err error) {
	for _, p := range st.Prompts {
		if p.Workstream != mainLine {
			continue
		}
		if p.Input == nil {
			if st.Session.Policy == chat.Queue || st.Session.Policy == "" {
				return t, false, chat.Errorf(chat.Conflict, "The agent waits for a decision: approve or deny its request before you send a message.")
			}
			continue
		}
		if len(body.Content) > 0 {
			return t, false, invalid("The agent waits for an answer to its question: answer with text before you send a file.")
		}
		answer, err := chat.Answer{Text: body.PlainText()}.Body(p)
		if err != nil {
			return t, false, err
		}
		reply := chat.NewDraft(answer).As(draft.ClientID)
		reply.Via = via
		events, err := d.opt.Sessions.Append(ctx, c, st.Session.ID, []chat.Draft{reply})
		if chat.ReasonOf(err) == chat.PromptEnded {
			continue // somebody else was first: it is a message like any other
		}
		if err != nil {
			return t, false, err
		}
		t, err = d.attach(ctx, c, &events[0])
		return t, true, err
	}
	return t, false, nil
}

// attach returns the response to a stored message.
func (d *Dialect) attach(ctx context.Context, c chat.Caller, e *chat.Event) (target, error) {
	t := target{session: e.Session}
	if isReply(e) {
		t.turn, t.at.message = turnlog.Number(e.Turn), e.Seq
		t.run = runID(e.Turn, t.at)
		return t, nil
	}
	t.waits, t.run = e.Seq, string(e.ID)
	taken, err := turnlog.Taken(ctx, d.opt.Sessions, c, e.Session, e.Seq)
	if err == nil && taken != nil {
		t.taken(taken)
		t.run = runID(taken.Turn, t.at)
	}
	return t, err
}

// replace answers a message again, or an edited one, in a fork that takes the place of the session in this chat.
func (d *Dialect) replace(ctx context.Context, c chat.Caller, sess *chat.Session, name string, sent *chat.Event, draft chat.Draft, uploads []attachment.File) (target, error) {
	if _, ok := sent.Body.(chat.UserMessage); !ok {
		return target{}, chat.Errorf(chat.Conflict, "This message has answered a question and cannot be sent again.")
	}
	// The page leaves the turn that answers the message.
	if _, err := d.opt.Sessions.Stop(ctx, c, sess.ID, mainLine, "the message is answered anew in a fork"); err != nil {
		return target{}, err
	}
	fork, err := d.opt.Sessions.Fork(ctx, c, sess.ID, chat.Fork{After: sent.Seq - 1, Title: sess.Title, Metadata: sess.Metadata})
	if err != nil {
		return target{}, err
	}
	if err := d.opt.Sessions.ReplaceAlias(ctx, c, forkName(name), fork.ID); err != nil {
		return target{}, err
	}
	return d.append(ctx, c, fork.ID, draft, uploads)
}

// forkName is the caller's name for the session that has taken the place of another one in a chat. The name of the chat itself
// may be the id of the first session.
func forkName(chatName string) string { return "aisdk/" + chatName }

// find returns the session of a chat.
func (d *Dialect) find(ctx context.Context, c chat.Caller, name string) (chat.Session, error) {
	if name == "" || len(name) > maxChatID {
		return chat.Session{}, invalid("The id of a chat has 1 to %d bytes.", maxChatID)
	}
	sess, err := d.opt.Sessions.Own(ctx, c, forkName(name))
	if chat.CodeOf(err) == chat.NotFound {
		sess, err = d.opt.Sessions.Own(ctx, c, name)
	}
	if chat.CodeOf(err) == chat.NotFound {
		err = chat.Errorf(chat.NotFound, "There is no chat %q, or it is not yours.", text.Clip(name, 80))
	}
	return sess, err
}

// create begins a chat.
func (d *Dialect) create(ctx context.Context, c chat.Caller, name string, n chat.NewSession) error {
	if n.Agent != "" && d.opt.Agents != nil && !slices.Contains(d.opt.Agents(c.In()), n.Agent) || n.Agent == chat.NoAgent {
		return invalid("There is no agent %q.", text.Clip(n.Agent, 80))
	}
	_, _, err := d.opt.Sessions.Ensure(ctx, c, name, n)
	return err
}

// lock returns the session of a chat, which the caller may write to, and holds its lock. An edit that comes between may have
// replaced the session.
func (d *Dialect) lock(ctx context.Context, c chat.Caller, name string) (sess chat.Session, unlock func(), err error) {
	for {
		if sess, err = d.find(ctx, c, name); err != nil {
			return sess, nil, err
		}
		unlock = d.gates.Lock(string(sess.ID))
		now, err := d.find(ctx, c, name)
		if err == nil && now.ID == sess.ID {
			if err = c.May(&now, chat.Answerer); err == nil {
				return now, unlock, nil
			}
		}
		unlock()
		if err != nil {
			return now, nil, err
		}
	}
}
