package aisdk

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/attachment"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/turnlog"
)

// mainLine is the line of the turns that pages see.
var mainLine = turnlog.MainLine

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
	defer d.Lock(c, req.chat)()
	sess, err := d.find(ctx, c, req.chat)
	if err != nil && chat.CodeOf(err) != chat.NotFound {
		return target{}, err
	}
	body.Context = req.context
	draft, uploads, err := d.Draft(ctx, c, sess.ID, m.ID, body)
	if err != nil {
		return target{}, err // nothing is created for a message that is refused
	}
	if sess.ID == "" {
		if sess, err = d.create(ctx, c, req.chat, chat.NewSession{Agent: req.agent}); err != nil {
			return target{}, err
		}
	}
	if sess.Agent == chat.NoAgent {
		return target{}, invalid("This chat has no agent that answers.")
	}
	st, err := d.Sessions.State(ctx, c, sess.ID)
	if err == nil {
		err = c.May(&st.Session, chat.Answerer)
	}
	if err != nil {
		return target{}, err
	}
	given := req.before.answers()
	asks := slices.ContainsFunc(st.Prompts, func(p *chat.Prompt) bool { return p.Workstream == mainLine || given.mentions(p) })
	if !asks && !req.regenerate && !req.edits {
		return d.append(ctx, c, sess.ID, draft, uploads)
	}
	sent, err := d.Message(ctx, c, sess.ID, m.ID)
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
	e, err := d.Store(ctx, c, id, draft, uploads)
	if chat.ReasonOf(err) == chat.ClientIDReused { // a reply to a question, or another message
		sent, findErr := d.Message(ctx, c, id, draft.ClientID)
		if findErr != nil || sent == nil {
			return target{}, cmp.Or(findErr, err)
		}
		return d.repeat(ctx, c, sent, &draft)
	}
	if err != nil {
		return target{}, err
	}
	return d.attach(ctx, c, e)
}

// reply answers an open question with a message. It refuses a message that would wait behind an open approval: the page could
// not show the question again while it waits.
func (d *Dialect) reply(ctx context.Context, c chat.Caller, st *chat.State, draft *chat.Draft, body *chat.UserMessage) (t target, answered bool, err error) {
	if turn := st.Line(mainLine).Turn; turn != nil && turn.Stopping {
		return t, false, nil // the prompts end with the turn, and the next one answers the message
	}
	for _, p := range st.Prompts {
		if p.Workstream != mainLine {
			continue
		}
		if p.Input == nil {
			if st.Session.Policy == chat.Queue || st.Session.Policy == "" {
				if p.Approval != nil && !slices.ContainsFunc(p.Approval.Calls, func(c chat.ApprovalCall) bool { return !c.Client }) {
					return t, false, chat.Errorf(chat.Conflict, "The agent waits for the result of a tool of your page: send that before you send a message.")
				}
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
		events, err := d.Sessions.Append(ctx, c, st.Session.ID, []chat.Draft{reply})
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
	taken, err := turnlog.Taken(ctx, d.Sessions, c, e.Session, e.Seq)
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
	fork, err := d.Fork(ctx, c, sess, sent.Seq, sess.Metadata)
	if err != nil {
		return target{}, err
	}
	if err := d.Sessions.ReplaceAlias(ctx, c, forkName(name), fork.ID); err != nil {
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
	if name == "." || name == ".." || name == "/" { // no address can have them: clients and servers remove them from paths
		return chat.Session{}, invalid("The id of a chat cannot be %q.", name)
	}
	sess, err := d.Find(ctx, c, forkName(name), name)
	if chat.CodeOf(err) == chat.NotFound {
		err = chat.Errorf(chat.NotFound, "There is no chat %q, or it is not yours.", text.Clip(name, 80))
	}
	return sess, err
}

// create begins a chat.
func (d *Dialect) create(ctx context.Context, c chat.Caller, name string, n chat.NewSession) (chat.Session, error) {
	if n.Agent != "" && d.Agents != nil && !slices.Contains(d.Agents(c.In()), n.Agent) || n.Agent == chat.NoAgent {
		return chat.Session{}, invalid("There is no agent %q.", text.Clip(n.Agent, 80))
	}
	sess, _, err := d.Sessions.Ensure(ctx, c, name, n)
	return sess, err
}
