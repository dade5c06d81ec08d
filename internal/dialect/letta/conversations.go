package letta

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/record"
)

// conversationBody has the fields of a conversation that clients set.
type conversationBody struct {
	Summary     *string `json:"summary"`
	Description *string `json:"description"`
	Model       *string `json:"model"`
	Window      *int    `json:"context_window_limit"`
	Hidden      *bool   `json:"hidden"`
	Archived    *bool   `json:"archived"`
}

// readConversation reads the body of a request that creates or changes a conversation, and the fields to store.
func (q *request) readConversation() (b conversationBody, fields map[string]json.RawMessage, err error) {
	fields, err = q.readFields(&b, []string{"summary", "description", "model", "model_settings", "context_window_limit", "hidden", "archived"})
	maps.DeleteFunc(fields, isNull)
	return b, fields, err
}

func (q *request) createConversation() (any, error) {
	body, fields, err := q.readConversation()
	if err != nil {
		return nil, err
	}
	agentID := q.Text("agent_id")
	if agentID == "" {
		return nil, malformed("agent_id: it is missing; a conversation belongs to an agent")
	}
	agent, home, err := q.findAgent(agentID)
	if err != nil {
		return nil, err
	}
	answerer := home.Agent
	if body.Model != nil && *body.Model != "" {
		if answerer, err = q.answererNamed(*body.Model); err != nil {
			return nil, err
		}
	}
	fields["agent_id"] = quote(agent.ID)
	rec := record.Record{Kind: kindConversation, ID: "conv-" + newUUID(), Owner: q.caller.Actor, Fields: fields}
	name := agent.Text("name")
	if body.Summary != nil {
		name = cmp.Or(*body.Summary, name)
	}
	var messages []chat.Draft
	if system := agent.Text("system"); system != "" {
		messages = append(messages, historyDraft(inputMessage{role: llm.System, content: llm.Texts(system)}))
	}
	n := chat.NewSession{ID: chat.SessionID(rec.ID), Agent: answerer, Title: title(name), Policy: home.Policy, Members: home.Members}
	if err := q.createSession(n, agent.ID, messages); err != nil {
		return nil, err
	}
	return q.addConversation(rec)
}

// addConversation stores the record of a session that was created for it, unless the agent was deleted meanwhile.
func (q *request) addConversation(rec record.Record) (any, error) {
	made, err := q.records.Change(q.ctx, rec.ID, func(_ *record.Record, find func(string) *record.Record) (*record.Record, error) {
		if id := rec.Text("agent_id"); find(id) == nil {
			return nil, chat.Errorf(chat.NotFound, "the agent %s was deleted meanwhile", id)
		}
		return &rec, nil
	})
	if err != nil {
		return nil, errors.Join(err, q.records.Erase(q.ctx, chat.SessionID(rec.ID)))
	}
	sess, err := q.opt.Sessions.Get(q.ctx, q.caller, chat.SessionID(rec.ID))
	return conversationState(made, &sess), err
}

// conversationState is a conversation as clients see it.
func conversationState(rec *record.Record, sess *chat.Session) map[string]any {
	s := map[string]any{
		"summary": nil, "description": nil, "model": nil, "model_settings": nil, "context_window_limit": nil, "archived": false, "archived_at": nil,
		"in_context_message_ids": []string{}, "isolated_block_ids": []string{}, "last_message_at": nil,
	}
	for k, v := range rec.Fields {
		s[k] = v
	}
	s["id"], s["created_at"], s["updated_at"] = rec.ID, stamp(sess.CreatedAt), stamp(rec.Updated)
	s["created_by_id"], s["last_updated_by_id"] = rec.Owner.ID, rec.Owner.ID
	if sess.Last > 1 {
		s["last_message_at"] = stamp(sess.UpdatedAt)
	}
	return s
}

