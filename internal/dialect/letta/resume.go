package letta

import (
	"cmp"
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

func (q *request) readResume() (b resumeBody, err error) {
	if err = q.read(&b); err == nil {
		err = b.check()
	}
	return b, err
}

func (b *resumeBody) wantsPings() bool { return b.Pings == nil || *b.Pings }

// follower returns a follower of a run from the position that the request names.
func (b *resumeBody) follower(q *request, run *run) *follower {
	f := &follower{request: q, conv: run.conv, run: run, tokens: run.options.Tokens, summaries: run.options.Compaction, pings: b.wantsPings()}
	if b.After != nil {
		f.after = chat.At(*b.After)
	}
	return f
}

// resumeRun resumes the stream of an active or completed run.
func (q *request) resumeRun(w http.ResponseWriter) error {
	b, err := q.readResume()
	if err != nil {
		return err
	}
	run, err := q.loadRun(q.PathValue("run"))
	if err != nil {
		return err
	}
	return b.follower(q, run).stream(w)
}

// resumeConversation resumes the stream of a conversation's run: the one with an id, the one that answers an otid, or the
// active one.
func (q *request) resumeConversation(w http.ResponseWriter) error {
	b, err := q.readResume()
	if err != nil {
		return err
	}
	cv, err := q.conversation(q.PathValue("conversation"), cmp.Or(b.AgentID, q.Text("agent_id")))
	if err != nil {
		return err
	}
	var run *run
	switch {
	case b.RunID != "":
		if run, err = q.loadRun(b.RunID); err == nil && run.session != cv.session {
			err = errNotFound("run", b.RunID)
		}
	case b.OTID != "":
		var e *chat.Event
		if e, err = q.sentWith(cv, b.OTID); err == nil && e == nil {
			err = chat.Errorf(chat.NotFound, "nothing was sent to this conversation with the otid %q", clip(b.OTID))
		}
		if err != nil {
			return err
		}
		f, err := q.attach(cv, &sendRequest{pings: b.wantsPings(), options: optionsOf(e)}, *e)
		if err != nil {
			return err
		}
		if f.run == nil { // the message waits for its turn
			return f.stream(w)
		}
		run = f.run
	default:
		run, err = q.activeRun(cv)
	}
	if err != nil {
		return err
	}
	return b.follower(q, run).stream(w)
}

// activeRun returns the active run of a conversation.
func (q *request) activeRun(cv *conversation) (*run, error) {
	st, err := q.opt.Sessions.State(q.ctx, q.caller, cv.session)
	if err != nil {
		return nil, err
	}
	t := st.Line(mainLine).Turn
	if t == nil {
		return nil, chat.Errorf(chat.Invalid, "No active runs found for this conversation.")
	}
	started, err := q.event(cv.session, t.Seq)
	if err != nil {
		return nil, err
	}
	return q.runIn(cv, started)
}
