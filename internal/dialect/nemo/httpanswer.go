package nemo

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
)

// httpAnswer is an answer that an HTTP request waits for.
type httpAnswer struct {
	d         *Dialect
	caller    chat.Caller
	session   chat.SessionID
	trigger   chat.Seq    // the message that is answered
	pos       chat.Cursor // what the client has
	oneShot   bool        // the conversation ends with the request: nobody can come back to it
	immediate string      // what is to be said without asking the agent
	trace     string
	model     string

	text      strings.Builder
	turn      *turn
	end       *item
	err       *errorContent
	reported  []string // prompts that the client knows
	createdAt time.Time

	joinedTurn chat.TurnID // a turn that ran already and took the message in
	withdrawn  bool        // the message was taken back
}

// errPromptOpen ends a run because a prompt is open that the client is told of.
var errPromptOpen = errors.New("the agent asks")

// startAnswer says what an HTTP client says. Where the route has no words for prompts,
// an open one was shown as a text, and what is said now answers it.
func (d *Dialect) startAnswer(ctx context.Context, c chat.Caller, a *httpMessage, interactive bool) (*httpAnswer, error) {
	r := &httpAnswer{d: d, caller: c, oneShot: a.conversation == "", model: first(a.model, "unknown-model"), createdAt: d.opt.Now(), trace: traceID(a.Trace)}
	conversation := a.conversation
	if r.oneShot {
		conversation = d.opt.NewID()
	} else if !interactive {
		if answered, err := r.answerPrompt(ctx, a); err != nil || answered {
			return r, err
		}
	}
	if err := d.checkAgent(ctx, c, conversation); err != nil {
		return nil, err
	}
	sess, e, _, err := d.submit(ctx, c, conversation, &a.decodedMessage)
	if err != nil {
		return nil, err
	}
	r.session, r.trigger, r.pos = sess.ID, e.Seq, chat.Cursor{Seq: e.Seq - 1}
	return r, nil
}

// checkAgent refuses a request for whose answer nobody could tell the end, before
// anything of it is kept: clients send what was refused again.
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

// answerPrompt takes what was said as the answer to an open prompt, if there is one.
func (r *httpAnswer) answerPrompt(ctx context.Context, a *httpMessage) (bool, error) {
	sess, err := r.d.opt.Sessions.Own(ctx, r.caller, a.conversation)
	if err != nil {
		if chat.CodeOf(err) == chat.NotFound {
			err = nil // it begins now
		}
		return false, err
	}
	st, err := r.d.opt.Sessions.State(ctx, r.caller, sess.ID)
	if err != nil {
		return false, err
	}
	turn := st.Line("").Turn
	if turn == nil || len(st.Prompts) == 0 {
		return false, nil
	}
	rep, err := r.d.report(ctx, r.caller, sess, turn.Trigger)
	if err != nil || rep.prompt == nil {
		return false, err
	}
	r.session, r.trigger, r.pos = sess.ID, turn.Trigger, chat.Cursor{Seq: st.Last}
	err = r.d.answer(ctx, r.caller, sess.ID, &rep.prompt.Prompt, a.ID, a.Last.Content.text())
	if chat.CodeOf(err) == chat.Invalid {
		r.immediate = chat.Public(err).Msg + "\n\n" + promptText(&rep.prompt.Prompt)
		return true, nil
	}
	return true, err
}

