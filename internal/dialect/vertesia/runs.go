package vertesia

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// agentRun is a run in the form of the protocol.
type agentRun struct {
	ID           string          `json:"id"`
	Kind         string          `json:"run_kind"`
	Type         string          `json:"run_type"`
	Account      string          `json:"account"`
	Project      string          `json:"project"`
	Interaction  string          `json:"interaction"`
	Ref          interactionRef  `json:"interactionRef"`
	Status       string          `json:"status"`
	Activity     string          `json:"activity_state"`
	Interactive  bool            `json:"interactive"`
	StartedBy    string          `json:"started_by"`
	StartedAt    chat.At         `json:"started_at"`
	CompletedAt  *chat.At        `json:"completed_at,omitempty"`
	Title        string          `json:"title,omitempty"`
	Topic        string          `json:"topic,omitempty"`
	WorkflowID   string          `json:"workflow_id"`
	FirstRun     string          `json:"first_workflow_run_id"`
	Artifacts    string          `json:"artifacts_path"`
	ForkedFrom   chat.SessionID  `json:"forked_from,omitempty"`
	Data         json.RawMessage `json:"data,omitempty"`
	Config       json.RawMessage `json:"config,omitempty"`
	ApprovalMode json.RawMessage `json:"tool_approval_mode,omitempty"`
	ToolNames    json.RawMessage `json:"tool_names,omitempty"`
	DisabledMCP  json.RawMessage `json:"disabled_mcp_collections,omitempty"`
	Visibility   json.RawMessage `json:"visibility,omitempty"`
	Tags         json.RawMessage `json:"tags,omitempty"`
	Categories   json.RawMessage `json:"categories,omitempty"`
	Properties   json.RawMessage `json:"properties,omitempty"`
	Source       json.RawMessage `json:"source,omitempty"`
	CollectionID json.RawMessage `json:"collection_id,omitempty"`
	CreatedAt    chat.At         `json:"created_at"`
	UpdatedAt    chat.At         `json:"updated_at"`
	failed       string          // why the run failed
	end          *chat.Event     // the event that ended the run
}

type interactionRef struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// The states of a run.
const (
	runCreated   = "created"
	runRunning   = "running"
	runCompleted = "completed"
	runFailed    = "failed"
	runCancelled = "cancelled"

	outcomeCancelled = "cancelled"
)

// describe returns a run in the form of the protocol.
func (d *Dialect) describe(ctx context.Context, c chat.Caller, s *chat.Session) (agentRun, error) {
	r := outline(s)
	if s.Status == chat.Completed || s.Status == chat.FailedState {
		return r, d.ended(ctx, c, s, &r)
	}
	return r, nil
}

