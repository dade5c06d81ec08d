package grant

import (
	"cmp"
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/record"
)

// answerRequest answers a permission request as the caller. The grant is made from the stored answer.
func (s *Service) answerRequest(ctx context.Context, c chat.Caller, g Grant) (Grant, error) {
	if g.Session == "" {
		return Grant{}, chat.Errorf(chat.Invalid, "a grant for a request_id needs the session_id")
	}
	duration := map[Scope]string{"": "once", Once: "once", Session: "session", Persistent: "always"}[g.Scope]
	if duration == "" {
		return Grant{}, chat.Errorf(chat.Invalid, "scope is once, session or persistent")
	}
	state, err := s.sessions.State(ctx, c, g.Session)
	if err != nil {
		return Grant{}, err
	}
	granted := []string{}
	if p := state.Prompt(g.Request); p != nil && p.Permission != nil {
		granted = p.Permission.Scopes
	}
	e, err := s.sessions.Answer(ctx, c, g.Session, g.Request, chat.Answer{Granted: &granted, Duration: duration, ClientID: "grant:" + g.Request})
	if err != nil {
		return Grant{}, err
	}
	made, err := s.grantDecision(ctx, &e, g.Reason)
	if err != nil {
		return Grant{}, err
	}
	if made == nil {
		return Grant{}, chat.Errorf(chat.Conflict, "nothing was granted by that answer")
	}
	return *made, nil
}

// grantDecision makes a grant of the answer to a permission request, by any dialect. It may be called again with the same
// event. It returns nil when nothing was granted.
func (s *Service) grantDecision(ctx context.Context, e *chat.Event, reason string) (*Grant, error) {
	body, ok := e.Body.(chat.UserPermissionResponse)
	if !ok || len(body.Granted) == 0 {
		return nil, nil
	}
	sess, err := s.sessions.Get(ctx, chat.Trusted, e.Session)
	if err != nil {
		return nil, err
	}
	if e.Seq <= sess.ForkedAt {
		return nil, nil // it was granted in another session
	}
	request, agent, err := s.permissionRequest(ctx, e.Session, body.RequestID, e.Seq)
	if err != nil {
		return nil, err
	}
	g := Grant{
		Agent: cmp.Or(agentOf(&sess), agent, "agent"), Type: ToolScope, Session: e.Session, Reason: cmp.Or(reason, request.Justification), Request: body.RequestID,
		By: nameOf(e.Actor), Scope: map[string]Scope{"session": Session, "always": Persistent}[body.Duration],
	}
	if slices.Equal(body.Granted, []string{Spawn}) {
		g.Type, g.Details = Spawn, request.Params
	} else if g.Details, err = json.Marshal(map[string]any{"scopes": body.Granted}); err != nil {
		return nil, err
	}
	if g.Scope == "" {
		g.Scope = Once
		if g.Type != Spawn { // the details of a spawn are the call
			g.Call = callHash(request.Tool, request.Params)
		}
	}
	var made Grant
	err = s.grants.Change(ctx, grantsIn(sess.Workspace), func(tx *record.Tx[*grants]) (err error) {
		for _, have := range tx.Value.list {
			if have.Session == e.Session && have.Request == body.RequestID {
				made = *have
				return nil
			}
		}
		made, err = create(ctx, tx, g, "decided:"+string(e.ID))
		return err
	})
	if err != nil {
		return nil, err
	}
	return &made, nil
}

// permissionRequest finds a permission request before an event, and the agent that asked.
func (s *Service) permissionRequest(ctx context.Context, id chat.SessionID, request string, before chat.Seq) (body chat.AgentPermissionRequest, agent string, err error) {
	for e, err := range s.sessions.Events(ctx, chat.Trusted, id, chat.Range{Before: before, Desc: true, Types: []string{body.Type()}}) {
		if err != nil {
			return body, "", err
		}
		if b, ok := e.Body.(chat.AgentPermissionRequest); ok && b.RequestID == request {
			return b, e.Actor.ID, nil
		}
	}
	return body, "", chat.Errorf(chat.NotFound, "the permission request %q is not in the log", request)
}

// agentOf returns the agent of a session, also when a sidecar serves it.
func agentOf(s *chat.Session) string {
	if s.Agent != chat.NoAgent {
		return s.Agent
	}
	return s.ServedBy
}
