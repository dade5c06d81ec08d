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
	return r.takeUp(ctx, ids), ctx.Err()
}

// retakeAfter is the pause before turns that had to wait are tried again.
const retakeAfter = 2 * time.Second

// retake takes up turns that had to wait, for as long as it takes.
func (r *Runner) retake(ctx context.Context, ids []chat.SessionID) {
	tick := time.NewTicker(retakeAfter)
	defer tick.Stop()
	for len(ids) > 0 {
		select {
		case <-tick.C:
			ids = r.takeUp(ctx, ids)
		case <-ctx.Done():
			return
		}
	}
}

// takeUp takes up the turns of sessions. One that cannot be taken up does not
// keep the others, or the server, from going on.
func (r *Runner) takeUp(ctx context.Context, ids []chat.SessionID) (waiting []chat.SessionID) {
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
			err = errors.Join(err, r.resume(ctx, u))
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
func (r *Runner) resume(ctx context.Context, u *run) error {
	next, ok, err := r.sessions.ResumeTurn(ctx, u.ref, "the server was restarted", !r.opt.Clean)
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
