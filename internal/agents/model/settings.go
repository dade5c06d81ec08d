package model

import (
	"context"
	"fmt"
	"slices"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// readSettings reads the session's settings, which apply to the whole turn. If a setting
// asks for a model that is not offered or an effort that does not exist, choose
// reports it in the session and the agent's own setting applies.
func (r *round) readSettings(ctx context.Context) error {
	st, err := r.turn.State(ctx)
	if err != nil {
		return err
	}
	r.settings, r.compact, r.forkedAt = st.Session.Settings, st.Compact, st.Session.ForkedAt
	if m := r.settings.Model; m != "" && !r.offered(m) {
		r.settings.Model = ""
		if err := r.reports().Status(ctx, fmt.Sprintf("The model %s is not offered here; %s answers.", m, r.model()), "model"); err != nil {
			return err
		}
	}
	if e := r.settings.Effort; e != "" && budgets[e] == 0 {
		r.settings.Effort = ""
		return r.reports().Status(ctx, fmt.Sprintf("The effort %s is not known here; it is low, medium or high.", e), "model")
	}
	return nil
}

// Models lists the models that a session may select, the default first. Any other
// name is accepted, too, if the configuration allows any model.
func (a *Agent) Models() []string {
	list := []string{a.opt.Model}
	for _, name := range a.opt.Models {
		if name != "*" && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// offered reports whether a session may use the named model.
func (r *round) offered(name string) bool {
	return name == r.opt.Model || slices.Contains(r.opt.Models, name) || slices.Contains(r.opt.Models, "*")
}

// model returns the name of the model to request: the workstream's if its assignment
// names one, else the session's, else the agent's default.
func (r *round) model() string {
	if a, ok := r.turn.Assignment(); ok && a.Model != "" {
		return a.Model
	}
	if r.settings.Model != "" {
		return r.settings.Model
	}
	return r.opt.Model
}

// effort returns the reasoning effort to request.
func (r *round) effort() string {
	if r.settings.Effort != "" {
		return r.settings.Effort
	}
	return r.opt.Effort
}

// allowed reports whether the settings of the session and of the workstream allow a
// tool.
func (r *round) allowed(tool string) bool {
	a, _ := r.turn.Assignment()
	return chat.Allowed(r.settings.Tools, tool) && chat.Allowed(a.Tools, tool)
}

// Tools lists the agent's tools. It omits the tools of servers that cannot be reached.
func (a *Agent) Tools(ctx context.Context) (tools []agent.ToolInfo, known bool) {
	lists, _ := a.listTools(ctx, nil)
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
