package session

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// newID returns a new session id.
func (s *Sessions) newID() chat.SessionID {
	return chat.SessionID("s-" + ulid.MustNew(ulid.Timestamp(s.opt.Now()), rand.Reader).String())
}

// Create creates a session. If the caller has created the same session before, Create
// returns it with created false, so a client that lost the answer can repeat the request.
//
// If the id belongs to a session that the caller may not see, the new session gets
// another id, and the wanted id becomes the caller's alias for it.
func (s *Sessions) Create(ctx context.Context, c chat.Caller, n chat.NewSession) (sess chat.Session, created bool, err error) {
	if err := s.checkNew(c, &n); err != nil {
		return sess, false, err
	}
	if err := s.countWritten(c, 1024+len(n.Metadata)); err != nil {
		return sess, false, err
	}
	wanted := n.ID
	if wanted == "" {
		n.ID = s.newID()
	} else if err := wanted.Validate(); err != nil {
		return sess, false, err
	} else if n.ID, _, err = s.resolve(ctx, c, wanted); err != nil {
		return sess, false, err
	}
	sess, created, err = s.create(ctx, c, n)
	switch taken, ok := err.(errForeign); {
	case !ok || wanted == "":
		return sess, created, err
	case taken.seen:
		return sess, false, errTaken(wanted)
	}
	return s.createAliased(ctx, c, wanted, n)
}

// createAliased creates a session with a new id and makes name the caller's alias for it.
func (s *Sessions) createAliased(ctx context.Context, c chat.Caller, name chat.SessionID, n chat.NewSession) (sess chat.Session, created bool, err error) {
	if n.ID, err = s.setAlias(ctx, c, name); err != nil {
		return sess, false, err
	}
	sess, created, err = s.create(ctx, c, n)
	if isForeign(err) {
		// The alias exists: the caller accepted a session and was removed from it.
		err = errNoSession(name)
	}
	return sess, created, err
}

// checkNew checks that the caller may create n, and sets its defaults.
func (s *Sessions) checkNew(c chat.Caller, n *chat.NewSession) (err error) {
	if !c.Has(chat.ScopeUser) && !c.Has(chat.ScopeAgent) {
		return chat.Errorf(chat.Denied, "creating a session needs the scope user or agent")
	}
	if err := mayChoose(c, chat.Settings{}, n.Settings); err != nil {
		return err
	}
	if n.Agent == "" {
		n.Agent = s.DefaultAgent()
	}
	n.Metadata, err = compact(n.Metadata)
	return err
}

// setAlias makes name the caller's alias for a session that is created next, and returns
// the id for that session. If the alias exists, setAlias returns its id.
func (s *Sessions) setAlias(ctx context.Context, c chat.Caller, name chat.SessionID) (chat.SessionID, error) {
	return s.log.SetAlias(ctx, c.In(), c.Actor.Key(), string(name), s.newID())
}

// errForeign means that the id belongs to another owner's session.
type errForeign struct {
	seen bool // the caller may see that session
}

func (errForeign) Error() string { return "the id is taken by somebody else's session" }

func isForeign(err error) bool { _, ok := err.(errForeign); return ok }

func (s *Sessions) create(ctx context.Context, c chat.Caller, n chat.NewSession) (sess chat.Session, created bool, err error) {
	if n.ID.System() && c.Actor != chat.System {
		return sess, false, errForeign{}
	}
	return s.begin(ctx, c, n, chat.SessionStarted{
		Agent: n.Agent, Title: n.Title, Metadata: n.Metadata, Workspace: c.In(), Policy: n.Policy, Settings: n.Settings, Members: n.Members, ServedBy: n.ServedBy,
	})
}

// begin stores the first event of a session, or returns the session if the caller has
// created the same one before.
func (s *Sessions) begin(ctx context.Context, c chat.Caller, n chat.NewSession, body chat.SessionStarted) (sess chat.Session, created bool, err error) {
	res, err := s.call(ctx, &call{Method: callCreate, Session: n.ID, Caller: c, New: &n, ServedBy: n.ServedBy, Started: &body})
	if err != nil {
		return chat.Session{}, false, err
	}
	return *res.Session, res.OK, nil
}

func (s *Sessions) beginHere(ctx context.Context, c chat.Caller, n chat.NewSession, body chat.SessionStarted) (sess chat.Session, created bool, err error) {
	draft := chat.NewDraft(body)
	if err := draft.Normalize(); err != nil {
		return sess, false, err
	}
	r := s.acquire(n.ID)
	defer r.release()
	cr := &creating{caller: c, wanted: n, parent: body.Parent, draft: draft}
	if err := r.do(ctx, &request{rules: cr, create: true}); err != nil {
		return chat.Session{}, false, err
	}
	if cr.created {
		s.owners.add(&cr.session, 1)
	}
	return cr.session, cr.created, nil
}

// creating holds the state of one Create call.
type creating struct {
	caller  chat.Caller
	wanted  chat.NewSession
	parent  chat.SessionID
	draft   chat.Draft
	number  chat.Number
	session chat.Session
	created bool
}

func (cr *creating) lookUp(ctx context.Context, r *sequencer) (err error) {
	if r.state == nil {
		if err := r.sessions.mayOwnMore(ctx, cr.caller); err != nil {
			return err
		}
		if err := r.sessions.mayStore(ctx, cr.caller, cr.caller.In(), cr.caller.Actor, int64(size([]chat.Draft{cr.draft}))); err != nil {
			return err
		}
		cr.number, _, err = r.sessions.log.Number(ctx, r.id)
	}
	return err
}

