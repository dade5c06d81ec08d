package grant

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// decide answers a permission request; the grant is made from the fact.
func (gs *Grants) decide(ctx context.Context, c chat.Caller, workspace string, g Grant) (Grant, error) {
	if g.Session == "" {
		return Grant{}, chat.Errorf(chat.Invalid, "a grant for a request_id needs the session_id")
	}
	duration := map[Scope]string{"": "once", Once: "once", Session: "session", Persistent: "always"}[g.Scope]
	if duration == "" {
		return Grant{}, chat.Errorf(chat.Invalid, "scope is once, session or persistent")
	}
	state, err := gs.sessions.State(ctx, c, g.Session)
	if err != nil {
		return Grant{}, err
	}
	granted := []string{}
	if p := state.Prompt(g.Request); p != nil && p.Permission != nil {
		granted = p.Permission.Scopes
	}
	e, err := gs.sessions.Answer(ctx, c, g.Session, g.Request, chat.Answer{Granted: &granted, Duration: duration, ClientID: "grant:" + g.Request})
	if err != nil {
		return Grant{}, err
	}
	made, err := gs.Decided(ctx, &e, g.Reason)
	if err == nil && made == nil {
		err = chat.Errorf(chat.Conflict, "nothing was granted by that answer")
	}
	if err != nil {
		return Grant{}, err
	}
	return *made, nil
}

// Decided makes a grant of a permission's decision, whatever dialect it came by. It
// may be called again with the same event. It is nil when nothing was granted.
func (gs *Grants) Decided(ctx context.Context, e *chat.Event, reason string) (*Grant, error) {
	body, ok := e.Body.(chat.UserPermissionResponse)
	if !ok || len(body.Granted) == 0 {
		return nil, nil
	}
	sess, err := gs.sessions.Get(ctx, chat.Trusted, e.Session)
	if err != nil {
		return nil, err
	}
	if e.Seq <= sess.ForkedAt {
		return nil, nil // it was granted in another session
	}
	asked, agent, err := gs.request(ctx, e.Session, body.RequestID, e.Seq)
	if err != nil {
		return nil, err
	}
	g := Grant{
		Agent: first(agentOf(&sess), agent, "agent"), Type: ToolScope, Session: e.Session, Reason: first(reason, asked.Justification), Request: body.RequestID,
		By:    chat.Actor{Kind: e.Actor.Kind, ID: e.Actor.ID, Name: e.Actor.Name},
		Scope: map[string]Scope{"session": Session, "always": Persistent}[body.Duration],
	}
	if slices.Equal(body.Granted, []string{Spawn}) {
		g.Type, g.Details = Spawn, asked.Params
	} else if g.Details, err = json.Marshal(map[string]any{"scopes": body.Granted}); err != nil {
		return nil, err
	}
	if g.Scope == "" {
		g.Scope = Once
		if g.Type != Spawn { // whose details are the call
			g.Call = CallHash(asked.Tool, asked.Params)
		}
	}
	b, err := gs.books.open(ctx, sess.Workspace)
	if err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	for _, have := range b.has.list {
		if have.Session == e.Session && have.Request == body.RequestID {
			return have, nil
		}
	}
	made, err := create(ctx, b, g, "decided:"+string(e.ID))
	return &made, err
}

// request finds the permission request that was decided.
func (gs *Grants) request(ctx context.Context, id chat.SessionID, request string, before chat.Seq) (asked chat.AgentPermissionRequest, agent string, err error) {
	for {
		facts, more, err := gs.sessions.Read(ctx, chat.Trusted, id, chat.Range{Before: before, Limit: 200, Desc: true, Types: []string{asked.Type()}})
		if err != nil {
			return asked, "", err
		}
		for _, f := range facts {
			e, err := f.Event()
			if err != nil {
				return asked, "", err
			}
			if b, ok := e.Body.(chat.AgentPermissionRequest); ok && b.RequestID == request {
				return b, e.Actor.ID, nil
			}
			before = e.Seq
		}
		if !more || len(facts) == 0 {
			return asked, "", chat.Errorf(chat.NotFound, "the permission request %q is not in the log", request)
		}
	}
}

// agentOf is the agent of a session, also of one that a sidecar attends.
func agentOf(s *chat.Session) string {
	if s.Agent != chat.NoAgent {
		return s.Agent
	}
	return s.ServedBy
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}
