package letta

import (
	"cmp"
	"maps"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/record"
)

// forkConversation creates a conversation with the messages of another one, up to a message or all.
func (q *request) forkConversation(rec *record.Record, sess *chat.Session) (any, error) {
	var body struct {
		Hidden    *bool  `json:"hidden"`
		MessageID string `json:"message_id"`
	}
	if err := q.read(&body); err != nil {
		return nil, err
	}
	message, hidden := cmp.Or(body.MessageID, q.Text("message_id")), q.Bool("hidden", body.Hidden != nil && *body.Hidden)
	err := q.err()
	if err != nil {
		return nil, err
	}
	agentID := rec.Text("agent_id")
	if q.records.Get(kindAgent, agentID) == nil {
		return nil, chat.Errorf(chat.Invalid, "this conversation belongs to no agent of this API; fork it with POST /parley/v1/sessions/{id}/fork")
	}
	fork := chat.Fork{ID: chat.SessionID("conv-" + newUUID()), Title: sess.Title, Metadata: sessionMetadata(agentID)}
	if message != "" {
		if fork.After, err = q.lastEventOf(sess.ID, message); err != nil {
			return nil, err
		}
	}
	made, err := q.opt.Sessions.Fork(q.ctx, q.caller, sess.ID, fork)
	if err != nil {
		return nil, err
	}
	fields := maps.Clone(rec.Fields)
	delete(fields, "archived")
	delete(fields, "hidden")
	if hidden {
		fields["hidden"] = json.RawMessage("true")
	}
	return q.addConversation(record.Record{Kind: kindConversation, ID: string(made.ID), Owner: q.caller.Actor, Fields: fields})
}

// lastEventOf returns the last event of a message: the one before the next message. 0 means that it is the last message.
func (q *request) lastEventOf(session chat.SessionID, id string) (chat.Seq, error) {
	found, err := q.findMessage(id)
	if err == nil && found.session != session {
		err = chat.Errorf(chat.NotFound, "message %q is not one of this conversation", clip(id))
	}
	if err != nil {
		return 0, err
	}
	page, err := q.messages(found.conversation, llm.Query{After: id, Limit: 1})
	if err != nil || len(page.Messages) == 0 {
		return 0, err
	}
	seq, ok := llm.SeqOf(page.Messages[0].ID)
	if !ok || seq < 2 {
		return 0, nil
	}
	return seq - 1, nil
}
