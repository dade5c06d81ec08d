package letta

import (
	"context"
	"net/http"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
)

// cancelWait bounds the time that a cancel request waits for the run to end, so that the next message finds the agent free.
const cancelWait = 5 * time.Second

var errNothingRuns = chat.Errorf(chat.Conflict, "No active runs to cancel.")

// cancelAgent stops the given runs of an agent, or all active ones. Runs that have ended count as cancelled.
func (d *Dialect) cancelAgent(r *http.Request, c chat.Caller) (any, error) {
	ctx := r.Context()
	var body struct {
		RunIDs []string `json:"run_ids"`
	}
	if err := d.read(r, &body); err != nil {
		return nil, err
	}
	_, rec, _, err := d.findAgent(ctx, c, r.PathValue("agent"))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, id := range body.RunIDs {
		run, err := d.loadRun(ctx, c, id)
		if err == nil && run.AgentID != rec.ID {
			err = errNotFound("run", id)
		}
		if err != nil {
			return nil, err
		}
		if _, err := d.stop(ctx, c, run.session, run.Turn); err != nil {
			return nil, err
		}
		out[id] = "cancelled"
	}
	if len(body.RunIDs) > 0 {
		return out, nil
	}
	list, err := d.conversationsOf(ctx, c, rec.ID, "")
	if err != nil {
		return nil, err
	}
	for _, cv := range list {
		turn, err := d.stop(ctx, c, cv.session, "")
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

func (d *Dialect) cancelConversation(r *http.Request, c chat.Caller) (any, error) {
	cv, err := d.conversation(r.Context(), c, r.PathValue("conversation"), r.URL.Query().Get("agent_id"))
	if err != nil {
		return nil, err
	}
	turn, err := d.stop(r.Context(), c, cv.session, "")
	if err == nil && turn == "" {
		err = errNothingRuns
	}
	return map[string]string{llm.RunID(turn): "cancelled"}, err
}

// stop stops a turn, or the running one, and waits for its end up to cancelWait. It returns "" when no such turn runs.
func (d *Dialect) stop(ctx context.Context, c chat.Caller, id chat.SessionID, turn chat.TurnID) (chat.TurnID, error) {
	st, err := d.opt.Sessions.State(ctx, c, id)
	if err != nil {
		return "", err
	}
	running := st.Line(mainLine).Turn
	if running == nil || turn != "" && running.ID != turn {
		return "", nil
	}
	res, err := d.opt.Sessions.Stop(ctx, c, id, mainLine, "cancelled by the client")
	if err != nil || !res.Stopped {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, cancelWait)
	defer cancel()
	for batch, err := range d.opt.Sessions.Watch(ctx, c, id, chat.Start{Cursor: &chat.Cursor{Seq: st.Last}}, nil) {
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
