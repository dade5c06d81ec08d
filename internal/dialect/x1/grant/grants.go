package grant

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Types of the events in sys-grants.
const (
	createdType = "grant.created"
	revokedType = "grant.revoked"
	usedType    = "grant.used"
)

// Grants keeps the grants of all workspaces.
type Grants struct {
	sessions sessions
	books    books[*grants]
	follow   follower // decisions
}

// grants are those of one workspace.
type grants struct {
	workspace string
	byID      map[string]*Grant
	list      []*Grant // in the order in which they were created
}

// NewGrants returns the grants in the log.
func NewGrants(s sessions) *Grants {
	gs := &Grants{sessions: s, books: books[*grants]{sessions: s, name: "sys-grants", title: "Permissions", empty: func(workspace string) *grants {
		return &grants{workspace: workspace, byID: map[string]*Grant{}}
	}}}
	gs.follow = follower{sessions: s, typ: chat.UserPermissionResponse{}.Type(), take: func(ctx context.Context, e *chat.Event) error {
		_, err := gs.Decided(ctx, e, "")
		if chat.CodeOf(err) == chat.NotFound {
			return nil // what was asked is not in the log
		}
		return err
	}}
	return gs
}

// apply follows the log.
func (b *grants) apply(e *chat.Event) {
	switch e.Type {
	case createdType:
		var g Grant
		if json.Unmarshal(e.Payload, &g) != nil {
			return
		}
		g.ID, g.CreatedAt, g.Workspace = string(e.ID), e.At, b.workspace
		b.byID[g.ID] = &g
		b.list = append(b.list, &g)
	case revokedType:
		var r struct {
			Grant string     `json:"grant_id"`
			By    chat.Actor `json:"by"`
		}
		if json.Unmarshal(e.Payload, &r) == nil && b.byID[r.Grant] != nil && b.byID[r.Grant].RevokedBy == nil {
			b.byID[r.Grant].RevokedBy, b.byID[r.Grant].RevokedAt = &r.By, e.At
		}
	case usedType:
		var u Use
		if json.Unmarshal(e.Payload, &u) == nil && b.byID[u.Grant] != nil {
			if u.At = e.At; b.byID[u.Grant].Scope == Once {
				b.byID[u.Grant].Used = &u
			}
		}
	}
}

// Create stores a grant of the caller. Only people may. With a request_id it
// decides that permission request first, as the caller's answer.
func (gs *Grants) Create(ctx context.Context, c chat.Caller, workspace string, g Grant, key string) (Grant, error) {
	if err := enters(c, workspace); err != nil {
		return Grant{}, err
	}
	if c.Actor.Kind != chat.User || !c.Person() {
		return Grant{}, chat.Errorf(chat.Denied, "only people may grant something; ask one, with a permission request")
	}
	g = Grant{User: g.User, Agent: g.Agent, Type: g.Type, Details: g.Details, Scope: g.Scope, Session: g.Session, Reason: g.Reason, Request: g.Request}
	g.By = chat.Actor{Kind: c.Actor.Kind, ID: c.Actor.ID, Name: c.Actor.Name}
	g.Wide = c.Administers(workspace)
	if g.Request != "" {
		return gs.decide(ctx, c, workspace, g)
	}
	if err := g.check(); err != nil {
		return Grant{}, err
	}
	if g.Session != "" {
		if err := gs.mayDecide(ctx, c, g.Session); err != nil {
			return Grant{}, err
		}
	}
	b, err := gs.books.open(ctx, workspace)
	if err != nil {
		return Grant{}, err
	}
	defer b.mu.Unlock()
	if key != "" {
		key = "new:" + c.Actor.Key() + ":" + key
	}
	return create(ctx, b, g, key)
}

// mayDecide reports why the caller has no say in a session.
func (gs *Grants) mayDecide(ctx context.Context, c chat.Caller, id chat.SessionID) error {
	sess, err := gs.sessions.Get(ctx, c, id)
	if err != nil {
		return err
	}
	return c.May(&sess, chat.Answerer)
}

func create(ctx context.Context, b *book[*grants], g Grant, key string) (Grant, error) {
	e, err := b.write(ctx, createdType, g, key)
	if err != nil {
		return Grant{}, err
	}
	if b.has.byID[string(e.ID)] == nil {
		return Grant{}, fmt.Errorf("grant %s is not in its book", e.ID)
	}
	return *b.has.byID[string(e.ID)], nil
}

// Query narrows a list of grants.
type Query struct {
	User, Agent, Type string
	Session           chat.SessionID
	All               bool // also those that were revoked or used up
}

// List returns grants of a workspace, the oldest first.
func (gs *Grants) List(ctx context.Context, c chat.Caller, workspace string, q Query) ([]Grant, error) {
	if err := enters(c, workspace); err != nil {
		return nil, err
	}
	if q.Session != "" {
		if _, err := gs.sessions.Get(ctx, c, q.Session); err != nil {
			return nil, err
		}
		if err := gs.follow.catchUp(ctx, q.Session); err != nil {
			return nil, err
		}
	}
	b, err := gs.books.open(ctx, workspace)
	if err != nil {
		return nil, err
	}
	out := []Grant{}
	for _, g := range b.has.list {
		if (q.All || g.active()) && (q.User == "" || q.User == g.User) && (q.Agent == "" || q.Agent == g.Agent) &&
			(q.Type == "" || q.Type == g.Type) && (q.Session == "" || q.Session == g.Session) {
			out = append(out, *g)
		}
	}
	b.mu.Unlock()
	return slices.DeleteFunc(out, func(g Grant) bool { return !gs.sees(ctx, c, workspace, &g) }), nil
}

