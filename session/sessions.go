package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
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
	if err := mayChoose(c, chat.Settings{}, n.Settings); err != nil {
		return sess, false, err
	}
	if n.Agent == "" {
		n.Agent = s.DefaultAgent()
	}
	if n.Metadata, err = compact(n.Metadata); err != nil {
		return sess, false, err
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
	if n.ID.System() && c.Actor != chat.System {
		return sess, false, errForeign{}
	}
	return s.begin(ctx, c, n, chat.SessionStarted{
		Agent: n.Agent, Title: n.Title, Metadata: n.Metadata, Workspace: c.In(), Policy: n.Policy, Settings: n.Settings, Members: n.Members, ServedBy: n.ServedBy,
	})
}

func (s *Sessions) begin(ctx context.Context, c chat.Caller, n chat.NewSession, body chat.SessionStarted) (sess chat.Session, created bool, err error) {
	draft := chat.NewDraft(body)
	if err := draft.Settle(); err != nil {
		return sess, false, err
	}
	r := s.room(n.ID)
	defer r.leave()
	cr := &creating{caller: c, wanted: n, parent: body.Parent, draft: draft}
	if err := r.do(ctx, &request{rules: cr, create: true}); err != nil {
		return chat.Session{}, false, err
	}
	return cr.session, cr.created, nil
}

// creating is a Create under way.
type creating struct {
	caller  chat.Caller
	wanted  chat.NewSession
	parent  chat.SessionID
	draft   chat.Draft
	number  chat.Number
	session chat.Session
	created bool
}

func (cr *creating) lookUp(ctx context.Context, r *room) (err error) {
	if r.state == nil {
		cr.number, _, err = r.home.log.Number(ctx, r.id)
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

// sameSession reports why the session that is there cannot be taken for the one
// that is wanted.
func sameSession(c chat.Caller, n chat.NewSession, parent chat.SessionID, have *chat.Session) error {
	if c.RoleIn(have) == "" {
		return errForeign{}
	}
	policy := n.Policy
	if policy == "" {
		policy = chat.Queue
	}
	if have.Parent == parent && have.Owner.Same(c.Actor) && have.Workspace == c.In() && have.Agent == n.Agent && have.Title == n.Title &&
		bytes.Equal(have.Metadata, n.Metadata) && have.Policy == policy && have.Settings.Same(&n.Settings) && slices.Equal(have.Members, n.Members) {
		return nil
	}
	return chat.Errorf(chat.Conflict, "there is a session %q already; choose another id, or leave it out", string(n.ID)).With("session_id", n.ID)
}

// MaxForeign bounds the ids that dialects have for sessions, in bytes.
const MaxForeign = 1024

// Ensure finds the session that a dialect's own id stands for, or begins it.
func (s *Sessions) Ensure(ctx context.Context, c chat.Caller, foreign string, n chat.NewSession) (sess chat.Session, created bool, err error) {
	if foreign == "" || len(foreign) > MaxForeign {
		return sess, false, chat.Errorf(chat.Invalid, "the id of a conversation has 1 to %d bytes", MaxForeign)
	}
	if sess, err := s.Get(ctx, c, chat.SessionID(foreign)); chat.CodeOf(err) != chat.NotFound {
		return sess, false, err
	}
	if chat.SessionID(foreign).Validate() == nil {
		n.ID = chat.SessionID(foreign)
	} else if n.ID, err = s.log.SetAlias(ctx, c.In(), c.Actor.Key(), foreign, s.NewID()); err != nil {
		return sess, false, err
	}
	sess, created, err = s.Create(ctx, c, n)
	if chat.CodeOf(err) == chat.Conflict { // somebody began it meanwhile, with other words
		sess, err = s.Get(ctx, c, chat.SessionID(foreign))
		return sess, false, err
	}
	return sess, created, err
}

// Update changes what is named in u; it needs the role owner. Which agent's
// sidecar answers is for the server to say.
func (s *Sessions) Update(ctx context.Context, c chat.Caller, id chat.SessionID, u chat.SessionUpdated) (chat.Session, error) {
	var err error
	if (u.ServedBy != nil || u.Detached) && c.Actor != chat.System {
		return chat.Session{}, chat.Errorf(chat.Denied, "only the server writes served_by and detached")
	}
	if u.Metadata, err = compact(u.Metadata); err != nil {
		return chat.Session{}, err
	}
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
	err = r.do(ctx, &request{rules: op(func(d *decision) error {
		if err := c.May(&d.state.Session, chat.Owner); err != nil {
			return err
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

// compact writes metadata as it will stand in the log, so that what is in memory
// does not differ from what is read after a restart.
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
