package letta

import (
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/record"
)

// contextWindow is the context window of agents that give none.
const contextWindow = 128000

// agentState is an agent as clients see it.
func (q *request) agentState(rec *record.Record, include []string) (map[string]any, error) {
	s := map[string]any{
		"agent_type": defaultAgentType, "system": "", "tags": []string{}, "tools": []any{}, "sources": []any{}, "identity_ids": []string{},
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
	handle := rec.Text("model")
	s["llm_config"] = map[string]any{
		"model": handle[strings.IndexByte(handle, '/')+1:], "handle": handle, "model_endpoint_type": "openai", "provider_name": "parley",
		"context_window": contextWindow, "put_inner_thoughts_in_kwargs": false,
	}
	identities := []any{}
	for _, id := range rec.Texts("identity_ids") {
		if identity := q.records.Get(kindIdentity, id); identity != nil {
			identities = append(identities, identityState(identity))
		}
	}
	s["identities"] = identities
	if slices.Contains(include, "agent.pending_approval") {
		var err error
		if s["pending_approval"], err = q.pendingApproval(rec); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// pendingApproval returns the approval request that is open in an agent's default conversation, nil when there is none.
func (q *request) pendingApproval(rec *record.Record) (any, error) {
	st, err := q.opt.Sessions.State(q.ctx, q.caller, chat.SessionID(rec.ID))
	if err != nil {
		return nil, err
	}
	p := openApproval(st)
	if p == nil {
		return nil, nil
	}
	e, err := q.event(chat.SessionID(rec.ID), p.Seq)
	if err != nil {
		return nil, err
	}
	f := llm.NewFold(llm.Options{AgentID: rec.ID})
	f.Apply(&e)
	for _, m := range f.Messages() {
		if items := stream.Expand(&m, false); m.IsApprovalRequest() && len(items) > 0 {
			return &items[len(items)-1], nil
		}
	}
	return nil, nil
}

func (q *request) listAgents() (any, error) {
	page := q.page("desc", 50)
	if q.Text("order") == "" {
		page.asc = q.Bool("ascending", false)
	}
	tags, allTags := q.All("tags"), q.Bool("match_all_tags", false)
	name, text, identity, keys := q.Text("name"), q.Text("query_text"), q.Text("identity_id"), q.All("identifier_keys")
	found, err := pageOfRecords(q.records.List(kindAgent), &page, func(rec *record.Record) (bool, error) {
		if name != "" && rec.Text("name") != name || !containsFold(rec.Text("name"), text) || !hasTags(rec.Texts("tags"), tags, allTags) ||
			identity != "" && !slices.Contains(rec.Texts("identity_ids"), identity) || !q.hasIdentityKey(rec, keys) {
			return false, nil
		}
		sess, err := q.session(rec.ID)
		return sess != nil, err
	})
	out := make([]any, len(found))
	for i, rec := range found {
		if out[i], err = q.agentState(rec, q.All("include")); err != nil {
			return nil, err
		}
	}
	return out, err
}

// containsFold reports whether s contains text, in any case.
func containsFold(s, text string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(text))
}

func hasTags(have, want []string, all bool) bool {
	missing := func(t string) bool { return !slices.Contains(have, t) }
	if all {
		return !slices.ContainsFunc(want, missing)
	}
	return len(want) == 0 || slices.ContainsFunc(want, func(t string) bool { return !missing(t) })
}

// hasIdentityKey reports whether an agent is attached to an identity with one of the keys.
func (q *request) hasIdentityKey(rec *record.Record, keys []string) bool {
	return len(keys) == 0 || slices.ContainsFunc(rec.Texts("identity_ids"), func(id string) bool {
		identity := q.records.Get(kindIdentity, id)
		return identity != nil && slices.Contains(keys, identity.Text("identifier_key"))
	})
}

// pageOf returns the part of a list that a page asks for. The list has the oldest entry first; id returns the id of an
// entry. fits, when it is not nil, selects the entries.
func pageOf[T any](list []T, p *pageQuery, id func(T) string, fits func(T) (bool, error)) ([]T, error) {
	list = slices.Clone(list)
	if !p.asc {
		slices.Reverse(list)
	}
	from, to := 0, len(list)
	if p.after != "" {
		if from = slices.IndexFunc(list, func(v T) bool { return id(v) == p.after }) + 1; from == 0 {
			return nil, chat.Errorf(chat.NotFound, "after: there is no %q in this list", clip(p.after))
		}
	}
	if p.before != "" {
		if to = slices.IndexFunc(list, func(v T) bool { return id(v) == p.before }); to < 0 {
			return nil, chat.Errorf(chat.NotFound, "before: there is no %q in this list", clip(p.before))
		}
	}
	list = list[from:max(from, to)]
	if p.backwards() {
		slices.Reverse(list)
	}
	out := []T{}
	for _, v := range list {
		if len(out) == p.limit {
			break
		}
		ok := true
		if fits != nil {
			var err error
			if ok, err = fits(v); err != nil {
				return nil, err
			}
		}
		if ok {
			out = append(out, v)
		}
	}
	if p.backwards() {
		slices.Reverse(out)
	}
	return out, nil
}

// pageOfRecords returns a page of q.records.
func pageOfRecords(list []*record.Record, p *pageQuery, fits func(*record.Record) (bool, error)) ([]*record.Record, error) {
	return pageOf(list, p, func(r *record.Record) string { return r.ID }, fits)
}

// listModels lists the agents of this server as models.
func (q *request) listModels() (any, error) {
	out := []any{}
	for _, name := range q.opt.Agents(q.caller.In()) {
		out = append(out, map[string]any{
			"model": name, "name": name, "display_name": name, "handle": "parley/" + name, "model_endpoint_type": "openai", "model_type": "llm",
			"provider_type": "openai", "provider_name": "parley", "provider_category": "base",
			"context_window": contextWindow, "max_context_window": contextWindow,
		})
	}
	return out, nil
}
