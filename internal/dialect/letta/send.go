package letta

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

func (d *Dialect) sendToAgent(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	a, err := d.readSend(r, false, false)
	if err != nil {
		return err
	}
	p, err := d.agentPlace(r.Context(), c, r.PathValue("agent"))
	if err != nil {
		return err
	}
	return d.answer(w, r, c, p, a)
}

func (d *Dialect) streamAgent(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	a, err := d.readSend(r, true, true)
	if err != nil {
		return err
	}
	p, err := d.agentPlace(r.Context(), c, r.PathValue("agent"))
	if err != nil {
		return err
	}
	return d.answer(w, r, c, p, a)
}

func (d *Dialect) sendToConversation(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	a, err := d.readSend(r, true, false)
	if err != nil {
		return err
	}
	p, err := d.conversationPlace(r.Context(), c, r.PathValue("conversation"), first(a.agentID, r.URL.Query().Get("agent_id")))
	if err != nil {
		return err
	}
	return d.answer(w, r, c, p, a)
}

// answer sends the messages and answers with what comes of them.
func (d *Dialect) answer(w http.ResponseWriter, r *http.Request, c chat.Caller, p *place, a *ask) error {
	f, err := d.sendMessages(r.Context(), c, p, a)
	if err != nil {
		return err
	}
	if a.stream {
		return f.stream(w, r)
	}
	return f.whole(w, r)
}

// sendAsync sends messages and answers with the run at once.
func (d *Dialect) sendAsync(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	a, err := d.readSend(r, true, true) // what only streams have is nothing to refuse here
	if err != nil {
		return err
	}
	if err := d.checkCallback(a.callback); err != nil {
		return err
	}
	a.options.Background = true
	p, err := d.agentPlace(r.Context(), c, r.PathValue("agent"))
	if err != nil {
		return err
	}
	f, err := d.sendMessages(r.Context(), c, p, a)
	if err != nil {
		return err
	}
	if err := f.await(r.Context(), func() error { return nil }); err != nil {
		return err
	}
	if err := d.callLater(r.Context(), c, f.run, a.callback); err != nil {
		return err
	}
	state, err := d.runState(r.Context(), c, f.run)
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, state)
	return nil
}

// sendMessages makes facts of what a client sends and returns who follows what
// comes of it. Requests for one conversation are decided one after the other.
func (d *Dialect) sendMessages(ctx context.Context, c chat.Caller, p *place, a *ask) (*follower, error) {
	if err := d.fits(c, p, a); err != nil {
		return nil, err
	}
	gate := d.gate(p.session)
	gate.Lock()
	defer gate.Unlock()
	st, err := d.opt.Sessions.State(ctx, c, p.session)
	if err == nil {
		err = c.May(&st.Session, chat.Answerer)
	}
	if err != nil {
		return nil, err
	}
	if a.approval != nil {
		return d.decide(ctx, c, p, a, st)
	}
	otid := a.messages[len(a.messages)-1].otid
	line := st.Line(mainLine)
	if line.Turn != nil || len(line.Queue) > 0 {
		// Sent before: the client lost the answer.
		e, err := d.sentBefore(ctx, c, p, otid)
		if err == nil && e == nil && otid == "" && a.retry && line.Turn != nil {
			e, err = d.sameAgain(ctx, c, p, a, line.Turn.Trigger)
		}
		if err != nil {
			return nil, err
		}
		if e != nil {
			return d.attach(ctx, c, p, a, *e)
		}
	}
	if pending := approvalIn(st); pending != nil {
		return nil, errPending(pending, st)
	}
	if q := questionIn(st); q != nil {
		return d.reply(ctx, c, p, a, q)
	}
	if (line.Turn != nil || len(line.Queue) > 0) && !p.queues {
		return nil, errBusy(line)
	}
	drafts, err := d.drafts(ctx, c, p, a)
	if err != nil {
		return nil, err
	}
	events, err := d.opt.Sessions.Append(ctx, c, p.session, drafts)
	if err != nil {
		return nil, refused(otid, err)
	}
	return d.attach(ctx, c, p, a, events[len(events)-1])
}

// fits refuses what cannot be done in this conversation.
func (d *Dialect) fits(c chat.Caller, p *place, a *ask) error {
	if p.agent == chat.NoAgent {
		return chat.Errorf(chat.Invalid, "nobody answers in this conversation: it was begun without an agent")
	}
	if a.model != "" {
		name, err := d.answererNamed(c, a.model)
		if err != nil {
			return err
		}
		if name != p.agent {
			return chat.Errorf(chat.Invalid, "override_model: a conversation is answered by one agent, and %q is another; begin a conversation with it", clip(a.model))
		}
	}
	if n := len(a.messages); a.approval == nil && a.messages[n-1].role == llm.Assistant {
		return chat.Errorf(chat.Invalid, "messages: the last one is the agent's own; end with what it shall answer")
	}
	return nil
}

