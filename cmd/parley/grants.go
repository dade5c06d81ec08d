package main

import (
	"context"
	"encoding/json"

	"github.com/parley-hq/parley/chat"
)

// grants keeps what people have allowed agents for good: an event each in a
// system session of their workspace. A grant holds in the sessions of who gave
// it. Agents are made before the sessions are, so these are looked up when they
// are used.
type grants struct{ p *parley }

// grantType is the type of those events.
const grantType = "permission.granted"

// grant is the payload.
type grant struct {
	Actor   chat.Actor     `json:"actor"` // who gave it
	Agent   string         `json:"agent"`
	Scopes  []string       `json:"scopes"`
	Session chat.SessionID `json:"session_id"` // where it was given
}

// place is the system session for a session's workspace, and as whom it is used.
func (g grants) place(ctx context.Context, id chat.SessionID) (owner chat.Actor, book chat.SessionID, c chat.Caller, err error) {
	sess, err := g.p.sessions.Get(ctx, chat.Trusted, id)
	if err != nil {
		return owner, "", c, err
	}
	c, book = chat.Trusted, "sys-grants"
	if c.Workspace = sess.Workspace; sess.Workspace != chat.DefaultWorkspace {
		book += chat.SessionID("." + sess.Workspace)
	}
	return sess.Owner, book, c, nil
}

// Granted lists what the owner of a session has allowed an agent for good.
func (g grants) Granted(ctx context.Context, id chat.SessionID, agent string) ([]string, error) {
	owner, book, c, err := g.place(ctx, id)
	if err != nil {
		return nil, err
	}
	var scopes []string
	for after := chat.Seq(0); ; {
		facts, more, err := g.p.sessions.Read(ctx, c, book, chat.Range{After: after, Limit: 1000, Types: []string{grantType}})
		if chat.CodeOf(err) == chat.NotFound {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for _, f := range facts {
			e, err := f.Event()
			if err != nil {
				return nil, err
			}
			after = e.Seq
			var one grant
			if json.Unmarshal(e.Payload, &one) == nil && one.Agent == agent && one.Actor.Same(owner) {
				scopes = append(scopes, one.Scopes...)
			}
		}
		if !more || len(facts) == 0 {
			return scopes, nil
		}
	}
}

// Grant keeps what somebody allowed an agent for good. It may be repeated with
// the same key.
func (g grants) Grant(ctx context.Context, id chat.SessionID, agent string, by chat.Actor, scopes []string, key string) error {
	_, book, c, err := g.place(ctx, id)
	if err != nil {
		return err
	}
	payload, err := json.Marshal(grant{Actor: chat.Actor{Kind: by.Kind, ID: by.ID}, Agent: agent, Scopes: scopes, Session: id})
	if err != nil {
		return err
	}
	draft := []chat.Draft{chat.NewDraft(chat.Unknown{Name: grantType, Payload: payload}).As(key)}
	_, err = g.p.sessions.Append(ctx, c, book, draft)
	if chat.CodeOf(err) == chat.NotFound {
		if _, _, err = g.p.sessions.Create(ctx, c, chat.NewSession{ID: book, Agent: chat.NoAgent, Title: "Permissions"}); err == nil {
			_, err = g.p.sessions.Append(ctx, c, book, draft)
		}
	}
	return err
}
