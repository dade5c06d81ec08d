package letta

import (
	"cmp"
	"context"
	"net/http"

	"github.com/parley-hq/parley/chat"
)

// resumeBody is the body of a request to resume a stream.
type resumeBody struct {
	AgentID  string   `json:"agent_id"`
	RunID    string   `json:"run_id"`
	OTID     string   `json:"otid"`
	After    *float64 `json:"starting_after"`
	Pings    *bool    `json:"include_pings"`
	Interval *float64 `json:"poll_interval"`
	Batch    *float64 `json:"batch_size"`
}

func (b *resumeBody) check() error {
	if b.After != nil && (*b.After < 0 || *b.After != float64(int64(*b.After)) || *b.After > 1<<53) {
		return malformed("starting_after: it is the seq_id of the last frame, or 0")
	}
	return nil
}

func (d *Dialect) readResume(r *http.Request) (b resumeBody, err error) {
	if err = d.read(r, &b); err == nil {
		err = b.check()
	}
	return b, err
}

func (b *resumeBody) wantsPings() bool { return b.Pings == nil || *b.Pings }

// follower returns a follower of a run from the position that the request names.
func (b *resumeBody) follower(d *Dialect, c chat.Caller, run *run) *follower {
	f := &follower{d: d, caller: c, conv: run.conv, run: run, tokens: run.options.Tokens, summaries: run.options.Compaction, pings: b.wantsPings()}
	if b.After != nil {
		f.after = chat.At(*b.After)
	}
	return f
}

// resumeRun resumes the stream of an active or completed run.
func (d *Dialect) resumeRun(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	b, err := d.readResume(r)
	if err != nil {
		return err
	}
	run, err := d.loadRun(r.Context(), c, r.PathValue("run"))
	if err != nil {
		return err
	}
	return b.follower(d, c, run).stream(w, r)
}

// resumeConversation resumes the stream of a conversation's run: the one with an id, the one that answers an otid, or the
// active one.
func (d *Dialect) resumeConversation(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	ctx := r.Context()
	b, err := d.readResume(r)
	if err != nil {
		return err
	}
	cv, err := d.conversation(ctx, c, r.PathValue("conversation"), cmp.Or(b.AgentID, r.URL.Query().Get("agent_id")))
	if err != nil {
		return err
	}
	var run *run
	switch {
	case b.RunID != "":
		if run, err = d.loadRun(ctx, c, b.RunID); err == nil && run.session != cv.session {
			err = errNotFound("run", b.RunID)
		}
	case b.OTID != "":
		var e *chat.Event
		if e, err = d.sentWith(ctx, c, cv, b.OTID); err == nil && e == nil {
			err = chat.Errorf(chat.NotFound, "nothing was sent to this conversation with the otid %q", clip(b.OTID))
		}
		if err != nil {
			return err
		}
		f, err := d.attach(ctx, c, cv, &sendRequest{pings: b.wantsPings(), options: optionsOf(e)}, *e)
		if err != nil {
			return err
		}
		if f.run == nil { // the message waits for its turn
			return f.stream(w, r)
		}
		run = f.run
	default:
		run, err = d.activeRun(ctx, c, cv)
	}
	if err != nil {
		return err
	}
	return b.follower(d, c, run).stream(w, r)
}

// activeRun returns the active run of a conversation.
func (d *Dialect) activeRun(ctx context.Context, c chat.Caller, cv *conversation) (*run, error) {
	st, err := d.opt.Sessions.State(ctx, c, cv.session)
	if err != nil {
		return nil, err
	}
	t := st.Line(mainLine).Turn
	if t == nil {
		return nil, chat.Errorf(chat.Invalid, "No active runs found for this conversation.")
	}
	started, err := d.event(ctx, c, cv.session, t.Seq)
	if err != nil {
		return nil, err
	}
	return d.runIn(ctx, c, cv, started)
}
