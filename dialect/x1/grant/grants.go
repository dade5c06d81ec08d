package grant

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/parley-hq/parley/chat"
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

	mu    sync.Mutex
	books map[string]*grants
}

// grants are those of one workspace.
type grants struct {
	book
	byID map[string]*Grant
	list []*Grant // in the order in which they were created
}

// NewGrants returns the grants in the log.
func NewGrants(s sessions) *Grants { return &Grants{sessions: s, books: map[string]*grants{}} }

// open returns a workspace's grants, up to date and locked.
func (gs *Grants) open(ctx context.Context, workspace string) (*grants, error) {
	gs.mu.Lock()
	b := gs.books[workspace]
	if b == nil {
		c := chat.Trusted
		c.Workspace = workspace
		b = &grants{book: book{sessions: gs.sessions, id: bookID("sys-grants", workspace), caller: c, title: "Permissions"}, byID: map[string]*Grant{}}
		b.apply = b.applied
		gs.books[workspace] = b
	}
	gs.mu.Unlock()
	b.mu.Lock()
	if err := b.update(ctx); err != nil {
		b.mu.Unlock()
		return nil, err
	}
	return b, nil
}

// applied follows the log.
func (b *grants) applied(e *chat.Event) {
	switch e.Type {
	case createdType:
		var g Grant
		if json.Unmarshal(e.Payload, &g) != nil {
			return
		}
		g.ID, g.CreatedAt, g.Workspace = string(e.ID), e.At, b.caller.In()
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
	if c.Actor.Kind != chat.User || !c.Has(chat.ScopeUser) {
		return Grant{}, chat.Errorf(chat.Denied, "only people may grant something; ask one, with a permission request")
	}
	g = Grant{User: g.User, Agent: g.Agent, Type: g.Type, Details: g.Details, Scope: g.Scope, Session: g.Session, Reason: g.Reason, Request: g.Request}
	g.By = chat.Actor{Kind: c.Actor.Kind, ID: c.Actor.ID, Name: c.Actor.Name}
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
	b, err := gs.open(ctx, workspace)
	if err != nil {
		return Grant{}, err
	}
	defer b.mu.Unlock()
	if key != "" {
		key = "new:" + c.Actor.Key() + ":" + key
	}
	return b.create(ctx, g, key)
}

// mayDecide reports why the caller has no say in a session.
func (gs *Grants) mayDecide(ctx context.Context, c chat.Caller, id chat.SessionID) error {
	sess, err := gs.sessions.Get(ctx, c, id)
	if err != nil {
		return err
	}
	return c.May(&sess, chat.Answerer)
}

func (b *grants) create(ctx context.Context, g Grant, key string) (Grant, error) {
	e, err := b.write(ctx, createdType, g, key)
	if err != nil {
		return Grant{}, err
	}
	if b.byID[string(e.ID)] == nil {
		return Grant{}, fmt.Errorf("grant %s is not in its book", e.ID)
	}
	return *b.byID[string(e.ID)], nil
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
		if err := gs.reconcile(ctx, q.Session); err != nil {
			return nil, err
		}
	}
	b, err := gs.open(ctx, workspace)
	if err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	out := []Grant{}
	for _, g := range b.list {
		if (q.All || g.active()) && (q.User == "" || q.User == g.User) && (q.Agent == "" || q.Agent == g.Agent) &&
			(q.Type == "" || q.Type == g.Type) && (q.Session == "" || q.Session == g.Session) {
			out = append(out, *g)
		}
	}
	return out, nil
}

// Revoke ends a grant; it stays in the books. Who gave it may, and administrators.
func (gs *Grants) Revoke(ctx context.Context, c chat.Caller, workspace, id string) (Grant, error) {
	if err := enters(c, workspace); err != nil {
		return Grant{}, err
	}
	b, err := gs.open(ctx, workspace)
	if err != nil {
		return Grant{}, err
	}
	defer b.mu.Unlock()
	g := b.byID[id]
	if g == nil {
		return Grant{}, chat.Errorf(chat.NotFound, "there is no grant %q in this workspace", clip(id))
	}
	if c.Actor.Kind != chat.User || !g.By.Same(c.Actor) && !c.Has(chat.ScopeAdmin) {
		return Grant{}, chat.Errorf(chat.Denied, "a grant is revoked by who gave it, or by an administrator")
	}
	if g.RevokedBy == nil {
		if _, err := b.write(ctx, revokedType, map[string]any{"grant_id": id, "by": c.Actor}, "revoke:"+id); err != nil && chat.CodeOf(err) != chat.Conflict {
			return Grant{}, err
		}
	}
	return *b.byID[id], nil
}

// Use finds a grant that allows what is asked for, and writes down that it was
// used. One of scope once is consumed: of several that ask at the same time one
// gets it. Asking again with the same call gives the same grant.
func (gs *Grants) Use(ctx context.Context, c chat.Caller, workspace string, a Ask) (Grant, error) {
	if err := enters(c, workspace); err != nil {
		return Grant{}, err
	}
	if a.Session != "" {
		sess, err := gs.sessions.Get(ctx, c, a.Session)
		if err != nil {
			return Grant{}, err
		}
		if sess.Workspace != workspace {
			return Grant{}, chat.Errorf(chat.NotFound, "there is no session %q in this workspace", clip(string(a.Session)))
		}
		if a.Agent == "" {
			a.Agent = agentOf(&sess)
		}
		if a.User == "" {
			a.User = sess.Owner.ID
		}
		if err := gs.reconcile(ctx, a.Session); err != nil {
			return Grant{}, err
		}
	}
	b, err := gs.open(ctx, workspace)
	if err != nil {
		return Grant{}, err
	}
	defer b.mu.Unlock()
	for {
		var best *Grant
		for _, g := range b.list {
			if g.Used != nil && g.RevokedBy == nil && a.Call != "" && g.Used.Call == a.Call && g.Used.Session == a.Session && g.covers(&a) {
				return *g, nil // asked for again
			}
			// A grant that lasts is better than one that is used up.
			if g.active() && g.covers(&a) && (best == nil || best.Scope == Once && g.Scope != Once) {
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
		return *b.byID[best.ID], nil
	}
}

// reconcile makes grants of decisions in a session that have none yet, such as
// after a crash.
func (gs *Grants) reconcile(ctx context.Context, id chat.SessionID) error {
	for after := chat.Seq(0); ; {
		facts, more, err := gs.sessions.Read(ctx, chat.Trusted, id, chat.Range{After: after, Limit: 500, Types: []string{chat.UserPermissionResponse{}.Type()}})
		if err != nil {
			return err
		}
		for _, f := range facts {
			e, err := f.Event()
			if err != nil {
				return err
			}
			after = e.Seq
			if _, err := gs.Decided(ctx, &e, ""); err != nil && chat.CodeOf(err) != chat.NotFound {
				return err
			}
		}
		if !more || len(facts) == 0 {
			return nil
		}
	}
}

// enters reports why the caller has no business in a workspace.
func enters(c chat.Caller, workspace string) error {
	if c.In() != workspace && !c.Has(chat.ScopeAdmin) {
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
