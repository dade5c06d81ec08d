package letta

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// The kinds of thing that are kept beside the conversations.
const (
	kindAgent        = "agent"
	kindConversation = "conversation"
	kindIdentity     = "identity"
	kindGroup        = "group"
)

// recordType is the type of the event that says what a thing is from now on, or
// that it is no more.
const recordType = "letta.record"

// record is one thing: an agent, a conversation, an identity, a group.
type record struct {
	Kind    string                     `json:"kind"`
	ID      string                     `json:"id"`
	Owner   chat.Actor                 `json:"owner"`
	Fields  map[string]json.RawMessage `json:"fields,omitempty"`
	Removed bool                       `json:"removed,omitempty"`

	created chat.At
	updated chat.At
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

// book is what a workspace has of these things: the fold of the events of its
// system session, kept in memory and brought up to the log before every use.
type book struct {
	d         *Dialect
	workspace string

	mu    sync.Mutex // held over reading the log, so that one request reads for all who wait
	last  chat.Seq   // the events up to it are in
	all   map[string]*record
	list  []*record // in the order of their creation
	armed bool      // calls of an earlier process were taken up
}

// bookOf returns the book of the caller's workspace, up to date.
func (d *Dialect) bookOf(ctx context.Context, c chat.Caller) (*book, error) {
	d.mu.Lock()
	b := d.books[c.In()]
	if b == nil {
		b = &book{d: d, workspace: c.In(), all: map[string]*record{}}
		d.books[c.In()] = b
	}
	d.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.catchUp(ctx); err != nil || b.armed {
		return b, err
	}
	b.armed = true
	for _, r := range b.list { // that an earlier process did not get to
		if r.Kind == kindCallback && r.Fields["sent_at"] == nil {
			d.enqueue(b.workspace, r.ID)
		}
	}
	return b, nil
}

// session is the system session that holds the events.
func (b *book) session() chat.SessionID {
	if b.workspace == chat.DefaultWorkspace {
		return "sys-letta"
	}
	return chat.SessionID("sys-letta." + b.workspace)
}

// caller is as whom the server reads and writes there.
func (b *book) caller() chat.Caller {
	c := chat.Trusted
	c.Workspace = b.workspace
	return c
}

func (b *book) catchUp(ctx context.Context) error {
	sess, err := b.d.opt.Sessions.Get(ctx, b.caller(), b.session())
	if chat.CodeOf(err) == chat.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	for b.last < sess.Last {
		facts, _, err := b.d.opt.Sessions.Read(ctx, b.caller(), b.session(), chat.Range{After: b.last, Limit: 1000, MaxBytes: 8 << 20})
		if err != nil {
			return err
		}
		if len(facts) == 0 {
			return nil
		}
		for _, f := range facts {
			e, err := f.Event()
			if err != nil {
				return err
			}
			b.apply(&e)
		}
	}
	return nil
}

func (b *book) apply(e *chat.Event) {
	b.last = e.Seq
	u, ok := e.Body.(chat.Unknown)
	if !ok || u.Name != recordType {
		return
	}
	var r record
	if json.Unmarshal(u.Payload, &r) != nil || r.ID == "" {
		return // written by something else under our name
	}
	old := b.all[r.ID]
	if r.Removed {
		delete(b.all, r.ID)
		b.list = slices.DeleteFunc(b.list, func(o *record) bool { return o.ID == r.ID })
		return
	}
	r.created, r.updated = e.At, e.At
	if old == nil {
		b.list = append(b.list, &r)
	} else {
		r.created = old.created
		b.list[slices.Index(b.list, old)] = &r
	}
	b.all[r.ID] = &r
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
// after the other, so none is lost.
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
	payload, err := json.Marshal(&r)
	if err != nil {
		return nil, err
	}
	drafts := []chat.Draft{chat.NewDraft(chat.Unknown{Name: recordType, Payload: payload})}
	_, err = b.d.opt.Sessions.Append(ctx, b.caller(), b.session(), drafts)
	if chat.CodeOf(err) == chat.NotFound {
		if _, _, err = b.d.opt.Sessions.Create(ctx, b.caller(), chat.NewSession{ID: b.session(), Agent: chat.NoAgent, Title: "Letta agents"}); err != nil {
			return nil, err
		}
		_, err = b.d.opt.Sessions.Append(ctx, b.caller(), b.session(), drafts)
	}
	if err != nil {
		return nil, err
	}
	if err := b.catchUp(ctx); err != nil {
		return nil, err
	}
	return b.all[r.ID], nil
}

// add keeps a new thing.
func (b *book) add(ctx context.Context, r record) (*record, error) {
	return b.change(ctx, r.ID, func(*record) (record, error) { return r, nil })
}

// remove forgets a thing.
func (b *book) remove(ctx context.Context, r *record) error {
	_, err := b.change(ctx, r.ID, func(old *record) (record, error) {
		if old == nil {
			return record{}, errKeep
		}
		return record{Kind: old.Kind, ID: old.ID, Owner: old.Owner, Removed: true}, nil
	})
	return err
}

// update sets fields of a thing.
func (b *book) update(ctx context.Context, r *record, fields map[string]json.RawMessage) (*record, error) {
	return b.change(ctx, r.ID, func(old *record) (record, error) {
		if old == nil {
			return record{}, chat.Errorf(chat.NotFound, "%s %s is no more", r.Kind, r.ID)
		}
		next := *old
		next.Fields = make(map[string]json.RawMessage, len(old.Fields)+len(fields))
		for _, from := range []map[string]json.RawMessage{old.Fields, fields} {
			for k, v := range from {
				next.Fields[k] = v
			}
		}
		return next, nil
	})
}
