package letta

import (
	"errors"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

// forkConversation begins a conversation that shares another one's past, up to a
// message or to the end.
func (d *Dialect) forkConversation(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	ctx := r.Context()
	var body struct {
		Hidden    *bool  `json:"hidden"`
		MessageID string `json:"message_id"`
	}
	if err := d.readJSON(r, &body); err != nil {
		return err
	}
	q := newQuery(r)
	message, hidden := first(body.MessageID, q.text("message_id")), q.flag("hidden", body.Hidden != nil && *body.Hidden)
	if q.err != nil {
		return q.err
	}
	b, rec, sess, err := d.findConversation(ctx, c, r.PathValue("conversation"), q.text("agent_id"))
	if err != nil {
		return err
	}
	agentID := rec.text("agent_id")
	if b.get(kindAgent, agentID) == nil {
		return chat.Errorf(chat.Invalid, "this conversation is with no agent of this API; it is forked with POST /parley/v1/sessions/{id}/fork")
	}
	fork := chat.Fork{ID: chat.SessionID("conv-" + newUUID()), Title: sess.Title, Metadata: metadataOf(agentID)}
	if message != "" {
		p, err := d.conversationPlace(ctx, c, r.PathValue("conversation"), q.text("agent_id"))
		if err != nil {
			return err
		}
		if fork.After, err = d.endOf(r, c, p, message); err != nil {
			return err
		}
	}
	made, err := d.opt.Sessions.Fork(ctx, c, sess.ID, fork)
	if err != nil {
		return err
	}
	next := record{Kind: kindConversation, ID: string(made.ID), Owner: c.Actor, Fields: map[string]json.RawMessage{"agent_id": quote(agentID)}}
	for k, v := range rec.Fields {
		if k != "archived" && k != "hidden" {
			next.Fields[k] = v
		}
	}
	if hidden {
		next.Fields["hidden"] = json.RawMessage("true")
	}
	kept, err := d.keepConversation(ctx, b, next)
	if err != nil {
		return errors.Join(err, d.scrub(ctx, b.caller(), made.ID))
	}
	return d.sendConversation(w, r, c, kept)
}

// endOf is the last event of a message: the one before the next message begins.
func (d *Dialect) endOf(r *http.Request, c chat.Caller, p *place, id string) (chat.Seq, error) {
	found, err := d.findMessage(r.Context(), c, id)
	if err == nil && found.session != p.session {
		err = chat.Errorf(chat.NotFound, "message %q is not one of this conversation", clip(id))
	}
	if err != nil {
		return 0, err
	}
	page, err := llm.List(r.Context(), log{d, c, p.session}, llm.Query{Options: p.fold(), After: id, Limit: 1})
	if err != nil || len(page.Messages) == 0 {
		return 0, err // it is the last one: all is shared
	}
	seq, ok := llm.SeqOf(page.Messages[0].ID)
	if !ok || seq < 2 {
		return 0, nil
	}
	return seq - 1, nil
}
