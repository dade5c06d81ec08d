package main

import (
	"context"

	"github.com/parley-hq/parley/chat"
	rights "github.com/parley-hq/parley/internal/dialect/x1/grant"
	"github.com/parley-hq/parley/internal/json"
)

// grants is what people have allowed agents for good, as model agents see it. It
// is kept, listed and revoked with all other grants. A grant holds in the sessions
// of who gave it. Agents are made before the desk is, so it is looked up when it is
// used.
type grants struct{ p *parley }

// Granted lists what the owner of a session has allowed an agent for good.
func (g grants) Granted(ctx context.Context, id chat.SessionID, agent string) ([]string, error) {
	sess, err := g.p.sessions.Get(ctx, chat.Trusted, id)
	if err != nil {
		return nil, err
	}
	all, err := g.p.desk.Grants.List(ctx, chat.Trusted, sess.Workspace, rights.Query{Agent: agent, Type: rights.ToolScope})
	if err != nil {
		return nil, err
	}
	var scopes []string
	for _, one := range all {
		var details struct {
			Scopes []string `json:"scopes"`
		}
		if one.Scope == rights.Persistent && one.By.Same(sess.Owner) && json.Unmarshal(one.Details, &details) == nil {
			scopes = append(scopes, details.Scopes...)
		}
	}
	return scopes, nil
}

// Keep sees to it that what people decided in a session is kept.
func (g grants) Keep(ctx context.Context, id chat.SessionID) error {
	sess, err := g.p.sessions.Get(ctx, chat.Trusted, id)
	if err == nil {
		// Looking at a session's grants writes down those that are missing.
		_, err = g.p.desk.Grants.List(ctx, chat.Trusted, sess.Workspace, rights.Query{Session: id})
	}
	return err
}