// refused says in the words of a client why its message was not taken.
func refused(otid string, err error) error {
	switch chat.CodeOf(err) {
	case chat.Conflict:
		return chat.Errorf(chat.Conflict, "the otid %q was used before for something else; a new message needs a new otid", clip(otid)).Because(err)
	case chat.TooLarge:
		return chat.Errorf(chat.TooLarge, "a message has at most %d KiB, pictures that are kept as files not counted; send it in parts", chat.MaxEvent>>10).Because(err)
	}
	return err
}

// errBusy is the answer to a message that comes while the agent works.
func errBusy(line *chat.Line) error {
	e := chat.Errorf(chat.Conflict, "CONFLICT: the agent is answering another message of this conversation; wait for the run to end, follow it, or cancel it")
	if line.Turn != nil {
		e = e.With(runDetail, llm.RunID(line.Turn.ID))
	}
	return e
}

// drafts are the facts of what is sent. What comes before the last message is
// there to be read; the last one asks for an answer.
func (d *Dialect) drafts(ctx context.Context, c chat.Caller, p *place, a *ask) ([]chat.Draft, error) {
	var out []chat.Draft
	n := len(a.messages) - 1
	for i := range a.messages {
		if err := d.keepImages(ctx, c, p.session, a.messages[i].content); err != nil {
			return nil, err
		}
		if i < n {
			out = append(out, whole(a.messages[i]))
		}
	}
	last := a.messages[n]
	made, err := llm.Drafts([]llm.Message{{Role: llm.User, Content: last.content, SenderID: last.sender}})
	if err != nil {
		return nil, refused(last.otid, err)
	}
	body := made[0].Body.(chat.UserMessage)
	o := a.options
	o.Said = last.said
	if body.Context, err = contextOf(o, a.tools); err != nil {
		return nil, err
	}
	draft := chat.NewDraft(body).As(last.otid)
	draft.Via = via
	return append(out, draft), nil
}

// contextOf is what is kept with a message, nil if that is nothing. Tools and what
// the agent is to be told stand where agents look for them, whatever the dialect.
func contextOf(o options, tools []chat.ClientTool) (json.RawMessage, error) {
	all := map[string]any{}
	b, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	if string(b) != "{}" {
		all[llm.SaidKey] = json.RawMessage(b)
	}
	if len(tools) > 0 {
		all["client_tools"] = tools
	}
	if o.System != "" {
		all["system"] = o.System
	}
	if len(all) == 0 {
		return nil, nil
	}
	return json.Marshal(all)
}

// whole is a message that stands in the log as it is and asks for nothing.
func whole(m input) chat.Draft {
	msg := llm.Message{
		Role: m.role, Content: m.content, Name: m.said.Name, SenderID: m.sender, GroupID: m.said.GroupID, BatchItemID: m.said.BatchItemID, OTID: m.otid,
	}
	draft := chat.NewDraft(chat.Unknown{Name: llm.ImportedType, Payload: msg.AppendJSON(nil)}).As(m.otid)
	draft.Via = via
	return draft
}

// inlineImage is the size above which a picture becomes a file of the session.
const inlineImage = 32 << 10

// keepImages stores large pictures. Their names come from their content, so a
// repeated message stores the same again.
func (d *Dialect) keepImages(ctx context.Context, c chat.Caller, id chat.SessionID, parts []llm.Part) error {
	for _, p := range parts {
		img, ok := p.(*llm.Image)
		if !ok || img.Source.Type != llm.SourceBase64 || len(img.Source.Data) <= inlineImage {
			continue
		}
		if d.opt.Files == nil {
			return chat.Errorf(chat.TooLarge, "this server keeps no files, and the picture is too large to be kept without")
		}
		data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(img.Source.Data))
		if err != nil {
			return unfit("an image's data is not base64")
		}
		sum := sha256.Sum256(data)
		path := "letta/" + hex.EncodeToString(sum[:16])
		if err := d.opt.Sessions.MayStore(ctx, c, id, int64(len(data))); err != nil {
			return err
		}
		if _, err := d.opt.Files.Put(ctx, id, path, img.Source.MediaType, bytes.NewReader(data), d.opt.MaxArtifact); err != nil {
			return err
		}
		img.Source = llm.ImageSource{Type: llm.SourceFile, FileID: path, MediaType: img.Source.MediaType, Detail: img.Source.Detail}
	}
	return nil
}

