package nemo

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// httpAnswer is the answer that an HTTP request waits for.
type httpAnswer struct {
	d         *Dialect
	caller    chat.Caller
	session   chat.SessionID
	trigger   chat.Seq    // the message that is answered
	pos       chat.Cursor // what the client has
	oneShot   bool        // the conversation ends with the request, so the turn is stopped when the client disconnects
	immediate string      // answered without the agent
	trace     string
	model     string
	createdAt time.Time

	text     strings.Builder
	turn     *turn
	end      *item
	err      *errorContent
	reported []string // prompts

	joinedTurn chat.TurnID // a turn that ran already and took the message in
	withdrawn  bool        // the message was withdrawn
}

// errPromptOpen ends follow because the agent waits for the answer to a prompt.
var errPromptOpen = errors.New("the agent waits for the answer to a prompt")

// startAnswer stores the message of a request. On a route that cannot report prompts, an open prompt was sent as text, and
// the message answers it.
func (d *Dialect) startAnswer(ctx context.Context, c chat.Caller, m *httpMessage, interactive bool) (*httpAnswer, error) {
	a := &httpAnswer{d: d, caller: c, oneShot: m.conversation == "", model: cmp.Or(m.model, "unknown-model"), createdAt: d.opt.Now(), trace: traceID(m.Trace)}
	conversation := m.conversation
	if a.oneShot {
		conversation = d.opt.NewID()
	} else if !interactive {
		if answered, err := a.answerPrompt(ctx, m); err != nil || answered {
			return a, err
		}
	}
	if err := d.checkAgent(ctx, c, conversation); err != nil {
		return nil, err
	}
	sess, e, _, err := d.submit(ctx, c, conversation, &m.decodedMessage)
	if err != nil {
		return nil, err
	}
	a.session, a.trigger, a.pos = sess.ID, e.Seq, chat.Cursor{Seq: e.Seq - 1}
	return a, nil
}

// checkAgent refuses a message to a session without turns, because the request would never end. It does so before the
// message is stored: clients repeat refused requests.
func (d *Dialect) checkAgent(ctx context.Context, c chat.Caller, conversation string) error {
	sess, err := d.opt.Sessions.Own(ctx, c, conversation)
	if chat.CodeOf(err) == chat.NotFound || err == nil && (sess.Agent != chat.NoAgent || string(sess.Metadata) == importMarker) {
		return nil
	}
	if err != nil {
		return err
	}
	return chat.Errorf(chat.Conflict, "no turn answers in this conversation: its agent is %q, or runs beside a sidecar; speak to it over the WebSocket", chat.NoAgent)
}

// answerPrompt takes the message as the answer to an open prompt, if there is one.
func (a *httpAnswer) answerPrompt(ctx context.Context, m *httpMessage) (bool, error) {
	sess, err := a.d.opt.Sessions.Own(ctx, a.caller, m.conversation)
	if chat.CodeOf(err) == chat.NotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	st, err := a.d.opt.Sessions.State(ctx, a.caller, sess.ID)
	if err != nil {
		return false, err
	}
	turn := st.Line("").Turn
	if turn == nil || len(st.Prompts) == 0 {
		return false, nil
	}
	rep, err := a.d.report(ctx, a.caller, sess, turn.Trigger)
	if err != nil || rep.prompt == nil {
		return false, err
	}
	a.session, a.trigger, a.pos = sess.ID, turn.Trigger, chat.Cursor{Seq: st.Last}
	err = a.d.answer(ctx, a.caller, sess.ID, &rep.prompt.Prompt, m.ID, m.Last.Content.text())
	if chat.CodeOf(err) == chat.Invalid {
		a.immediate = chat.Public(err).Msg + "\n\n" + promptText(&rep.prompt.Prompt)
		return true, nil
	}
	return true, err
}

