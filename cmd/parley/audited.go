package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/audit"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/session"
)

// auditLog returns the audit log. It exists before the store is opened and keeps its entries until then.
func (c *ServeCmd) auditLog() *audit.Log {
	if c.trail == nil {
		c.trail = audit.New(audit.Options{Retention: c.AuditRetention})
	}
	return c.trail
}

// listAudit lists the audit log.
func (p *parley) listAudit(ctx context.Context, c chat.Caller, q chat.AuditQuery) (chat.AuditPage, error) {
	return p.audit.List(ctx, p.sessions, c, q)
}

// reportRequest adds an entry for a request to the audit log.
func (p *parley) reportRequest(ctx context.Context, event string, c chat.Caller, details map[string]any) {
	details["address"] = auth.ClientAddressOf(ctx)
	p.audit.Report(event, c, details)
}

// report adds an entry for an action on a session to the audit log. Actions on sessions that the caller cannot see are
// not recorded.
func (p *parley) report(ctx context.Context, event string, c chat.Caller, sess *chat.Session, id chat.SessionID, err error, details map[string]any) {
	if chat.CodeOf(err) == chat.NotFound {
		return
	}
	if details == nil {
		details = map[string]any{}
	}
	if by, ok := auth.From(ctx); ok && c.Actor == chat.System {
		c = by // a dialect acts for the caller of the request
	}
	details["session_id"] = string(id)
	if sess.ID != "" {
		details["session_id"], details["workspace"] = string(sess.ID), sess.Workspace
	}
	if err != nil {
		details["outcome"] = string(chat.CodeOf(err))
	}
	p.reportRequest(ctx, event, c, details)
}

// reportGrants adds entries for stored grants to the audit log. It does not block.
func (p *parley) reportGrants(evs []chat.Event) {
	if len(evs) == 0 || !strings.HasPrefix(string(evs[0].Session), "sys-grants") {
		return
	}
	workspace := chat.DefaultWorkspace
	if _, name, ok := strings.Cut(string(evs[0].Session), "."); ok {
		workspace = name
	}
	for i := range evs {
		var g struct {
			Grant   string         `json:"grant_id"`
			Type    string         `json:"grant_type"`
			Scope   string         `json:"scope"`
			Agent   string         `json:"agent_id"`
			User    string         `json:"user_id"`
			Session chat.SessionID `json:"session_id"`
			Created chat.Actor     `json:"created_by"`
			By      chat.Actor     `json:"by"`
		}
		event, by := "", &g.Created
		switch evs[i].Type {
		case "grant.created":
			event = "grant_created"
		case "grant.revoked":
			event, by = "grant_revoked", &g.By
		default:
			continue
		}
		if json.Unmarshal(evs[i].Payload, &g) != nil {
			continue // only the server writes to this session
		}
		details := map[string]any{"workspace": workspace, "grant_id": cmp.Or(g.Grant, string(evs[i].ID))}
		for name, v := range map[string]string{"session_id": string(g.Session), "grant_type": g.Type, "scope": g.Scope, "agent": g.Agent, "user": g.User} {
			if v != "" {
				details[name] = v
			}
		}
		p.audit.Report(event, chat.Caller{Actor: *by, Workspace: workspace}, details)
	}
}

// audited is the sessions as dialects use them: it reports erasures and changes of members to the audit log.
type audited struct {
	*session.Sessions
	p *parley
}

// Create creates a session.
func (a audited) Create(ctx context.Context, c chat.Caller, n chat.NewSession) (chat.Session, bool, error) {
	sess, created, err := a.Sessions.Create(ctx, c, n)
	if created && len(n.Members) > 0 {
		a.members(ctx, c, &sess, n.ID, n.Members, err)
	}
	return sess, created, err
}

// Update changes a session.
func (a audited) Update(ctx context.Context, c chat.Caller, id chat.SessionID, u chat.SessionUpdated) (chat.Session, error) {
	sess, err := a.Sessions.Update(ctx, c, id, u)
	if u.Members != nil {
		a.members(ctx, c, &sess, id, *u.Members, err)
	}
	return sess, err
}

// Erase erases a session.
func (a audited) Erase(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Receipt, error) {
	sess, err := a.Sessions.Get(ctx, c, id)
	if err != nil {
		return a.Sessions.Erase(ctx, c, id) // returns the refusal
	}
	receipt, err := a.Sessions.Erase(ctx, c, id)
	if sess.ID.System() {
		return receipt, err // a system session
	}
	a.p.report(ctx, "session_erased", c, &sess, id, err, nil)
	return receipt, err
}

func (a audited) members(ctx context.Context, c chat.Caller, sess *chat.Session, id chat.SessionID, members []chat.Member, err error) {
	names := []string{}
	for _, m := range members {
		names = append(names, m.Actor.Key()+" "+string(m.Role))
	}
	a.p.report(ctx, "members_changed", c, sess, id, err, map[string]any{"members": names})
}
