package letta

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/record"
	"github.com/parley-hq/parley/internal/text"
)

// defaultAgentType is the type of agents that give none.
const defaultAgentType = "letta_v1_agent"

// busyKey is the key in an agent's metadata for messages that come while the agent works: queue, steer or interrupt.
// Without it such a message is refused, as by Letta's server.
const busyKey = "parley.busy"

// keptFields are the fields of an agent that are stored and given back. Secrets are not stored: nothing here uses them.
var keptFields = []string{
	"name", "description", "agent_type", "system", "tags", "metadata", "model", "model_settings", "llm_config", "timezone",
	"identity_ids", "tool_rules", "hidden", "response_format", "compaction_settings", "message_buffer_autoclear", "enable_sleeptime",
	"max_files_open", "per_file_view_window_char_limit", "project_id", "template_id", "base_template_id", "embedding", "embedding_config",
	"context_window_limit",
}

// agentBody has the fields of an agent that this server looks at.
type agentBody struct {
	Name     *string           `json:"name"`
	Model    *string           `json:"model"`
	Type     *string           `json:"agent_type"`
	System   *string           `json:"system"`
	Tags     []string          `json:"tags"`
	Metadata map[string]any    `json:"metadata"`
	IDs      []string          `json:"identity_ids"`
	Blocks   []map[string]any  `json:"memory_blocks"`
	Config   *modelConfig      `json:"llm_config"`
	Initial  []json.RawMessage `json:"initial_message_sequence"`
}

type modelConfig struct {
	Model  string `json:"model"`
	Handle string `json:"handle"`
}

// readAgent reads the body of a request that creates or changes an agent, and the fields to store.
func (q *request) readAgent() (b agentBody, fields map[string]json.RawMessage, err error) {
	if fields, err = q.readFields(&b, keptFields); err != nil {
		return b, nil, err
	}
	if b.Name != nil && (*b.Name == "" || len(*b.Name) > 255) {
		return b, nil, malformed("name: it has 1 to 255 characters")
	}
	if b.Blocks != nil {
		for _, block := range b.Blocks {
			block["id"] = "block-" + newUUID()
		}
		fields["blocks"], err = json.Marshal(b.Blocks)
	}
	return b, fields, err
}

// answererOf returns the agent of this server for a new agent's model, and the model's handle.
func (q *request) answererOf(b *agentBody) (name, handle string, err error) {
	handle = "parley/" + q.opt.Agent()
	switch {
	case b.Model != nil && *b.Model != "":
		handle = *b.Model
	case b.Config != nil:
		handle = cmp.Or(b.Config.Handle, b.Config.Model, handle)
	}
	name, err = q.answererNamed(handle)
	return name, handle, err
}

// answererNamed returns the agent of this server for a model's handle.
func (q *request) answererNamed(handle string) (string, error) {
	names := q.opt.Agents(q.caller.In())
	for _, name := range []string{q.opt.Models[handle], handle, strings.TrimPrefix(handle, "parley/"), handle[strings.IndexByte(handle, '/')+1:], q.opt.Models["*"]} {
		if slices.Contains(names, name) {
			return name, nil
		}
	}
	return "", chat.Errorf(chat.Invalid, "there is no agent for the model %q on this server; it has: parley/%s", clip(handle), strings.Join(names, ", parley/"))
}

// busyPolicy reads busyKey; "" means that messages are refused.
func busyPolicy(metadata map[string]any) (chat.Policy, error) {
	v, ok := metadata[busyKey]
	if !ok {
		return "", nil
	}
	s, _ := v.(string)
	switch p := chat.Policy(s); p {
	case chat.Queue, chat.Steer, chat.Interrupt:
		return p, nil
	case "reject":
		return "", nil
	}
	return "", malformed("metadata: %s is one of reject, queue, steer, interrupt", busyKey)
}

func (q *request) createAgent() (any, error) {
	body, fields, err := q.readAgent()
	if err != nil {
		return nil, err
	}
	answerer, handle, err := q.answererOf(&body)
	if err != nil {
		return nil, err
	}
	policy, err := busyPolicy(body.Metadata)
	if err != nil {
		return nil, err
	}
	messages, err := initialMessages(&body)
	if err != nil {
		return nil, err
	}
	rec := record.Record{Kind: kindAgent, ID: "agent-" + newUUID(), Owner: q.caller.Actor, Fields: fields}
	name := "agent " + rec.ID[len("agent-"):][:8]
	if body.Name != nil {
		name = *body.Name
	}
	fields["name"], fields["model"] = quote(name), quote(handle)
	// The session comes first, so that every agent in a list has one.
	if err := q.createSession(chat.NewSession{ID: chat.SessionID(rec.ID), Agent: answerer, Title: title(name), Policy: policy}, rec.ID, messages); err != nil {
		return nil, err
	}
	made, err := q.records.Put(q.ctx, rec)
	if err != nil {
		return nil, errors.Join(err, q.records.Erase(q.ctx, chat.SessionID(rec.ID)))
	}
	return q.agentState(made, nil)
}

