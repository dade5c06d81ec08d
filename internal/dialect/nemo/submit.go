package nemo

import (
	"context"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// importMarker marks a session whose history is being written. Nobody answers it
// until that is done.
const importMarker = `{"nemo":{"import":true}}`

// submit makes what was said a fact of its conversation, which begins with it if
// need be. again says that the very same was said before.
func (d *Dialect) submit(ctx context.Context, c chat.Caller, conversation string, m *decodedMessage) (sess chat.Session, e chat.Event, again bool, err error) {
	d.consents.addWorkspace(c.In())
	c = m.User.apply(c)
	text, content, blobs, err := attachments(m.Last.Content)
	if err != nil {
		return sess, e, false, err
	}
	if sess, err = d.ensureSession(ctx, c, conversation, m, text); err != nil {
		return sess, e, false, err
	}
	if len(blobs) > 0 {
		if err = c.May(&sess, chat.Answerer); err != nil {
			return sess, e, false, err
		}
	}
	if err = d.storeAttachments(ctx, c, sess.ID, blobs); err != nil {
		return sess, e, false, err
	}
	draft := chat.NewDraft(chat.UserMessage{Text: text, Content: content, Context: m.context()}).As(m.key())
	draft.Via = via
	e, again, err = d.appendMessage(ctx, c, sess.ID, draft)
	d.points.started(c, conversation)
	return sess, e, again, err
}

// context is what the message says beside its content.
func (m *decodedMessage) context() json.RawMessage {
	a := messageContext{
		SchemaType: m.Schema, SchemaVersion: m.Version, Traceparent: m.Trace, Extra: m.Extra,
	}
	if m.key() == "" {
		a.MessageID = m.ID
	}
	if m.Thread != placeholder {
		a.ThreadID = m.Thread
	}
	all := map[string]any{"nemo": a}
	if m.System != "" {
		all["system"] = m.System // where agents look for it, whatever the dialect
	}
	return appendJSON(nil, all)
}

// ensureSession finds or begins the conversation. Earlier messages that the client
// sends along become facts only of a session that begins with them.
func (d *Dialect) ensureSession(ctx context.Context, c chat.Caller, conversation string, m *decodedMessage, text string) (chat.Session, error) {
	sess, err := d.opt.Sessions.Own(ctx, c, conversation)
	if err == nil && sess.Agent == chat.NoAgent && string(sess.Metadata) == importMarker {
		return d.activateAgent(ctx, c, sess.ID) // the server ended in the middle of it
	}
	if err == nil || chat.CodeOf(err) != chat.NotFound {
		return sess, err
	}
	begin := chat.NewSession{Title: cutBytes(strings.TrimSpace(oneLine(text)), 80)}
	if len(m.History) == 0 {
		sess, _, err = d.opt.Sessions.Ensure(ctx, c, conversation, begin)
		return sess, err
	}
	begin.Agent, begin.Metadata = chat.NoAgent, json.RawMessage(importMarker)
	sess, created, err := d.opt.Sessions.Ensure(ctx, c, conversation, begin)
	if err != nil || !created {
		return sess, err
	}
	if err := d.importHistory(ctx, c, sess.ID, m.History); err != nil {
		return sess, err
	}
	return d.activateAgent(ctx, c, sess.ID)
}

// activateAgent lets the agent answer from now on.
func (d *Dialect) activateAgent(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error) {
	agent := d.opt.Agent()
	return d.opt.Sessions.Update(ctx, c, id, chat.SessionUpdated{Agent: &agent, Metadata: json.RawMessage("{}")})
}

// importHistory writes what was said before. The client's word is taken for what
// the assistant said: it is the client's own new session.
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
			text, content, blobs, err := attachments(m.Content)
			if err != nil {
				continue // what cannot be read now could not be read then
			}
			if err := d.storeAttachments(ctx, c, id, blobs); err != nil {
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

// appendMessage stores a message. It stops the turn that NeMo began before, and takes
// back NeMo's messages that wait behind it: its clients cannot tell two answers
// apart. Turns of other dialects are left alone. What it found of the line goes
// with the message: when the line has changed before the message is a fact, it
// looks again.
func (d *Dialect) appendMessage(ctx context.Context, c chat.Caller, id chat.SessionID, draft chat.Draft) (e chat.Event, again bool, err error) {
	for range maxAttempts {
		seen, err := d.lineState(ctx, c, id)
		if err != nil {
			return e, false, err
		}
		draft.Interrupt, draft.Expect = seen.interrupt, &seen.line
		events, err := d.opt.Sessions.Append(ctx, c, id, append(seen.withdrawn, draft))
		switch {
		case err == nil:
			e = events[len(events)-1]
			return e, e.Seq <= seen.last, nil
		case chat.ReasonOf(err) == chat.ClientIDReused:
			// The id is only a name in this protocol, and clients use some twice.
			if draft, err = withoutClientID(draft); err != nil {
				return e, false, err
			}
		case chat.ReasonOf(err) == chat.SessionChanged, chat.CodeOf(err) == chat.Conflict && len(seen.withdrawn) > 0:
			// A turn began or ended in between.
		default:
			return e, false, err
		}
	}
	return e, false, chat.Errorf(chat.Conflict, "the conversation is changing too fast; send the message again")
}

// maxAttempts bounds how often a message is tried. A line changes once per turn.
const maxAttempts = 20

// lineState is what a new message from NeMo finds, and puts an end to.
type lineState struct {
	last      chat.Seq // the session's last event
	line      chat.Expected
	interrupt bool         // NeMo's own turn runs
	withdrawn []chat.Draft // NeMo's own messages that wait
}

func (d *Dialect) lineState(ctx context.Context, c chat.Caller, id chat.SessionID) (lineState, error) {
	var seen lineState
	st, err := d.opt.Sessions.State(ctx, c, id)
	if err != nil {
		return seen, err
	}
	seen.last = st.Last
	line := st.Line("")
	if line.Turn != nil {
		seen.line.Turn = line.Turn.ID
		if seen.interrupt, err = d.begunByNeMo(ctx, c, id, line.Turn.Trigger); err != nil {
			return seen, err
		}
	}
	for _, seq := range line.Queue {
		ours, err := d.isNeMo(ctx, c, id, seq)
		if err != nil {
			return seen, err
		}
		if !ours {
			seen.line.Queue = append(seen.line.Queue, seq)
			continue
		}
		withdrawn := chat.NewDraft(chat.UserMessageWithdrawn{Sequence: seq})
		withdrawn.Via = via
		seen.withdrawn = append(seen.withdrawn, withdrawn)
	}
	return seen, nil
}

// isNeMo reports whether an event came by this dialect.
func (d *Dialect) isNeMo(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (bool, error) {
	fact, err := d.opt.Sessions.Event(ctx, c, id, seq)
	if err != nil {
		return false, err
	}
	e, err := fact.Event()
	return err == nil && e.Via == via, err
}

// begunByNeMo reports whether what NeMo said began a turn. One that no message began
// (work that has ended wakes its agent) belongs to the message before it, as its
// answer does.
func (d *Dialect) begunByNeMo(ctx context.Context, c chat.Caller, id chat.SessionID, trigger chat.Seq) (bool, error) {
	main := ""
	said, _, err := d.opt.Sessions.Read(ctx, c, id, chat.Range{Before: trigger + 1, Desc: true, Limit: 1, Types: []string{chat.UserMessage{}.Type()}, Workstream: &main})
	if err != nil || len(said) == 0 {
		return false, err
	}
	return d.isNeMo(ctx, c, id, said[0].Seq)
}

// withoutClientID is a message without its idempotency key, that keeps its name in the context.
func withoutClientID(draft chat.Draft) (chat.Draft, error) {
	b, ok := draft.Body.(chat.UserMessage)
	if !ok || draft.ClientID == "" {
		return draft, chat.Errorf(chat.Conflict, "the id %q was used before for something else", clip(draft.ClientID, 80))
	}
	a := contextOf(b)
	a.MessageID = draft.ClientID
	b.Context = appendJSON(nil, map[string]messageContext{"nemo": a})
	draft.ClientID = ""
	return draft.WithBody(b)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
