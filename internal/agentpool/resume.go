package agentpool

import (
	"context"
	"errors"
	"time"

	"github.com/parley-hq/parley/chat"
)

// recover resumes the turns of the last process. It returns the sessions whose turns have to wait because the log cannot
// be written at the moment.
func (r *Runner) recover(ctx context.Context) (waiting []chat.SessionID, err error) {
	ids, err := r.sessions.Working(ctx)
	if err != nil {
		return nil, err
	}
	return r.resumeAll(ctx, ids, afterRestart), ctx.Err()
}

// Why turns are resumed.
const (
	afterRestart = "the server was restarted"
	afterImport  = "the session was imported"
)

// maxImports bounds the imported sessions that wait for their turns to be resumed.
const maxImports = 10_000

// Imported reports an imported session: its open turns are resumed. It does not block. When too many sessions wait, the
// turns are resumed at the next start.
func (r *Runner) Imported(id chat.SessionID) {
	r.mu.Lock()
	full := len(r.imports) >= maxImports
	if !full {
		r.imports = append(r.imports, id)
	}
	r.mu.Unlock()
	if full {
		r.opt.Logger.Warn("too many sessions were imported at once; the turns of this one are resumed at the next start", "session", id)
	}
	select {
	case r.imported <- struct{}{}:
	default:
	}
}

// resumePause is the pause before another try to resume turns.
const resumePause = 2 * time.Second

// resumeLater resumes turns that had to wait, and those of imported sessions, until ctx ends.
func (r *Runner) resumeLater(ctx context.Context, ids []chat.SessionID) {
	for known := false; ; {
		var later <-chan time.Time
		if len(ids) > 0 {
			later = time.After(resumePause)
		} else if !known {
			known = true
			r.agents.workers.recovered(r.open)
		}
		select {
		case <-later:
			ids = r.resumeAll(ctx, ids, afterRestart)
		case <-r.imported:
			r.mu.Lock()
			fresh := r.imports
			r.imports = nil
			r.mu.Unlock()
			ids = append(ids, r.resumeAll(ctx, fresh, afterImport)...)
		case <-ctx.Done():
			return
		}
	}
}

// resumeAll resumes the turns of sessions. A session whose turns cannot be resumed does not affect the others.
func (r *Runner) resumeAll(ctx context.Context, ids []chat.SessionID, why string) (waiting []chat.SessionID) {
	for _, id := range ids {
		var left []*run
		err := r.sessions.Turns(ctx, id, func(ref chat.TurnRef, workstream string, t chat.Turn) {
			u := &run{ref: ref, line: line{id, workstream}, agent: t.Agent, started: t.Seq, trigger: t.Trigger, resumed: true, stopped: t.Stopping}
			u.in.stopBy.Store(int64(t.StopBy))
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.runs[u.line] == nil { // else it was started by this process
				r.add(u)
				left = append(left, u)
			}
		})
		for _, u := range left {
			err = errors.Join(err, r.resume(ctx, u, why))
		}
		switch {
		case err == nil || ctx.Err() != nil:
		case chat.CodeOf(err) == chat.Unavailable:
			r.opt.Logger.WarnContext(ctx, "turns cannot be resumed yet; trying again", "session", id, "err", err)
			waiting = append(waiting, id)
		default:
			r.opt.Logger.ErrorContext(ctx, "turns could not be resumed; the next start tries again", "session", id, "err", err)
		}
	}
	return waiting
}

// resume begins a new attempt at a turn.
func (r *Runner) resume(ctx context.Context, u *run, why string) error {
	// A worker runs outside of the process and cannot have crashed it.
	crash := why == afterRestart && !r.opt.Clean && r.agents.Builtin(u.agent)
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
