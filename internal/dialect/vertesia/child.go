package vertesia

import (
	"cmp"
	"context"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/text"
)

// A workstream can be used as a run of its own, under the id RUN~WORKSTREAM.

// asRun is a workstream of a run as a run of its own.
func asRun(r agentRun, st *chat.State, workstream string) agentRun {
	ws := st.Workstream(workstream)
	agent := cmp.Or(ws.Agent, r.Interaction)
	id := runID(st.Session.ID, workstream)
	r.ID, r.WorkflowID, r.FirstRun = id, id, id
	r.Interaction, r.Ref = agent, interactionRef{agent, agent}
	r.Title, r.Topic, r.Interactive, r.ForkedFrom = cmp.Or(ws.Name, ws.ID), ws.Task, ws.Interactive, ""
	r.Artifacts, r.Data = "agents/"+id, chat.AppendString(nil, ws.Task)
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
