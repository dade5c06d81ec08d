package letta

import (
	"net/http"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// people serves identities and groups: what the sender_id and the group_id of
// messages refer to.
type people struct {
	d    *Dialect
	kind string
}

// peopleFields are what clients say of them.
var peopleFields = map[string][]string{
	kindIdentity: {"identifier_key", "name", "identity_type", "project_id", "agent_ids", "block_ids", "properties"},
	kindGroup: {"description", "agent_ids", "manager_config", "manager_type", "manager_agent_id", "project_id", "shared_block_ids", "hidden", "max_turns",
		"termination_token", "sleeptime_agent_frequency", "max_message_buffer_length", "min_message_buffer_length"},
}

// shown is an identity or a group as clients see it.
func shown(rec *record) map[string]any {
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

func (p *people) read(r *http.Request, full bool) (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := p.d.read(r, &all); err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	for _, k := range peopleFields[p.kind] {
		if v, ok := all[k]; ok && string(v) != "null" {
			fields[k] = v
		}
	}
	need := []string{"agent_ids", "description"}
	if p.kind == kindIdentity {
		need = []string{"identifier_key", "name", "identity_type"}
	}
	probe := record{Fields: fields}
	for _, k := range need {
		if _, ok := fields[k]; !ok && full {
			return nil, malformed("%s: it is missing", k)
		}
	}
	for _, k := range []string{"identifier_key", "name", "description", "identity_type"} {
		if _, ok := fields[k]; ok && probe.text(k) == "" && k != "description" {
			return nil, malformed("%s: it must be a text", k)
		}
	}
	if t := probe.text("identity_type"); t != "" && !slices.Contains([]string{"org", "user", "other"}, t) {
		return nil, malformed("identity_type: %q is not one of org, user, other", clip(t))
	}
	if v, ok := fields["agent_ids"]; ok && json.Unmarshal(v, new([]string)) != nil {
		return nil, malformed("agent_ids: it must be a list of ids")
	}
	return fields, nil
}

// mine reports whether the caller may see a record.
func mine(c chat.Caller, rec *record) bool {
	return rec != nil && (rec.Owner.Same(c.Actor) || c.Has(chat.ScopeAdmin))
}

func (p *people) find(r *http.Request, c chat.Caller) (*book, *record, error) {
	b, err := p.d.bookOf(r.Context(), c)
	if err != nil {
		return nil, nil, err
	}
	rec := b.get(p.kind, r.PathValue("id"))
	if !mine(c, rec) {
		return nil, nil, chat.Errorf(chat.NotFound, "there is no %s %q, or it is not yours", p.kind, clip(r.PathValue("id")))
	}
	return b, rec, nil
}

func (p *people) create(r *http.Request, c chat.Caller) (any, error) {
	fields, err := p.read(r, true)
	if err != nil {
		return nil, err
	}
	return p.add(r, c, fields, false)
}

// upsert changes the identity of a key, or makes it.
func (p *people) upsert(r *http.Request, c chat.Caller) (any, error) {
	fields, err := p.read(r, true)
	if err != nil {
		return nil, err
	}
	return p.add(r, c, fields, true)
}

func (p *people) add(r *http.Request, c chat.Caller, fields map[string]json.RawMessage, replace bool) (any, error) {
	b, err := p.d.bookOf(r.Context(), c)
	if err != nil {
		return nil, err
	}
	if key := string(fields["identifier_key"]); p.kind == kindIdentity {
		for _, rec := range b.of(kindIdentity) {
			if string(rec.Fields["identifier_key"]) != key || !mine(c, rec) {
				continue
			}
			if !replace {
				return nil, chat.Errorf(chat.Conflict, "there is an identity with the key %s already", clip(key))
			}
			if rec, err = b.update(r.Context(), rec, fields); err != nil {
				return nil, err
			}
			return shown(rec), nil
		}
	}
	rec, err := b.add(r.Context(), record{Kind: p.kind, ID: p.kind + "-" + newUUID(), Owner: c.Actor, Fields: fields})
	if err != nil {
		return nil, err
	}
	return shown(rec), nil
}

func (p *people) list(r *http.Request, c chat.Caller) (any, error) {
	q := newQuery(r)
	page := q.page("desc", 50)
	if q.Err != nil {
		return nil, q.err()
	}
	b, err := p.d.bookOf(r.Context(), c)
	if err != nil {
		return nil, err
	}
	list, err := pageOfRecords(b.of(p.kind), &page, func(rec *record) (bool, error) {
		for _, k := range []string{"identifier_key", "name", "identity_type", "manager_type"} {
			if v := q.Text(k); v != "" && rec.text(k) != v {
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
		out = append(out, shown(rec))
	}
	return out, nil
}

func (p *people) get(r *http.Request, c chat.Caller) (any, error) {
	_, rec, err := p.find(r, c)
	if err != nil {
		return nil, err
	}
	return shown(rec), nil
}

func (p *people) update(r *http.Request, c chat.Caller) (any, error) {
	fields, err := p.read(r, false)
	if err != nil {
		return nil, err
	}
	b, rec, err := p.find(r, c)
	if err != nil {
		return nil, err
	}
	if rec, err = b.update(r.Context(), rec, fields); err != nil {
		return nil, err
	}
	return shown(rec), nil
}

func (p *people) remove(r *http.Request, c chat.Caller) (any, error) {
	b, rec, err := p.find(r, c)
	if err != nil {
		return nil, err
	}
	if err := b.remove(r.Context(), rec.ID); err != nil {
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

// identity changes which identities an agent is for.
func (d *Dialect) identity(r *http.Request, c chat.Caller, change func([]string, string) []string) (any, error) {
	b, rec, err := d.ownAgent(r.Context(), c, r.PathValue("agent"))
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	if !mine(c, b.get(kindIdentity, id)) {
		return nil, chat.Errorf(chat.NotFound, "there is no identity %q, or it is not yours", clip(id))
	}
	ids, err := json.Marshal(append([]string{}, change(rec.texts("identity_ids"), id)...))
	if err != nil {
		return nil, err
	}
	if _, err = b.update(r.Context(), rec, map[string]json.RawMessage{"identity_ids": ids}); err != nil {
		return nil, err
	}
	return nil, nil
}
