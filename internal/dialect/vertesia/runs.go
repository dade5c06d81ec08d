package vertesia

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// agentRun is a run as clients see it.
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
	failed       string          // why, when it has
	closer       *chat.Event     // what ended it
}

type interactionRef struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// States of a run.
const (
	runCreated   = "created"
	runRunning   = "running"
	runCompleted = "completed"
	runFailed    = "failed"
	runCancelled = "cancelled"

	outcomeCancelled = "cancelled"
)

// describe gives a run as clients see it.
func (d *Dialect) describe(ctx context.Context, c chat.Caller, s *chat.Session) (agentRun, error) {
	r := outline(s)
	if s.Status == chat.Completed || s.Status == chat.FailedState {
		return r, d.ended(ctx, c, s, &r)
	}
	return r, nil
}

// outline is what is known of a run without looking into its log: all but how it
// has ended.
func outline(s *chat.Session) agentRun {
	m := metaOf(s)
	interaction := first(m.text("interaction"), s.Agent)
	r := agentRun{
		ID: string(s.ID), Kind: "agent", Type: "autonomous", Account: s.Workspace, Project: s.Workspace,
		Interaction: interaction, Ref: interactionRef{interaction, interaction}, Status: runRunning, Activity: "idle", Interactive: !m.once(),
		StartedBy: s.Owner.ID, StartedAt: s.CreatedAt, Title: s.Title, Topic: first(s.Summary, m.text("topic")),
		WorkflowID: first(m.text("workflow_id"), string(s.ID)), FirstRun: first(m.text("first_workflow_run_id"), string(s.ID)),
		Artifacts: "agents/" + string(s.ID), ForkedFrom: s.ForkedOf, Data: m["data"], Config: m["config"], ApprovalMode: m["tool_approval_mode"],
		ToolNames: m["tool_names"], DisabledMCP: m["disabled_mcp_collections"], Visibility: m["visibility"], Tags: m["tags"],
		Categories: m["categories"], Properties: m["properties"], Source: m["source"], CollectionID: m["collection_id"],
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
	if mode := approvalMode(s.Settings.Approvals); mode != "" {
		r.ApprovalMode = chat.AppendString(nil, mode)
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

// startRun begins a run: a session with the interaction's agent, and a first
// message made of the data.
func (d *Dialect) startRun(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	b, err := d.body(r)
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
	out, err := d.describe(r.Context(), c, &sess)
	if err != nil {
		return err
	}
	if firstMessage(p.Data) != "" {
		out.Status, out.Activity = runRunning, "working"
	}
	d.send(w, r, http.StatusOK, out)
	return nil
}

func (d *Dialect) sendRun(w http.ResponseWriter, r *http.Request, c chat.Caller, id chat.SessionID) error {
	sess, err := d.opt.Sessions.Get(r.Context(), c, id)
	if err != nil {
		return err
	}
	out, err := d.describe(r.Context(), c, &sess)
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, out)
	return nil
}

// look describes what a request is about, a run or one line of it, as it is now.
func (d *Dialect) look(r *http.Request, c chat.Caller) (agentRun, error) {
	sess, err := d.run(r, c)
	if err != nil {
		return agentRun{}, err
	}
	if sess.once {
		if err := d.settle(r.Context(), c, sess.ID); err != nil {
			return agentRun{}, err
		}
	}
	st, err := d.opt.Sessions.State(r.Context(), c, sess.ID)
	if err != nil {
		return agentRun{}, err
	}
	out, err := d.describe(r.Context(), c, &st.Session)
	if err == nil && sess.line != "" {
		out = asChild(out, st, sess.line)
	}
	return out, err
}

// begin creates the session and says the first message in it.
func (d *Dialect) begin(ctx context.Context, c chat.Caller, p startPayload, kept meta) (chat.Session, error) {
	text := firstMessage(p.Data)
	if text == "" && kept.once() {
		return chat.Session{}, chat.Errorf(chat.Invalid, "a run that is not interactive needs data to work on, such as {\"user_prompt\": \"…\"}")
	}
	metadata, err := kept.into(nil)
	if err != nil {
		return chat.Session{}, err
	}
	settings, err := chosen(chat.Settings{}, kept)
	if err != nil {
		return chat.Session{}, err
	}
	sess, _, err := d.opt.Sessions.Create(ctx, c, chat.NewSession{Agent: d.agentOf(c, p.Interaction), Title: p.Title, Metadata: metadata, Settings: settings})
	if err != nil || text == "" {
		return sess, err
	}
	draft := chat.NewDraft(chat.UserMessage{Text: text})
	draft.Via = via
	if _, err := d.opt.Sessions.Append(ctx, c, sess.ID, []chat.Draft{draft}); err != nil {
		return sess, err
	}
	return sess, nil
}

// agentOf is the agent that an interaction names; one that nobody answers here
// is left to the default agent.
func (d *Dialect) agentOf(c chat.Caller, interaction string) string {
	if chat.CheckAgentName(interaction) != nil {
		return ""
	}
	if d.opt.Agents == nil || slices.Contains(d.opt.Agents(c.In()), interaction) {
		return interaction
	}
	return ""
}

// recordRun begins a run whose work is done by somebody else, who posts updates.
func (d *Dialect) recordRun(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	b, err := d.body(r)
	if err != nil {
		return err
	}
	p, kept, err := decodeStart(b)
	if err != nil {
		return err
	}
	metadata, err := kept.into(nil)
	if err != nil {
		return err
	}
	sess, _, err := d.opt.Sessions.Create(r.Context(), c, chat.NewSession{Agent: chat.NoAgent, Title: p.Title, Metadata: metadata})
	if err != nil {
		return err
	}
	return d.sendRun(w, r, c, sess.ID)
}

func (d *Dialect) showRun(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	out, err := d.look(r, c)
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, out)
	return nil
}

// deleteRun terminates a run. Its log stays.
func (d *Dialect) deleteRun(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, err := d.run(r, c)
	if err != nil {
		return err
	}
	reason := r.URL.Query().Get("reason")
	if err := d.terminate(r.Context(), c, sess, reason); err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, map[string]string{"message": "The run was terminated.", "reason": reason})
	return nil
}

// endRun is the older way to terminate.
func (d *Dialect) endRun(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var body struct {
		Reason string `json:"reason"`
	}
	if err := d.read(r, &body); err != nil {
		return err
	}
	sess, err := d.run(r, c)
	if err != nil {
		return err
	}
	if err := d.terminate(r.Context(), c, sess, body.Reason); err != nil {
		return err
	}
	verb := "terminated"
	if strings.HasSuffix(r.URL.Path, "/cancel") {
		verb = "cancelled"
	}
	d.send(w, r, http.StatusOK, map[string]string{"message": "The run was " + verb + "."})
	return nil
}

// restartRun opens a run again that had ended.
func (d *Dialect) restartRun(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, err := d.whole(r, c)
	if err != nil {
		return err
	}
	now, err := d.describe(r.Context(), c, &sess.Session)
	if err != nil {
		return err
	}
	if now.closer != nil {
		draft, err := ownDraft(typeRestarted, map[string]string{"ended": string(now.closer.ID)})
		if err != nil {
			return err
		}
		// Two who open it at once open it once.
		if _, err := d.opt.Sessions.Append(r.Context(), c, sess.ID, []chat.Draft{draft.As("vertesia:restart:" + string(now.closer.ID))}); err != nil {
			return err
		}
	}
	return d.sendRun(w, r, c, sess.ID)
}
