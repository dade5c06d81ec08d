package letta

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

// contextWindow is told for agents that do not say it themselves.
const contextWindow = 128000

// agentState is an agent as clients see it.
func (d *Dialect) agentState(ctx context.Context, c chat.Caller, b *book, rec *record, include []string) (map[string]any, error) {
	s := map[string]any{
		"agent_type": agentType, "system": "", "tags": []string{}, "tools": []any{}, "sources": []any{}, "identity_ids": []string{},
		"metadata": nil, "description": nil, "message_ids": []string{}, "secrets": []any{}, "tool_exec_environment_variables": []any{},
		"tool_rules": []any{}, "timezone": "UTC", "model_settings": nil, "hidden": nil, "project_id": nil, "template_id": nil,
		"base_template_id": nil, "embedding": nil, "embedding_config": nil, "response_format": nil, "compaction_settings": nil,
		"message_buffer_autoclear": false, "enable_sleeptime": nil, "multi_agent_group": nil, "managed_group": nil,
		"last_run_completion": nil, "last_run_duration_ms": nil, "last_stop_reason": nil, "pending_approval": nil,
	}
	for k, v := range rec.Fields {
		if string(v) != "null" && k != "blocks" && k != "llm_config" {
			s[k] = v
		}
	}
	blocks := json.RawMessage("[]")
	if v := rec.Fields["blocks"]; len(v) > 0 {
		blocks = v
	}
	s["id"], s["blocks"], s["memory"] = rec.ID, blocks, map[string]any{"blocks": blocks, "file_blocks": []any{}, "prompt_template": ""}
	s["created_at"], s["updated_at"], s["created_by_id"], s["last_updated_by_id"] = stamp(rec.Created), stamp(rec.Updated), rec.Owner.ID, rec.Owner.ID
	handle := rec.text("model")
	s["llm_config"] = map[string]any{
		"model": handle[strings.IndexByte(handle, '/')+1:], "handle": handle, "model_endpoint_type": "openai", "provider_name": "parley",
		"context_window": contextWindow, "put_inner_thoughts_in_kwargs": false,
	}
	s["identities"] = d.identitiesOf(b, rec)
	for _, i := range include {
		if i == "agent.pending_approval" {
			pending, err := d.pendingApproval(ctx, c, rec)
			if err != nil {
				return nil, err
			}
			s["pending_approval"] = pending
		}
	}
	return s, nil
}

func (d *Dialect) identitiesOf(b *book, rec *record) []any {
	out := []any{}
	for _, id := range rec.texts("identity_ids") {
		if who := b.get(kindIdentity, id); who != nil {
			out = append(out, shown(who))
		}
	}
	return out
}

// pendingApproval is the approval request that the agent's default conversation
// waits with.
func (d *Dialect) pendingApproval(ctx context.Context, c chat.Caller, rec *record) (any, error) {
	st, err := d.opt.Sessions.State(ctx, c, chat.SessionID(rec.ID))
	if err != nil {
		return nil, err
	}
	p := approvalIn(st)
	if p == nil {
		return nil, nil
	}
	e, err := d.event(ctx, c, chat.SessionID(rec.ID), p.Seq)
	if err != nil {
		return nil, err
	}
	f := llm.NewFold(llm.Options{AgentID: rec.ID})
	f.Apply(&e)
	for _, m := range f.Messages() {
		if items := expand(&m, form{}); m.IsApprovalRequest() && len(items) > 0 {
			return json.RawMessage(items[len(items)-1].append(nil)), nil
		}
	}
	return nil, nil
}

func (d *Dialect) listAgents(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	q := newQuery(r)
	limit, asc := q.limit(50, 1000), q.ascending()
	if !r.URL.Query().Has("order") && q.has("ascending") {
		asc = q.flag("ascending", false)
	}
	all := q.flag("match_all_tags", false)
	if q.err != nil {
		return q.err
	}
	b, err := d.bookOf(r.Context(), c)
	if err != nil {
		return err
	}
	tags, name, text, identity := q.texts("tags"), q.text("name"), q.text("query_text"), q.text("identity_id")
	keys := q.texts("identifier_keys")
	found, err := pageOf(b.of(kindAgent), asc, limit, q.text("after"), q.text("before"), func(rec *record) (bool, error) {
		if name != "" && rec.text("name") != name || !folded(rec.text("name"), text) ||
			!tagged(rec.texts("tags"), tags, all) || identity != "" && !slices.Contains(rec.texts("identity_ids"), identity) || !b.keyed(rec, keys) {
			return false, nil
		}
		_, err := d.opt.Sessions.Get(r.Context(), c, chat.SessionID(rec.ID))
		if code := chat.CodeOf(err); code == chat.NotFound || code == chat.Gone {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	out := make([]any, 0, len(found))
	for _, rec := range found {
		state, err := d.agentState(r.Context(), c, b, rec, r.URL.Query()["include"])
		if err != nil {
			return err
		}
		out = append(out, state)
	}
	d.send(w, r, http.StatusOK, out)
	return nil
}

// folded reports whether a text occurs in another, in any case.
func folded(s, text string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(text)) }

func tagged(have, want []string, all bool) bool {
	if len(want) == 0 {
		return true
	}
	n := 0
	for _, t := range want {
		if slices.Contains(have, t) {
			n++
		}
	}
	return n == len(want) || n > 0 && !all
}

// keyed reports whether an agent is for somebody with one of these keys.
func (b *book) keyed(rec *record, keys []string) bool {
	if len(keys) == 0 {
		return true
	}
	for _, id := range rec.texts("identity_ids") {
		if who := b.get(kindIdentity, id); who != nil && slices.Contains(keys, who.text("identifier_key")) {
			return true
		}
	}
	return false
}

// pageOf is a part of a list of things, in the order asked for. after and before
// are places in that order.
func pageOf(list []*record, asc bool, limit int, after, before string, fits func(*record) (bool, error)) ([]*record, error) {
	list = slices.Clone(list)
	if !asc {
		slices.Reverse(list)
	}
	at := func(id string) int { return slices.IndexFunc(list, func(r *record) bool { return r.ID == id }) }
	from, to := 0, len(list)
	if after != "" {
		if from = at(after) + 1; from == 0 {
			return nil, chat.Errorf(chat.NotFound, "after: there is no %q in this list", clip(after))
		}
	}
	if before != "" {
		if to = at(before); to < 0 {
			return nil, chat.Errorf(chat.NotFound, "before: there is no %q in this list", clip(before))
		}
	}
	var out []*record
	// Who pages backwards wants the neighbours of the place, not the beginning.
	backwards := before != "" && after == ""
	for from < to && len(out) < limit {
		rec := list[from]
		if backwards {
			to--
			rec = list[to]
		} else {
			from++
		}
		ok, err := fits(rec)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, rec)
		}
	}
	if backwards {
		slices.Reverse(out)
	}
	return out, nil
}

// listModels names the agents of the server as models.
func (d *Dialect) listModels(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	out := []any{}
	for _, name := range d.opt.Agents(c.In()) {
		handle := "parley/" + name
		out = append(out, map[string]any{
			"model": name, "name": name, "display_name": name, "handle": handle, "model_endpoint_type": "openai", "model_type": "llm",
			"provider_type": "openai", "provider_name": "parley", "provider_category": "base",
			"context_window": contextWindow, "max_context_window": contextWindow,
		})
	}
	d.send(w, r, http.StatusOK, out)
	return nil
}
