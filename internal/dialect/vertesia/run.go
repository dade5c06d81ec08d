package vertesia

import (
	"context"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/text"
)

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
	st, err := d.opt.Sessions.State(ctx, c, sess.ID)
	if err != nil {
		return run{}, err
	}
	if workstream == "" || st.Workstream(workstream) == nil {
		return run{}, chat.Errorf(chat.NotFound, "run %s has no workstream %q", sess.ID, text.Clip(workstream, 64))
	}
	return run{Session: sess, workstream: workstream}, nil
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