// follow calls show for each item of the answer until it ends, or until asked
// returns true for a prompt (then the error is errAsked). beat is called when
// nothing happened for a while.
func (r *httpAnswer) follow(ctx context.Context, show func(*item) error, asked func(*openPrompt) (bool, error), beat func() error) error {
	if r.immediate != "" {
		return show(&item{kind: itemText, turn: &turn{}, text: r.immediate})
	}
	f := newFold(r.session, r.pos)
	start := chat.Start{Cursor: &chat.Cursor{Seq: r.trigger - 1}, Idle: r.d.opt.Heartbeat}
	for batch, err := range r.d.opt.Sessions.Watch(ctx, r.caller, r.session, start, nil) {
		if err != nil {
			return err
		}
		if batch.Idle && beat != nil {
			if err := beat(); err != nil {
				return err
			}
		}
		for i := range batch.Entries {
			items, err := f.take(&batch.Entries[i])
			if err == nil {
				err = r.noteMessage(&batch.Entries[i])
			}
			if err != nil {
				return err
			}
			for j := range items {
				if err := r.take(&items[j], show); err != nil {
					return err
				}
			}
		}
		if r.end != nil {
			return nil
		}
		if f.lastMessage.fromNeMo && f.lastMessage.seq > r.trigger {
			return chat.Errorf(chat.Conflict, "a newer message in this conversation took the place of this one")
		}
		if r.withdrawn {
			return chat.Errorf(chat.Conflict, "the message was taken back before its turn came; nobody answers it")
		}
		if !batch.Live {
			continue
		}
		for _, p := range f.prompts {
			if !r.belongs(p.root, p.turn) || slices.Contains(r.reported, p.RequestID) {
				continue
			}
			r.reported = append(r.reported, p.RequestID)
			r.noteTurn(p.turn)
			if stop, err := asked(p); err != nil {
				return err
			} else if stop {
				return errPromptOpen
			}
		}
	}
	return context.Cause(ctx)
}

// noteMessage notes what becomes of a message that begins no turn of its own: it is taken
// back, or a turn that runs takes it in and answers it with what it says from then on.
func (r *httpAnswer) noteMessage(e *chat.Entry) error {
	if e.Piece != nil || r.turn != nil {
		return nil
	}
	ev, err := e.Fact.Event()
	if err != nil {
		return err
	}
	switch b := ev.Body.(type) {
	case chat.UserMessageWithdrawn:
		r.withdrawn = r.withdrawn || b.Sequence == r.trigger
	case chat.TurnInput:
		if slices.Contains(b.Sequences, r.trigger) {
			r.joinedTurn = ev.Turn
		}
	}
	return nil
}

// belongs reports whether what a turn shows belongs to the answer; root is the message
// that the turn belongs to.
func (r *httpAnswer) belongs(root chat.Seq, t *turn) bool {
	return root == r.trigger || r.joinedTurn != "" && t.id == r.joinedTurn
}

// take keeps what belongs to the answer and shows it.
func (r *httpAnswer) take(it *item, show func(*item) error) error {
	if !r.belongs(it.root, it.turn) {
		return nil
	}
	r.noteTurn(it.turn)
	switch it.kind {
	case itemText:
		r.text.WriteString(it.text)
	case itemError:
		r.err = &it.err
	case itemEnd:
		end := *it
		r.end = &end
	case itemTrace:
		if r.trace == "" {
			r.trace = it.text
		}
		it.text = r.trace
	}
	return show(it)
}

// noteTurn notes the turn whose answer this is; those of its workstreams are not.
func (r *httpAnswer) noteTurn(t *turn) {
	if t.trigger == r.trigger || r.joinedTurn != "" && t.id == r.joinedTurn {
		r.turn = t
	}
}

// stopIfAbandoned stops the agent when the client of a single answer has gone. All other
// turns go on: their client may come back.
func (r *httpAnswer) stopIfAbandoned(ctx context.Context) {
	if !r.oneShot || r.end != nil || r.session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := r.d.opt.Sessions.Stop(ctx, r.caller, r.session, "", "the client has gone"); err != nil {
		r.d.log.WarnContext(ctx, "an answer that nobody waits for could not be stopped", "err", err)
	}
}

// usage counts tokens: as the agent reported them, else in words.
func (r *httpAnswer) usage(question string) usage {
	var u usage
	if r.end != nil && r.end.usage != nil {
		u.Prompt, u.Completion = r.end.usage.InputTokens, r.end.usage.OutputTokens
	} else {
		u.Prompt, u.Completion = int64(len(strings.Fields(question))), int64(len(strings.Fields(r.text.String())))
	}
	u.Total = u.Prompt + u.Completion
	return u
}