// sees reports whether a grant is any of the caller's business: it names sessions
// and reasons.
func (gs *Grants) sees(ctx context.Context, c chat.Caller, workspace string, g *Grant) bool {
	if c.Administers(workspace) || g.By.Same(c.Actor) || g.User != "" && g.User == c.Actor.ID && c.Actor.Kind == chat.User {
		return true
	}
	if g.Session == "" {
		return false
	}
	_, err := gs.sessions.Get(ctx, c, g.Session)
	return err == nil
}

// Revoke ends a grant; it stays in the books. Who gave it may, and administrators.
func (gs *Grants) Revoke(ctx context.Context, c chat.Caller, workspace, id string) (Grant, error) {
	if err := enters(c, workspace); err != nil {
		return Grant{}, err
	}
	b, err := gs.books.open(ctx, workspace)
	if err != nil {
		return Grant{}, err
	}
	defer b.mu.Unlock()
	g := b.has.byID[id]
	if g == nil || !gs.sees(ctx, c, workspace, g) {
		return Grant{}, chat.Errorf(chat.NotFound, "there is no grant %q in this workspace", clip(id))
	}
	if c.Actor.Kind != chat.User || !c.Person() || !g.By.Same(c.Actor) && !c.Administers(workspace) {
		return Grant{}, chat.Errorf(chat.Denied, "a grant is revoked by who gave it, or by an administrator")
	}
	if g.RevokedBy == nil {
		if _, err := b.write(ctx, revokedType, map[string]any{"grant_id": id, "by": c.Actor}, "revoke:"+id); err != nil && chat.CodeOf(err) != chat.Conflict {
			return Grant{}, err
		}
	}
	return *b.has.byID[id], nil
}

// Use finds a grant that allows what is asked for, and writes down that it was
// used. One of scope once is consumed: of several that ask at the same time one
// gets it. Asking again with the same call gives the same grant. A grant holds in
// the sessions in which its giver has a say, that of an administrator in all.
func (gs *Grants) Use(ctx context.Context, c chat.Caller, workspace string, a Ask) (Grant, error) {
	if err := enters(c, workspace); err != nil {
		return Grant{}, err
	}
	holds := func(*Grant) bool { return true }
	if a.Session != "" {
		sess, err := gs.sessions.Get(ctx, c, a.Session)
		if err == nil {
			err = c.May(&sess, chat.Answerer)
		}
		if err != nil {
			return Grant{}, err
		}
		holds = func(g *Grant) bool {
			return g.Wide || g.Session == sess.ID || sess.RoleOf(g.By).Includes(chat.Answerer)
		}
		if sess.Workspace != workspace {
			return Grant{}, chat.Errorf(chat.NotFound, "there is no session %q in this workspace", clip(string(a.Session)))
		}
		if err := a.in(&sess); err != nil {
			return Grant{}, err
		}
		if err := gs.follow.catchUp(ctx, a.Session); err != nil {
			return Grant{}, err
		}
	}
	b, err := gs.books.open(ctx, workspace)
	if err != nil {
		return Grant{}, err
	}
	defer b.mu.Unlock()
	for {
		var best *Grant
		for _, g := range b.has.list {
			if g.Used != nil && g.RevokedBy == nil && a.Call != "" && g.Used.Call == a.Call && g.Used.Session == a.Session && g.covers(&a) {
				return *g, nil // asked for again
			}
			// A grant that lasts is better than one that is used up.
			if g.active() && g.covers(&a) && holds(g) && (best == nil || best.Scope == Once && g.Scope != Once) {
				best = g
			}
		}
		if best == nil {
			return Grant{}, chat.Errorf(chat.Denied, "nobody has granted that; ask a person with a permission request").With("grant_type", a.Type)
		}
		use := Use{Grant: best.ID, Session: a.Session, Call: a.Call, By: c.Actor}
		key := ""
		if best.Scope == Once {
			key = "use:" + best.ID // there can be only one
		}
		_, err := b.write(ctx, usedType, use, key)
		if chat.CodeOf(err) == chat.Conflict {
			if err := b.update(ctx); err != nil {
				return Grant{}, err
			}
			if best.active() {
				return Grant{}, fmt.Errorf("grant %s is used and is not: %w", best.ID, err)
			}
			continue // another server was faster
		}
		if err != nil {
			return Grant{}, err
		}
		return *b.has.byID[best.ID], nil
	}
}

// in completes the question of somebody in a session. A grant is for the agents of
// the session or for its owner, so nobody asks there in another name.
func (a *Ask) in(s *chat.Session) error {
	agent := agentOf(s)
	switch {
	case a.Agent == "":
		a.Agent = agent
	case a.Agent != agent && !slices.Contains(s.Agents, a.Agent):
		return chat.Errorf(chat.Denied, "agent_id %q is not an agent of this session; leave it out", clip(a.Agent))
	}
	switch {
	case a.User == "":
		a.User = s.Owner.ID
	case a.User != s.Owner.ID:
		return chat.Errorf(chat.Denied, "user_id %q is not the owner of this session; leave it out", clip(a.User))
	}
	return nil
}

// enters reports why the caller has no business in a workspace.
func enters(c chat.Caller, workspace string) error {
	if c.In() != workspace && !c.Administers(workspace) {
		return chat.Errorf(chat.NotFound, "there is no workspace %q, or it is not yours", clip(workspace))
	}
	if err := chat.SessionID(workspace).Validate(); err != nil {
		return chat.Errorf(chat.Invalid, "%q cannot be a workspace", clip(workspace))
	}
	return nil
}

func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:77], "") + "…"
	}
	return s
}
