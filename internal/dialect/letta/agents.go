package letta

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

// agentType is what agents are that do not say it: text is what they say.
const agentType = "letta_v1_agent"

// busyKey is the key in an agent's metadata that says what becomes of a message
// that comes while it works: queue, steer or interrupt. Without it the message
// is refused, as the real server does.
const busyKey = "parley.busy"

// keptFields are the fields of an agent that a client gives and gets back.
// Secrets are not among them: nothing here could use them, and the log would
// keep them.
var keptFields = []string{
	"name", "description", "agent_type", "system", "tags", "metadata", "model", "model_settings", "llm_config", "timezone",
	"identity_ids", "tool_rules", "hidden", "response_format", "compaction_settings", "message_buffer_autoclear", "enable_sleeptime",
	"max_files_open", "per_file_view_window_char_limit", "project_id", "template_id", "base_template_id", "embedding", "embedding_config",
	"context_window_limit",
}

// agentBody is what is looked at when an agent is made or changed.
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

// readAgent reads the body of a request that makes or changes an agent.
func (d *Dialect) readAgent(r *http.Request) (b agentBody, fields map[string]json.RawMessage, err error) {
	var raw json.RawMessage
	if err = d.readJSON(r, &raw); err != nil {
		return b, nil, err
	}
	if err = decodeJSON(raw, &b); err == nil {
		err = decodeJSON(raw, &fields)
	}
	if err != nil {
		return b, nil, err
	}
	kept := map[string]json.RawMessage{}
	for _, k := range keptFields {
		if v, ok := fields[k]; ok {
			kept[k] = v
		}
	}
	if b.Blocks != nil {
		for _, block := range b.Blocks {
			block["id"] = "block-" + newUUID()
		}
		if kept["blocks"], err = json.Marshal(b.Blocks); err != nil {
			return b, nil, err
		}
	}
	if b.Name != nil && (*b.Name == "" || len(*b.Name) > 255) {
		return b, nil, unfit("name: it has 1 to 255 characters")
	}
	return b, kept, nil
}

// answererOf returns the agent that stands behind a model's name, and that name.
func (d *Dialect) answererOf(c chat.Caller, b *agentBody) (name, handle string, err error) {
	handle = "parley/" + d.opt.Agent()
	switch {
	case b.Model != nil && *b.Model != "":
		handle = *b.Model
	case b.Config != nil && first(b.Config.Handle, b.Config.Model) != "":
		handle = first(b.Config.Handle, b.Config.Model)
	}
	name, err = d.answererNamed(c, handle)
	return name, handle, err
}

func (d *Dialect) answererNamed(c chat.Caller, handle string) (string, error) {
	names := d.opt.Agents(c.In())
	for _, name := range []string{d.opt.Models[handle], handle, strings.TrimPrefix(handle, "parley/"), handle[strings.IndexByte(handle, '/')+1:], d.opt.Models["*"]} {
		if slices.Contains(names, name) {
			return name, nil
		}
	}
	return "", chat.Errorf(chat.Invalid, "there is no agent for the model %q on this server; it has: parley/%s", clip(handle), strings.Join(names, ", parley/"))
}

// busyOf is what an agent's metadata say of messages that come while it works.
func busyOf(metadata map[string]any) (chat.Policy, error) {
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
	return "", unfit("metadata: %s is one of reject, queue, steer, interrupt", busyKey)
}

func (d *Dialect) createAgent(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	body, fields, err := d.readAgent(r)
	if err != nil {
		return err
	}
	answerer, handle, err := d.answererOf(c, &body)
	if err != nil {
		return err
	}
	policy, err := busyOf(body.Metadata)
	if err != nil {
		return err
	}
	begin, err := initial(&body)
	if err != nil {
		return err
	}
	rec := record{Kind: kindAgent, ID: "agent-" + newUUID(), Owner: c.Actor, Fields: fields}
	name := "agent " + rec.ID[len("agent-"):][:8]
	if body.Name != nil {
		name = *body.Name
	}
	fields["name"], fields["model"] = quote(name), quote(handle)
	b, err := d.bookOf(r.Context(), c)
	if err != nil {
		return err
	}
	// The conversation comes first: an agent that can be seen can be talked to.
	if err := d.begin(r.Context(), c, chat.NewSession{ID: chat.SessionID(rec.ID), Agent: answerer, Title: title(name), Policy: policy}, rec.ID, begin); err != nil {
		return err
	}
	made, err := b.add(r.Context(), rec)
	if err != nil {
		return errors.Join(err, d.scrub(r.Context(), b.caller(), chat.SessionID(rec.ID)))
	}
	state, err := d.agentState(r.Context(), c, b, made, nil)
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, state)
	return nil
}

func quote(s string) json.RawMessage { return chat.AppendString(nil, s) }

// title makes a text fit for a session's title.
func title(s string) string {
	if len(s) > chat.MaxTitle {
		return strings.ToValidUTF8(s[:chat.MaxTitle-3], "") + "…"
	}
	return s
}

// metadataOf tells other dialects whose conversation a session is.
func metadataOf(agentID string) json.RawMessage {
	return json.RawMessage(`{"letta":{"agent_id":` + string(quote(agentID)) + `}}`)
}

