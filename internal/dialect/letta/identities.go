package letta

import (
	"net/http"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/record"
)

// identityRoutes serves identities, which the sender_id of a message names, or groups, which its group_id names.
type identityRoutes struct {
	d    *Dialect
	kind string
}

// identityFields are the fields that clients may set.
var identityFields = map[string][]string{
	kindIdentity: {"identifier_key", "name", "identity_type", "project_id", "agent_ids", "block_ids", "properties"},
	kindGroup: {"description", "agent_ids", "manager_config", "manager_type", "manager_agent_id", "project_id", "shared_block_ids", "hidden", "max_turns",
		"termination_token", "sleeptime_agent_frequency", "max_message_buffer_length", "min_message_buffer_length"},
}

// identityState returns an identity or a group as clients see it.
func identityState(rec *record.Record) map[string]any {
	s := map[string]any{"id": rec.ID, "agent_ids": []string{}, "project_id": nil}
	if rec.Kind == kindIdentity {
		s["block_ids"], s["properties"] = []string{}, []any{}
	} else {
		s["manager_type"], s["shared_block_ids"], s["description"] = "round_robin", []string{}, ""
	}
	for k, v := range rec.Fields {
		s[k] = v
	}
	return s
}

func (p *identityRoutes) read(r *http.Request, full bool) (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := p.d.read(r, &all); err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	for _, k := range identityFields[p.kind] {
		if v, ok := all[k]; ok && string(v) != "null" {
			fields[k] = v
		}
	}
	need := []string{"agent_ids", "description"}
	if p.kind == kindIdentity {
		need = []string{"identifier_key", "name", "identity_type"}
	}
	probe := record.Record{Fields: fields}
	for _, k := range need {
		if _, ok := fields[k]; !ok && full {
			return nil, malformed("%s: it is missing", k)
		}
	}
	for _, k := range []string{"identifier_key", "name", "description", "identity_type"} {
		if _, ok := fields[k]; ok && probe.Text(k) == "" && k != "description" {
			return nil, malformed("%s: it must be a text", k)
		}
	}
	if t := probe.Text("identity_type"); t != "" && !slices.Contains([]string{"org", "user", "other"}, t) {
		return nil, malformed("identity_type: %q is not one of org, user, other", clip(t))
	}
	if v, ok := fields["agent_ids"]; ok && json.Unmarshal(v, new([]string)) != nil {
		return nil, malformed("agent_ids: it must be a list of ids")
	}
	return fields, nil
}

func (p *identityRoutes) find(r *http.Request, c chat.Caller) (*record.Set, *record.Record, error) {
	records, err := p.d.recordsOf(r.Context(), c)
	if err != nil {
		return nil, nil, err
	}
	rec := records.Get(p.kind, r.PathValue("id"))
	if !mine(c, rec) {
		return nil, nil, chat.Errorf(chat.NotFound, "there is no %s %q, or it is not yours", p.kind, clip(r.PathValue("id")))
	}
	return records, rec, nil
}

func (p *identityRoutes) create(r *http.Request, c chat.Caller) (any, error) {
	fields, err := p.read(r, true)
	if err != nil {
		return nil, err
	}
	return p.add(r, c, fields, false)
}

// upsert changes the identity with a key, or creates it.
func (p *identityRoutes) upsert(r *http.Request, c chat.Caller) (any, error) {
	fields, err := p.read(r, true)
	if err != nil {
		return nil, err
	}
	return p.add(r, c, fields, true)
}

func (p *identityRoutes) add(r *http.Request, c chat.Caller, fields map[string]json.RawMessage, replace bool) (any, error) {
	records, err := p.d.recordsOf(r.Context(), c)
	if err != nil {
		return nil, err
	}
	if key := string(fields["identifier_key"]); p.kind == kindIdentity {
		for _, rec := range records.List(kindIdentity) {
			if string(rec.Fields["identifier_key"]) != key || !mine(c, rec) {
				continue
			}
			if !replace {
				return nil, chat.Errorf(chat.Conflict, "there is an identity with the key %s already", clip(key))
			}
			if rec, err = records.SetFields(r.Context(), rec, fields); err != nil {
				return nil, err
			}
			return identityState(rec), nil
		}
	}
	rec, err := records.Put(r.Context(), record.Record{Kind: p.kind, ID: p.kind + "-" + newUUID(), Owner: c.Actor, Fields: fields})
	if err != nil {
		return nil, err
	}
	return identityState(rec), nil
}

func (p *identityRoutes) list(r *http.Request, c chat.Caller) (any, error) {
	q := newQuery(r)
	page := q.page("desc", 50)
	if q.Err != nil {
		return nil, q.err()
	}
	records, err := p.d.recordsOf(r.Context(), c)
	if err != nil {
		return nil, err
	}
	list, err := pageOfRecords(records.List(p.kind), &page, func(rec *record.Record) (bool, error) {
		for _, k := range []string{"identifier_key", "name", "identity_type", "manager_type"} {
			if v := q.Text(k); v != "" && rec.Text(k) != v {
				return false, nil
			}
		}
		return mine(c, rec), nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]any, 0, len(list))
	for _, rec := range list {
		out = append(out, identityState(rec))
	}
	return out, nil
}

func (p *identityRoutes) get(r *http.Request, c chat.Caller) (any, error) {
	_, rec, err := p.find(r, c)
	if err != nil {
		return nil, err
	}
	return identityState(rec), nil
}

func (p *identityRoutes) update(r *http.Request, c chat.Caller) (any, error) {
	fields, err := p.read(r, false)
	if err != nil {
		return nil, err
	}
	records, rec, err := p.find(r, c)
	if err != nil {
		return nil, err
	}
	if rec, err = records.SetFields(r.Context(), rec, fields); err != nil {
		return nil, err
	}
	return identityState(rec), nil
}

func (p *identityRoutes) remove(r *http.Request, c chat.Caller) (any, error) {
	records, rec, err := p.find(r, c)
	if err != nil {
		return nil, err
	}
	if err := records.Delete(r.Context(), rec.ID); err != nil {
		return nil, err
	}
	return map[string]string{"message": rec.ID + " was deleted."}, nil
}

func (d *Dialect) attachIdentity(r *http.Request, c chat.Caller) (any, error) {
	return d.identity(r, c, func(ids []string, id string) []string {
		if slices.Contains(ids, id) {
			return ids
		}
		return append(ids, id)
	})
}

func (d *Dialect) detachIdentity(r *http.Request, c chat.Caller) (any, error) {
	return d.identity(r, c, func(ids []string, id string) []string {
		return slices.DeleteFunc(ids, func(s string) bool { return s == id })
	})
}

// identity changes the identities of an agent.
func (d *Dialect) identity(r *http.Request, c chat.Caller, change func([]string, string) []string) (any, error) {
	records, rec, err := d.ownAgent(r.Context(), c, r.PathValue("agent"))
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	if !mine(c, records.Get(kindIdentity, id)) {
		return nil, chat.Errorf(chat.NotFound, "there is no identity %q, or it is not yours", clip(id))
	}
	ids, err := json.Marshal(append([]string{}, change(rec.Texts("identity_ids"), id)...))
	if err != nil {
		return nil, err
	}
	if _, err = records.SetFields(r.Context(), rec, map[string]json.RawMessage{"identity_ids": ids}); err != nil {
		return nil, err
	}
	return nil, nil
}
