package agent

import (
	"context"
	"errors"
	"time"

	"github.com/parley-hq/parley/chat"
)

// recover takes up the turns that nobody runs, and returns the sessions whose
// turns have to wait because nothing can be stored at the moment.
func (r *Runner) recover(ctx context.Context) (waiting []chat.SessionID, err error) {
	ids, err := r.sessions.Working(ctx)
	if err != nil {
		return nil, err
	}
	return r.takeUp(ctx, ids, restarted), ctx.Err()
}

// Why turns are taken up.
const (
	restarted = "the server was restarted"
	imported  = "the session was imported"
)

// Imported tells the runner of a session that came as a whole: turns that were
// under way in it are taken up. It does not block.
func (r *Runner) Imported(id chat.SessionID) {
	r.mu.Lock()
	r.imports = append(r.imports, id)
	r.mu.Unlock()
	select {
	case r.came <- struct{}{}:
	default:
	}
}

// retakeAfter is the pause before turns that had to wait are tried again.
const retakeAfter = 2 * time.Second

// retake takes up turns that had to wait, for as long as it takes, and those of
// imported sessions.
func (r *Runner) retake(ctx context.Context, ids []chat.SessionID) {
	for known := false; ; {
		var later <-chan time.Time
		if len(ids) > 0 {
			later = time.After(retakeAfter)
		} else if !known {
			known = true
			r.agents.workers.recovered(r.open)
		}
		select {
		case <-later:
			ids = r.takeUp(ctx, ids, restarted)
		case <-r.came:
			r.mu.Lock()
			fresh := r.imports
			r.imports = nil
			r.mu.Unlock()
			ids = append(ids, r.takeUp(ctx, fresh, imported)...)
		case <-ctx.Done():
			return
		}
	}
}

// takeUp takes up the turns of sessions. One that cannot be taken up does not
// keep the others, or the server, from going on.
func (r *Runner) takeUp(ctx context.Context, ids []chat.SessionID, why string) (waiting []chat.SessionID) {
	for _, id := range ids {
		var left []*run
		err := r.sessions.Turns(ctx, id, func(ref chat.TurnRef, workstream string, t chat.Turn) {
			u := &run{ref: ref, line: line{id, workstream}, agent: t.Agent, started: t.Seq, trigger: t.Trigger, resumed: true, stopped: t.Stopping}
			u.box.stopBy.Store(int64(t.StopBy))
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.runs[u.line] == nil { // else it began after this process did
				r.note(u)
				left = append(left, u)
			}
		})
		for _, u := range left {
			err = errors.Join(err, r.resume(ctx, u, why))
		}
		switch {
		case err == nil || ctx.Err() != nil:
		case chat.CodeOf(err) == chat.Unavailable:
			r.opt.Logger.WarnContext(ctx, "turns cannot be taken up yet; trying again", "session", id, "err", err)
			waiting = append(waiting, id)
		default:
			r.opt.Logger.ErrorContext(ctx, "turns could not be taken up; they are tried again at the next start", "session", id, "err", err)
		}
	}
	return waiting
}

// resume begins a new attempt at a turn that is known already.
func (r *Runner) resume(ctx context.Context, u *run, why string) error {
	// A worker runs outside of the process and cannot have ended it.
	crash := why == restarted && !r.opt.Clean && r.agents.Builtin(u.agent)
	next, ok, err := r.sessions.ResumeTurn(ctx, u.ref, why, crash)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && ok {
		u.ref = next
		r.begin(u)
		return nil
	}
	if r.runs[u.line] == u {
		delete(r.runs, u.line)
	}
	if chat.CodeOf(err) == chat.Conflict || chat.CodeOf(err) == chat.Gone {
		return nil // it ended meanwhile
	}
	return err
}
