package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"iter"

	"github.com/oklog/ulid/v2"

	"github.com/parley-hq/parley/chat"
)

// NewID makes a session id.
func (s *Sessions) NewID() chat.SessionID {
	return chat.SessionID("s-" + ulid.MustNew(ulid.Timestamp(s.opt.Now()), rand.Reader).String())
}

// Create begins a session; created is false when the caller began the very same
// one before, so that a lost answer can be asked for again.
//
// An id that is taken by a session the caller may not see counts as free: the
// new session gets an id of its own, and the wanted one leads this caller to it.
func (s *Sessions) Create(ctx context.Context, c chat.Caller, n chat.NewSession) (sess chat.Session, created bool, err error) {
	if !c.Has(chat.ScopeUser) && !c.Has(chat.ScopeAgent) {
		return sess, false, chat.Errorf(chat.Denied, "beginning a session needs the scope user or agent")
	}
	if n.Agent == "" {
		n.Agent = s.opt.DefaultAgent
	}
	wanted := n.ID
	if wanted == "" {
		n.ID = s.NewID()
	} else if err := wanted.Validate(); err != nil {
		return sess, false, err
	} else if alias, ok, err := s.log.Alias(ctx, c.In(), c.Actor.Key(), string(wanted)); err != nil {
		return sess, false, err
	} else if ok {
		n.ID = alias
	}
	sess, created, err = s.create(ctx, c, n)
	if wanted == "" || !isForeign(err) {
		return sess, created, err
	}
	n.ID, err = s.log.SetAlias(ctx, c.In(), c.Actor.Key(), string(wanted), s.NewID())
	if err != nil {
		return sess, false, err
	}
	return s.create(ctx, c, n)
}

// errForeign says that the id belongs to a session the caller may not see.
type errForeign struct{}

func (errForeign) Error() string { return "the id is taken by somebody else's session" }

func isForeign(err error) bool { _, ok := err.(errForeign); return ok }

func (s *Sessions) create(ctx context.Context, c chat.Caller, n chat.NewSession) (sess chat.Session, created bool, err error) {
	draft := chat.NewDraft(chat.SessionStarted{
		Agent: n.Agent, Title: n.Title, Metadata: n.Metadata, Workspace: c.In(), Policy: n.Policy, Members: n.Members,
	})
	if err := draft.Settle(); err != nil {
		return sess, false, err
	}
	r := s.room(n.ID)
	defer r.leave()
	var number chat.Number
	req := &request{
		create: true,
		ready: func(ctx context.Context, r *room) (err error) {
			if r.state == nil {
				number, _, err = s.log.Number(ctx, r.id)
			}
			return err
		},
		op: func(d *decision) error {
			if d.state != nil {
				created = false
				sess = d.state.Session
				return s.sameSession(c, n, &d.state.Session)
			}
			d.state = &chat.State{Number: number}
			d.add(c.Actor, draft, "")
			created, sess = true, d.state.Session
			return nil
		},
	}
	return sess, created, firstError(r.do(ctx, req), &sess)
}

func firstError(err error, sess *chat.Session) error {
	if err != nil {
		*sess = chat.Session{}
	}
	return err
}

func (s *Sessions) sameSession(c chat.Caller, n chat.NewSession, have *chat.Session) error {
	if roleOf(c, have) == "" {
		return errForeign{}
	}
	if have.Agent == n.Agent && have.Title == n.Title && bytes.Equal(have.Metadata, n.Metadata) && have.Owner.Same(c.Actor) {
		return nil
	}
	return chat.Errorf(chat.Conflict, "there is a session %q already; choose another id, or leave it out", string(n.ID)).With("session_id", n.ID)
}

// Ensure finds the session that a dialect's own id stands for, or begins it.
func (s *Sessions) Ensure(ctx context.Context, c chat.Caller, foreign string, n chat.NewSession) (sess chat.Session, created bool, err error) {
	if sess, err := s.Get(ctx, c, chat.SessionID(foreign)); err == nil || chat.CodeOf(err) == chat.Gone {
		return sess, false, err
	}
	if chat.SessionID(foreign).Validate() == nil {
		n.ID = chat.SessionID(foreign)
		sess, created, err = s.Create(ctx, c, n)
		if chat.CodeOf(err) != chat.Conflict {
			return sess, created, err
		}
		sess, err = s.Get(ctx, c, chat.SessionID(foreign))
		return sess, false, err
	}
	id, err := s.log.SetAlias(ctx, c.In(), c.Actor.Key(), foreign, s.NewID())
	if err != nil {
		return sess, false, err
	}
	n.ID = id
	return s.create(ctx, c, n)
}

// enter finds the session's room for a caller who may at least see it.
func (s *Sessions) enter(ctx context.Context, c chat.Caller, id chat.SessionID) (*room, error) {
	if r := s.open(id); r != nil {
		// The usual case on the way of every append: no look into the store.
		if sess := r.session.Load(); sess != nil && roleOf(c, sess) != "" {
			return r, nil
		}
		r.leave()
	}
	sess, err := s.find(ctx, c, id)
	if err != nil {
		return nil, err
	}
	r := s.room(sess.ID)
	r.session.CompareAndSwap(nil, &sess)
	return r, nil
}

