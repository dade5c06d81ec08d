package nemo

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/attachment"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/retry"
)

// importMarker is the metadata of a session whose history is being imported. It has no agent until that is done.
const importMarker = `{"nemo":{"import":true}}`

// submit stores a message in its conversation, which it creates if need be. repeated means that the same message was
// stored before.
func (d *Dialect) submit(ctx context.Context, c chat.Caller, conversation string, m *decodedMessage) (sess chat.Session, e chat.Event, repeated bool, err error) {
	d.consents.addWorkspace(c.In())
	c = m.User.apply(c)
	text, content, err := attachments(m.Last.Content)
	if err != nil {
		return sess, e, false, err
	}
	files := attachment.Extract(content, attachment.Uploads)
	if sess, err = d.ensureSession(ctx, c, conversation, m); err != nil {
		return sess, e, false, err
	}
	if len(files) > 0 {
		if err = c.May(&sess, chat.Answerer); err != nil {
			return sess, e, false, err
		}
	}
	if err = d.files.Put(ctx, c, sess.ID, files); err != nil {
		return sess, e, false, err
	}
	draft := chat.NewDraft(chat.UserMessage{Text: text, Content: content, Context: m.context()}).As(m.key())
	draft.Via = via
	e, repeated, err = d.appendMessage(ctx, c, sess.ID, draft)
	d.points.started(c, conversation)
	return sess, e, repeated, err
}

// context is the context of the stored message.
func (m *decodedMessage) context() json.RawMessage {
	c := messageContext{SchemaType: m.Schema, SchemaVersion: m.Version, Traceparent: m.Trace, Extra: m.Extra}
	if m.key() == "" {
		c.MessageID = m.ID
	}
	if m.Thread != placeholder {
		c.ThreadID = m.Thread
	}
	all := map[string]any{"nemo": c}
	if m.System != "" {
		all["system"] = m.System // agents read it there in every dialect
	}
	return appendJSON(nil, all)
}

// ensureSession finds or creates the conversation. The history that a client sends is stored only in a session that it
// creates.
func (d *Dialect) ensureSession(ctx context.Context, c chat.Caller, conversation string, m *decodedMessage) (chat.Session, error) {
	sess, err := d.opt.Sessions.Own(ctx, c, conversation)
	if err == nil && sess.Agent == chat.NoAgent && string(sess.Metadata) == importMarker {
		return d.activateAgent(ctx, c, sess.ID) // the server ended during the import
	}
	if err == nil || chat.CodeOf(err) != chat.NotFound {
		return sess, err
	}
	var n chat.NewSession
	if len(m.History) > 0 {
		n.Agent, n.Metadata = chat.NoAgent, json.RawMessage(importMarker)
	}
	sess, created, err := d.opt.Sessions.Ensure(ctx, c, conversation, n)
	if err != nil || !created || len(m.History) == 0 {
		return sess, err
	}
	if err := d.importHistory(ctx, c, sess.ID, m.History); err != nil {
		return sess, err
	}
	return d.activateAgent(ctx, c, sess.ID)
}

// activateAgent ends an import.
func (d *Dialect) activateAgent(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error) {
	agent := d.opt.Agent()
	return d.opt.Sessions.Update(ctx, c, id, chat.SessionUpdated{Agent: &agent, Metadata: json.RawMessage("{}")})
}

// importHistory stores the messages before the first one of a session. The client is trusted about what the assistant
// said: the session is its own and new.
func (d *Dialect) importHistory(ctx context.Context, c chat.Caller, id chat.SessionID, history []message) error {
	if !c.Has(chat.ScopeAgent) {
		c.Scopes = append(slices.Clone(c.Scopes), chat.ScopeAgent)
	}
	var drafts []chat.Draft
	for _, m := range history {
		var draft chat.Draft
		if m.Role == "assistant" {
			text := m.Content.text()
			if text == "" {
				continue
			}
			draft = chat.NewDraft(chat.AgentText{Text: text})
		} else {
			text, content, err := attachments(m.Content)
			if err != nil {
				continue // such a message was refused when it was sent
			}
			if err := d.files.Put(ctx, c, id, attachment.Extract(content, attachment.Uploads)); err != nil {
				return err
			}
			draft = chat.NewDraft(chat.UserMessage{Text: text, Content: content})
		}
		draft.Via = via
		drafts = append(drafts, draft)
	}
	for chunk := range slices.Chunk(drafts, chat.MaxDrafts) {
		if _, err := d.opt.Sessions.Append(ctx, c, id, chunk); err != nil {
			return err
		}
	}
	return nil
}

