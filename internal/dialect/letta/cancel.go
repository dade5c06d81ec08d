package letta

import (
	"context"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/record"
)

// cancelWait bounds the time that a cancel request waits for the run to end, so that the next message finds the agent free.
const cancelWait = 5 * time.Second

var errNothingRuns = chat.Errorf(chat.Conflict, "No active runs to cancel.")

// cancelAgent stops the given runs of an agent, or all active ones. Runs that have ended count as cancelled.
func (q *request) cancelAgent(rec *record.Record, _ *chat.Session) (any, error) {
	var body struct {
		RunIDs []string `json:"run_ids"`
	}
	if err := q.read(&body); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, id := range body.RunIDs {
		run, err := q.loadRun(id)
		if err == nil && run.AgentID != rec.ID {
			err = errNotFound("run", id)
		}
		if err != nil {
			return nil, err
		}
		if _, err := q.stop(run.session, run.Turn); err != nil {
			return nil, err
		}
		out[id] = "cancelled"
	}
	if len(body.RunIDs) > 0 {
		return out, nil
	}
	list, err := q.conversationsOf(rec.ID, "")
	if err != nil {
		return nil, err
	}
	for _, cv := range list {
		turn, err := q.stop(cv.session, "")
		if err != nil {
			return nil, err
		}
		if turn != "" {
			out[llm.RunID(turn)] = "cancelled"
		}
	}
	if len(out) == 0 {
		return nil, errNothingRuns
	}
	return out, nil
}

func (q *request) cancelConversation() (any, error) {
	cv, err := q.conversation(q.PathValue("conversation"), q.Text("agent_id"))
	if err != nil {
		return nil, err
	}
	turn, err := q.stop(cv.session, "")
	if err == nil && turn == "" {
		err = errNothingRuns
	}
	return map[string]string{llm.RunID(turn): "cancelled"}, err
}

// stop stops a turn, or the running one, and waits for its end up to cancelWait. It returns "" when no such turn runs.
func (q *request) stop(id chat.SessionID, turn chat.TurnID) (chat.TurnID, error) {
	st, err := q.opt.Sessions.State(q.ctx, q.caller, id)
	if err == nil && st.Line(mainLine).Turn == nil { // another node may have begun one
		if _, err = q.opt.Sessions.Latest(q.ctx, q.caller, id); err == nil {
			st, err = q.opt.Sessions.State(q.ctx, q.caller, id)
		}
	}
	if err != nil {
		return "", err
	}
	running := st.Line(mainLine).Turn
	if running == nil || turn != "" && running.ID != turn {
		return "", nil
	}
	res, err := q.opt.Sessions.Stop(q.ctx, q.caller, id, mainLine, "cancelled by the client")
	if err != nil || !res.Stopped {
		return "", err
	}
	ctx, cancel := context.WithTimeout(q.ctx, cancelWait)
	defer cancel()
	for batch, err := range q.opt.Sessions.Watch(ctx, q.caller, id, core.Start{Cursor: &chat.Cursor{Seq: st.Last}}, nil) {
		if err != nil {
			break // the stop itself is stored
		}
		for i := range batch.Entries {
			if e := &batch.Entries[i]; e.Label.Type == (chat.TurnCompleted{}).Type() && e.Label.Workstream == mainLine {
				return res.TurnID, nil
			}
		}
	}
	return res.TurnID, nil
}
