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

// place is where messages are sent: a conversation of an agent.
type place struct {
	session      chat.SessionID
	agentID      string
	conversation string // "" is the agent's default one
	agent        string // who answers there
	queues       bool   // a message may wait while the agent works
	form         form
}

// log is the place's session as llm.List reads it.
type log struct {
	d  *Dialect
	c  chat.Caller
	id chat.SessionID
}

// Read returns stored events.
func (l log) Read(ctx context.Context, r chat.Range) ([]chat.Fact, bool, error) {
	return l.d.opt.Sessions.Read(ctx, l.c, l.id, r)
}

// State returns the session's state.
func (l log) State(ctx context.Context) (*chat.State, error) {
	return l.d.opt.Sessions.State(ctx, l.c, l.id)
}

// placeOf says whose conversation a session is. One that was begun by another
// dialect is a conversation of the agent that answers there.
func (d *Dialect) placeOf(ctx context.Context, c chat.Caller, sess *chat.Session) (*place, error) {
	b, err := d.bookOf(ctx, c)
	if err != nil {
		return nil, err
	}
	p := &place{session: sess.ID, conversation: string(sess.ID), agentID: sess.Agent, agent: sess.Agent}
	conv := b.get(kindConversation, string(sess.ID))
	if b.get(kindAgent, string(sess.ID)) != nil {
		p.agentID, p.conversation = string(sess.ID), ""
	} else if conv != nil {
		p.agentID = conv.text("agent_id")
	}
	if rec := b.get(kindAgent, p.agentID); rec != nil {
		var metadata map[string]any
		_ = json.Unmarshal(rec.Fields["metadata"], &metadata)
		busy, _ := busyOf(metadata)
		p.queues = busy != ""
		kind := first(rec.text("agent_type"), agentType)
		p.form.legacy = kind != agentType && strings.Contains(kind, "memgpt")
	} else {
		p.queues = conv == nil // its own policy holds
	}
	return p, nil
}

// agentPlace is an agent's default conversation.
func (d *Dialect) agentPlace(ctx context.Context, c chat.Caller, id string) (*place, error) {
	if _, _, err := d.findAgent(ctx, c, id); err != nil {
		return nil, err
	}
	sess, err := d.opt.Sessions.Get(ctx, c, chat.SessionID(id))
	if err != nil {
		return nil, err
	}
	return d.placeOf(ctx, c, &sess)
}

// conversationPlace is the conversation that a path names: by its id, by that of
// an agent, or as the default one of the agent that is given beside. An alias of
// the caller is an id, too.
func (d *Dialect) conversationPlace(ctx context.Context, c chat.Caller, id, agentID string) (*place, error) {
	if id == "default" {
		if agentID == "" {
			return nil, chat.Errorf(chat.Invalid, "the default conversation of which agent? Give its agent_id")
		}
		return d.agentPlace(ctx, c, agentID)
	}
	resolved, err := d.opt.Sessions.Resolve(ctx, c, chat.SessionID(id))
	if err != nil {
		return nil, err
	}
	return d.sessionPlace(ctx, c, resolved)
}

// sessionPlace is the conversation in the session with this very id.
func (d *Dialect) sessionPlace(ctx context.Context, c chat.Caller, id chat.SessionID) (*place, error) {
	sess, err := d.opt.Sessions.Get(ctx, c, id)
	if chat.CodeOf(err) == chat.NotFound || err == nil && sess.ID.System() {
		return nil, chat.Errorf(chat.NotFound, "there is no conversation %q, or it is not yours", clip(string(id)))
	}
	if err != nil {
		return nil, err
	}
	return d.placeOf(ctx, c, &sess)
}

// conversationBody is what a client says of a conversation.
type conversationBody struct {
	Summary     *string         `json:"summary"`
	Description *string         `json:"description"`
	Model       *string         `json:"model"`
	Settings    json.RawMessage `json:"model_settings"`
	Window      *int            `json:"context_window_limit"`
	Hidden      *bool           `json:"hidden"`
	Archived    *bool           `json:"archived"`
}

func (b *conversationBody) fields() (map[string]json.RawMessage, error) {
	f := map[string]json.RawMessage{}
	for k, v := range map[string]any{
		"summary": b.Summary, "description": b.Description, "model": b.Model, "context_window_limit": b.Window, "hidden": b.Hidden, "archived": b.Archived,
	} {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		if string(raw) != "null" {
			f[k] = raw
		}
	}
	if len(b.Settings) > 0 && string(b.Settings) != "null" {
		f["model_settings"] = b.Settings
	}
	return f, nil
}

