package record

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Set is the records of one workspace. All methods may be called by several goroutines at once.
type Set struct {
	Workspace string

	sets    *Sets
	opening sync.Mutex // held by open; taken before mu
	ready   atomic.Bool
	changed sync.Map // ids of records whose sessions have new events

	mu         sync.Mutex // held while the sessions of the set are read or written, but not while one is erased
	index      stream
	sessions   map[string]*recordSession
	unread     []*recordSession
	records    map[string]*Record
	order      []*Record // by creation
	workspaces []string  // others that have a set; only the default workspace's set has them
}

// recordSession is the session that a record is stored in, with the records that are stored with it.
type recordSession struct {
	stream
	id       string // of the record
	kind     string
	with     string // the record that it is deleted with
	named    chat.At
	deleting bool
	unread   bool
}

func newSet(ss *Sets, workspace string) *Set {
	s := &Set{Workspace: workspace, sets: ss, sessions: map[string]*recordSession{}, records: map[string]*Record{}}
	s.index = s.stream(perWorkspace("sys-"+ss.opt.Name+"-book", workspace), ss.opt.Title)
	return s
}

func (s *Set) stream(id chat.SessionID, title string) stream {
	return stream{sessions: s.sets.opt.Sessions, id: id, title: title, caller: server(s.Workspace)}
}

// Get returns a record, nil when there is none.
func (s *Set) Get(kind, id string) *Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.records[id]; r != nil && r.Kind == kind {
		return r
	}
	return nil
}

// Find is Get for a record that another node may have just stored.
func (s *Set) Find(ctx context.Context, kind, id string) (*Record, error) {
	if r := s.Get(kind, id); r != nil {
		return r, nil
	}
	if err := s.latest(ctx, s.index.id); err != nil {
		return nil, err
	}
	s.mu.Lock()
	err := s.update(ctx)
	rs := s.sessions[id]
	s.mu.Unlock()
	if err == nil && rs != nil {
		if err = s.latest(ctx, rs.stream.id); err == nil {
			s.mu.Lock()
			s.readLater(rs)
			err = s.update(ctx)
			s.mu.Unlock()
		}
	}
	return s.Get(kind, id), err
}

// latest waits until this node has everything that was stored in a session.
func (s *Set) latest(ctx context.Context, id chat.SessionID) error {
	_, err := s.sets.opt.Sessions.Latest(ctx, server(s.Workspace), id)
	if absent(err) {
		return nil
	}
	return err
}

// List returns the records of a kind, the oldest first.
func (s *Set) List(kind string) (list []*Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.order {
		if r.Kind == kind {
			list = append(list, r)
		}
	}
	return list
}

// Change stores what f makes of a record. f gets the record, nil when there is none, and may look up others with find.
// It is called while nobody else changes the set. When it returns nil, nothing is stored and Change returns old.
func (s *Set) Change(ctx context.Context, id string, f func(old *Record, find func(id string) *Record) (*Record, error)) (*Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.update(ctx); err != nil {
		return nil, err
	}
	old := s.records[id]
	r, err := f(old, func(id string) *Record { return s.records[id] })
	if err != nil || r == nil {
		return old, err
	}
	if err := s.write(ctx, r); err != nil {
		return nil, err
	}
	if stored := s.records[r.ID]; stored != nil {
		return stored, nil
	}
	return nil, chat.Errorf(chat.NotFound, "%s %s was deleted by another node", r.Kind, r.ID)
}

// Put stores a record.
func (s *Set) Put(ctx context.Context, r Record) (*Record, error) {
	return s.Change(ctx, r.ID, func(*Record, func(string) *Record) (*Record, error) { return &r, nil })
}

// SetFields sets some fields of a record; the others stay.
func (s *Set) SetFields(ctx context.Context, r *Record, fields map[string]json.RawMessage) (*Record, error) {
	return s.Change(ctx, r.ID, func(old *Record, _ func(string) *Record) (*Record, error) {
		if old == nil {
			return nil, chat.Errorf(chat.NotFound, "%s %s was deleted", r.Kind, r.ID)
		}
		next := *old
		next.Updated = 0
		next.Fields = maps.Clone(old.Fields)
		if next.Fields == nil {
			next.Fields = map[string]json.RawMessage{}
		}
		maps.Copy(next.Fields, fields)
		return &next, nil
	})
}

