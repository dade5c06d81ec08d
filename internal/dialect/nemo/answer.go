package nemo

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/wire"
)

// handleAnswer takes a person's answer to a prompt. One that does not fit is refused
// with the reason, and the prompt is shown again: the UI has closed its window.
func (s *socket) handleAnswer(ctx context.Context, c chat.Caller, f *clientFrame) {
	text, err := decodeAnswer(f.Content)
	var who userInfo
	if err == nil {
		who, err = decodeUserInfo(f.User)
	}
	if err != nil {
		s.sendRefusal(ctx, f, err)
		s.showPromptAgain(ctx, c, f)
		return
	}
	t, p, err := s.findPrompt(ctx, c, f)
	if err != nil {
		s.sendRefusal(ctx, f, err)
		return
	}
	if s.schema.plainOptions {
		text = expandNumbers(&p.Prompt, text)
	}
	err = s.d.answer(ctx, who.apply(c), t.session, &p.Prompt, f.name(), text)
	if err == nil {
		return
	}
	if chat.CodeOf(err) == chat.Invalid {
		if _, ok := err.(*refusal); !ok {
			err = &refusal{codeData, chat.Public(err)}
		}
		s.sendRefusal(ctx, f, err)
		t.showPrompt(ctx, p)
		return
	}
	s.sendRefusal(ctx, f, err)
}

// answer stores an answer. The client's id makes it safe to send again.
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
		a.ClientID = "" // only a name in this protocol
		_, err = d.opt.Sessions.Answer(ctx, c, id, p.RequestID, a)
	}
	return err
}

// findPrompt finds the prompt that a frame answers: the one its parent_id names, else
// the one the client is shown, else the oldest.
func (s *socket) findPrompt(ctx context.Context, c chat.Caller, f *clientFrame) (*subscription, *openPrompt, error) {
	t, err := s.subscriptionOf(ctx, c, f)
	if err != nil {
		return nil, nil, err
	}
	st, err := s.d.opt.Sessions.State(ctx, c, t.session)
	if err != nil {
		return nil, nil, err
	}
	t.mu.Lock()
	shown, last := t.shown, t.last
	t.mu.Unlock()
	var found *openPrompt
	for _, p := range st.Prompts {
		a := &openPrompt{Prompt: *p, uuid: chat.MakeID(st.Number, p.Seq).UUID(), turn: &turn{parent: first(f.Parent, placeholder)}}
		switch {
		case a.matches(f.Parent):
			return t, a, nil
		case shown != nil && shown.RequestID == p.RequestID:
			found = shown
		case found == nil:
			found = a
		}
	}
	switch {
	case last != nil && (last.matches(f.Parent) || found == nil || shown != nil && shown != found && shown == last):
		// It has ended; the answer to it will say how.
		return t, last, nil
	case found == nil:
		return nil, nil, refuse(codeMessage, "no prompt is open in this conversation; nothing waits for an answer")
	}
	return t, found, nil
}

// subscriptionOf returns the conversation of an answer. A client that does not follow it
// yet does from now on.
func (s *socket) subscriptionOf(ctx context.Context, c chat.Caller, f *clientFrame) (*subscription, error) {
	conversation := s.conversationOf(f)
	if _, err := s.d.opt.Sessions.Own(ctx, c, conversation); err != nil {
		return nil, err
	}
	t := s.subscribe(ctx, c, conversation, "")
	t.wake()
	select {
	case <-t.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if t.session == "" {
		return nil, chat.Errorf(chat.NotFound, "there is no conversation %q, or it is not yours", clip(conversation, 80))
	}
	return t, nil
}

// showPromptAgain shows the open prompt of a frame's conversation once more.
func (s *socket) showPromptAgain(ctx context.Context, c chat.Caller, f *clientFrame) {
	if t, p, err := s.findPrompt(ctx, c, f); err == nil {
		t.showPrompt(ctx, p)
	}
}

// showPrompt shows a prompt, again.
func (t *subscription) showPrompt(ctx context.Context, p *openPrompt) {
	now := t.s.d.now()
	_ = t.s.conn.Write(ctx, wire.AppendTextFrame(nil, t.enc.appendPrompt(nil, p, now)))
}