// begin begins the session of a conversation with the messages it starts from.
func (d *Dialect) begin(ctx context.Context, c chat.Caller, n chat.NewSession, agentID string, messages []chat.Draft) error {
	n.Metadata = metadataOf(agentID)
	if _, _, err := d.opt.Sessions.Create(ctx, c, n); err != nil {
		return err
	}
	if len(messages) == 0 {
		return nil
	}
	_, err := d.opt.Sessions.Append(ctx, c, n.ID, messages)
	return err
}

// initial is what an agent's conversations begin with: nothing of it asks for an
// answer.
func initial(b *agentBody) ([]chat.Draft, error) {
	var out []chat.Draft
	if b.System != nil && *b.System != "" {
		out = append(out, whole(input{role: llm.System, content: llm.Texts(*b.System)}))
	}
	for i, raw := range b.Initial {
		m, p, err := readMessage("initial_message_sequence["+itoa(i)+"]", raw)
		if err != nil {
			return nil, err
		}
		if p != nil {
			return nil, unfit("initial_message_sequence[%d]: an agent cannot begin with an approval", i)
		}
		out = append(out, whole(m))
	}
	return out, nil
}

// findAgent returns an agent that the caller may see.
func (d *Dialect) findAgent(ctx context.Context, c chat.Caller, id string) (*book, *record, error) {
	b, err := d.bookOf(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	rec := b.get(kindAgent, id)
	if rec == nil {
		return b, nil, chat.Errorf(chat.NotFound, "there is no agent %q, or it is not yours", clip(id))
	}
	if _, err := d.opt.Sessions.Get(ctx, c, chat.SessionID(id)); err != nil {
		if chat.CodeOf(err) == chat.NotFound {
			err = chat.Errorf(chat.NotFound, "there is no agent %q, or it is not yours", clip(id))
		}
		return nil, nil, err
	}
	return b, rec, nil
}

// ownAgent returns an agent that the caller may change.
func (d *Dialect) ownAgent(ctx context.Context, c chat.Caller, id string) (*book, *record, error) {
	b, rec, err := d.findAgent(ctx, c, id)
	if err != nil {
		return b, nil, err
	}
	sess, err := d.opt.Sessions.Get(ctx, c, chat.SessionID(rec.ID))
	if err == nil {
		err = c.May(&sess, chat.Owner)
	}
	return b, rec, err
}

func (d *Dialect) getAgent(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	b, rec, err := d.findAgent(r.Context(), c, r.PathValue("agent"))
	if err != nil {
		return err
	}
	state, err := d.agentState(r.Context(), c, b, rec, r.URL.Query()["include"])
	if err != nil {
		return err
	}
	sess, err := d.opt.Sessions.Get(r.Context(), c, chat.SessionID(rec.ID))
	if err != nil {
		return err
	}
	ids, err := d.recent(r.Context(), c, &sess)
	if err != nil {
		return err
	}
	state["message_ids"], state["in_context_message_ids"] = ids, ids
	d.send(w, r, http.StatusOK, state)
	return nil
}

func (d *Dialect) updateAgent(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	body, fields, err := d.readAgent(r)
	if err != nil {
		return err
	}
	b, rec, err := d.ownAgent(r.Context(), c, r.PathValue("agent"))
	if err != nil {
		return err
	}
	var u chat.SessionUpdated
	if body.Name != nil {
		name := title(*body.Name)
		u.Title = &name
	}
	if body.Model != nil || body.Config != nil {
		answerer, handle, err := d.answererOf(c, &body)
		if err != nil {
			return err
		}
		u.Agent = &answerer
		fields["model"] = quote(handle)
	}
	if body.Metadata != nil {
		policy, err := busyOf(body.Metadata)
		if err != nil {
			return err
		}
		if policy == "" {
			policy = chat.Queue
		}
		u.Policy = &policy
	}
	if u.Title != nil || u.Agent != nil || u.Policy != nil {
		if _, err := d.opt.Sessions.Update(r.Context(), c, chat.SessionID(rec.ID), u); err != nil {
			return err
		}
	}
	if u.Agent != nil {
		if err := d.reassign(r.Context(), c, b, rec.ID, *u.Agent); err != nil {
			return err
		}
	}
	if rec, err = b.update(r.Context(), rec, fields); err != nil {
		return err
	}
	state, err := d.agentState(r.Context(), c, b, rec, nil)
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, state)
	return nil
}

// reassign has the conversations of an agent answered by another one, unless
// they name a model of their own.
func (d *Dialect) reassign(ctx context.Context, c chat.Caller, b *book, agentID, answerer string) error {
	for _, conv := range b.of(kindConversation) {
		if conv.text("agent_id") != agentID || conv.text("model") != "" {
			continue
		}
		_, err := d.opt.Sessions.Update(ctx, c, chat.SessionID(conv.ID), chat.SessionUpdated{Agent: &answerer})
		if code := chat.CodeOf(err); err != nil && code != chat.NotFound && code != chat.Gone {
			return err
		}
	}
	return nil
}

// deleteAgent removes an agent with its conversations, for good. What others have
// of it stays theirs.
func (d *Dialect) deleteAgent(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	id := r.PathValue("agent")
	b, _, err := d.ownAgent(r.Context(), c, id)
	if err != nil && (b == nil || !b.leaving(kindAgent, id)) {
		return err // unless its owner deleted it and it could not be finished
	}
	if err := b.remove(r.Context(), id, c.Actor); err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, map[string]string{"message": "Agent " + id + " was deleted with its messages."})
	return nil
}
