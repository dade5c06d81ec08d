package letta

import (
	"cmp"
	"context"
	"maps"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/record"
)

// forkConversation creates a conversation with the messages of another one, up to a message or all.
func (d *Dialect) forkConversation(r *http.Request, c chat.Caller) (any, error) {
	ctx := r.Context()
	var body struct {
		Hidden    *bool  `json:"hidden"`
		MessageID string `json:"message_id"`
	}
	if err := d.read(r, &body); err != nil {
		return nil, err
	}
	q := newQuery(r)
	message, hidden := cmp.Or(body.MessageID, q.Text("message_id")), q.Bool("hidden", body.Hidden != nil && *body.Hidden)
	if err := q.err(); err != nil {
		return nil, err
	}
	records, rec, sess, err := d.findConversation(r, c)
	if err != nil {
		return nil, err
	}
	agentID := rec.Text("agent_id")
	if records.Get(kindAgent, agentID) == nil {
		return nil, chat.Errorf(chat.Invalid, "this conversation belongs to no agent of this API; fork it with POST /parley/v1/sessions/{id}/fork")
	}
	fork := chat.Fork{ID: chat.SessionID("conv-" + newUUID()), Title: sess.Title, Metadata: sessionMetadata(agentID)}
	if message != "" {
		if fork.After, err = d.lastEventOf(ctx, c, sess.ID, message); err != nil {
			return nil, err
		}
	}
	made, err := d.opt.Sessions.Fork(ctx, c, sess.ID, fork)
	if err != nil {
		return nil, err
	}
	fields := maps.Clone(rec.Fields)
	delete(fields, "archived")
	delete(fields, "hidden")
	if hidden {
		fields["hidden"] = json.RawMessage("true")
	}
	return d.addConversation(ctx, c, records, record.Record{Kind: kindConversation, ID: string(made.ID), Owner: c.Actor, Fields: fields})
}

// lastEventOf returns the last event of a message: the one before the next message. 0 means that it is the last message.
func (d *Dialect) lastEventOf(ctx context.Context, c chat.Caller, session chat.SessionID, id string) (chat.Seq, error) {
	found, err := d.findMessage(ctx, c, id)
	if err == nil && found.session != session {
		err = chat.Errorf(chat.NotFound, "message %q is not one of this conversation", clip(id))
	}
	if err != nil {
		return 0, err
	}
	page, err := d.messages(ctx, c, found.conversation, llm.Query{After: id, Limit: 1})
	if err != nil || len(page.Messages) == 0 {
		return 0, err
	}
	seq, ok := llm.SeqOf(page.Messages[0].ID)
	if !ok || seq < 2 {
		return 0, nil
	}
	return seq - 1, nil
}
