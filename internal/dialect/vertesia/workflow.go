package vertesia

import (
	"net/http"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// workflowRun is a run as the older part of the interface shows it.
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

// statusNames are how the older part words the state of a run.
var statusNames = map[string]string{
	runCreated: "RUNNING", runRunning: "RUNNING", runCompleted: "COMPLETED", runFailed: "FAILED", runCancelled: "CANCELED",
}

func workflowOf(r *agentRun) workflowRun {
	w := workflowRun{
		Status: statusNames[r.Status], Type: "AgentConversation", StartedAt: &r.StartedAt, ClosedAt: r.CompletedAt, RunID: r.ID, WorkflowID: r.WorkflowID,
		InitiatedBy: r.StartedBy, Interaction: r.Interaction, Input: r.Data, Kind: "AgentConversation", Topic: first(r.Topic, r.Title),
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

// showDetails tells all about a run.
func (d *Dialect) showDetails(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, err := d.run(r, c)
	if err != nil {
		return err
	}
	out, err := d.details(r, c, sess)
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, out)
	return nil
}

func (d *Dialect) details(r *http.Request, c chat.Caller, sess run) (workflowRun, error) {
	ctx := r.Context()
	if sess.once {
		if err := d.settle(ctx, c, sess.ID); err != nil {
			return workflowRun{}, err
		}
	}
	st, err := d.opt.Sessions.State(ctx, c, sess.ID)
	if err != nil {
		return workflowRun{}, err
	}
	about, err := d.describe(ctx, c, &st.Session)
	if err != nil {
		return workflowRun{}, err
	}
	var out workflowRun
	if sess.line != "" {
		out = childOf(&about, st.Workstream(sess.line))
	} else {
		out = workflowOf(&about)
	}
	for _, ws := range st.Workstreams {
		if ws.Parent == sess.line {
			out.Children = append(out.Children, childOf(&about, ws))
		}
	}
	q := r.URL.Query()
	format := q.Get("history_format")
	if format == "" && q.Get("include_history") == "true" {
		format = "events"
	}
	switch format {
	case "":
		return out, nil
	case "events", "tasks", "agent":
		out.History, err = d.history(ctx, c, sess, format)
		return out, err
	}
	return out, chat.Errorf(chat.Invalid, "history_format is events, tasks or agent, not %q", clip(format, 40))
}

func (d *Dialect) showInternals(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	a, err := d.look(r, c)
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, struct {
		ID          string   `json:"id"`
		Kind        string   `json:"run_kind"`
		WorkflowID  string   `json:"workflow_id"`
		FirstRun    string   `json:"first_workflow_run_id"`
		Artifacts   string   `json:"artifacts_path"`
		Status      string   `json:"status"`
		Activity    string   `json:"activity_state"`
		Interactive bool     `json:"interactive"`
		StartedAt   chat.At  `json:"started_at"`
		CompletedAt *chat.At `json:"completed_at,omitempty"`
		StartedBy   string   `json:"started_by"`
		CreatedAt   chat.At  `json:"created_at"`
		UpdatedAt   chat.At  `json:"updated_at"`
	}{a.ID, a.Kind, a.WorkflowID, a.FirstRun, a.Artifacts, a.Status, a.Activity, a.Interactive, a.StartedAt, a.CompletedAt, a.StartedBy, a.CreatedAt, a.UpdatedAt})
	return nil
}

func (d *Dialect) listChildren(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, err := d.run(r, c)
	if err != nil {
		return err
	}
	out, err := d.details(r, c, sess)
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, runList{Runs: orEmpty(out.Children)})
	return nil
}

// runList is a part of a list in the older form.
type runList struct {
	Runs []workflowRun `json:"runs"`
	Next string        `json:"next_page_token,omitempty"`
	More bool          `json:"has_more"`
}

func orEmpty(l []workflowRun) []workflowRun {
	if l == nil {
		return []workflowRun{}
	}
	return l
}

func (d *Dialect) showChild(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, err := d.findRun(r.Context(), c, r.PathValue("child"))
	if err != nil {
		return err
	}
	if string(sess.ID) != r.PathValue("id") || sess.line == "" {
		return chat.Errorf(chat.NotFound, "run %s has no child %q", clip(r.PathValue("id"), 80), clip(r.PathValue("child"), 80))
	}
	out, err := d.details(r, c, sess)
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, out)
	return nil
}

func (d *Dialect) showInteraction(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, err := d.run(r, c)
	if err != nil {
		return err
	}
	a, err := d.describe(r.Context(), c, &sess.Session)
	if err != nil {
		return err
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
	d.send(w, r, http.StatusOK, map[string]any{"workflow_id": a.WorkflowID, "run_id": sess.name(), "interaction": about})
	return nil
}

// searchWorkflows lists runs in the older form.
func (d *Dialect) searchWorkflows(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
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
	if err := d.read(r, &in); err != nil {
		return err
	}
	want := wanted{startedBy: in.By, interaction: in.Interaction, query: first(in.Query, in.Term), limit: min(max(in.Size, 0), 1000), cursor: in.Next, activity: in.Activity, interactive: in.Interactive}
	if want.limit == 0 {
		want.limit = 50
	}
	var err error
	if want.since, err = timeOf(in.Start); err != nil {
		return err
	}
	if want.until, err = timeOf(in.End); err != nil {
		return err
	}
	for state, name := range statusNames {
		if in.Status != "" && (name == in.Status || state == in.Status) {
			want.status = append(want.status, state)
		}
	}
	if in.Status != "" && want.status == nil {
		return chat.Errorf(chat.Invalid, "status %q is not one of RUNNING, COMPLETED, FAILED, CANCELED", clip(in.Status, 40))
	}
	found, _, next, err := d.runs(r.Context(), c, want)
	if err != nil {
		return err
	}
	out := runList{Runs: []workflowRun{}, Next: next, More: next != ""}
	for i := range found {
		out.Runs = append(out.Runs, workflowOf(&found[i]))
	}
	d.send(w, r, http.StatusOK, out)
	return nil
}

// executeWorkflow begins a run in the older way: vars holds what a payload of a
// start would, or only the data.
func (d *Dialect) executeWorkflow(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var in struct {
		Vars map[string]json.RawMessage `json:"vars"`
	}
	if err := d.read(r, &in); err != nil {
		return err
	}
	payload := in.Vars
	if payload == nil {
		payload = map[string]json.RawMessage{}
	}
	if truthy(payload["interaction"]) == nil {
		data, err := marshal(payload)
		if err != nil {
			return err
		}
		payload = map[string]json.RawMessage{"data": data, "interaction": chat.AppendString(nil, r.PathValue("name"))}
	}
	b, err := marshal(payload)
	if err != nil {
		return err
	}
	p, kept, err := decodeStart(b)
	if err != nil {
		return err
	}
	sess, err := d.begin(r.Context(), c, p, kept)
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, []map[string]string{{"run_id": string(sess.ID), "workflow_id": string(sess.ID)}})
	return nil
}

func elapsed(from chat.At, now time.Time) int64 { return max(0, int64(chat.AtOf(now)-from)/1000) }
