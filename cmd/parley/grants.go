package main

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/grant"
	"github.com/parley-hq/parley/internal/json"
)

// grants gives model agents the persistent grants of the owner of a session. Agents are created before the grant service
// is, so it is looked up when it is used.
type grants struct{ p *parley }

// Granted lists the scopes that the owner of a session has granted an agent until they are revoked.
func (g grants) Granted(ctx context.Context, id chat.SessionID, agent string) ([]string, error) {
	sess, err := g.p.sessions.Get(ctx, chat.Trusted, id)
	if err != nil {
		return nil, err
	}
	all, err := g.p.grants.ListGrants(ctx, chat.Trusted, sess.Workspace, grant.Query{Agent: agent, Type: grant.ToolScope})
	if err != nil {
		return nil, err
	}
	var scopes []string
	for _, one := range all {
		var details struct {
			Scopes []string `json:"scopes"`
		}
		if one.Scope == grant.Persistent && one.By.Same(sess.Owner) && json.Unmarshal(one.Details, &details) == nil {
			scopes = append(scopes, details.Scopes...)
		}
	}
	return scopes, nil
}

// Keep stores the grants that follow from the decisions in a session.
func (g grants) Keep(ctx context.Context, id chat.SessionID) error {
	sess, err := g.p.sessions.Get(ctx, chat.Trusted, id)
	if err == nil {
		// Listing the grants of a session stores those that are missing.
		_, err = g.p.grants.ListGrants(ctx, chat.Trusted, sess.Workspace, grant.Query{Session: id})
	}
	return err
}