// follow calls show for each item of the answer until it ends, or until prompt returns true (then the error is
// errPromptOpen). idle is called when nothing happened for a while.
func (a *httpAnswer) follow(ctx context.Context, show func(*item) error, prompt func(*openPrompt) (bool, error), idle func() error) error {
	if a.immediate != "" {
		return show(&item{kind: itemText, turn: &turn{}, text: a.immediate})
	}
	f := newFold(a.session, a.pos)
	start := core.Start{Cursor: &chat.Cursor{Seq: a.trigger - 1}, Idle: heartbeatEvery}
	for batch, err := range a.d.opt.Sessions.Watch(ctx, a.caller, a.session, start, nil) {
		if err != nil {
			return err
		}
		if batch.Idle && idle != nil {
			if err := idle(); err != nil {
				return err
			}
		}
		for i := range batch.Entries {
			items, err := f.take(&batch.Entries[i])
			if err == nil {
				err = a.noteMessage(&batch.Entries[i])
			}
			if err != nil {
				return err
			}
			for j := range items {
				if err := a.take(&items[j], show); err != nil {
					return err
				}
			}
		}
		switch {
		case a.end != nil:
			return nil
		case f.lastMessage.fromNeMo && f.lastMessage.trigger > a.trigger:
			return chat.Errorf(chat.Conflict, "a newer message in this conversation replaced this one")
		case a.withdrawn:
			return chat.Errorf(chat.Conflict, "the message was withdrawn before its turn started")
		case !batch.Live:
			continue
		}
		for _, p := range f.prompts {
			if !a.belongs(p.root, p.turn) || slices.Contains(a.reported, p.RequestID) {
				continue
			}
			a.reported = append(a.reported, p.RequestID)
			a.noteTurn(p.turn)
			if stop, err := prompt(p); err != nil {
				return err
			} else if stop {
				return errPromptOpen
			}
		}
	}
	return context.Cause(ctx)
}

// noteMessage notes what happens to a message that starts no turn of its own: it is withdrawn, or a running turn takes
// it in and answers it from then on.
func (a *httpAnswer) noteMessage(e *core.Entry) error {
	if e.Piece != nil || a.turn != nil {
		return nil
	}
	ev, err := e.Fact.Event()
	if err != nil {
		return err
	}
	switch b := ev.Body.(type) {
	case chat.UserMessageWithdrawn:
		a.withdrawn = a.withdrawn || b.Sequence == a.trigger
	case chat.TurnInput:
		if slices.Contains(b.Sequences, a.trigger) {
			a.joinedTurn = ev.Turn
		}
	}
	return nil
}

// belongs reports whether what a turn shows is part of the answer; root is the message that the turn belongs to.
func (a *httpAnswer) belongs(root chat.Seq, t *turn) bool {
	return root == a.trigger || a.joinedTurn != "" && t.id == a.joinedTurn
}

// take collects an item of the answer and shows it.
func (a *httpAnswer) take(it *item, show func(*item) error) error {
	if !a.belongs(it.root, it.turn) {
		return nil
	}
	a.noteTurn(it.turn)
	switch it.kind {
	case itemText:
		a.text.WriteString(it.text)
	case itemError:
		a.err = &it.err
	case itemEnd:
		end := *it
		a.end = &end
	case itemTrace:
		a.trace = cmp.Or(a.trace, it.text)
		it.text = a.trace
	}
	return show(it)
}

// noteTurn notes the turn that answers; turns of its workstreams do not count.
func (a *httpAnswer) noteTurn(t *turn) {
	if t.trigger == a.trigger || a.joinedTurn != "" && t.id == a.joinedTurn {
		a.turn = t
	}
}

// stopIfOneShot stops the turn of a client that has disconnected and cannot return. Other turns continue.
func (a *httpAnswer) stopIfOneShot(ctx context.Context) {
	if !a.oneShot || a.end != nil || a.session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := a.d.opt.Sessions.Stop(ctx, a.caller, a.session, "", "the client has disconnected"); err != nil {
		a.d.log.WarnContext(ctx, "the turn of a disconnected client could not be stopped", "err", err)
	}
}

// appendParagraph adds a text of the server to the answer, and returns it with its separator.
func (a *httpAnswer) appendParagraph(s string) string {
	if a.text.Len() > 0 {
		s = "\n\n" + s
	}
	a.text.WriteString(s)
	return s
}

// id names the answer.
func (a *httpAnswer) id() string {
	if a.turn != nil && a.turn.uuid != "" {
		return a.turn.uuid
	}
	return derivedID(string(a.session), "answer")
}

// usage counts tokens as the agent reported them, else words.
func (a *httpAnswer) usage(question string) usage {
	var u usage
	if a.end != nil && a.end.usage != nil {
		u.Prompt, u.Completion = a.end.usage.InputTokens, a.end.usage.OutputTokens
	} else {
		u.Prompt, u.Completion = int64(len(strings.Fields(question))), int64(len(strings.Fields(a.text.String())))
	}
	u.Total = u.Prompt + u.Completion
	return u
}