// errChanged is the error of a message before which the main line has changed too often.
var errChanged = chat.Errorf(chat.Conflict, "the conversation is changing too fast; send the message again").WithReason(chat.SessionChanged)

// appendMessage stores a message. In the same append it stops the turn that NeMo started before and withdraws NeMo's
// waiting messages, because NeMo clients cannot tell two answers apart. Turns of other dialects continue. The append
// fails when the main line has changed since it was read; then it is tried again. A message that is stored already changes nothing.
func (d *Dialect) appendMessage(ctx context.Context, c chat.Caller, id chat.SessionID, draft chat.Draft) (e chat.Event, repeated bool, err error) {
	err = retry.WhileChanged(ctx, func() error {
		sent, err := d.opt.Sessions.Sent(ctx, c, id, draft.ClientID)
		if err != nil {
			return err
		}
		var line lineState
		if sent == nil {
			if line, err = d.lineState(ctx, c, id); err != nil {
				return err
			}
			draft.Interrupt, draft.Expect = line.interrupt, &line.expected
		}
		events, err := d.opt.Sessions.Append(ctx, c, id, append(line.withdrawn, draft))
		switch {
		case err == nil:
			e = events[len(events)-1]
			repeated = sent != nil || e.Seq <= line.last
			return nil
		case chat.ReasonOf(err) == chat.ClientIDReused:
			if draft, err = withoutClientID(draft); err != nil {
				return err
			}
			return errChanged
		case chat.ReasonOf(err) == chat.SessionChanged, chat.CodeOf(err) == chat.Conflict && len(line.withdrawn) > 0:
			return errChanged.Because(err)
		}
		return err
	})
	return e, repeated, err
}

// lineState is the main line as a new message finds it.
type lineState struct {
	last      chat.Seq // the last event of the session
	expected  chat.Expected
	interrupt bool         // the running turn is NeMo's
	withdrawn []chat.Draft // withdraws NeMo's waiting messages
}

func (d *Dialect) lineState(ctx context.Context, c chat.Caller, id chat.SessionID) (lineState, error) {
	var s lineState
	st, err := d.opt.Sessions.State(ctx, c, id)
	if err != nil {
		return s, err
	}
	s.last = st.Last
	line := st.Line("")
	if line.Turn != nil {
		s.expected.Turn = line.Turn.ID
		if s.interrupt, err = d.startedByNeMo(ctx, c, id, line.Turn.Trigger); err != nil {
			return s, err
		}
	}
	for _, seq := range line.Queue {
		e, err := d.opt.Sessions.Event(ctx, c, id, seq)
		if err != nil {
			return s, err
		}
		if e.Via != via {
			s.expected.Queue = append(s.expected.Queue, seq)
			continue
		}
		withdrawn := chat.NewDraft(chat.UserMessageWithdrawn{Sequence: seq})
		withdrawn.Via = via
		s.withdrawn = append(s.withdrawn, withdrawn)
	}
	return s, nil
}

// startedByNeMo reports whether a NeMo message started a turn. A turn that no message started (the end of a workstream
// wakes its agent) belongs to the message before it.
func (d *Dialect) startedByNeMo(ctx context.Context, c chat.Caller, id chat.SessionID, trigger chat.Seq) (bool, error) {
	for e, err := range d.opt.Sessions.Events(ctx, c, id, chat.Range{Before: trigger + 1, Desc: true, Limit: 1, Types: []string{chat.UserMessage{}.Type()}, Workstream: new(string)}) {
		return err == nil && e.Via == via, err
	}
	return false, nil
}

// withoutClientID moves the client id of a message to its context: NeMo clients use some ids twice.
func withoutClientID(draft chat.Draft) (chat.Draft, error) {
	b, _ := draft.Body.(chat.UserMessage)
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b.Context, &all); err != nil {
		return draft, err
	}
	c := contextOf(b)
	c.MessageID, draft.ClientID = draft.ClientID, ""
	all["nemo"] = appendJSON(nil, c)
	b.Context = appendJSON(nil, all)
	return draft.WithBody(b)
}
