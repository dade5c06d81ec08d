package letta

import (
	"maps"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/record"
)

// identityKind is kindIdentity or kindGroup: the sender_id of a message names an identity, its group_id a group.
type identityKind string

// identityFields are the fields that clients may set, the required ones first.
var identityFields = map[identityKind][]string{
	kindIdentity: {"identifier_key", "name", "identity_type", "project_id", "agent_ids", "block_ids", "properties"},
	kindGroup: {"agent_ids", "description", "manager_config", "manager_type", "manager_agent_id", "project_id", "shared_block_ids", "hidden", "max_turns",
		"termination_token", "sleeptime_agent_frequency", "max_message_buffer_length", "min_message_buffer_length"},
}

// requiredFields is the number of required fields of each kind.
var requiredFields = map[identityKind]int{kindIdentity: 3, kindGroup: 2}

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
func (k identityKind) read(q *request, full bool) (map[string]json.RawMessage, error) {
	var b struct {
		Key         *string  `json:"identifier_key"`
		Name        *string  `json:"name"`
		Type        *string  `json:"identity_type"`
		Description *string  `json:"description"`
		AgentIDs    []string `json:"agent_ids"`
	}
	fields, err := q.readFields(&b, identityFields[k])
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(fields, isNull)
	for _, name := range identityFields[k][:requiredFields[k]] {
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

func (k identityKind) find(q *request) (*record.Record, error) {
	rec := q.records.Get(string(k), q.PathValue("id"))
	if !mine(q.caller, rec) {
		return nil, errNotFound(string(k), q.PathValue("id"))
	}
	return rec, nil
}

func (k identityKind) create(q *request) (any, error) { return k.put(q, false) }

// upsert changes the identity with a key, or creates it.
func (k identityKind) upsert(q *request) (any, error) { return k.put(q, true) }

func (k identityKind) put(q *request, replace bool) (any, error) {
	fields, err := k.read(q, true)
	if err != nil {
		return nil, err
	}
	key := string(fields["identifier_key"])
	for _, rec := range q.records.List(string(k)) {
		if key == "" || string(rec.Fields["identifier_key"]) != key || !mine(q.caller, rec) {
			continue
		}
		if !replace {
			return nil, chat.Errorf(chat.Conflict, "there is an identity with the key %s already", clip(key))
		}
		return identityAnswer(q.records.SetFields(q.ctx, rec, fields))
	}
	return identityAnswer(q.records.Put(q.ctx, record.Record{Kind: string(k), ID: string(k) + "-" + newUUID(), Owner: q.caller.Actor, Fields: fields}))
}

// identityAnswer is the answer with an identity or a group.
func identityAnswer(rec *record.Record, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return identityState(rec), nil
}

func (k identityKind) list(q *request) (any, error) {
	page := q.page("desc", 50)
	wanted := map[string]string{}
	for _, name := range []string{"identifier_key", "name", "identity_type", "manager_type"} {
		wanted[name] = q.Text(name)
	}
	list, err := pageOfRecords(q.records.List(string(k)), &page, func(rec *record.Record) (bool, error) {
		for name, v := range wanted {
			if v != "" && rec.Text(name) != v {
				return false, nil
			}
		}
		return mine(q.caller, rec), nil
	})
	out := make([]any, len(list))
	for i, rec := range list {
		out[i] = identityState(rec)
	}
	return out, err
}

func (k identityKind) get(q *request) (any, error) { return identityAnswer(k.find(q)) }

func (k identityKind) update(q *request) (any, error) {
	fields, err := k.read(q, false)
	if err != nil {
		return nil, err
	}
	rec, err := k.find(q)
	if err != nil {
		return nil, err
	}
	return identityAnswer(q.records.SetFields(q.ctx, rec, fields))
}

func (k identityKind) remove(q *request) (any, error) {
	rec, err := k.find(q)
	if err != nil {
		return nil, err
	}
	return map[string]string{"message": rec.ID + " was deleted."}, q.records.Delete(q.ctx, rec.ID)
}

func (q *request) attachIdentity(rec *record.Record) (any, error) {
	return nil, q.changeIdentities(rec, true)
}

func (q *request) detachIdentity(rec *record.Record) (any, error) {
	return nil, q.changeIdentities(rec, false)
}

// changeIdentities attaches an identity to an agent, or detaches it.
func (q *request) changeIdentities(rec *record.Record, attach bool) error {
	id := q.PathValue("id")
	if !mine(q.caller, q.records.Get(kindIdentity, id)) {
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
	_, err = q.records.SetFields(q.ctx, rec, map[string]json.RawMessage{"identity_ids": list})
	return err
}
