package vertesia

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/text"
)

// query answers a query about the state of a run.
func (d *Dialect) query(r *http.Request, c chat.Caller, sess run) (any, error) {
	st, err := d.opt.Sessions.State(r.Context(), c, sess.ID)
	if err != nil {
		return nil, err
	}
	switch name := r.PathValue("name"); name {
	case "ActiveWorkstreams":
		return d.activeWorkstreams(r.Context(), c, sess)
	case "AgentPlan":
		if st.Plan == nil {
			return planDetails{Plan: []planTask{}}, nil
		}
		return planDetails{planOf(*st.Plan), st.Plan.Comment}, nil
	case "AvailableTools":
		return map[string]any{"tools": d.tools(r.Context(), st, sess.workstream)}, nil
	case "PendingQuestions":
		return map[string]any{"asks": openQuestions(st)}, nil
	default:
		return nil, chat.Errorf(chat.NotFound, "a run answers ActiveWorkstreams, AgentPlan, AvailableTools and PendingQuestions, not %q", text.Clip(name, 60))
	}
}

// toolsTimeout is how long an agent may take to list its tools.
const toolsTimeout = 3 * time.Second

// tools lists the tools that the agent of a workstream has and the settings of the
// run allow. For an agent that does not list its tools, these are the tools that
// the settings name.
func (d *Dialect) tools(ctx context.Context, st *chat.State, workstream string) []Tool {
	tools := []Tool{}
	names := st.Session.Settings.Tools
	var launched []string
	if w := st.Workstream(workstream); w != nil {
		launched = w.Tools
	}
	ctx, cancel := context.WithTimeout(ctx, toolsTimeout)
	defer cancel()
	if all, known := d.opt.Tools(ctx, st.AgentOf(workstream)); known {
		for _, t := range all {
			if chat.Allowed(names, t.Name) && chat.Allowed(launched, t.Name) && (t.Server == "" || !slices.Contains(st.Session.Settings.Without, t.Server)) {
				tools = append(tools, t)
			}
		}
		return tools
	}
	for _, name := range slices.Concat(names, launched) {
		name = strings.TrimPrefix(name, "+")
		if name != "" && name[0] != '-' && !slices.ContainsFunc(tools, func(t Tool) bool { return t.Name == name }) {
			tools = append(tools, Tool{Name: name})
		}
	}
	return tools
}

// progressInfo is the last progress of a workstream.
type progressInfo struct {
	Launch     string  `json:"launch_id"`
	Workstream string  `json:"workstream_id"`
	Phase      string  `json:"phase"`
	Step       string  `json:"current_step,omitempty"`
	Tool       string  `json:"current_tool,omitempty"`
	Percent    int     `json:"percent"`
	UpdatedAt  float64 `json:"updated_at"`
}

// workstreamEntry is a workstream that runs or has ended.
type workstreamEntry struct {
	Launch      string        `json:"launch_id"`
	Workstream  string        `json:"workstream_id"`
	Kind        string        `json:"kind"`
	Name        string        `json:"name,omitempty"`
	Interaction string        `json:"interaction"`
	StartedAt   float64       `json:"started_at"`
	Status      string        `json:"status"`
	ChildID     string        `json:"child_workflow_id"`
	ChildRun    string        `json:"child_workflow_run_id"`
	Elapsed     *int64        `json:"elapsed_ms,omitempty"`
	Deadline    *int64        `json:"deadline_ms,omitempty"`
	Latest      *progressInfo `json:"latest_progress,omitempty"`
	Summary     string        `json:"summary,omitempty"`
	Error       string        `json:"error,omitempty"`
	Duration    *int64        `json:"duration_ms,omitempty"`
	Last        *progressInfo `json:"last_progress,omitempty"`
}

type workstreamList struct {
	Running   []workstreamEntry `json:"running"`
	Completed []workstreamEntry `json:"completed"`
}

// activeWorkstreams lists the workstreams of a run, or the children of one.
func (d *Dialect) activeWorkstreams(ctx context.Context, c chat.Caller, sess run) (workstreamList, error) {
	out := workstreamList{Running: []workstreamEntry{}, Completed: []workstreamEntry{}}
	all, err := d.opt.Sessions.Workstreams(ctx, c, sess.ID)
	if err != nil {
		return out, err
	}
	for i := range all {
		ws := &all[i]
		if sess.workstream != "" && ws.Parent != sess.workstream {
			continue
		}
		id := runID(sess.ID, ws.ID)
		e := workstreamEntry{
			Launch: ws.ID, Workstream: ws.ID, Kind: "agent", Name: ws.Name, Interaction: cmp.Or(ws.Agent, sess.Agent), StartedAt: millis(ws.StartedAt),
			Status: ws.State, ChildID: id, ChildRun: id,
		}
		var progress *progressInfo
		if ws.Phase != "" {
			progress = &progressInfo{Launch: ws.ID, Workstream: ws.ID, Phase: ws.Phase, Step: ws.Message, Tool: ws.Tool, Percent: percent(ws.Share), UpdatedAt: millis(max(ws.ProgressAt, ws.StartedAt))}
		}
		if ws.EndedAt != 0 {
			e.Duration, e.Summary, e.Error, e.Last = &ws.DurationMS, ws.Summary, ws.Error, progress
			out.Completed = append(out.Completed, e)
			continue
		}
		most := int64(ws.DeadlineSeconds * 1000)
		e.Elapsed, e.Deadline, e.Latest = &ws.ElapsedMS, &most, progress
		out.Running = append(out.Running, e)
	}
	return out, nil
}
