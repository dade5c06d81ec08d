package vertesia

import (
	"cmp"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// workflowRun is a run in the older form.
type workflowRun struct {
	Status      string          `json:"status"`
	Type        string          `json:"type"`
	StartedAt   *chat.At        `json:"started_at"`
	ClosedAt    *chat.At        `json:"closed_at"`
	Duration    int64           `json:"execution_duration,omitempty"` // milliseconds
	RunID       string          `json:"run_id"`
	WorkflowID  string          `json:"workflow_id"`
	InitiatedBy string          `json:"initiated_by,omitempty"`
	Interaction string          `json:"interaction_name,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	Result      any             `json:"result,omitempty"`
	Error       any             `json:"error,omitempty"`
	Kind        string          `json:"vertesia_workflow_type,omitempty"`
	Topic       string          `json:"topic,omitempty"`
	Activity    string          `json:"activity_state,omitempty"`
	Interactive bool            `json:"interactive"`
	History     *runHistory     `json:"history,omitempty"`
	Children    []workflowRun   `json:"children,omitempty"`
}

// statusNames are the states of a run in the older form.
var statusNames = map[string]string{
	runCreated: "RUNNING", runRunning: "RUNNING", runCompleted: "COMPLETED", runFailed: "FAILED", runCancelled: "CANCELED",
}

func workflowOf(r *agentRun) workflowRun {
	w := workflowRun{
		Status: statusNames[r.Status], Type: "AgentConversation", StartedAt: &r.StartedAt, ClosedAt: r.CompletedAt, RunID: r.ID, WorkflowID: r.WorkflowID,
		InitiatedBy: r.StartedBy, Interaction: r.Interaction, Input: r.Data, Kind: "AgentConversation", Topic: cmp.Or(r.Topic, r.Title),
		Activity: r.Activity, Interactive: r.Interactive,
	}
	if r.CompletedAt != nil {
		w.Duration = int64(*r.CompletedAt-r.StartedAt) / 1000
	}
	if r.failed != "" {
		w.Error = map[string]string{"message": r.failed}
	}
	return w
}

func (d *Dialect) showDetails(r *http.Request, c chat.Caller, sess run) (any, error) {
	return d.details(r, c, sess)
}

// details returns a run with its children and, on request, its history.
func (d *Dialect) details(r *http.Request, c chat.Caller, sess run) (workflowRun, error) {
	ctx := r.Context()
	st, err := d.opt.Sessions.State(ctx, c, sess.ID)
	if err != nil {
		return workflowRun{}, err
	}
	about, err := d.describe(ctx, c, &st.Session)
	if err != nil {
		return workflowRun{}, err
	}
	out := workflowOf(&about)
	if sess.workstream != "" {
		out = asWorkflow(about, st, st.Workstream(sess.workstream))
	}
	for _, ws := range st.Workstreams {
		if ws.Parent == sess.workstream {
			out.Children = append(out.Children, asWorkflow(about, st, ws))
		}
	}
	q := edge.NewQuery(r)
	format := q.OneOf("history_format", "events", "tasks", "agent")
	if format == "" && q.Text("include_history") == "true" {
		format = "events"
	}
	if q.Err != nil || format == "" {
		return out, q.Err
	}
	out.History, err = d.history(ctx, c, sess, format)
	return out, err
}

// runList is a page of a list in the older form.
type runList struct {
	Runs []workflowRun `json:"runs"`
	Next string        `json:"next_page_token,omitempty"`
	More bool          `json:"has_more"`
}

func (d *Dialect) showInteraction(r *http.Request, c chat.Caller, sess run) (any, error) {
	a, err := d.describe(r.Context(), c, &sess.Session)
	if err != nil {
		return nil, err
	}
	about := map[string]any{"type": "conversation", "interaction": a.Interaction, "interactive": a.Interactive, "tool_names": a.ToolNames, "config": a.Config, "agent_run_id": a.ID}
	if a.ToolNames == nil {
		about["tool_names"] = []string{}
	}
	if a.Config == nil {
		about["config"] = map[string]any{}
	}
	if a.Data != nil {
		about["data"] = a.Data
	}
	return map[string]any{"workflow_id": a.WorkflowID, "run_id": runID(sess.ID, sess.workstream), "interaction": about}, nil
}

// searchWorkflows lists runs in the older form.
func (d *Dialect) searchWorkflows(r *http.Request, c chat.Caller) (any, error) {
	var in struct {
		Start       string `json:"start"`
		End         string `json:"end"`
		Status      string `json:"status"`
		Term        string `json:"search_term"`
		By          string `json:"initiated_by"`
		Interaction string `json:"interaction"`
		Query       string `json:"query"`
		Size        int    `json:"page_size"`
		Next        string `json:"next_page_token"`
		Activity    string `json:"activity_state"`
		Interactive *bool  `json:"interactive"`
	}
	if err := d.http.Read(r, &in); err != nil {
		return nil, err
	}
	f := filter{
		startedBy: in.By, interaction: in.Interaction, query: cmp.Or(in.Query, in.Term), limit: cmp.Or(min(max(in.Size, 0), 1000), 50), cursor: in.Next,
		activity: in.Activity, interactive: in.Interactive,
	}
	var err error
	if f.since, err = timeOf(in.Start); err != nil {
		return nil, err
	}
	if f.until, err = timeOf(in.End); err != nil {
		return nil, err
	}
	for state, name := range statusNames {
		if in.Status != "" && (name == in.Status || state == in.Status) {
			f.status = append(f.status, state)
		}
	}
	if in.Status != "" && f.status == nil {
		return nil, chat.Errorf(chat.Invalid, "status %q is not one of RUNNING, COMPLETED, FAILED, CANCELED", text.Clip(in.Status, 40))
	}
	found, _, next, err := d.runs(r.Context(), c, f)
	out := runList{Runs: []workflowRun{}, Next: next, More: next != ""}
	for i := range found {
		out.Runs = append(out.Runs, workflowOf(&found[i]))
	}
	return out, err
}