// title shortens a text to a session's title.
func title(s string) string {
	if len(s) <= chat.MaxTitle {
		return s
	}
	return text.Clip(s, chat.MaxTitle-len("…"))
}

// sessionMetadata names the agent of a session for other dialects.
func sessionMetadata(agentID string) json.RawMessage {
	return json.RawMessage(`{"letta":{"agent_id":` + string(quote(agentID)) + `}}`)
}

// ofLetta reports whether a session was created by createSession.
func ofLetta(sess *chat.Session) bool {
	var metadata struct {
		Letta *struct{} `json:"letta"`
	}
	return json.Unmarshal(sess.Metadata, &metadata) == nil && metadata.Letta != nil
}

// createSession creates the session of a conversation with its first messages.
func (q *request) createSession(n chat.NewSession, agentID string, messages []chat.Draft) error {
	n.Metadata = sessionMetadata(agentID)
	if _, _, err := q.opt.Sessions.Create(q.ctx, q.caller, n); err != nil {
		return err
	}
	if len(messages) == 0 {
		return nil
	}
	_, err := q.opt.Sessions.Append(q.ctx, q.caller, n.ID, messages)
	return err
}

// initialMessages returns the messages that an agent's conversation begins with. None of them starts a turn.
func initialMessages(b *agentBody) ([]chat.Draft, error) {
	var out []chat.Draft
	if b.System != nil && *b.System != "" {
		out = append(out, historyDraft(inputMessage{role: llm.System, content: llm.Texts(*b.System)}))
	}
	for i, raw := range b.Initial {
		m, answer, err := decodeMessage("initial_message_sequence["+itoa(i)+"]", raw)
		if err != nil {
			return nil, err
		}
		if answer != nil {
			return nil, malformed("initial_message_sequence[%d]: an agent cannot begin with an approval", i)
		}
		out = append(out, historyDraft(m))
	}
	return out, nil
}

// findAgent returns an agent that the caller may see, and the session of its default conversation.
func (q *request) findAgent(id string) (*record.Record, *chat.Session, error) {
	sess, err := q.opt.Sessions.Get(q.ctx, q.caller, chat.SessionID(id))
	var rec *record.Record
	if err == nil {
		rec, err = q.records.Find(q.ctx, kindAgent, id) // it was stored after the session
	}
	if absent(err) || err == nil && rec == nil {
		err = errNotFound("agent", id)
	}
	return rec, &sess, err
}

func (q *request) getAgent(rec *record.Record, sess *chat.Session) (any, error) {
	state, err := q.agentState(rec, q.All("include"))
	if err != nil {
		return nil, err
	}
	ids, err := q.recent(sess)
	state["message_ids"], state["in_context_message_ids"] = ids, ids
	return state, err
}

func (q *request) updateAgent(rec *record.Record) (any, error) {
	body, fields, err := q.readAgent()
	if err != nil {
		return nil, err
	}
	var u chat.SessionUpdated
	if body.Name != nil {
		name := title(*body.Name)
		u.Title = &name
	}
	if body.Model != nil || body.Config != nil {
		answerer, handle, err := q.answererOf(&body)
		if err != nil {
			return nil, err
		}
		u.Agent = &answerer
		fields["model"] = quote(handle)
	}
	if body.Metadata != nil {
		policy, err := busyPolicy(body.Metadata)
		if err != nil {
			return nil, err
		}
		policy = cmp.Or(policy, chat.Queue)
		u.Policy = &policy
	}
	if u.Title != nil || u.Agent != nil || u.Policy != nil {
		if _, err := q.opt.Sessions.Update(q.ctx, q.caller, chat.SessionID(rec.ID), u); err != nil {
			return nil, err
		}
	}
	if u.Agent != nil {
		if err := q.reassign(rec.ID, *u.Agent); err != nil {
			return nil, err
		}
	}
	if rec, err = q.records.SetFields(q.ctx, rec, fields); err != nil {
		return nil, err
	}
	return q.agentState(rec, nil)
}

