package grant

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/record"
	"github.com/parley-hq/parley/internal/text"
)

// Types of the events in sys-grants.
const (
	grantCreated = "grant.created"
	grantRevoked = "grant.revoked"
	grantUsed    = "grant.used"
)

// grants are the grants of one workspace.
type grants struct {
	workspace string
	byID      map[string]*Grant
	list      []*Grant // by creation
}

func newGrants(workspace string) *grants {
	return &grants{workspace: workspace, byID: map[string]*Grant{}}
}

func grantsIn(workspace string) record.Name {
	return record.InWorkspace("sys-grants", "Permissions", workspace)
}

// Apply changes the grants as an event of the log says.
func (gs *grants) Apply(e *chat.Event) {
	switch e.Type {
	case grantCreated:
		var g Grant
		if json.Unmarshal(e.Payload, &g) != nil {
			return
		}
		g.ID, g.CreatedAt, g.Workspace = string(e.ID), e.At, gs.workspace
		gs.byID[g.ID] = &g
		gs.list = append(gs.list, &g)
	case grantRevoked:
		var r struct {
			Grant string     `json:"grant_id"`
			By    chat.Actor `json:"by"`
		}
		if json.Unmarshal(e.Payload, &r) != nil {
			return
		}
		if g := gs.byID[r.Grant]; g != nil && g.RevokedBy == nil {
			g.RevokedBy, g.RevokedAt = &r.By, e.At
		}
	case grantUsed:
		var u Use
		if json.Unmarshal(e.Payload, &u) != nil {
			return
		}
		if g := gs.byID[u.Grant]; g != nil && g.Scope == Once {
			u.At = e.At
			g.Used = &u
		}
	}
}

// createGrant stores a grant of the caller, who must be a person. With a request_id it answers that permission request
// first.
func (s *Service) createGrant(r request) (int, any, error) {
	ctx, c := r.Context(), r.caller
	body, err := s.http.Body(r.Request)
	if err != nil {
		return 0, nil, err
	}
	var in Grant
	if err := json.Unmarshal(body, &in); err != nil {
		return 0, nil, chat.Errorf(chat.Invalid, "a grant is {user_id or agent_id, grant_type, details, scope, session_id, reason, request_id}").Because(err)
	}
	if c.Actor.Kind != chat.User || !c.Person() {
		return 0, nil, chat.Errorf(chat.Denied, "only people may grant something; ask a person, with a permission request")
	}
	g := Grant{
		User: in.User, Agent: in.Agent, Type: in.Type, Details: in.Details, Scope: in.Scope, Reason: in.Reason, Request: in.Request,
		By: nameOf(c.Actor), Wide: c.Administers(r.workspace),
	}
	if g.Session, err = s.sessions.Resolve(ctx, c, in.Session); err != nil {
		return 0, nil, err
	}
	if g.Request != "" {
		g, err = s.answerRequest(ctx, c, g)
		return http.StatusCreated, g, err
	}
	if err := g.check(); err != nil {
		return 0, nil, err
	}
	if g.Session != "" {
		sess, err := s.sessions.Get(ctx, c, g.Session)
		if err == nil {
			err = c.May(&sess, chat.Answerer)
		}
		if err != nil {
			return 0, nil, err
		}
	}
	key := r.Header.Get("Idempotency-Key")
	if key != "" {
		key = "new:" + c.Actor.Key() + ":" + key
	}
	var made Grant
	err = s.grants.Change(ctx, grantsIn(r.workspace), func(tx *record.Tx[*grants]) (err error) {
		made, err = create(ctx, tx, g, key)
		return err
	})
	return http.StatusCreated, made, err
}

func create(ctx context.Context, tx *record.Tx[*grants], g Grant, key string) (Grant, error) {
	e, err := tx.Append(ctx, grantCreated, g, key)
	if err != nil {
		return Grant{}, err
	}
	made := tx.Value.byID[string(e.ID)]
	if made == nil {
		return Grant{}, fmt.Errorf("grant %s was stored but cannot be read", e.ID)
	}
	return *made, nil
}

// Query narrows a list of grants.
type Query struct {
	User, Agent, Type string
	Session           chat.SessionID
	All               bool // also those that were revoked or used up
}

