package vertesia

import (
	"context"
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
		d.send(w, r, http.StatusOK, map[string]any{"tools": d.toolsOf(r.Context(), st, sess.line)})
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

// toolsOf lists what the agent of a line can use and the run lets it. Of an agent
// that does not say what it has, those are listed that the run names.
func (d *Dialect) toolsOf(ctx context.Context, st *chat.State, line string) []Tool {
	tools := []Tool{}
	names := st.Session.Settings.Tools
	var launched []string
	if w := st.Workstream(line); w != nil {
		launched = w.Tools
	}
	if d.opt.Tools != nil {
		ctx, cancel := context.WithTimeout(ctx, patience) // a server of tools that is slow is left out
		defer cancel()
		if all, known := d.opt.Tools(ctx, st.AgentOf(line)); known {
			for _, t := range all {
				if chat.Allowed(names, t.Name) && chat.Allowed(launched, t.Name) && (t.Server == "" || !slices.Contains(st.Session.Settings.Without, t.Server)) {
					tools = append(tools, t)
				}
			}
			return tools
		}
	}
	for _, name := range slices.Concat(names, launched) {
		name = strings.TrimPrefix(name, "+")
		if name != "" && name[0] != '-' && !slices.ContainsFunc(tools, func(t Tool) bool { return t.Name == name }) {
			tools = append(tools, Tool{Name: name})
		}
	}
	return tools
}
