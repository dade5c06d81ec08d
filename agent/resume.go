package agent

import (
	"context"
	"errors"

	"github.com/parley-hq/parley/chat"
)

// recover takes up the turns that nobody runs. One that cannot be taken up does
// not keep the others, or the server, from going on.
func (r *Runner) recover(ctx context.Context) error {
	ids, err := r.sessions.Working(ctx)
	if err != nil {
		return err
	}
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
		if err != nil && ctx.Err() == nil {
			r.opt.Logger.ErrorContext(ctx, "turns could not be taken up; they are tried again at the next start", "session", id, "err", err)
		}
	}
	return ctx.Err()
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