// reassign sets the answering agent of an agent's conversations, except of those with a model of their own.
func (q *request) reassign(agentID, answerer string) error {
	for _, rec := range q.records.List(kindConversation) {
		if rec.Text("agent_id") != agentID || rec.Text("model") != "" {
			continue
		}
		_, err := q.opt.Sessions.Update(q.ctx, q.caller, chat.SessionID(rec.ID), chat.SessionUpdated{Agent: &answerer})
		if err != nil && !absent(err) {
			return err
		}
	}
	return nil
}

// deleteAgent erases an agent and its conversations. Conversations of others with the agent stay.
func (q *request) deleteAgent() (any, error) {
	id := q.PathValue("agent")
	if !q.records.Deleting(kindAgent, id) { // a deletion that was not finished can be repeated
		_, sess, err := q.findAgent(id)
		if err == nil {
			err = q.caller.May(sess, chat.Owner)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := q.records.Delete(q.ctx, id, q.caller.Actor); err != nil {
		return nil, err
	}
	return map[string]string{"message": "Agent " + id + " was deleted with its messages."}, nil
}

// blocksOf returns the memory blocks of an agent. They are stored for the client; agents here do not use them.
func blocksOf(rec *record.Record) (list []map[string]any) {
	_ = json.Unmarshal(rec.Fields["blocks"], &list)
	return list
}

func (q *request) listBlocks(rec *record.Record, _ *chat.Session) (any, error) {
	page := q.page("desc", 100)
	return pageOf(blocksOf(rec), &page, func(b map[string]any) string {
		id, _ := b["id"].(string)
		return id
	}, nil)
}

// findBlock returns the block with a label; it is an element of list.
func findBlock(list []map[string]any, label string) (map[string]any, error) {
	i := slices.IndexFunc(list, func(b map[string]any) bool { return b["label"] == label })
	if i < 0 {
		return nil, chat.Errorf(chat.NotFound, "the agent has no memory block with the label %q", clip(label))
	}
	return list[i], nil
}

func (q *request) getBlock(rec *record.Record, _ *chat.Session) (any, error) {
	return findBlock(blocksOf(rec), q.PathValue("label"))
}

func (q *request) updateBlock(rec *record.Record) (any, error) {
	var fields map[string]any
	if err := q.read(&fields); err != nil {
		return nil, err
	}
	for _, key := range []string{"value", "label"} {
		if v, ok := fields[key]; ok {
			if s, isText := v.(string); !isText || key == "label" && s == "" {
				return nil, malformed("%s: it must be a text", key)
			}
		}
	}
	delete(fields, "id")
	var block map[string]any
	_, err := q.records.Change(q.ctx, rec.ID, func(old *record.Record, _ func(string) *record.Record) (*record.Record, error) {
		if old == nil {
			return nil, chat.Errorf(chat.NotFound, "the agent %s was deleted", rec.ID)
		}
		list := blocksOf(old)
		var err error
		if block, err = findBlock(list, q.PathValue("label")); err != nil {
			return nil, err
		}
		maps.Copy(block, fields)
		next := *old
		next.Updated, next.Fields = 0, maps.Clone(old.Fields)
		next.Fields["blocks"], err = json.Marshal(list)
		return &next, err
	})
	return block, err
}

// listAgentTools answers with an empty list: the tools belong to the agent that answers.
func (q *request) listAgentTools(*record.Record, *chat.Session) (any, error) { return []any{}, nil }

// recompileAgent answers with the system prompt, which is never out of date.
func (q *request) recompileAgent(rec *record.Record, _ *chat.Session) (any, error) {
	return rec.Text("system"), nil
}

func (q *request) recompileConversation(rec *record.Record, _ *chat.Session) (any, error) {
	if agent := q.records.Get(kindAgent, rec.Text("agent_id")); agent != nil {
		return agent.Text("system"), nil
	}
	return "", nil
}

// listTags lists the tags of the agents that the caller may see.
func (q *request) listTags() (any, error) {
	page, text := q.page("asc", 100), q.Text("query_text")+q.Text("name")
	var tags []string
	for _, rec := range q.records.List(kindAgent) {
		added := slices.DeleteFunc(rec.Texts("tags"), func(tag string) bool { return slices.Contains(tags, tag) || !containsFold(tag, text) })
		if len(added) == 0 {
			continue
		}
		sess, err := q.session(rec.ID)
		if err != nil {
			return nil, err
		}
		if sess != nil {
			tags = append(tags, added...)
		}
	}
	slices.Sort(tags)
	return pageOf(tags, &page, func(tag string) string { return tag }, nil)
}