// ListGrants returns the grants of a workspace that the caller may see, the oldest first.
func (s *Service) ListGrants(ctx context.Context, c chat.Caller, workspace string, q Query) ([]Grant, error) {
	if err := mayEnter(c, workspace); err != nil {
		return nil, err
	}
	if q.Session != "" {
		if _, err := s.sessions.Get(ctx, c, q.Session); err != nil {
			return nil, err
		}
		if err := s.decisions.run(ctx, q.Session); err != nil {
			return nil, err
		}
	}
	list := []Grant{}
	err := s.grants.View(ctx, grantsIn(workspace), func(gs *grants) error {
		for _, g := range gs.list {
			if (q.All || g.active()) && (q.User == "" || q.User == g.User) && (q.Agent == "" || q.Agent == g.Agent) &&
				(q.Type == "" || q.Type == g.Type) && (q.Session == "" || q.Session == g.Session) {
				list = append(list, *g)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(g Grant) bool { return !s.visible(ctx, c, workspace, &g) }), nil
}

// visible reports whether the caller may see a grant, which names sessions and reasons.
func (s *Service) visible(ctx context.Context, c chat.Caller, workspace string, g *Grant) bool {
	if c.Administers(workspace) || g.By.Same(c.Actor) || g.User != "" && g.User == c.Actor.ID && c.Actor.Kind == chat.User {
		return true
	}
	if g.Session == "" {
		return false
	}
	_, err := s.sessions.Get(ctx, c, g.Session)
	return err == nil
}

// revokeGrant ends a grant. The person who gave it may do so, and administrators. It stays in the log.
func (s *Service) revokeGrant(r request) (int, any, error) {
	ctx, c, id := r.Context(), r.caller, r.PathValue("grant")
	var revoked Grant
	err := s.grants.Change(ctx, grantsIn(r.workspace), func(tx *record.Tx[*grants]) error {
		g := tx.Value.byID[id]
		if g == nil || !s.visible(ctx, c, r.workspace, g) {
			return chat.Errorf(chat.NotFound, "there is no grant %q in this workspace", text.Clip(id, 80))
		}
		if c.Actor.Kind != chat.User || !c.Person() || !g.By.Same(c.Actor) && !c.Administers(r.workspace) {
			return chat.Errorf(chat.Denied, "a grant is revoked by the person who gave it, or by an administrator")
		}
		if g.RevokedBy == nil {
			if _, err := tx.Append(ctx, grantRevoked, map[string]any{"grant_id": id, "by": c.Actor}, "revoke:"+id); err != nil {
				return err
			}
		}
		revoked = *g
		return nil
	})
	return http.StatusOK, revoked, err
}

// UseGrant finds a grant that allows what is asked for, and records the use. A grant of scope once is consumed: of
// several callers at the same time one gets it. The same call_id again gets the same grant.
func (s *Service) UseGrant(ctx context.Context, c chat.Caller, workspace string, a Ask) (Grant, error) {
	if err := mayEnter(c, workspace); err != nil {
		return Grant{}, err
	}
	holds := func(*Grant) bool { return true }
	if a.Session != "" {
		sess, err := s.sessionIn(ctx, c, workspace, a.Session)
		if err == nil {
			err = c.May(&sess, chat.Answerer)
		}
		if err == nil {
			err = a.fillIn(&sess)
		}
		if err != nil {
			return Grant{}, err
		}
		a.Session = sess.ID
		if err := s.decisions.run(ctx, sess.ID); err != nil {
			return Grant{}, err
		}
		holds = func(g *Grant) bool {
			return g.Wide || g.Session == sess.ID || sess.RoleOf(g.By).Includes(chat.Answerer)
		}
	}
	var used Grant
	err := s.grants.Change(ctx, grantsIn(workspace), func(tx *record.Tx[*grants]) error {
		g, again := find(tx.Value.list, &a, holds)
		if g == nil {
			return chat.Errorf(chat.Denied, "this is not granted; ask a person with a permission request").With("grant_type", a.Type)
		}
		if !again {
			// Without a key: the same use by another node would be taken for a repetition of this one.
			if _, err := tx.Append(ctx, grantUsed, Use{Grant: g.ID, Session: a.Session, Call: a.Call, By: c.Actor}, ""); err != nil {
				return err
			}
		}
		used = *g
		return nil
	})
	return used, err
}
