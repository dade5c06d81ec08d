package vertesia

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// query answers what can be asked of a running run.
func (d *Dialect) query(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, err := d.run(r, c)
	if err != nil {
		return err
	}
	st, err := d.opt.Sessions.State(r.Context(), c, sess.ID)
	if err != nil {
		return err
	}
	switch name := r.PathValue("name"); name {
	case "ActiveWorkstreams":
		list, err := d.activeWorkstreams(r.Context(), c, sess)
		if err != nil {
			return err
		}
		d.send(w, r, http.StatusOK, list)
	case "AgentPlan":
		d.send(w, r, http.StatusOK, planAnswer(st.Plan))
	case "AvailableTools":
		d.send(w, r, http.StatusOK, map[string]any{"tools": d.toolsOf(r.Context(), c, st)})
	case "PendingQuestions":
		d.send(w, r, http.StatusOK, map[string]any{"asks": asksOf(st)})
	default:
		return chat.Errorf(chat.NotFound, "a run answers ActiveWorkstreams, AgentPlan, AvailableTools and PendingQuestions, not %q", clip(name, 60))
	}
	return nil
}

func planAnswer(p *chat.AgentPlan) any {
	if p == nil {
		return planDetails{Plan: []planTask{}}
	}
	return planDetails{planOf(*p), p.Comment}
}

// toolsOf lists the agent's tools, and those that the run was begun with.
func (d *Dialect) toolsOf(ctx context.Context, c chat.Caller, st *chat.State) []Tool {
	tools := []Tool{}
	if d.opt.Tools != nil {
		tools = append(tools, d.opt.Tools(ctx, c, st.Session.Agent)...)
	}
	var asked []string
	_ = json.Unmarshal(metaOf(&st.Session)["tool_names"], &asked) // absent or of another kind: none
	for _, name := range asked {
		if name = strings.TrimPrefix(name, "+"); name == "" || name[0] == '-' {
			continue
		}
		if !slices.ContainsFunc(tools, func(t Tool) bool { return t.Name == name }) {
			tools = append(tools, Tool{Name: name})
		}
	}
	return tools
}
