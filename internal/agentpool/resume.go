package agentpool

import (
	"context"
	"errors"
	"time"

	"github.com/parley-hq/parley/chat"
)

// recover resumes the turns of the last process. It returns those that have to wait because the log cannot be written at
// the moment.
func (r *Runner) recover(ctx context.Context) (waiting []resumption, err error) {
	if r.opt.Wait {
		return nil, nil
	}
	ids, err := r.sessions.Working(ctx)
	if err != nil {
		return nil, err
	}
	return r.resumeAll(ctx, resumptions(ids, afterRestart)), ctx.Err()
}

// resumption is a session whose turns are resumed.
type resumption struct {
	id  chat.SessionID
	why string
}

// Why turns are resumed.
const (
	afterRestart  = "the server was restarted"
	afterImport   = "the session was imported"
	afterHandover = "another server took the session over"
	afterSilence  = "the session could not be written for some time"
	afterLoss     = "the server that ran it was lost, and another one took the session over"
)

func resumptions(ids []chat.SessionID, why string) []resumption {
	list := make([]resumption, len(ids))
	for i, id := range ids {
		list[i] = resumption{id, why}
	}
	return list
}

// maxImports bounds the imported sessions that wait for their turns to be resumed.
const maxImports = 10_000

// Imported reports an imported session: its open turns are resumed. It does not block. When too many sessions wait, the
// turns are resumed at the next start.
func (r *Runner) Imported(id chat.SessionID) {
	r.mu.Lock()
	full := len(r.resumptions) >= maxImports
	r.mu.Unlock()
	if full {
		r.opt.Logger.Warn("too many sessions were imported at once; the turns of this one are resumed at the next start", "session", id)
		return
	}
	r.resumeSoon(resumption{id, afterImport})
}

// TakeOver resumes the turns of sessions that another node has run until now. handover says that it gave them up in order, so
// that they did not crash it. It does not block.
func (r *Runner) TakeOver(ids []chat.SessionID, handover bool) {
	why := afterLoss
	if handover {
		why = afterHandover
	}
	r.resumeSoon(resumptions(ids, why)...)
}

func (r *Runner) resumeSoon(list ...resumption) {
	r.mu.Lock()
	r.resumptions = append(r.resumptions, list...)
	r.mu.Unlock()
	select {
	case r.resumable <- struct{}{}:
	default:
	}
}

// resumePause is the pause before another try to resume turns.
const resumePause = 2 * time.Second

// resumeLater resumes turns that had to wait, and those of imported sessions and of sessions that were taken over, until ctx
// ends.
func (r *Runner) resumeLater(ctx context.Context, list []resumption) {
	for known := false; ; {
		var later <-chan time.Time
		if len(list) > 0 {
			later = time.After(resumePause)
		} else if !known {
			known = true
			r.agents.workers.recovered(r.open)
		}
		select {
		case <-later:
			list = r.resumeAll(ctx, list)
		case <-r.resumable:
			r.mu.Lock()
			fresh := r.resumptions
			r.resumptions = nil
			r.mu.Unlock()
			list = append(list, r.resumeAll(ctx, fresh)...)
		case <-ctx.Done():
			return
		}
	}
}

// resumeAll resumes the turns of sessions. A session whose turns cannot be resumed does not affect the others.
func (r *Runner) resumeAll(ctx context.Context, list []resumption) (waiting []resumption) {
	for _, s := range list {
		id := s.id
		var left []*run
		err := r.sessions.Turns(ctx, id, func(ref chat.TurnRef, workstream string, t chat.Turn) {
			u := &run{ref: ref, line: line{id, workstream}, agent: t.Agent, started: t.Seq, trigger: t.Trigger, resumed: true, stopped: t.Stopping}
			u.in.stopBy.Store(int64(t.StopBy))
			r.mu.Lock()
			defer r.mu.Unlock()
			if old := r.runs[u.line]; old != nil {
				if old.has(ref) {
					return // it was started by this process
				}
				r.move(old) // another node has owned the session since it began
			}
			r.add(u)
			left = append(left, u)
		})
		for _, u := range left {
			err = errors.Join(err, r.resume(ctx, u, s.why))
		}
		switch {
		case err == nil || ctx.Err() != nil:
		case chat.ReasonOf(err) == chat.OwnerChanged: // the next owner resumes them
		case chat.CodeOf(err) == chat.Unavailable, chat.ReasonOf(err) == chat.AttemptOver:
			r.opt.Logger.WarnContext(ctx, "turns cannot be resumed yet; trying again", "session", id, "err", err)
			waiting = append(waiting, s)
		default:
			r.opt.Logger.ErrorContext(ctx, "turns could not be resumed; the next start tries again", "session", id, "err", err)
		}
	}
	return waiting
}

// resume begins a new attempt at a turn.
func (r *Runner) resume(ctx context.Context, u *run, why string) error {
	// A worker runs outside of the process and cannot have crashed it.
	crash := (why == afterRestart && !r.opt.Clean || why == afterLoss) && r.agents.Builtin(u.agent)
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
	switch {
	case chat.ReasonOf(err) == chat.AttemptOver:
		return err // an earlier run of the turn, which ends now, has begun another attempt since the turn was read
	case chat.CodeOf(err) == chat.Conflict || chat.CodeOf(err) == chat.Gone:
		return nil // it ended meanwhile
	}
	return err
}