func (cr *creating) decide(d *decision) error {
	if cr.created = d.state == nil; cr.created {
		d.state = &chat.State{Number: cr.number}
		d.add(cr.caller.Actor, cr.draft, "")
	} else if err := sameSession(cr.caller, cr.wanted, cr.parent, &d.state.Session); err != nil {
		return err
	}
	cr.session = d.state.Session
	return nil
}

// sameSession returns an error if the existing session differs from the wanted one.
func sameSession(c chat.Caller, n chat.NewSession, parent chat.SessionID, have *chat.Session) error {
	if !createdBy(c, have) {
		return errForeign{seen: c.RoleIn(have) != ""}
	}
	if have.Parent == parent && have.Agent == n.Agent && have.Title == n.Title &&
		json.Same(have.Metadata, n.Metadata) && have.Policy == cmp.Or(n.Policy, chat.Queue) && have.Settings.Same(&n.Settings) && slices.Equal(have.Members, n.Members) {
		return nil
	}
	return errTaken(n.ID)
}

// maxForeign is the maximum length in bytes of a client's id for a session.
const maxForeign = 1024

// Ensure returns the session that an id chosen by a client refers to, as Own does, or
// creates it. If the id belongs to a session that the caller neither created nor
// accepted, the new session gets another id, and the wanted id becomes the caller's alias
// for it.
func (s *Sessions) Ensure(ctx context.Context, c chat.Caller, foreign string, n chat.NewSession) (sess chat.Session, created bool, err error) {
	if foreign == "" || len(foreign) > maxForeign {
		return sess, false, chat.Errorf(chat.Invalid, "the id of a conversation has 1 to %d bytes", maxForeign)
	}
	if sess, err = s.Own(ctx, c, foreign); chat.CodeOf(err) != chat.NotFound {
		return sess, false, err
	}
	if err = s.checkNew(c, &n); err != nil {
		return sess, false, err
	}
	name := chat.SessionID(foreign)
	_, aliased, err := s.resolve(ctx, c, name)
	if err != nil {
		return sess, false, err
	}
	taken := true
	if !aliased && name.Validate() == nil {
		n.ID = name
		sess, created, err = s.create(ctx, c, n)
		taken = isForeign(err)
	}
	if taken {
		sess, created, err = s.createAliased(ctx, c, name, n)
	}
	if chat.CodeOf(err) == chat.Conflict {
		// Another request of the caller has just created it, with another title or agent.
		sess, err = s.Own(ctx, c, foreign)
	}
	return sess, created, err
}

// Update changes the fields of the session that are set in u; it needs the role owner.
// Only the server may set ServedBy and Detached.
func (s *Sessions) Update(ctx context.Context, c chat.Caller, id chat.SessionID, u chat.SessionUpdated) (chat.Session, error) {
	return s.update(ctx, &call{Method: callUpdate, Session: id, Caller: c, Update: &u})
}

// UpdateFrom is Update for a change that was decided on what a session has. It is refused with the reason SessionChanged if
// the metadata or the settings are others by now.
func (s *Sessions) UpdateFrom(ctx context.Context, c chat.Caller, from chat.Session, u chat.SessionUpdated) (chat.Session, error) {
	return s.update(ctx, &call{Method: callUpdate, Session: from.ID, Caller: c, Update: &u, From: &from})
}

func (s *Sessions) update(ctx context.Context, q *call) (chat.Session, error) {
	res, err := s.call(ctx, q)
	if err != nil {
		return chat.Session{}, err
	}
	return *res.Session, nil
}

func (s *Sessions) updateHere(ctx context.Context, c chat.Caller, id chat.SessionID, u chat.SessionUpdated, from *chat.Session) (chat.Session, error) {
	var err error
	if (u.ServedBy != nil || u.Detached) && c.Actor != chat.System {
		return chat.Session{}, chat.Errorf(chat.Denied, "only the server writes served_by and detached")
	}
	if u.Metadata, err = compact(u.Metadata); err != nil {
		return chat.Session{}, err
	}
	draft := chat.NewDraft(u)
	if err := draft.Normalize(); err != nil {
		return chat.Session{}, err
	}
	r, err := s.acquireFor(ctx, c, id)
	if err != nil {
		return chat.Session{}, err
	}
	defer r.release()
	if cached := r.session.Load(); cached != nil {
		if err := s.mayStore(ctx, c, cached.Workspace, cached.Owner, int64(size([]chat.Draft{draft}))); err != nil {
			return chat.Session{}, err
		}
	}
	var sess chat.Session
	err = r.do(ctx, &request{rules: op(func(d *decision) error {
		if err := c.May(&d.state.Session, chat.Owner); err != nil {
			return err
		}
		if now := &d.state.Session; from != nil && (!json.Same(from.Metadata, now.Metadata) || !from.Settings.Same(&now.Settings)) {
			return chat.Errorf(chat.Conflict, "the metadata or the settings of the session have changed meanwhile; look at them again").WithReason(chat.SessionChanged)
		}
		if u.Settings != nil {
			if err := mayChoose(c, d.state.Session.Settings, *u.Settings); err != nil {
				return err
			}
		}
		d.add(c.Actor, draft, "")
		d.members = d.members || u.Members != nil || u.Agent != nil
		sess = d.state.Session
		return nil
	})})
	if err != nil {
		return chat.Session{}, err
	}
	return sess, nil
}

// compact removes white space from metadata, as the log does, so that the state in memory
// is equal to the state that is read after a restart.
func compact(metadata json.RawMessage) (json.RawMessage, error) {
	if len(metadata) == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, metadata); err != nil {
		return nil, chat.Errorf(chat.Invalid, "metadata is not valid JSON").Because(err)
	}
	return b.Bytes(), nil
}
