package letta

import (
	"maps"
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

// identityFields are the fields that clients may set, the required ones first.
var identityFields = map[string][]string{
	kindIdentity: {"identifier_key", "name", "identity_type", "project_id", "agent_ids", "block_ids", "properties"},
	kindGroup: {"agent_ids", "description", "manager_config", "manager_type", "manager_agent_id", "project_id", "shared_block_ids", "hidden", "max_turns",
		"termination_token", "sleeptime_agent_frequency", "max_message_buffer_length", "min_message_buffer_length"},
}

// requiredFields is the number of required fields of each kind.
var requiredFields = map[string]int{kindIdentity: 3, kindGroup: 2}

// identityState returns an identity or a group as clients see it.
func identityState(rec *record.Record) map[string]any {
	s := map[string]any{"id": rec.ID, "agent_ids": []string{}, "project_id": nil}
	if rec.Kind == kindIdentity {
		s["block_ids"], s["properties"] = []string{}, []any{}
	} else {
		s["manager_type"], s["shared_block_ids"], s["description"] = "round_robin", []string{}, ""
	}
	for name, v := range rec.Fields {
		s[name] = v
	}
	return s
}

// read reads the body of a request that creates or, unless full, changes an identity or a group.
func (p *identityRoutes) read(r *http.Request, full bool) (map[string]json.RawMessage, error) {
	var b struct {
		Key         *string  `json:"identifier_key"`
		Name        *string  `json:"name"`
		Type        *string  `json:"identity_type"`
		Description *string  `json:"description"`
		AgentIDs    []string `json:"agent_ids"`
	}
	fields, err := p.d.readFields(r, &b, identityFields[p.kind])
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(fields, isNull)
	for _, name := range identityFields[p.kind][:requiredFields[p.kind]] {
		if _, ok := fields[name]; !ok && full {
			return nil, malformed("%s: it is missing", name)
		}
	}
	switch {
	case b.Key != nil && *b.Key == "":
		return nil, malformed("identifier_key: it is empty")
	case b.Name != nil && *b.Name == "":
		return nil, malformed("name: it is empty")
	case b.Type != nil && !slices.Contains([]string{"org", "user", "other"}, *b.Type):
		return nil, malformed("identity_type: %q is not one of org, user, other", clip(*b.Type))
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
		return nil, nil, errNotFound(p.kind, r.PathValue("id"))
	}
	return records, rec, nil
}

func (p *identityRoutes) create(r *http.Request, c chat.Caller) (any, error) {
	return p.put(r, c, false)
}

// upsert changes the identity with a key, or creates it.
func (p *identityRoutes) upsert(r *http.Request, c chat.Caller) (any, error) {
	return p.put(r, c, true)
}

func (p *identityRoutes) put(r *http.Request, c chat.Caller, replace bool) (any, error) {
	fields, err := p.read(r, true)
	if err != nil {
		return nil, err
	}
	records, err := p.d.recordsOf(r.Context(), c)
	if err != nil {
		return nil, err
	}
	key := string(fields["identifier_key"])
	for _, rec := range records.List(p.kind) {
		if key == "" || string(rec.Fields["identifier_key"]) != key || !mine(c, rec) {
			continue
		}
		if !replace {
			return nil, chat.Errorf(chat.Conflict, "there is an identity with the key %s already", clip(key))
		}
		return identityAnswer(records.SetFields(r.Context(), rec, fields))
	}
	return identityAnswer(records.Put(r.Context(), record.Record{Kind: p.kind, ID: p.kind + "-" + newUUID(), Owner: c.Actor, Fields: fields}))
}

// identityAnswer is the answer with an identity or a group.
func identityAnswer(rec *record.Record, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return identityState(rec), nil
}

func (p *identityRoutes) list(r *http.Request, c chat.Caller) (any, error) {
	q := newQuery(r)
	page := q.page("desc", 50)
	wanted := map[string]string{}
	for _, name := range []string{"identifier_key", "name", "identity_type", "manager_type"} {
		wanted[name] = q.Text(name)
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	records, err := p.d.recordsOf(r.Context(), c)
	if err != nil {
		return nil, err
	}
	list, err := pageOfRecords(records.List(p.kind), &page, func(rec *record.Record) (bool, error) {
		for name, v := range wanted {
			if v != "" && rec.Text(name) != v {
				return false, nil
			}
		}
		return mine(c, rec), nil
	})
	out := make([]any, len(list))
	for i, rec := range list {
		out[i] = identityState(rec)
	}
	return out, err
}

func (p *identityRoutes) get(r *http.Request, c chat.Caller) (any, error) {
	_, rec, err := p.find(r, c)
	return identityAnswer(rec, err)
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
	return identityAnswer(records.SetFields(r.Context(), rec, fields))
}

func (p *identityRoutes) remove(r *http.Request, c chat.Caller) (any, error) {
	records, rec, err := p.find(r, c)
	if err != nil {
		return nil, err
	}
	return map[string]string{"message": rec.ID + " was deleted."}, records.Delete(r.Context(), rec.ID)
}

func (d *Dialect) attachIdentity(r *http.Request, c chat.Caller) (any, error) {
	return nil, d.changeIdentities(r, c, true)
}

func (d *Dialect) detachIdentity(r *http.Request, c chat.Caller) (any, error) {
	return nil, d.changeIdentities(r, c, false)
}

// changeIdentities attaches an identity to an agent, or detaches it.
func (d *Dialect) changeIdentities(r *http.Request, c chat.Caller, attach bool) error {
	records, rec, err := d.ownAgent(r.Context(), c, r.PathValue("agent"))
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	if !mine(c, records.Get(kindIdentity, id)) {
		return errNotFound(kindIdentity, id)
	}
	ids := slices.DeleteFunc(rec.Texts("identity_ids"), func(s string) bool { return s == id })
	if attach {
		ids = append(ids, id)
	}
	list, err := json.Marshal(append([]string{}, ids...))
	if err != nil {
		return err
	}
	_, err = records.SetFields(r.Context(), rec, map[string]json.RawMessage{"identity_ids": list})
	return err
}