func (d *Dialect) createConversation(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	ctx := r.Context()
	var body conversationBody
	if err := d.readJSON(r, &body); err != nil {
		return err
	}
	agentID := r.URL.Query().Get("agent_id")
	if agentID == "" {
		return unfit("agent_id: a conversation needs the agent that it is with")
	}
	b, rec, err := d.findAgent(ctx, c, agentID)
	if err != nil {
		return err
	}
	home, err := d.opt.Sessions.Get(ctx, c, chat.SessionID(rec.ID))
	if err != nil {
		return err
	}
	answerer := home.Agent
	if body.Model != nil && *body.Model != "" {
		if answerer, err = d.answererNamed(c, *body.Model); err != nil {
			return err
		}
	}
	fields, err := body.fields()
	if err != nil {
		return err
	}
	fields["agent_id"] = quote(rec.ID)
	conv := record{Kind: kindConversation, ID: "conv-" + newUUID(), Owner: c.Actor, Fields: fields}
	name := rec.text("name")
	if body.Summary != nil && *body.Summary != "" {
		name = *body.Summary
	}
	var begin []chat.Draft
	if system := rec.text("system"); system != "" {
		begin = append(begin, whole(input{role: llm.System, content: llm.Texts(system)}))
	}
	n := chat.NewSession{ID: chat.SessionID(conv.ID), Agent: answerer, Title: title(name), Policy: home.Policy, Members: home.Members}
	if err := d.begin(ctx, c, n, rec.ID, begin); err != nil {
		return err
	}
	made, err := d.keepConversation(ctx, b, conv)
	if err != nil {
		return errors.Join(err, d.scrub(ctx, b.caller(), n.ID))
	}
	return d.sendConversation(w, r, c, made)
}

// keepConversation writes down a conversation that was begun, unless its agent was
// deleted meanwhile.
func (d *Dialect) keepConversation(ctx context.Context, b *book, conv record) (*record, error) {
	return b.change(ctx, conv.ID, func(*record) (record, error) {
		if id := conv.text("agent_id"); b.all[id] == nil {
			return record{}, chat.Errorf(chat.NotFound, "the agent %s was deleted meanwhile", id)
		}
		return conv, nil
	})
}

// sendConversation answers with a conversation.
func (d *Dialect) sendConversation(w http.ResponseWriter, r *http.Request, c chat.Caller, rec *record) error {
	sess, err := d.opt.Sessions.Get(r.Context(), c, chat.SessionID(rec.ID))
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, conversationState(rec, &sess))
	return nil
}

// conversationState is a conversation as clients see it.
func conversationState(rec *record, sess *chat.Session) map[string]any {
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

// findConversation returns a conversation that the caller may see. The default
// one of an agent, and those of other dialects, have a record of the moment.
func (d *Dialect) findConversation(ctx context.Context, c chat.Caller, id, agentID string) (*book, *record, *chat.Session, error) {
	p, err := d.conversationPlace(ctx, c, id, agentID)
	if err != nil {
		return nil, nil, nil, err
	}
	sess, err := d.opt.Sessions.Get(ctx, c, p.session)
	if err != nil {
		return nil, nil, nil, err
	}
	b, err := d.bookOf(ctx, c)
	if err != nil {
		return nil, nil, nil, err
	}
	rec := b.get(kindConversation, string(sess.ID))
	if rec == nil {
		rec = &record{ID: string(sess.ID), Owner: sess.Owner, Updated: sess.UpdatedAt, Fields: map[string]json.RawMessage{
			"agent_id": quote(p.agentID), "summary": quote(sess.Title),
		}}
	}
	return b, rec, &sess, nil
}

func (d *Dialect) getConversation(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	_, rec, sess, err := d.findConversation(r.Context(), c, r.PathValue("conversation"), r.URL.Query().Get("agent_id"))
	if err != nil {
		return err
	}
	state := conversationState(rec, sess)
	if state["in_context_message_ids"], err = d.recent(r.Context(), c, sess); err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, state)
	return nil
}

// recentMessages is how many messages are said to be in an agent's context.
const recentMessages = 100

