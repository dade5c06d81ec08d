package vertesia

import (
	"context"
	"net/http"

	"github.com/parley-hq/parley/chat"
)

// A workstream looked at as a run of its own, under the id RUN~WORKSTREAM.

// childID names a workstream where the protocol wants the id of a run.
func childID(session chat.SessionID, workstream string) string {
	return string(session) + "~" + workstream
}

// whole is the run of a request that makes sense only for the whole of it.
func (d *Dialect) whole(r *http.Request, c chat.Caller) (run, error) {
	sess, err := d.run(r, c)
	if err == nil && sess.line != "" {
		err = chat.Errorf(chat.Invalid, "%s is a workstream of run %s, and this is done with whole runs: use the id of the run, or launch another workstream", clip(sess.line, 64), sess.ID)
	}
	return sess, err
}

// asChild is a line of a run as a run of its own.
func asChild(r agentRun, st *chat.State, line string) agentRun {
	ws := st.Workstream(line)
	agent := first(ws.Agent, r.Interaction)
	id := childID(st.Session.ID, line)
	r.ID, r.WorkflowID, r.FirstRun = id, id, id
	r.Interaction, r.Ref = agent, interactionRef{agent, agent}
	r.Title, r.Topic, r.Interactive, r.ForkedFrom = first(ws.Name, ws.ID), ws.Task, ws.Interactive, ""
	r.Artifacts, r.Data = "agents/"+id, chat.AppendString(nil, ws.Task)
	r.StartedAt, r.CreatedAt = ws.LaunchedAt, ws.LaunchedAt
	r.Status, r.Activity, r.CompletedAt, r.failed, r.closer = childStates[ws.State], "idle", nil, ws.Error, nil
	if st.Line(line).Turn != nil {
		r.Activity = "working"
	}
	if ws.EndedAt != 0 {
		r.CompletedAt, r.UpdatedAt = &ws.EndedAt, ws.EndedAt
	}
	return r
}

// childStates are the states of a workstream in words for runs.
var childStates = map[string]string{
	chat.WorkRunning: runRunning, chat.WorkCanceling: runRunning, chat.WorkCompleted: runCompleted,
	chat.WorkFailed: runFailed, chat.WorkTimeout: runFailed, chat.WorkCanceled: runCancelled,
}

// childCloser is closerFor a line that is followed as a run of its own.
func (d *Dialect) childCloser(ctx context.Context, c chat.Caller, sess run, enc coding, at chat.At) ([]byte, error) {
	st, err := d.opt.Sessions.State(ctx, c, sess.ID)
	if err != nil {
		return nil, err
	}
	ended := st.Workstream(sess.line).EndedAt
	if ended == 0 || ended > at {
		return nil, nil
	}
	e, err := d.lastBefore(ctx, c, &sess.Session, ended)
	if err != nil || e == nil {
		return nil, err
	}
	last := 0
	for _, m := range enc.messages(e) {
		last = m.index
	}
	return enc.appendMessages(nil, e, e.At+chat.At(last)-1), nil
}

// childOf shows a workstream as a run of its own.
func childOf(parent *agentRun, ws *chat.Workstream) workflowRun {
	id := childID(chat.SessionID(parent.ID), ws.ID)
	w := workflowRun{
		Status: "RUNNING", Type: "Workstream", StartedAt: &ws.LaunchedAt, RunID: id, WorkflowID: id, InitiatedBy: parent.StartedBy,
		Interaction: first(ws.Agent, parent.Interaction), Kind: "Workstream", Topic: first(ws.Name, ws.ID), Activity: "working", Interactive: ws.Interactive,
		Input: chat.AppendString(nil, ws.Task),
	}
	switch ws.State {
	case "completed":
		w.Status = "COMPLETED"
	case "failed":
		w.Status, w.Error = "FAILED", map[string]string{"message": ws.Error}
	case "timeout":
		w.Status = "TIMED_OUT"
	case "canceled":
		w.Status = "CANCELED"
	}
	if ws.EndedAt != 0 {
		w.ClosedAt, w.Activity, w.Duration = &ws.EndedAt, "idle", int64(ws.EndedAt-ws.LaunchedAt)/1000
	}
	if ws.Summary != "" {
		w.Result = ws.Summary
	}
	return w
}
