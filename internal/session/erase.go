package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
)

// Erase removes a session and all its text for good; it needs the role owner.
// First the intention is stored: from then on the id answers gone, for ever, and
// whatever happens to the caller or the process, the erasure is carried out to its
// end. The receipt is returned when it is complete. Until then the answer is
// unavailable, and Erase can be called again for the receipt.
func (s *Sessions) Erase(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Receipt, error) {
	e, err := s.beginErase(ctx, c, id)
	if err != nil {
		return chat.Receipt{}, err
	}
	job := s.erasures.start(e, s.finishErase)
	select {
	case <-job.done:
		return job.receipt, job.err
	case <-ctx.Done():
		return chat.Receipt{}, errErasing(e.Receipt.Session, ctx.Err())
	}
}

// errErasing says that an erasure is not complete yet.
func errErasing(id chat.SessionID, why error) *chat.Error {
	return chat.Errorf(chat.Unavailable, "session %s is gone for everybody and its erasure is recorded, but it is not complete: %v; the server goes on with it by itself, ask again for the receipt", id, chat.Public(why).Msg).
		With("erasing", true).WithReason(chat.EraseUnfinished).Because(why)
}

// beginErase stores the intention, or finds the one that is stored already.
func (s *Sessions) beginErase(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Erasure, error) {
	sess, err := s.visible(ctx, c, id)
	if chat.CodeOf(err) == chat.Gone {
		e, ok := s.erasures.underWay(id)
		if !ok {
			var failed error
			if e, ok, failed = s.log.Erasure(ctx, id); failed != nil {
				return e, failed
			}
		}
		was := chat.Session{ID: id, Workspace: e.Workspace, Owner: e.Owner}
		if !ok || c.May(&was, chat.Owner) != nil {
			return e, err
		}
		return e, nil
	}
	if err == nil {
		err = c.May(&sess, chat.Owner)
	}
	if err != nil {
		return chat.Erasure{}, err
	}
	r := s.acquire(sess.ID)
	defer r.release()
	var e chat.Erasure
	// In the sequencer's order, so that no append is under way meanwhile.
	err = r.do(ctx, &request{unbounded: true, exclusive: func(ctx context.Context, r *sequencer) (err error) {
		files, bytes := 0, int64(0)
		if s.opt.Artifacts != nil {
			// Only for the receipt; what cannot be counted is erased all the same.
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

// finishErase removes what is kept outside the log, then what the log's files
// hold, then the intention. Every step may be repeated.
func (s *Sessions) finishErase(ctx context.Context, e chat.Erasure) (chat.Receipt, error) {
	id := e.Receipt.Session
	if s.opt.Artifacts != nil {
		if _, _, err := s.opt.Artifacts.DeleteSession(ctx, id); err != nil {
			return chat.Receipt{}, errErasing(id, err)
		}
	}
	if err := s.purge(ctx, id); err != nil {
		// The intention stays for the copy; the text goes from our files now.
		return chat.Receipt{}, errErasing(id, errors.Join(err, s.log.ScrubErased(ctx, e)))
	}
	if err := s.log.FinishErase(ctx, e); err != nil {
		return chat.Receipt{}, errErasing(id, err)
	}
	return e.Receipt, nil
}

// eraseRetry is how often unfinished erasures are tried again.
const eraseRetry = 5 * time.Second

// eraseAll goes on with the erasures that are not finished, those of earlier
// processes included, until ctx ends.
func (s *Sessions) eraseAll(ctx context.Context) {
	defer s.erasures.end()
	told := map[chat.SessionID]string{} // the problem that was logged
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
			job := s.erasures.start(e, s.finishErase)
			select {
			case <-job.done:
			case <-ctx.Done():
				return
			}
			switch {
			case job.err == nil:
				s.opt.Logger.InfoContext(ctx, "an erasure was finished", "session", id)
			case told[id] != job.err.Error():
				told[id] = job.err.Error()
				s.opt.Logger.WarnContext(ctx, "an erasure is not complete; trying again", "session", id, "err", job.err)
			}
		}
		t := time.NewTimer(eraseRetry)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// erasures are those under way, one job per session.
type erasures struct {
	ctx    context.Context // of the jobs: a caller that goes away does not end them
	cancel context.CancelFunc

	mu   sync.Mutex
	jobs map[chat.SessionID]*erasing
}

type erasing struct {
	what    chat.Erasure
	done    chan struct{}
	receipt chat.Receipt // set before done is closed
	err     error
}

// underWay returns the erasure of a session that is being carried out.
func (x *erasures) underWay(id chat.SessionID) (chat.Erasure, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if job := x.jobs[id]; job != nil {
		return job.what, true
	}
	return chat.Erasure{}, false
}

// start runs work for a session, or returns the job that is under way for it.
func (x *erasures) start(e chat.Erasure, work func(context.Context, chat.Erasure) (chat.Receipt, error)) *erasing {
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

// end stops the jobs; the next process goes on with them. It returns when none
// uses the store any more.
func (x *erasures) end() {
	x.cancel()
	for {
		x.mu.Lock()
		var one *erasing
		for _, job := range x.jobs {
			one = job
		}
		x.mu.Unlock()
		if one == nil {
			return
		}
		<-one.done
	}
}

// Import stores a whole log that was exported before, byte for byte, under its
// own id, which must be free. It needs the scope admin for the workspace that the
// log names. A session that was a child of another one is none afterwards, which
// its last event says.
func (s *Sessions) Import(ctx context.Context, c chat.Caller, id chat.SessionID, facts iter.Seq2[chat.Fact, error]) (chat.Session, error) {
	if !c.Has(chat.ScopeAdmin) {
		return chat.Session{}, chat.Errorf(chat.Denied, "importing needs the scope admin")
	}
	if err := id.Validate(); err != nil {
		return chat.Session{}, err
	}
	if id.System() && !c.AdministersAll() {
		return chat.Session{}, chat.Errorf(chat.Denied, "the log is one of the server's own: importing it needs the scope admin for all workspaces")
	}
	r := s.acquire(id)
	defer r.release()
	err := r.do(ctx, &request{exclusive: func(ctx context.Context, r *sequencer) error {
		return s.log.Import(ctx, r.id, s.detached(ctx, r, administered(c, facts)))
	}})
	if err != nil {
		return chat.Session{}, err
	}
	// What was under way when it was exported goes on here: deadlines, and turns.
	s.schedule(ctx, id)
	s.wakeRun()
	sess, err := s.log.Record(ctx, id)
	if err == nil {
		s.tellImported(sess)
	}
	return sess, err
}

// administered passes on a log whose workspace the caller administers.
func administered(c chat.Caller, facts iter.Seq2[chat.Fact, error]) iter.Seq2[chat.Fact, error] {
	return func(yield func(chat.Fact, error) bool) {
		first := true
		for f, err := range facts {
			if first && err == nil {
				err = importable(c, f)
			}
			first = false
			if !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// importable reports why the caller may not import a log that begins with f. A
// log that does not begin with session.started is refused later.
func importable(c chat.Caller, f chat.Fact) error {
	e, err := f.Event()
	if err != nil {
		return err
	}
	begun, ok := e.Body.(chat.SessionStarted)
	if workspace := cmp.Or(begun.Workspace, chat.DefaultWorkspace); ok && !c.Administers(workspace) {
		return chat.Errorf(chat.Denied, "the log is of the workspace %q: importing it needs the scope admin there", workspace)
	}
	return nil
}
