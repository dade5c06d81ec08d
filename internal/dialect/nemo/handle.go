package nemo

import (
	"cmp"
	"context"
	"regexp"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/wire"
)

// received is a frame of a client that waits to be handled.
type received struct {
	clientFrame
	raw    []byte
	caller chat.Caller
	err    error // it cannot be decoded, or has no caller
	weight int   // as how many frames it counts, see unhandledBytes

	release func() // of a large frame; see [wire.Conn.Hold]
}

// receive decodes a frame, finds its caller, and lets it wait to be handled. An auth_message is handled at once, because the limits of the
// frames behind it depend on it.
func (s *socket) receive(ctx context.Context, msg []byte) {
	f := &received{raw: msg, weight: min(1+len(msg)/unhandledBytes, maxUnhandled)}
	if f.clientFrame, f.err = decodeFrame(msg); f.err == nil {
		if f.Type == typeAuth {
			s.authenticate(ctx, &f.clientFrame)
			return
		}
		f.caller, f.err = s.callerOf(ctx, &f.clientFrame)
	}
	for range f.weight {
		select {
		case s.unhandled <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
	f.release = s.conn.Hold()
	s.frames <- f
}

// handle handles one frame of a client. A bad frame is answered with an error; the socket stays open.
func (s *socket) handle(ctx context.Context, f *received) {
	err := f.err
	if ended := wire.Ended(s.ctx); err == nil && ended != nil { // the credential ended after the frame was read
		err = &refusal{codeAuth, chat.Public(ended)}
	}
	if err == nil {
		err = s.d.opt.Allow(f.caller, 1)
	}
	if err == nil && f.Type == typeAnswer {
		s.handleAnswer(ctx, f.caller, &f.clientFrame)
		return
	}
	if err == nil {
		err = s.handleMessage(ctx, f.caller, &f.clientFrame, f.raw)
	}
	if err != nil {
		s.sendRefusal(ctx, &f.clientFrame, err)
	}
}

// callerOf is the caller of one frame: that of its security block, else the socket's.
func (s *socket) callerOf(ctx context.Context, f *clientFrame) (chat.Caller, error) {
	if token := f.Security.token(); token != "" {
		c, err := s.d.opt.Authenticate(ctx, token)
		if err != nil {
			return c, &refusal{codeAuth, chat.Public(err)}
		}
		if s.authErr != nil {
			s.conn.SetClient(edge.ClientOf(c))
		}
		s.authWait.End()
		return c, nil
	}
	if s.authErr != nil {
		return chat.Caller{}, &refusal{codeAuth, chat.Public(s.authErr)}
	}
	return s.caller, nil
}

// authenticate handles auth_message: its token is the socket's credential from now on. The conversation that the address
// names is followed then.
func (s *socket) authenticate(ctx context.Context, f *clientFrame) {
	token, err := decodeAuth(f.Payload)
	var c chat.Caller
	if err == nil {
		c, err = s.d.opt.Authenticate(ctx, token)
	}
	r := authResponse{Type: typeAuthResponse, Status: "success", Timestamp: s.d.now().String()}
	if err != nil {
		r.Status = "error"
		r.Payload = &errorContent{Code: codeAuth, Message: codeTitles[codeAuth], Details: chat.Public(err).Msg}
		_ = s.conn.WriteText(ctx, appendJSON(nil, r))
		return
	}
	id := derivedID("identity", c.In()+"\x00"+c.Actor.Key())
	r.UserID = &id
	s.caller, s.authErr = c, nil
	s.bind(ctx, c)
	s.conn.SetClient(edge.ClientOf(c))
	s.authWait.End()
	_ = s.conn.WriteText(ctx, appendJSON(nil, r))
	s.resumeRequested(ctx, c)
}

// bind ends the socket with the credential of the last auth_message. The credential of the request ends it, too.
func (s *socket) bind(ctx context.Context, c chat.Caller) {
	if s.releaseBind != nil {
		s.releaseBind()
	}
	bound, release := s.d.opt.Bind(ctx, c)
	stop := context.AfterFunc(bound, func() { s.cancel(context.Cause(bound)) })
	s.releaseBind = func() { stop(); release() }
}

// conversationOf is the conversation that a frame names, else the socket's own.
func (s *socket) conversationOf(f *clientFrame) string {
	return cmp.Or(f.conversation(), s.defaultConversation)
}

// handleMessage stores a user message and follows its conversation.
func (s *socket) handleMessage(ctx context.Context, c chat.Caller, f *clientFrame, raw []byte) error {
	m, err := decodeUser(f, raw)
	if err != nil {
		return err
	}
	if s.schema.jsonQuery {
		m.unpackQuery()
	}
	conversation := s.conversationOf(f)
	sess, e, repeated, err := s.d.submit(ctx, c, conversation, m)
	if err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		s.d.points.senderLeft(s.resumeKey(c, sess.ID), conversation, e.Seq)
		return nil
	}
	s.subscribe(c, conversation, sess.ID).messageSent(e, repeated)
	return nil
}

// handleAnswer stores the answer to a prompt. One that does not fit is refused with the reason, and the prompt is sent
// again: the UI has closed it.
func (s *socket) handleAnswer(ctx context.Context, c chat.Caller, f *clientFrame) {
	answer, err := decodeAnswer(f.Content)
	var user userInfo
	if err == nil {
		user, err = decodeUserInfo(f.User)
	}
	invalid := err != nil
	sub, p, findErr := s.findPrompt(ctx, c, f)
	if err == nil {
		err = findErr
	}
	if err == nil {
		if s.schema.plainOptions {
			answer = expandNumbers(&p.Prompt, answer)
		}
		err = s.d.answer(ctx, user.apply(c), sub.session, &p.Prompt, f.name(), answer)
		if invalid = chat.CodeOf(err) == chat.Invalid; invalid {
			if _, ok := err.(*refusal); !ok {
				err = &refusal{codeData, chat.Public(err)}
			}
		}
	}
	if err != nil {
		s.sendRefusal(ctx, f, err)
	}
	if invalid && findErr == nil {
		_ = s.conn.Write(ctx, wire.AppendTextFrame(nil, sub.enc.appendPrompt(nil, p, s.d.now())))
	}
}

// answer stores an answer. The client's id makes it safe to send it again.
func (d *Dialect) answer(ctx context.Context, c chat.Caller, id chat.SessionID, p *chat.Prompt, name, text string) error {
	a, err := decodeChoice(p, text)
	if err != nil {
		return err
	}
	if name != placeholder && len(name) <= chat.MaxClientID {
		a.ClientID = name
	}
	_, err = d.opt.Sessions.Answer(ctx, c, id, p.RequestID, a)
	if chat.ReasonOf(err) == chat.ClientIDReused {
		a.ClientID = "" // clients of this protocol use some ids twice
		_, err = d.opt.Sessions.Answer(ctx, c, id, p.RequestID, a)
	}
	return err
}

// findPrompt finds the prompt that a frame answers: the one that parent_id names, else that of the same answer if it is sent again, else the
// one that the client shows, else the oldest.
func (s *socket) findPrompt(ctx context.Context, c chat.Caller, f *clientFrame) (*subscription, *openPrompt, error) {
	sub, err := s.subscriptionOf(ctx, c, f)
	if err != nil {
		return nil, nil, err
	}
	st, err := s.d.opt.Sessions.State(ctx, c, sub.session)
	if err != nil {
		return nil, nil, err
	}
	sub.mu.Lock()
	shown, last := sub.shown, sub.last
	sub.mu.Unlock()
	var found *openPrompt
	for _, p := range st.Prompts {
		a := &openPrompt{Prompt: *p, uuid: chat.MakeID(st.Number, p.Seq).UUID(), turn: &turn{queuedMessage: queuedMessage{parent: cmp.Or(f.Parent, placeholder)}}}
		switch {
		case a.matches(f.Parent):
			return sub, a, nil
		case shown != nil && shown.RequestID == p.RequestID:
			found = shown
		case found == nil:
			found = a
		}
	}
	if p, err := s.promptOfSameAnswer(ctx, c, sub.session, f.name(), found == nil); p != nil || err != nil {
		return sub, p, err
	}
	switch {
	case last != nil && (last.matches(f.Parent) || found == nil || shown != nil && shown != found && shown == last):
		return sub, last, nil // it has ended; storing the answer fails with the reason
	case found == nil:
		return nil, nil, refuse(codeMessage, "no prompt is open in this conversation; nothing waits for an answer")
	}
	return sub, found, nil
}

// promptOfSameAnswer returns the prompt that an answer with the same id has answered, nil if there is none. A client that lost its connection
// sends its answer again; it must not answer the next prompt, which the person has not seen. Some clients use an id twice, so while
// another prompt is open only an id that nobody uses twice counts.
func (s *socket) promptOfSameAnswer(ctx context.Context, c chat.Caller, id chat.SessionID, name string, any bool) (*openPrompt, error) {
	if !any && !uuidForm.MatchString(name) {
		return nil, nil
	}
	e, err := s.d.opt.Sessions.Sent(ctx, c, id, name)
	if err != nil || e == nil {
		return nil, err
	}
	p, err := s.d.opt.Sessions.Prompt(ctx, c, id, chat.AnswerOf(e.Body))
	if err != nil || p == nil {
		return nil, err
	}
	return &openPrompt{Prompt: *p, turn: &turn{}}, nil
}

var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// subscriptionOf returns the subscription to the conversation of an answer, which is followed from now on.
func (s *socket) subscriptionOf(ctx context.Context, c chat.Caller, f *clientFrame) (*subscription, error) {
	conversation := s.conversationOf(f)
	if _, err := s.d.opt.Sessions.Own(ctx, c, conversation); err != nil {
		return nil, err
	}
	sub := s.subscribe(c, conversation, "")
	sub.wake()
	select {
	case <-sub.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if sub.session == "" {
		return nil, chat.Errorf(chat.NotFound, "there is no conversation %q, or it is not yours", text.Clip(conversation, 80))
	}
	return sub, nil
}

// sendRefusal answers a frame with an error. A user message also gets an end, and a step before the error, because the
// UI shows an error only in an answer that has something else.
func (s *socket) sendRefusal(ctx context.Context, f *clientFrame, err error) {
	content := errorOf(err)
	if content.Code == codeUnknown {
		s.d.log.ErrorContext(ctx, "frame failed", "err", err)
	}
	now := s.d.now()
	enc := encoder{schema: s.schema, conversation: s.conversationOf(f), thread: cmp.Or(f.Thread, placeholder)}
	t := &turn{queuedMessage: queuedMessage{parent: f.name(), version: f.SchemaVersion}}
	isMessage := f.Type == typeUser || f.SchemaType != "" // only user messages have a schema_type: the type is mistyped
	var out []byte
	if isMessage {
		it := item{kind: itemStep, turn: t, id: s.d.opt.NewID(), name: "Error", text: content.Details, at: now}
		out = wire.AppendTextFrame(out, enc.appendItem(nil, &it, now))
	}
	out = wire.AppendTextFrame(out, enc.appendError(nil, t, s.d.opt.NewID(), content, now))
	if isMessage {
		out = wire.AppendTextFrame(out, enc.appendEnd(nil, t, s.d.opt.NewID(), chat.Failed, now))
	}
	_ = s.conn.Write(ctx, out) // a broken connection ends the read loop
}
