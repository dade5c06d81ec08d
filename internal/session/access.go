package session

import (
	"errors"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// errNoSession is returned both if the session does not exist and if the caller may not
// see it, so that the error does not reveal whether it exists.
func errNoSession(id chat.SessionID) error {
	return noSession{chat.Errorf(chat.NotFound, "there is no session %q, or it is not yours", string(id))}
}

// noSession distinguishes errNoSession from other errors with the code not_found.
type noSession struct{ error }

func (e noSession) Unwrap() error { return e.error }

func isNoSession(err error) bool { _, ok := errors.AsType[noSession](err); return ok }

// serverOnly reports whether only the server may write events of a type.
func serverOnly(typ string) bool {
	family, _, _ := strings.Cut(typ, ".")
	return family == "turn" || family == "workstream" || family == "prompt" || typ == "session.started" || typ == "session.updated"
}

// agentType reports whether events of a type need the scope agent.
func agentType(typ string) bool {
	return strings.HasPrefix(typ, "agent.") || strings.HasPrefix(typ, "session.")
}

// mayAppend returns the actor of the event that a draft becomes, or an error if the
// caller may not append it.
func mayAppend(c chat.Caller, s *chat.Session, d *chat.Draft) (chat.Actor, error) {
	if err := c.May(s, chat.Answerer); err != nil {
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
			if c.MayServe(s.Agent) {
				actor.ID = s.Agent
			}
		}
	}
	return actor, nil
}

// mayAct returns an error if the caller may not write in a turn as its agent.
func mayAct(c chat.Caller, t *chat.Turn) error {
	if c.MayServe(t.Agent) {
		return nil
	}
	return chat.Errorf(chat.Denied, "turn %s is answered by agent %q: %s", t.ID, t.Agent, c.Serves()).With("turn_id", t.ID)
}

// mayChoose returns an error if the caller may not choose these settings. Only a person
// may turn on automatic approval.
func mayChoose(c chat.Caller, have, want chat.Settings) error {
	if c.Person() || want.Approvals == have.Approvals || want.Approvals == "" || want.Approvals == chat.ApproveAsk {
		return nil
	}
	return chat.Errorf(chat.Denied, "only a person can turn on automatic approval: approvals %q needs an actor of kind user with the scope user", string(want.Approvals))
}