// recent names the last messages of a conversation, in order: clients that come back
// look at the last for an approval that waits. Lists do without.
func (d *Dialect) recent(ctx context.Context, c chat.Caller, sess *chat.Session) ([]string, error) {
	ids := []string{}
	p, err := d.placeOf(ctx, c, sess)
	if err != nil {
		return ids, err
	}
	page, err := llm.List(ctx, log{d, c, sess.ID}, llm.Query{Options: p.fold(), Limit: recentMessages, Desc: true})
	for i := range page.Messages {
		ids = append(ids, page.Messages[i].ID)
	}
	slices.Reverse(ids)
	return ids, err
}

func (d *Dialect) updateConversation(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	ctx := r.Context()
	var body conversationBody
	if err := d.readJSON(r, &body); err != nil {
		return err
	}
	b, rec, sess, err := d.findConversation(ctx, c, r.PathValue("conversation"), r.URL.Query().Get("agent_id"))
	if err == nil {
		err = c.May(sess, chat.Owner)
	}
	if err != nil {
		return err
	}
	var u chat.SessionUpdated
	if body.Summary != nil {
		name := title(*body.Summary)
		u.Title = &name
	}
	if body.Model != nil && *body.Model != "" {
		answerer, err := d.answererNamed(c, *body.Model)
		if err != nil {
			return err
		}
		u.Agent = &answerer
	}
	if u.Title != nil || u.Agent != nil {
		updated, err := d.opt.Sessions.Update(ctx, c, sess.ID, u)
		if err != nil {
			return err
		}
		sess = &updated
	}
	fields, err := body.fields()
	if err != nil {
		return err
	}
	if rec.Kind == "" { // it has no record to change
		for k, v := range fields {
			rec.Fields[k] = v
		}
	} else if rec, err = b.update(ctx, rec, fields); err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, conversationState(rec, sess))
	return nil
}

func (d *Dialect) deleteConversation(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	b, rec, sess, err := d.findConversation(r.Context(), c, r.PathValue("conversation"), r.URL.Query().Get("agent_id"))
	if err == nil {
		err = c.May(sess, chat.Owner)
	}
	if err != nil {
		return err
	}
	if b.get(kindAgent, rec.ID) != nil {
		return chat.Errorf(chat.Invalid, "an agent's default conversation goes with the agent; delete that")
	}
	if rec.Kind == "" { // of another dialect: it has no page
		_, err = d.opt.Sessions.Erase(r.Context(), c, sess.ID)
	} else {
		err = b.remove(r.Context(), rec.ID)
	}
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, map[string]string{"message": "Conversation " + rec.ID + " was deleted with its messages."})
	return nil
}

func (d *Dialect) listConversations(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	ctx, q := r.Context(), newQuery(r)
	limit, asc := q.limit(50, 1000), q.ascending()
	by := q.word("order_by", "created_at", "last_run_completion", "last_message_at")
	archived := q.word("archive_status", "unarchived", "archived", "all")
	if q.err != nil {
		return q.err
	}
	b, err := d.bookOf(ctx, c)
	if err != nil {
		return err
	}
	agentID, text := q.text("agent_id"), q.text("summary_search")
	all := slices.DeleteFunc(b.of(kindConversation), func(rec *record) bool { return agentID != "" && rec.text("agent_id") != agentID })
	found := map[string]*chat.Session{}
	visible := func(rec *record) (bool, error) {
		isArchived := string(rec.Fields["archived"]) == "true"
		if !folded(rec.text("summary"), text) ||
			archived != "all" && isArchived != (archived == "archived") || string(rec.Fields["hidden"]) == "true" {
			return false, nil
		}
		if found[rec.ID] != nil {
			return true, nil
		}
		sess, err := d.opt.Sessions.Get(ctx, c, chat.SessionID(rec.ID))
		if code := chat.CodeOf(err); code == chat.NotFound || code == chat.Gone {
			return false, nil
		}
		found[rec.ID] = &sess
		return err == nil, err
	}
	if by == "last_run_completion" || by == "last_message_at" {
		// Order by what the sessions say; the oldest first, as the list is.
		kept := all[:0]
		for _, rec := range all {
			ok, err := visible(rec)
			if err != nil {
				return err
			}
			if ok {
				kept = append(kept, rec)
			}
		}
		all = kept
		slices.SortStableFunc(all, func(x, y *record) int { return int(found[x.ID].UpdatedAt - found[y.ID].UpdatedAt) })
	}
	page, err := pageOf(all, asc, limit, q.text("after"), q.text("before"), visible)
	if err != nil {
		return err
	}
	out := make([]any, 0, len(page))
	for _, rec := range page {
		out = append(out, conversationState(rec, found[rec.ID]))
	}
	d.send(w, r, http.StatusOK, out)
	return nil
}