// find returns the session that id means for the caller.
func (s *Sessions) find(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error) {
	var gone error
	if id.Validate() == nil {
		sess, err := s.log.Record(ctx, id)
		switch {
		case err == nil && roleOf(c, &sess) != "":
			return sess, nil
		case chat.CodeOf(err) == chat.Gone:
			gone = err
		case err != nil && chat.CodeOf(err) != chat.NotFound:
			return chat.Session{}, err
		}
	}
	if len(id) > 0 && len(id) <= 1024 {
		alias, ok, err := s.log.Alias(ctx, c.In(), c.Actor.Key(), string(id))
		if err != nil {
			return chat.Session{}, err
		}
		if ok {
			sess, err := s.log.Record(ctx, alias)
			if err == nil && roleOf(c, &sess) != "" {
				return sess, nil
			}
			if err != nil && chat.CodeOf(err) != chat.NotFound {
				return chat.Session{}, err
			}
		}
	}
	if gone != nil {
		return chat.Session{}, gone
	}
	return chat.Session{}, errNoSession(id)
}

// Get returns a session's record.
func (s *Sessions) Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error) {
	return s.find(ctx, c, id)
}

// ByID returns the session and sequence that an event, turn or prompt id names.
func (s *Sessions) ByID(ctx context.Context, c chat.Caller, id chat.ID) (chat.Session, chat.Seq, error) {
	n, seq, ok := id.Parts()
	if !ok {
		return chat.Session{}, 0, chat.Errorf(chat.NotFound, "there is nothing with that id, or it is not yours")
	}
	sid, err := s.log.SessionOf(ctx, n)
	if err != nil {
		return chat.Session{}, 0, err
	}
	sess, err := s.find(ctx, c, sid)
	if err == nil && seq > sess.Last {
		err = chat.Errorf(chat.NotFound, "there is nothing with that id, or it is not yours")
	}
	return sess, seq, err
}

// List returns sessions the caller may see, the most recently active first.
func (s *Sessions) List(ctx context.Context, c chat.Caller, f chat.Filter) (chat.SessionPage, error) {
	f.Workspace = c.In()
	if !c.Has(chat.ScopeAdmin) {
		f.Actor = &c.Actor
	}
	return s.log.List(ctx, f)
}

// Update changes what is named in u; it needs the role owner.
func (s *Sessions) Update(ctx context.Context, c chat.Caller, id chat.SessionID, u chat.SessionUpdated) (chat.Session, error) {
	draft := chat.NewDraft(u)
	if err := draft.Settle(); err != nil {
		return chat.Session{}, err
	}
	r, err := s.enter(ctx, c, id)
	if err != nil {
		return chat.Session{}, err
	}
	defer r.leave()
	var sess chat.Session
	err = r.do(ctx, &request{op: func(d *decision) error {
		if err := allow(c, &d.state.Session, chat.Owner); err != nil {
			return err
		}
		d.add(c.Actor, draft, "")
		d.members = d.members || u.Members != nil
		sess = d.state.Session
		return nil
	}})
	return sess, firstError(err, &sess)
}

// Erase removes a session and all its text for good; it needs the role owner.
// The id answers gone for ever after.
func (s *Sessions) Erase(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Receipt, error) {
	sess, err := s.find(ctx, c, id)
	if err != nil {
		return chat.Receipt{}, err
	}
	if err := allow(c, &sess, chat.Owner); err != nil {
		return chat.Receipt{}, err
	}
	r := s.room(sess.ID)
	defer r.leave()
	var receipt chat.Receipt
	req := &request{
		// In the room's order, so that no append is under way meanwhile.
		ready: func(ctx context.Context, r *room) error {
			rec, err := s.log.Erase(ctx, r.id)
			if err != nil {
				return err
			}
			r.state = nil
			r.session.Store(nil)
			receipt = rec
			return errErased{}
		},
		op: func(*decision) error { return nil },
	}
	if err := r.do(ctx, req); err != nil {
		if _, ok := err.(errErased); !ok {
			return chat.Receipt{}, err
		}
	}
	s.live.Drop(sess.ID, chat.Errorf(chat.Gone, "this session was erased"))
	if s.opt.Erased != nil {
		s.opt.Erased(sess.ID)
	}
	if s.opt.Artifacts != nil {
		n, bytes, err := s.opt.Artifacts.DeleteSession(ctx, sess.ID)
		if err != nil {
			return receipt, err
		}
		receipt.Artifacts, receipt.Bytes = n, receipt.Bytes+bytes
	}
	return receipt, nil
}

// errErased ends the room's work on a session that is no more.
type errErased struct{}

func (errErased) Error() string { return "erased" }

// Import stores a whole log that was exported before, byte for byte, under its
// own id, which must be free. It needs the scope admin.
func (s *Sessions) Import(ctx context.Context, c chat.Caller, id chat.SessionID, facts iter.Seq2[chat.Fact, error]) (chat.Session, error) {
	if !c.Has(chat.ScopeAdmin) {
		return chat.Session{}, chat.Errorf(chat.Denied, "importing needs the scope admin")
	}
	if err := id.Validate(); err != nil {
		return chat.Session{}, err
	}
	r := s.room(id)
	defer r.leave()
	req := &request{
		create: true,
		ready: func(ctx context.Context, r *room) error {
			if err := s.log.Import(ctx, r.id, facts); err != nil {
				return err
			}
			r.state = nil
			return errErased{}
		},
		op: func(*decision) error { return nil },
	}
	if err := r.do(ctx, req); err != nil {
		if _, ok := err.(errErased); !ok {
			return chat.Session{}, err
		}
	}
	return s.log.Record(ctx, id)
}
