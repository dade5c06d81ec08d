package session

import (
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// roleOf returns what the caller may do in the session, "" for nothing.
func roleOf(c chat.Caller, s *chat.Session) chat.Role {
	switch system := s.ID.System(); {
	case system && c.Actor != chat.System:
		if c.Has(chat.ScopeAdmin) {
			return chat.Viewer
		}
		return ""
	case c.Has(chat.ScopeAdmin):
		return chat.Owner
	}
	if c.In() != s.Workspace {
		return ""
	}
	if r := s.RoleOf(c.Actor); r != "" {
		return r
	}
	// An agent works in the sessions that name it.
	if c.Has(chat.ScopeAgent) && (c.Actor.ID == s.Agent || slices.Contains(s.Agents, c.Actor.ID)) {
		return chat.Answerer
	}
	return ""
}

// errNoSession is the same whether there is no session or the caller may not
// know of it.
func errNoSession(id chat.SessionID) error {
	return chat.Errorf(chat.NotFound, "there is no session %q, or it is not yours", string(id))
}

// allow reports why the caller may not do what needs want.
func allow(c chat.Caller, s *chat.Session, want chat.Role) error {
	role := roleOf(c, s)
	if role == "" {
		return errNoSession(s.ID)
	}
	if !role.Includes(want) {
		return chat.Errorf(chat.Denied, "you are a %s of this session; this needs the role %s", role, want)
	}
	return nil
}

// serverOnly are the types that nobody but the server writes.
func serverOnly(typ string) bool {
	switch typ {
	case "session.started", "session.updated", "prompt.closed":
		return true
	}
	return strings.HasPrefix(typ, "turn.") || strings.HasPrefix(typ, "workstream.") || strings.HasPrefix(typ, "prompt.")
}

// agentType reports whether a type is an agent's to write.
func agentType(typ string) bool {
	return strings.HasPrefix(typ, "agent.") || strings.HasPrefix(typ, "session.")
}

// mayAppend reports why the caller may not append the draft, and as whom it is
// appended otherwise.
func mayAppend(c chat.Caller, s *chat.Session, d *chat.Draft) (chat.Actor, error) {
	if err := allow(c, s, chat.Answerer); err != nil {
		return chat.Actor{}, err
	}
	if serverOnly(d.Type) {
		return chat.Actor{}, chat.Errorf(chat.Denied, "only the server writes %s", d.Type)
	}
	actor := c.Actor
	if agentType(d.Type) {
		if !c.Has(chat.ScopeAgent) {
			return chat.Actor{}, chat.Errorf(chat.Denied, "appending %s needs the scope agent", d.Type)
		}
		if actor.Kind != chat.Agent {
			actor = chat.Actor{Kind: chat.Agent, ID: actor.ID}
			if s.Agent != "" && s.Agent != chat.NoAgent {
				actor.ID = s.Agent
			}
		}
	}
	return actor, nil
}