// write stores a record. The caller holds mu.
func (s *Set) write(ctx context.Context, r *Record) error {
	storedWith := cmp.Or(r.StoredWith, r.ID)
	if s.sessions[storedWith] == nil {
		if err := s.note(ctx, entry{Kind: r.Kind, ID: storedWith}); err != nil {
			return err
		}
	}
	rs := s.sessions[storedWith]
	if rs == nil || rs.deleting {
		return chat.Errorf(chat.NotFound, "%s %s was deleted", r.Kind, storedWith)
	}
	d, err := draft(s.sets.opt.Name+".record", r, "")
	if err != nil {
		return err
	}
	s.readLater(rs) // also when the answer of Append is lost
	if _, err := rs.append(ctx, d); err != nil {
		return err
	}
	return s.update(ctx)
}

// note adds entries to the index, all or none, and applies them. The caller holds mu.
func (s *Set) note(ctx context.Context, entries ...entry) error {
	if s.index.last == 0 && s.Workspace != chat.DefaultWorkspace {
		if err := s.sets.register(ctx, s.Workspace); err != nil {
			return err
		}
	}
	var drafts []chat.Draft
	for _, e := range entries {
		d, err := draft(s.sets.opt.Name+".entry", e, "")
		if err != nil {
			return err
		}
		drafts = append(drafts, d)
	}
	if _, err := s.index.append(ctx, drafts...); err != nil {
		return err
	}
	return s.update(ctx)
}

// update reads what is new in the index and in the sessions of records. A session that cannot be read is read again the
// next time. The caller holds mu.
func (s *Set) update(ctx context.Context) error {
	if err := s.index.read(ctx, s.apply); err != nil && !absent(err) {
		return err
	}
	for id := range s.changed.Range {
		s.changed.Delete(id) // before the session is read
		if rs := s.sessions[id.(string)]; rs != nil {
			s.readLater(rs)
		}
	}
	for len(s.unread) > 0 {
		rs := s.unread[0]
		if !rs.deleting {
			err := rs.read(ctx, func(e *chat.Event) { s.applyRecord(rs, e) })
			if err != nil && !absent(err) {
				return err
			}
		}
		rs.unread = false
		s.unread = s.unread[1:]
	}
	return nil
}

func (s *Set) readLater(rs *recordSession) {
	if !rs.unread {
		rs.unread = true
		s.unread = append(s.unread, rs)
	}
}

// apply changes the set as an entry of the index says.
func (s *Set) apply(ev *chat.Event) {
	var e entry
	if ev.Type != s.sets.opt.Name+".entry" || json.Unmarshal(ev.Payload, &e) != nil || e.ID == "" {
		return
	}
	if e.Kind == kindWorkspace {
		s.workspaces = append(s.workspaces, e.ID)
		return
	}
	if e.Gone == gone {
		s.hide(e.ID)
		delete(s.sessions, e.ID)
		s.sets.of.Delete(e.ID)
		return
	}
	rs := s.sessions[e.ID]
	if rs == nil {
		id := chat.SessionID("sys-" + s.sets.opt.Name + "-" + e.ID)
		rs = &recordSession{stream: s.stream(id, s.sets.opt.Title+" "+e.Kind), id: e.ID, kind: e.Kind, named: ev.At}
		s.sessions[e.ID] = rs
		s.sets.of.Store(e.ID, s) // before the session is read
		s.readLater(rs)
	}
	if e.Gone == leaving {
		rs.deleting, rs.with = true, e.With
		s.hide(e.ID)
	}
}

// applyRecord changes the set as an event in the session of a record says.
func (s *Set) applyRecord(rs *recordSession, e *chat.Event) {
	r := decodeRecord(e, s.sets.opt.Name+".record")
	if r == nil {
		return
	}
	r.StoredWith = rs.id
	if old := s.records[r.ID]; old != nil {
		r.Created = old.Created
		s.order[slices.Index(s.order, old)] = r
	} else {
		s.order = append(s.order, r)
	}
	s.records[r.ID] = r
}

// hide removes the records of a session from memory.
func (s *Set) hide(storedWith string) {
	s.order = slices.DeleteFunc(s.order, func(r *Record) bool {
		if r.StoredWith == storedWith {
			delete(s.records, r.ID)
		}
		return r.StoredWith == storedWith
	})
}