// recentSent is how many messages are looked through for one that was sent before.
const recentSent = 1000

// sentBefore finds what the caller sent under an otid.
func (d *Dialect) sentBefore(ctx context.Context, c chat.Caller, p *place, otid string) (*chat.Event, error) {
	if otid == "" {
		return nil, nil
	}
	return d.sent(ctx, c, p, func(e *chat.Event) bool { return e.ClientID == otid && e.Actor.Same(c.Actor) })
}

// sameAgain returns the message that the running turn answers when the client
// says that it sends something again, and that is the very same.
func (d *Dialect) sameAgain(ctx context.Context, c chat.Caller, p *place, a *ask, trigger chat.Seq) (*chat.Event, error) {
	drafts, err := d.drafts(ctx, c, p, a)
	if err != nil {
		return nil, err
	}
	last := &drafts[len(drafts)-1]
	if err := last.Settle(); err != nil {
		return nil, err
	}
	e, err := d.event(ctx, c, p.session, trigger)
	if err != nil || !e.Actor.Same(c.Actor) || e.Type != last.Type || !chat.SameJSON(e.Payload, last.Payload) {
		return nil, err
	}
	return &e, nil
}

// sent finds the newest thing that a person said that fits.
func (d *Dialect) sent(ctx context.Context, c chat.Caller, p *place, fits func(*chat.Event) bool) (*chat.Event, error) {
	facts, _, err := d.opt.Sessions.Read(ctx, c, p.session, chat.Range{
		Limit: recentSent, Desc: true, Workstream: &mainLine, Types: []string{
			chat.UserMessage{}.Type(), chat.UserApprovalResponse{}.Type(), chat.UserInputResponse{}.Type(), chat.UserPermissionResponse{}.Type(),
		},
	})
	if err != nil {
		return nil, err
	}
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			return nil, err
		}
		if fits(&e) {
			return &e, nil
		}
	}
	return nil, nil
}

// attach follows what comes of an event: of a message the run that answers it,
// of an answer the rest of the run that asked.
func (d *Dialect) attach(ctx context.Context, c chat.Caller, p *place, a *ask, e chat.Event) (*follower, error) {
	f := &follower{
		d: d, caller: c, place: p, waits: e.Seq, tokens: a.options.Tokens, pings: a.pings, types: a.types, form: p.form,
	}
	f.form.assistant, f.form.tool, f.form.argument, f.form.summaries = a.form.assistant, a.form.tool, a.form.argument, a.form.summaries
	var started *chat.Event
	var err error
	if _, ok := e.Body.(chat.UserMessage); ok {
		started, err = d.answers(ctx, c, p.session, e.Seq)
	} else {
		// The response to the question ended there. What has happened since, such
		// as the return of another tool of the step, belongs to this response.
		if f.after, err = d.asked(ctx, c, p, &e); err != nil {
			return f, err
		}
		started, err = d.began(ctx, c, p.session, e.Turn)
		if err == nil && started == nil {
			err = chat.Errorf(chat.Conflict, "what was answered does not belong to a run; the answer is kept")
		}
	}
	if err != nil || started == nil {
		return f, err
	}
	f.run, err = d.runIn(ctx, c, p, *started)
	return f, err
}

// asked returns the last position of the question that an event answers.
func (d *Dialect) asked(ctx context.Context, c chat.Caller, p *place, answer *chat.Event) (chat.At, error) {
	request := chat.AnswerOf(answer.Body)
	for before := answer.Seq; before > 0; {
		facts, more, err := d.opt.Sessions.Read(ctx, c, p.session, chat.Range{
			Before: before, Limit: 100, Desc: true, Workstream: &mainLine, Types: []string{
				chat.AgentApprovalRequest{}.Type(), chat.AgentInputRequest{}.Type(), chat.AgentPermissionRequest{}.Type(), chat.TurnStarted{}.Type(),
			},
		})
		if err != nil {
			return 0, err
		}
		for _, fact := range facts {
			e, err := fact.Event()
			if err != nil {
				return 0, err
			}
			if q, ok := chat.AsPrompt(&e); ok && q.RequestID == request {
				return e.At + chat.AtStep - 1, nil
			}
			if before = e.Seq; e.Type == (chat.TurnStarted{}).Type() && e.Turn == answer.Turn {
				before = 0 // a question stands behind the beginning of its turn
				break
			}
		}
		if !more {
			break
		}
	}
	return answer.At - 1, nil
}
