package record

import (
	"context"
	"iter"

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

// Sessions is the part of the session rules that logs need.
type Sessions interface {
	Create(ctx context.Context, c chat.Caller, n chat.NewSession) (chat.Session, bool, error)
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Events(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) iter.Seq2[chat.Event, error]
}

// stream reads and writes one system session.
type stream struct {
	sessions Sessions
	id       chat.SessionID
	title    string
	caller   chat.Caller
	last     chat.Seq // the last event that was read
}

// read calls take with each event after the last one that was read.
func (s *stream) read(ctx context.Context, take func(*chat.Event)) error {
	for e, err := range s.sessions.Events(ctx, s.caller, s.id, chat.Range{After: s.last}) {
		if err != nil {
			return err
		}
		s.last = e.Seq
		take(&e)
	}
	return nil
}

// append stores events, and creates the session if there is none.
func (s *stream) append(ctx context.Context, drafts ...chat.Draft) ([]chat.Event, error) {
	events, err := s.sessions.Append(ctx, s.caller, s.id, drafts)
	if chat.CodeOf(err) != chat.NotFound {
		return events, err
	}
	if _, _, err := s.sessions.Create(ctx, s.caller, chat.NewSession{ID: s.id, Agent: chat.NoAgent, Title: s.title}); err != nil {
		return nil, err
	}
	for i := range drafts {
		if drafts[i].AfterSeq == noEvents {
			drafts[i].AfterSeq = 1 // of the session that was created
		}
	}
	return s.sessions.Append(ctx, s.caller, s.id, drafts)
}

// noEvents is the AfterSeq of a draft that was decided when there was no session.
const noEvents = chat.MaxSeq

// draft makes a draft of a type that only this server uses. key is its idempotency key, "" for none.
func draft(typ string, payload any, key string) (chat.Draft, error) {
	raw, err := json.Marshal(payload)
	if err != nil {
		return chat.Draft{}, err
	}
	return chat.NewDraft(chat.Unknown{Name: typ, Payload: raw}).As(key), nil
}

// server is the caller as which the server reads and writes in a workspace.
func server(workspace string) chat.Caller {
	c := chat.Trusted
	c.Workspace = workspace
	return c
}

// perWorkspace is the id of a system session that each workspace has.
func perWorkspace(name, workspace string) chat.SessionID {
	if workspace != chat.DefaultWorkspace {
		name += "." + workspace
	}
	return chat.SessionID(name)
}

// absent reports whether an error says that a session does not exist, or no longer.
func absent(err error) bool {
	code := chat.CodeOf(err)
	return err != nil && (code == chat.NotFound || code == chat.Gone)
}
