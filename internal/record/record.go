package record

import (
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Record is one record of a [Set]. A stored record is never changed, only replaced.
type Record struct {
	Kind    string                     `json:"kind"`
	ID      string                     `json:"id"`
	Owner   chat.Actor                 `json:"owner"`
	Fields  map[string]json.RawMessage `json:"fields,omitempty"`
	Created chat.At                    `json:"created,omitempty"` // 0: when it was first written
	Updated chat.At                    `json:"updated,omitempty"` // 0: when it was last written

	// StoredWith is the id of the record whose session this one is stored in, "" for a session of its own. Records that
	// are stored together are erased together.
	StoredWith string `json:"-"`
}

// Text returns a field that is a string, "" when it is not.
func (r *Record) Text(field string) (s string) {
	_ = json.Unmarshal(r.Fields[field], &s)
	return s
}

// Texts returns a field that is a list of strings, nil when it is not.
func (r *Record) Texts(field string) (list []string) {
	_ = json.Unmarshal(r.Fields[field], &list)
	return list
}

// decodeRecord reads the record in an event, nil when there is none.
func decodeRecord(e *chat.Event, typ string) *Record {
	var r Record
	if e.Type != typ || json.Unmarshal(e.Payload, &r) != nil || r.ID == "" {
		return nil
	}
	if r.Created == 0 {
		r.Created = e.At
	}
	if r.Updated == 0 {
		r.Updated = e.At
	}
	return &r
}

// entry is an event of an index: a record has a session, is being deleted, or was deleted.
type entry struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Gone string `json:"gone,omitempty"` // leaving or gone
	With string `json:"with,omitempty"` // the record that it is deleted with
}

// The steps of a deletion, as an entry has them.
const (
	leaving = "leaving"
	gone    = "gone"
)

// kindWorkspace is the kind of the entries that name the other workspaces that have records. They are in the index of the
// default workspace.
const kindWorkspace = "workspace"
