package model

import (
	"context"
	"fmt"
	"slices"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// choose reads what people have chosen for the session. It holds for the whole
// turn. A choice that cannot be had is said, and the agent's own holds.
func (r *round) choose(ctx context.Context) error {
	st, err := r.turn.State(ctx)
	if err != nil {
		return err
	}
	r.chosen, r.compact, r.forkedAt = st.Session.Settings, st.Compact, st.Session.ForkedAt
	if m := r.chosen.Model; m != "" && !r.offered(m) {
		r.chosen.Model = ""
		if err := r.remarks().Status(ctx, fmt.Sprintf("The model %s is not offered here; %s answers.", m, r.model()), "model"); err != nil {
			return err
		}
	}
	if e := r.chosen.Effort; e != "" && budgets[e] == 0 {
		r.chosen.Effort = ""
		return r.remarks().Status(ctx, fmt.Sprintf("The effort %s is not known here; it is low, medium or high.", e), "model")
	}
	return nil
}

// offered reports whether people may choose a model.
func (r *round) offered(name string) bool {
	return name == r.opt.Model || slices.Contains(r.opt.Models, name) || slices.Contains(r.opt.Models, "*")
}

// model is the one that is asked: that of the line of work, if it was launched
// for one, else that of the session, else the agent's own.
func (r *round) model() string {
	if a, ok := r.turn.Assignment(); ok && a.Model != "" {
		return a.Model
	}
	if r.chosen.Model != "" {
		return r.chosen.Model
	}
	return r.opt.Model
}

// effort is how much the model is to think.
func (r *round) effort() string {
	if r.chosen.Effort != "" {
		return r.chosen.Effort
	}
	return r.opt.Effort
}

// allowed reports whether a tool may be used on this line of work.
func (r *round) allowed(tool string) bool {
	a, _ := r.turn.Assignment()
	return chat.Allowed(r.chosen.Tools, tool) && chat.Allowed(a.Tools, tool)
}

// Tools lists what the agent can use. A server that cannot be reached is left
// out.
func (a *Agent) Tools(ctx context.Context) (tools []agent.ToolInfo, known bool) {
	lists, _ := a.listed(ctx, nil)
	for _, t := range a.opt.Tools {
		tools = append(tools, agent.ToolInfo{Name: t.Name, Description: t.Description})
	}
	for i, list := range lists {
		for _, t := range list {
			tools = append(tools, agent.ToolInfo{Name: t.Name, Description: t.Description, Server: a.opt.Servers[i].Name()})
		}
	}
	return tools, true
}
