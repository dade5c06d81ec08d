package vertesia

import (
	"cmp"
	"context"
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

// A workstream can be used as a run of its own, under the id RUN~WORKSTREAM.

// asRun is a workstream of a run as a run of its own.
func asRun(r agentRun, st *chat.State, workstream string) agentRun {
	ws := st.Workstream(workstream)
	agent := cmp.Or(ws.Agent, r.Interaction)
	id := runID(st.Session.ID, workstream)
	r.ID, r.WorkflowID, r.FirstRun = id, id, id
	r.Interaction, r.Ref = agent, interactionRef{agent, agent}
	r.Title, r.Topic, r.Interactive, r.ForkedFrom = cmp.Or(ws.Name, ws.ID), ws.Task, ws.Interactive, ""
	r.Artifacts, r.Data = "agents/"+id, json.AppendString(nil, ws.Task)
	r.StartedAt, r.CreatedAt = ws.LaunchedAt, ws.LaunchedAt
	r.Status, r.Activity, r.CompletedAt, r.failed, r.end = workstreamStates[ws.State], "idle", nil, ws.Error, nil
	if st.Line(workstream).Turn != nil {
		r.Activity = "working"
	}
	if ws.EndedAt != 0 {
		r.CompletedAt, r.UpdatedAt = &ws.EndedAt, ws.EndedAt
	}
	return r
}

// workstreamStates are the states of a workstream as those of a run.
var workstreamStates = map[string]string{
	chat.WorkRunning: runRunning, chat.WorkCanceling: runRunning, chat.WorkCompleted: runCompleted, chat.WorkFailed: runFailed,
	chat.WorkTimeout: runFailed, chat.WorkCanceled: runCancelled,
}

// asWorkflow is a workstream as a run of the older form.
func asWorkflow(parent agentRun, st *chat.State, ws *chat.Workstream) workflowRun {
	r := asRun(parent, st, ws.ID)
	w := workflowOf(&r)
	w.Type, w.Kind, w.Topic = "Workstream", "Workstream", r.Title
	if ws.State == chat.WorkTimeout {
		w.Status = "TIMED_OUT"
	}
	if ws.Summary != "" {
		w.Result = ws.Summary
	}
	return w
}

func (d *Dialect) listChildren(r *http.Request, c chat.Caller, sess run) (any, error) {
	out, err := d.details(r, c, sess)
	list := runList{Runs: []workflowRun{}}
	list.Runs = append(list.Runs, out.Children...)
	return list, err
}

func (d *Dialect) showChild(r *http.Request, c chat.Caller) (any, error) {
	sess, err := d.findRun(r.Context(), c, r.PathValue("child"))
	if err != nil {
		return nil, err
	}
	if string(sess.ID) != r.PathValue("id") || sess.workstream == "" {
		return nil, chat.Errorf(chat.NotFound, "run %s has no child %q", text.Clip(r.PathValue("id"), 80), text.Clip(r.PathValue("child"), 80))
	}
	return d.details(r, c, sess)
}

// workstreamEnd is the last message of a workstream that ended at or before a
// position; see endMessage.
func (d *Dialect) workstreamEnd(ctx context.Context, c chat.Caller, sess run, enc coding, at chat.At) ([]byte, error) {
	st, err := d.opt.Sessions.State(ctx, c, sess.ID)
	if err != nil {
		return nil, err
	}
	ended := st.Workstream(sess.workstream).EndedAt
	if ended == 0 || ended > at {
		return nil, nil
	}
	e, err := d.lastBefore(ctx, c, &st.Session, ended)
	if err != nil || e == nil {
		return nil, err
	}
	last := 0
	for _, m := range enc.messages(e) {
		last = m.index
	}
	return enc.appendMessages(nil, e, e.At+chat.At(last)-1), nil
}
