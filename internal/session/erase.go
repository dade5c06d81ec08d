package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/sleep"
)

// Erase removes a session and all its text permanently; it needs the role owner. First
// it stores an erasure record. From then on requests for the id fail with the code gone,
// and the server completes the erasure even if the caller goes away or the process
// restarts. Erase returns the receipt when the erasure is complete. If it cannot be
// completed now, Erase returns an error with the code unavailable; call it again for the
// receipt.
func (s *Sessions) Erase(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Receipt, error) {
	res, err := s.call(ctx, &call{Method: callErase, Session: id, Caller: c})
	if err != nil {
		return chat.Receipt{}, err
	}
	return *res.Receipt, nil
}

func (s *Sessions) eraseHere(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Receipt, error) {
	e, err := s.beginErase(ctx, c, id)
	if err != nil {
		return chat.Receipt{}, err
	}
	job := s.erasures.start(e, s.finishErase)
	if err := job.wait(ctx); err != nil {
		return chat.Receipt{}, err
	}
	receipt := job.receipt
	if s.opt.OtherNodes != nil {
		s.opt.OtherNodes.Erased(ctx, &receipt)
	}
	return receipt, nil
}

// FinishErasure waits until nothing is left on this node of a session that was erased.
func (s *Sessions) FinishErasure(ctx context.Context, id chat.SessionID) error {
	e, ok, err := s.log.Erasure(ctx, id)
	if !ok || err != nil {
		return err
	}
	return s.erasures.start(e, s.finishErase).wait(ctx)
}

// errErasing is the error for an erasure that is not complete yet.
func errErasing(id chat.SessionID, why error) *chat.Error {
	return chat.Errorf(chat.Unavailable, "session %s is erased and cannot be read any more, but some of its data is not removed yet: %v; the server continues by itself, repeat the request to get the receipt", id, chat.Public(why).Msg).
		With("erasing", true).WithReason(chat.EraseUnfinished).Because(why)
}

// beginErase stores the erasure record, or returns the existing one.
func (s *Sessions) beginErase(ctx context.Context, c chat.Caller, id chat.SessionID) (core.Erasure, error) {
	sess, err := s.visible(ctx, c, id)
	if chat.CodeOf(err) == chat.Gone {
		e, ok := s.erasures.underWay(id)
		if !ok {
			var failed error
			if e, ok, failed = s.log.Erasure(ctx, id); failed != nil {
				return e, failed
			}
		}
		erased := chat.Session{ID: id, Workspace: e.Workspace, Owner: e.Owner}
		if !ok || c.May(&erased, chat.Owner) != nil {
			return e, err
		}
		return e, nil
	}
	if err == nil {
		err = c.May(&sess, chat.Owner)
	}
	if err != nil {
		return core.Erasure{}, err
	}
	r := s.acquire(sess.ID)
	defer r.release()
	var e core.Erasure
	// The sequencer ensures that no append runs at the same time.
	err = r.do(ctx, &request{unbounded: true, exclusive: func(ctx context.Context, r *sequencer) (err error) {
		files, bytes := 0, int64(0)
		if s.opt.Artifacts != nil {
			// The counts are only for the receipt: an error does not stop the erasure.
			files, bytes, _ = s.opt.Artifacts.Usage(ctx, r.id)
		}
		if e, err = s.log.BeginErase(ctx, r.id, files, bytes); err != nil {
			return err
		}
		s.owners.add(&sess, -1)
		r.setOpen(&sess, 0)
		s.live.Drop(r.id, chat.Errorf(chat.Gone, "this session was erased"))
		s.tellErased(r.id)
		return nil
	}})
	return e, err
}

// finishErase removes the session's files and the copies of observers, then the text in
// the log's files, then the erasure record. Every step may be repeated.
func (s *Sessions) finishErase(ctx context.Context, e core.Erasure) (chat.Receipt, error) {
	id := e.Receipt.Session
	if s.opt.Artifacts != nil {
		if _, _, err := s.opt.Artifacts.DeleteSession(ctx, id); err != nil {
			return chat.Receipt{}, errErasing(id, err)
		}
	}
	if err := s.purge(ctx, id); err != nil {
		// Keep the erasure record, because a copy remains. Remove the text from the
		// log's files now.
		return chat.Receipt{}, errErasing(id, errors.Join(err, s.log.ScrubErased(ctx, e)))
	}
	if err := s.log.FinishErase(ctx, e); err != nil {
		return chat.Receipt{}, errErasing(id, err)
	}
	return e.Receipt, nil
}

// eraseRetry is how often unfinished erasures are tried again.
const eraseRetry = 5 * time.Second

// eraseAll retries unfinished erasures, including those of earlier processes, until ctx
// ends.
func (s *Sessions) eraseAll(ctx context.Context) {
	defer s.erasures.end()
	logged := map[chat.SessionID]string{} // the last logged error
	for first := true; ; first = false {
		for e, err := range s.log.Erasures(ctx) {
			if err != nil {
				if ctx.Err() == nil {
					s.opt.Logger.ErrorContext(ctx, "unfinished erasures cannot be read; trying again", "err", err)
				}
				break
			}
			id := e.Receipt.Session
			if first {
				s.tellErased(id)
			}
			err := s.erasures.start(e, s.finishErase).wait(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err == nil:
				s.opt.Logger.InfoContext(ctx, "an erasure was finished", "session", id)
			case logged[id] != err.Error():
				logged[id] = err.Error()
				s.opt.Logger.WarnContext(ctx, "an erasure is not complete; trying again", "session", id, "err", err)
			}
		}
		if sleep.For(ctx, eraseRetry) != nil {
			return
		}
	}
}

// erasures holds the running erasure jobs, one per session.
type erasures struct {
	ctx    context.Context // of the jobs, so that they do not end with their caller
	cancel context.CancelFunc

	mu   sync.Mutex
	jobs map[chat.SessionID]*erasing
}

type erasing struct {
	what    core.Erasure
	done    chan struct{}
	receipt chat.Receipt // set before done is closed
	err     error
}

func (x *erasing) wait(ctx context.Context) error {
	select {
	case <-x.done:
		return x.err
	case <-ctx.Done():
		return errErasing(x.what.Receipt.Session, ctx.Err())
	}
}

// underWay returns the erasure of a session for which a job runs.
func (x *erasures) underWay(id chat.SessionID) (core.Erasure, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if job := x.jobs[id]; job != nil {
		return job.what, true
	}
	return core.Erasure{}, false
}

// start starts a job for a session, or returns the running one.
func (x *erasures) start(e core.Erasure, work func(context.Context, core.Erasure) (chat.Receipt, error)) *erasing {
	id := e.Receipt.Session
	x.mu.Lock()
	defer x.mu.Unlock()
	if job := x.jobs[id]; job != nil {
		return job
	}
	job := &erasing{what: e, done: make(chan struct{})}
	x.jobs[id] = job
	go func() {
		defer func() {
			if p := recover(); p != nil {
				job.err = errErasing(id, fmt.Errorf("%v", p))
			}
			x.mu.Lock()
			delete(x.jobs, id)
			x.mu.Unlock()
			close(job.done)
		}()
		job.receipt, job.err = work(x.ctx, e)
	}()
	return job
}

// end cancels the jobs and waits until all have returned. The next process continues
// with them.
func (x *erasures) end() {
	x.cancel()
	for {
		x.mu.Lock()
		var running *erasing
		for _, job := range x.jobs {
			running = job
		}
		x.mu.Unlock()
		if running == nil {
			return
		}
		<-running.done
	}
}
