package letta

import (
	"context"
	"net/http"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
)

// cancelWait is how long a request to cancel waits for the run to end, so that
// the next message finds the agent free.
const cancelWait = 5 * time.Second

func (d *Dialect) cancelAgent(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	ctx := r.Context()
	var body struct {
		RunIDs []string `json:"run_ids"`
	}
	if err := d.readJSON(r, &body); err != nil {
		return err
	}
	_, rec, err := d.findAgent(ctx, c, r.PathValue("agent"))
	if err != nil {
		return err
	}
	out := map[string]string{}
	for _, id := range body.RunIDs {
		run, err := d.loadRun(ctx, c, id)
		if err != nil {
			return err
		}
		if run.agentID != rec.ID {
			return errNoRun(id)
		}
		if _, err := d.stop(ctx, c, run.session, run.turn); err != nil {
			return err
		}
		out[id] = "cancelled" // what has ended already is nothing to complain about
	}
	if len(body.RunIDs) == 0 {
		places, err := d.placesOf(ctx, c, rec.ID, "")
		if err != nil {
			return err
		}
		for _, p := range places {
			turn, err := d.stop(ctx, c, p.session, "")
			if err != nil {
				return err
			}
			if turn != "" {
				out[llm.RunID(turn)] = "cancelled"
			}
		}
		if len(out) == 0 {
			return errNothingRuns
		}
	}
	d.send(w, r, http.StatusOK, out)
	return nil
}

var errNothingRuns = chat.Errorf(chat.Conflict, "No active runs to cancel.")

func (d *Dialect) cancelConversation(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	p, err := d.conversationPlace(r.Context(), c, r.PathValue("conversation"), r.URL.Query().Get("agent_id"))
	if err != nil {
		return err
	}
	turn, err := d.stop(r.Context(), c, p.session, "")
	if err != nil {
		return err
	}
	if turn == "" {
		return errNothingRuns
	}
	d.send(w, r, http.StatusOK, map[string]string{llm.RunID(turn): "cancelled"})
	return nil
}

// stop stops a turn, or whatever runs, and waits a while for its end. What it
// asked is withdrawn with it.
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
			break // the stop itself is a fact
		}
		for i := range batch.Entries {
			if e := &batch.Entries[i]; e.Label.Type == (chat.TurnCompleted{}).Type() && e.Label.Workstream == mainLine {
				return res.TurnID, nil
			}
		}
	}
	return res.TurnID, nil
}