// findConversation returns the conversation that a path names, with its record. Default conversations and sessions of
// other dialects have no record; they get one without a kind.
func (q *request) findConversation() (*record.Record, *chat.Session, error) {
	cv, err := q.conversation(q.PathValue("conversation"), q.Text("agent_id"))
	if err != nil {
		return nil, nil, err
	}
	sess := cv.sess
	rec := q.records.Get(kindConversation, string(sess.ID))
	if rec == nil {
		rec = &record.Record{ID: string(sess.ID), Owner: sess.Owner, Updated: sess.UpdatedAt, Fields: map[string]json.RawMessage{
			"agent_id": quote(cv.agentID), "summary": quote(sess.Title),
		}}
	}
	return rec, sess, nil
}

func (q *request) getConversation(rec *record.Record, sess *chat.Session) (any, error) {
	state := conversationState(rec, sess)
	var err error
	state["in_context_message_ids"], err = q.recent(sess)
	return state, err
}

func (q *request) updateConversation(rec *record.Record, sess *chat.Session) (any, error) {
	body, fields, err := q.readConversation()
	if err == nil {
		err = q.caller.May(sess, chat.Owner)
	}
	if err != nil {
		return nil, err
	}
	var u chat.SessionUpdated
	if body.Summary != nil {
		name := title(*body.Summary)
		u.Title = &name
	}
	if body.Model != nil && *body.Model != "" {
		answerer, err := q.answererNamed(*body.Model)
		if err != nil {
			return nil, err
		}
		u.Agent = &answerer
	}
	if u.Title != nil || u.Agent != nil {
		updated, err := q.opt.Sessions.Update(q.ctx, q.caller, sess.ID, u)
		if err != nil {
			return nil, err
		}
		sess = &updated
	}
	if rec.Kind == "" { // there is no record to change
		maps.Copy(rec.Fields, fields)
	} else if rec, err = q.records.SetFields(q.ctx, rec, fields); err != nil {
		return nil, err
	}
	return conversationState(rec, sess), nil
}

func (q *request) deleteConversation(rec *record.Record, sess *chat.Session) (any, error) {
	err := q.caller.May(sess, chat.Owner)
	if err != nil {
		return nil, err
	}
	if q.records.Get(kindAgent, rec.ID) != nil {
		return nil, chat.Errorf(chat.Invalid, "an agent's default conversation is deleted with the agent; delete that")
	}
	if rec.Kind == "" {
		_, err = q.opt.Sessions.Erase(q.ctx, q.caller, sess.ID)
	} else {
		err = q.records.Delete(q.ctx, rec.ID)
	}
	return map[string]string{"message": "Conversation " + rec.ID + " was deleted with its messages."}, err
}

func (q *request) listConversations() (any, error) {
	page := q.page("desc", 50)
	orderBy := q.OneOf("order_by", "created_at", "last_run_completion", "last_message_at")
	archived := q.OneOf("archive_status", "unarchived", "archived", "all")
	agentID, text := q.Text("agent_id"), q.Text("summary_search")
	found := map[string]*chat.Session{}
	visible := func(rec *record.Record) (bool, error) {
		isArchived := string(rec.Fields["archived"]) == "true"
		if agentID != "" && rec.Text("agent_id") != agentID || !containsFold(rec.Text("summary"), text) ||
			archived != "all" && isArchived != (archived == "archived") || string(rec.Fields["hidden"]) == "true" {
			return false, nil
		}
		sess, err := q.session(rec.ID)
		found[rec.ID] = sess
		return sess != nil, err
	}
	all := q.records.List(kindConversation)
	var err error
	if orderBy == "last_run_completion" || orderBy == "last_message_at" {
		if all, err = pageOfRecords(all, &pageQuery{asc: true, limit: len(all)}, visible); err != nil {
			return nil, err
		}
		visible = nil // all are
		slices.SortStableFunc(all, func(x, y *record.Record) int { return cmp.Compare(found[x.ID].UpdatedAt, found[y.ID].UpdatedAt) })
	}
	list, err := pageOfRecords(all, &page, visible)
	out := make([]any, len(list))
	for i, rec := range list {
		out[i] = conversationState(rec, found[rec.ID])
	}
	return out, err
}

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