// outline describes a run without reading its log: all but how it ended.
func outline(s *chat.Session) agentRun {
	m := metaOf(s)
	interaction := cmp.Or(m.text("interaction"), s.Agent)
	r := agentRun{
		ID: string(s.ID), Kind: "agent", Type: "autonomous", Account: s.Workspace, Project: s.Workspace,
		Interaction: interaction, Ref: interactionRef{interaction, interaction}, Status: runRunning, Activity: "idle", Interactive: !m.once(),
		StartedBy: s.Owner.ID, StartedAt: s.CreatedAt, Title: s.Title, Topic: cmp.Or(s.Summary, m.text("topic")),
		WorkflowID: cmp.Or(m.text("workflow_id"), string(s.ID)), FirstRun: cmp.Or(m.text("first_workflow_run_id"), string(s.ID)),
		Artifacts: "agents/" + string(s.ID), ForkedFrom: s.ForkedOf, Data: m["data"], Config: m["config"], ApprovalMode: m["tool_approval_mode"],
		ToolNames: m["tool_names"], DisabledMCP: m["disabled_mcp_collections"], Visibility: m["visibility"], Tags: m["tags"],
		Categories: m["categories"], Properties: m["properties"], Source: m["source"], CollectionID: m["collection_id"],
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
	if mode := approvalMode(s.Settings.Approvals); mode != "" {
		r.ApprovalMode = json.AppendString(nil, mode)
	}
	switch s.Status {
	case chat.Running:
		r.Activity = "working"
	case chat.Idle:
		if s.Last == 1 {
			r.Status = runCreated
		}
	}
	return r
}

// describeID describes a session as it is now.
func (d *Dialect) describeID(ctx context.Context, c chat.Caller, id chat.SessionID) (any, error) {
	sess, err := d.opt.Sessions.Get(ctx, c, id)
	if err != nil {
		return nil, err
	}
	return d.describe(ctx, c, &sess)
}

// current describes a run, or a workstream as a run, as it is now.
func (d *Dialect) current(ctx context.Context, c chat.Caller, sess run) (agentRun, error) {
	st, err := d.opt.Sessions.State(ctx, c, sess.ID)
	if err != nil {
		return agentRun{}, err
	}
	out, err := d.describe(ctx, c, &st.Session)
	if err == nil && sess.workstream != "" {
		out = asRun(out, st, sess.workstream)
	}
	return out, err
}

func (d *Dialect) showRun(r *http.Request, c chat.Caller, sess run) (any, error) {
	return d.current(r.Context(), c, sess)
}

// deleteRun terminates a run. Its log stays.
func (d *Dialect) deleteRun(r *http.Request, c chat.Caller, sess run) (any, error) {
	reason := r.URL.Query().Get("reason")
	return map[string]string{"message": "The run was terminated.", "reason": reason}, d.terminate(r.Context(), c, sess, reason)
}

// endRun terminates a run by its older address.
func (d *Dialect) endRun(r *http.Request, c chat.Caller, sess run) (any, error) {
	var in struct {
		Reason string `json:"reason"`
	}
	if err := d.http.Read(r, &in); err != nil {
		return nil, err
	}
	verb := "terminated"
	if strings.HasSuffix(r.URL.Path, "/cancel") {
		verb = "cancelled"
	}
	return map[string]string{"message": "The run was " + verb + "."}, d.terminate(r.Context(), c, sess, in.Reason)
}

// restartRun opens a run again that had ended.
func (d *Dialect) restartRun(r *http.Request, c chat.Caller, sess run) (any, error) {
	now, err := d.describe(r.Context(), c, &sess.Session)
	if err != nil {
		return nil, err
	}
	if now.end != nil {
		// The idempotency key makes two restarts of one end one event.
		draft := dialectDraft(typeRestarted, map[string]string{"ended": string(now.end.ID)}).As("vertesia:restart:" + string(now.end.ID))
		if err := d.append(r.Context(), c, sess.ID, draft); err != nil {
			return nil, err
		}
	}
	return d.describeID(r.Context(), c, sess.ID)
}

// forkRun begins a run with a copy of this one's events.
func (d *Dialect) forkRun(r *http.Request, c chat.Caller, sess run) (any, error) {
	fork, err := d.opt.Sessions.Fork(r.Context(), c, sess.ID, chat.Fork{Title: sess.Title, Metadata: sess.Metadata})
	if err != nil {
		return nil, err
	}
	return d.describeID(r.Context(), c, fork.ID)
}

// setStatus changes the properties and settings of a run, and may end it.
func (d *Dialect) setStatus(r *http.Request, c chat.Caller, sess run) (any, error) {
	var in struct {
		settingsBody
		Status string                     `json:"status"`
		Title  *string                    `json:"title"`
		Topic  *string                    `json:"topic"`
		Props  map[string]json.RawMessage `json:"properties"`
	}
	if err := d.http.Read(r, &in); err != nil {
		return nil, err
	}
	set := in.changes()
	if in.Topic != nil {
		set["topic"] = *in.Topic
	}
	if in.Props != nil {
		props := map[string]json.RawMessage{}
		_ = json.Unmarshal(metaOf(&sess.Session)["properties"], &props) // absent at first
		maps.Copy(props, in.Props)
		set["properties"] = props
	}
	if err := d.change(r.Context(), c, sess.ID, set, in.Title); err != nil {
		return nil, err
	}
	var body chat.Body
	switch in.Status {
	case "", runRunning, runCreated:
	case runCompleted:
		body = chat.SessionCompleted{}
	case runFailed:
		body = chat.SessionFailed{ErrorMessage: "reported as failed"}
	case runCancelled:
		body = chat.SessionCompleted{Outcome: outcomeCancelled}
	default:
		return nil, chat.Errorf(chat.Invalid, "status is created, running, completed, failed or cancelled, not %q", text.Clip(in.Status, 40))
	}
	if body != nil {
		if err := d.append(r.Context(), c, sess.ID, chat.NewDraft(body)); err != nil {
			return nil, err
		}
	}
	return d.describeID(r.Context(), c, sess.ID)
}

// bindRun stores the ids that a run has in another system.
func (d *Dialect) bindRun(r *http.Request, c chat.Caller, sess run) (any, error) {
	var in struct {
		WorkflowID string `json:"workflow_id"`
		FirstRun   string `json:"first_workflow_run_id"`
	}
	if err := d.http.Read(r, &in); err != nil {
		return nil, err
	}
	if err := d.change(r.Context(), c, sess.ID, map[string]any{"workflow_id": in.WorkflowID, "first_workflow_run_id": in.FirstRun}, nil); err != nil {
		return nil, err
	}
	return d.describeID(r.Context(), c, sess.ID)
}

// ended fills in how a run ended, unless it was opened again since.
func (d *Dialect) ended(ctx context.Context, c chat.Caller, s *chat.Session, r *agentRun) error {
	e, err := d.lastEvent(ctx, c, s.ID, chat.Range{Types: []string{"session.completed", "session.failed", typeRestarted}})
	if err != nil || e == nil {
		return err
	}
	switch b := e.Body.(type) {
	case chat.SessionCompleted:
		r.Status = runCompleted
		if b.Outcome == outcomeCancelled {
			r.Status = runCancelled
		}
	case chat.SessionFailed:
		r.Status, r.failed = runFailed, b.ErrorMessage
	default:
		return nil
	}
	r.CompletedAt, r.end = &e.At, e
	return nil
}

// endMessage is the message that ended a run, for a reader that has it already. It
// is sent again, because the client waits until a stream brings it.
func (d *Dialect) endMessage(ctx context.Context, c chat.Caller, sess run, enc coding, at chat.At) ([]byte, error) {
	if sess.workstream != "" {
		return d.workstreamEnd(ctx, c, sess, enc, at)
	}
	if sess.Status != chat.Completed && sess.Status != chat.FailedState {
		return nil, nil
	}
	var r agentRun
	if err := d.ended(ctx, c, &sess.Session, &r); err != nil || r.end == nil || r.end.At > at {
		return nil, err
	}
	return enc.appendMessages(nil, r.end, 0), nil
}

// run is the session that a request names, and the workstream when it names one
// by an id of the form SESSION~WORKSTREAM.
type run struct {
	chat.Session
	workstream string
}

// runID names a workstream where the protocol needs the id of a run.
func runID(session chat.SessionID, workstream string) string {
	if workstream == "" {
		return string(session)
	}
	return string(session) + "~" + workstream
}

// findRun returns the run of an id, which may be an alias of the caller.
func (d *Dialect) findRun(ctx context.Context, c chat.Caller, name string) (run, error) {
	id, workstream, child := strings.Cut(name, "~")
	resolved, err := d.opt.Sessions.Resolve(ctx, c, chat.SessionID(id))
	if err != nil {
		return run{}, err
	}
	sess, err := d.opt.Sessions.Get(ctx, c, resolved)
	if err != nil {
		if chat.CodeOf(err) == chat.NotFound {
			err = chat.Errorf(chat.NotFound, "there is no run %q, or it is not yours", text.Clip(name, 80))
		}
		return run{}, err
	}
	if !child {
		return run{Session: sess}, nil
	}
	found, err := d.hasWorkstream(ctx, c, sess.ID, workstream)
	if err == nil && !found {
		if sess, err = d.opt.Sessions.Latest(ctx, c, sess.ID); err == nil { // another node may have launched it
			found, err = d.hasWorkstream(ctx, c, sess.ID, workstream)
		}
	}
	if err == nil && !found {
		err = chat.Errorf(chat.NotFound, "run %s has no workstream %q", sess.ID, text.Clip(workstream, 64))
	}
	return run{Session: sess, workstream: workstream}, err
}

func (d *Dialect) hasWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string) (bool, error) {
	st, err := d.opt.Sessions.State(ctx, c, id)
	return err == nil && name != "" && st.Workstream(name) != nil, err
}

// fileOwner is findRun for the files of a run.
func (d *Dialect) fileOwner(ctx context.Context, c chat.Caller, id string) (chat.Session, string, error) {
	sess, err := d.findRun(ctx, c, id)
	return sess.Session, sess.workstream, err
}

// mustBeWhole refuses a workstream where only a whole run makes sense.
func (r *run) mustBeWhole() error {
	if r.workstream == "" {
		return nil
	}
	return chat.Errorf(chat.Invalid, "%s is a workstream of run %s, and this is done with whole runs: use the id of the run, or launch another workstream",
		text.Clip(r.workstream, 64), r.ID)
}
