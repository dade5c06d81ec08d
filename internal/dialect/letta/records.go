package letta

import (
	"context"
	"errors"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// The kinds of thing that are kept beside the conversations.
const (
	kindAgent        = "agent"
	kindConversation = "conversation"
	kindIdentity     = "identity"
	kindGroup        = "group"
)

// recordType is the type of the event that says what a thing is from now on.
const recordType = "letta.record"

// record is one thing: an agent, a conversation, an identity, a group, a call
// that is to be made.
type record struct {
	Kind    string                     `json:"kind"`
	ID      string                     `json:"id"`
	Owner   chat.Actor                 `json:"owner"`
	Fields  map[string]json.RawMessage `json:"fields,omitempty"`
	Created chat.At                    `json:"created,omitempty"` // 0: when it was first written
	Updated chat.At                    `json:"updated,omitempty"` // 0: when it was last written

	page string // the page that it stands on
}

// text is a field that is a text; "" when it is not.
func (r *record) text(key string) (s string) {
	_ = json.Unmarshal(r.Fields[key], &s)
	return s
}

// texts is a field that is a list of texts.
func (r *record) texts(key string) (list []string) {
	_ = json.Unmarshal(r.Fields[key], &list)
	return list
}

// decodeRecord reads the record that an event holds, nil when it holds none.
func decodeRecord(e *chat.Event) *record {
	u, ok := e.Body.(chat.Unknown)
	var r record
	if !ok || u.Name != recordType || json.Unmarshal(u.Payload, &r) != nil || r.ID == "" {
		return nil // written by something else under our name
	}
	if r.Created == 0 {
		r.Created = e.At
	}
	if r.Updated == 0 {
		r.Updated = e.At
	}
	return &r
}

// get returns a thing, nil when there is none. Records are never changed, only
// replaced.
func (b *book) get(kind, id string) *record {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.all[id]; r != nil && r.Kind == kind {
		return r
	}
	return nil
}

// of lists the things of a kind, the oldest first.
func (b *book) of(kind string) []*record {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*record
	for _, r := range b.list {
		if r.Kind == kind {
			out = append(out, r)
		}
	}
	return out
}

// errKeep lets a change be given up without an error.
var errKeep = errors.New("nothing changes")

// change replaces a thing by what f makes of it, as a fact. Changes come one
// after the other, so none is lost. f may look at b.all.
func (b *book) change(ctx context.Context, id string, f func(old *record) (record, error)) (*record, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.catchUp(ctx); err != nil {
		return nil, err
	}
	r, err := f(b.all[id])
	if errors.Is(err, errKeep) {
		return b.all[id], nil
	}
	if err != nil {
		return nil, err
	}
	if r.page == "" {
		r.page = r.ID
	}
	if err := b.write(ctx, &r); err != nil {
		return nil, err
	}
	return b.all[r.ID], nil
}

// add keeps a new thing.
func (b *book) add(ctx context.Context, r record) (*record, error) {
	return b.change(ctx, r.ID, func(*record) (record, error) { return r, nil })
}

// update sets fields of a thing.
func (b *book) update(ctx context.Context, r *record, fields map[string]json.RawMessage) (*record, error) {
	return b.change(ctx, r.ID, func(old *record) (record, error) {
		if old == nil {
			return record{}, chat.Errorf(chat.NotFound, "%s %s is no more", r.Kind, r.ID)
		}
		next := *old
		next.Updated = 0
		next.Fields = make(map[string]json.RawMessage, len(old.Fields)+len(fields))
		for _, from := range []map[string]json.RawMessage{old.Fields, fields} {
			for k, v := range from {
				next.Fields[k] = v
			}
		}
		return next, nil
	})
}
