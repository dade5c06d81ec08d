package model

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/tool"
)

// remembered reports whether a person has approved a tool for the rest of the session.
// It is always false for tools that require approval for each call.
func (r *round) remembered(ctx context.Context, name string, a tool.Approval) (bool, error) {
	if a != tool.Ask {
		return false, nil
	}
	yes := false
	asked := map[string]string{} // call → tool
	err := r.ownEvents(ctx, []string{"agent.approval_request", "user.approval_response"}, func(e chat.Event) {
		switch b := e.Body.(type) {
		case chat.AgentApprovalRequest:
			for _, c := range b.Calls {
				asked[c.CallID] = c.Tool
			}
		case chat.UserApprovalResponse:
			for _, d := range b.Decisions {
				if asked[d.CallID] == name && d.Remember == "session" {
					yes = d.Approve
				}
			}
		}
	})
	return yes, err
}

// requestScopes asks a person for the scopes that a call needs and that are not granted yet.
func (r *round) requestScopes(ctx context.Context, part *agent.Turn, c *call, scopes []string) error {
	if len(scopes) == 0 {
		return nil
	}
	granted, err := r.granted(ctx)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return granted[s] })
	if len(missing) == 0 {
		return nil
	}
	answer, err := part.Permit(ctx, chat.AgentPermissionRequest{
		Scopes: missing, Tool: c.tool, Params: c.params, Timeout: r.opt.Ask.Seconds(),
		Justification: "The tool " + c.tool + " needs it.",
	})
	if err != nil && !errors.Is(err, agent.ErrExpired) && !errors.Is(err, agent.ErrWithdrawn) {
		return err
	}
	missing = slices.DeleteFunc(missing, func(s string) bool { return slices.Contains(answer.Granted, s) })
	if len(missing) > 0 {
		return &tool.Error{Code: tool.Denied, Msg: "the person did not give permission for " + strings.Join(missing, ", ")}
	}
	return nil
}

// granted returns the scopes that are currently granted: those granted for the session
// or permanently, and those granted once in this turn.
func (r *round) granted(ctx context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	err := r.ownEvents(ctx, []string{"user.permission_response"}, func(e chat.Event) {
		b, ok := e.Body.(chat.UserPermissionResponse)
		if !ok {
			return
		}
		for _, s := range b.Denied {
			delete(out, s)
		}
		lasts := b.Duration == "session" || b.Duration == "always" || e.Turn == r.state.turn
		for _, s := range b.Granted {
			if lasts {
				out[s] = true
			}
		}
	})
	if err != nil || r.opt.Grants == nil {
		return out, err
	}
	lasting, err := r.opt.Grants.Granted(ctx, r.turn.Ref().Session, r.turn.Agent)
	for _, s := range lasting {
		out[s] = true
	}
	return out, err
}

// saveGrants stores permanent permissions outside the session. After a crash it finds them
// in the log and stores them again; that is idempotent.
func (r *round) saveGrants(ctx context.Context) error {
	if r.state.unsavedGrants && r.opt.Grants != nil {
		if err := r.opt.Grants.Keep(ctx, r.turn.Ref().Session); err != nil {
			return err
		}
	}
	r.state.unsavedGrants = false
	return nil
}

// ownEvents calls f for the session's own events of the given types. It skips events from
// before a fork.
func (r *round) ownEvents(ctx context.Context, types []string, f func(chat.Event)) error {
	for e, err := range r.turn.Events(ctx, chat.Range{After: r.forkedAt, Types: types}) {
		if err != nil {
			return err
		}
		f(e)
	}
	return nil
}
