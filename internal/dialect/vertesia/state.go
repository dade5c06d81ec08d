package vertesia

import (
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// setStatus changes what is known of a run. A run's end is a fact like others.
func (d *Dialect) setStatus(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var in struct {
		Status   string                     `json:"status"`
		Title    *string                    `json:"title"`
		Topic    *string                    `json:"topic"`
		Props    map[string]json.RawMessage `json:"properties"`
		Disabled *[]string                  `json:"disabled_mcp_collections"`
		Mode     *string                    `json:"tool_approval_mode"`
		Model    *string                    `json:"model"`
		Effort   json.RawMessage            `json:"effort"`
	}
	if err := d.read(r, &in); err != nil {
		return err
	}
	sess, err := d.whole(r, c)
	if err != nil {
		return err
	}
	set := map[string]any{}
	if in.Topic != nil {
		set["topic"] = *in.Topic
	}
	if in.Props != nil {
		props := map[string]json.RawMessage{}
		_ = json.Unmarshal(metaOf(&sess.Session)["properties"], &props) // absent at first
		for k, v := range in.Props {
			props[k] = v
		}
		set["properties"] = props
	}
	if in.Disabled != nil {
		set["disabled_mcp_collections"] = *in.Disabled
	}
	if in.Mode != nil {
		set["tool_approval_mode"] = *in.Mode
	}
	if in.Model != nil {
		set["model"] = *in.Model
	}
	if in.Effort != nil {
		set["effort"] = in.Effort
	}
	if err := d.change(r.Context(), c, sess.ID, set, in.Title); err != nil {
		return err
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
		return chat.Errorf(chat.Invalid, "status is created, running, completed, failed or cancelled, not %q", clip(in.Status, 40))
	}
	if body != nil {
		draft := chat.NewDraft(body)
		draft.Via = via
		if _, err := d.opt.Sessions.Append(r.Context(), c, sess.ID, []chat.Draft{draft}); err != nil {
			return err
		}
	}
	return d.sendRun(w, r, c, sess.ID)
}

// bindRun keeps the names that a run has elsewhere.
func (d *Dialect) bindRun(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var in struct {
		WorkflowID string `json:"workflow_id"`
		FirstRun   string `json:"first_workflow_run_id"`
	}
	if err := d.read(r, &in); err != nil {
		return err
	}
	sess, err := d.whole(r, c)
	if err != nil {
		return err
	}
	if err := d.change(r.Context(), c, sess.ID, map[string]any{"workflow_id": in.WorkflowID, "first_workflow_run_id": in.FirstRun}, nil); err != nil {
		return err
	}
	return d.sendRun(w, r, c, sess.ID)
}
