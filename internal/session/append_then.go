package session

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// AppendThen is Append for a caller that does not wait: done gets the result. The drafts
// are in the session's order when it returns without an error. If run is not nil, the caller
// must call it soon, in a goroutine that may wait.
//
// The request needs no goroutine of its own: the caller's decides it, and the one that
// stores it with those of other sessions answers it. With 64 sockets that append one event
// at a time this takes three quarters of the processor time of AppendLater.
func (s *Sessions) AppendThen(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft, done core.AppendDone) (run func(), err error) {
	if s.opt.OtherNodes != nil {
		wait, err := s.AppendLater(ctx, c, id, drafts)
		if err != nil {
			return nil, err
		}
		return func() {
			done.Answer(wait())
			done.Flush()
		}, nil
	}
	a, err := s.join(ctx, c, id, drafts, true, done)
	if err != nil || !a.leads {
		return nil, err
	}
	return a.order.leadLater(), nil
}

// AppendsAtOnce reports whether AppendThen will decide these drafts without waiting: the
// session is the caller's own and in memory, and nothing but the index of client ids and
// prompts is read from the store.
func (s *Sessions) AppendsAtOnce(c chat.Caller, id chat.SessionID, drafts []chat.Draft) bool {
	if s.opt.OtherNodes != nil {
		return false
	}
	sess := s.cached(id)
	return sess != nil && createdBy(c, sess) && !slices.ContainsFunc(drafts, endsSession)
}

// answerer answers a request that nobody waits for.
type answerer interface {
	answer()
	flush() // is called after answer was called for all requests that were stored together
}

func flushAll(batch []*request) {
	for _, req := range batch {
		if req.then != nil {
			req.then.flush()
		}
	}
}

func (a *appending) answer() {
	r := a.order
	r.release()
	if a.err == nil {
		r.sessions.tell(r.id, func() { a.done.Answer(a.events, nil) })
		return
	}
	go func() { // it reads from the store
		a.done.Answer(nil, r.sessions.explainPrompt(context.Background(), r.id, a.err))
	}()
}

func (a *appending) flush() { a.done.Flush() }

// leadLater handles the queue for its first request, for which nobody waits. It decides
// appends and gives them to the journal. Everything else, and what may read much from the
// store, is left to run.
func (r *sequencer) leadLater() (run func()) {
	batch := r.take()
	if r.state != nil && !r.stale.Load() && onlyAppends(batch) {
		run, ok := r.commitLater(batch)
		if ok {
			return run
		}
	}
	return func() { r.lead(batch) }
}

func onlyAppends(batch []*request) bool {
	for _, req := range batch {
		if req.kind() != appends {
			return false
		}
	}
	return true
}

// lead handles a batch and waits for it.
func (r *sequencer) lead(batch []*request) {
	r.handle(context.Background(), batch)
	r.pass()
	answerAll(batch, nil)
	r.recycle(batch)
}

// commitLater decides a batch and gives it to the journal. If it returns false, the batch
// must be decided again.
func (r *sequencer) commitLater(batch []*request) (run func(), ok bool) {
	defer func() {
		if p := recover(); p != nil {
			r.state = nil
			r.fault(p) // it is decided again, and then fails
			run, ok = nil, false
		}
	}()
	r.blocksKnown = false
	d, c, err := r.decideAll(context.Background(), batch)
	if err == errPanicked {
		r.state = nil
		return nil, false
	}
	r.storing = storing{r: r, batch: batch, d: d}
	if err == nil && c != nil {
		if run, err = r.sessions.log.CommitLater(c, &r.storing); err == nil {
			return run, true
		}
	}
	r.storing.Done(err)
	return r.storing.end(), true
}

// storing is the commit of a batch of requests for which nobody waits. A sequencer has one
// at a time.
type storing struct {
	r     *sequencer
	batch []*request
	d     *decision // nil if there is nothing to store
	again bool      // the batch must be decided again
}

// Done is called when the commit is durable or has failed.
func (s *storing) Done(err error) {
	r := s.r
	switch {
	case err == nil && s.d != nil:
		r.stored(s.d)
	case chat.ReasonOf(err) == chat.CommitConflict:
		r.state, s.again = nil, true
		return
	case err != nil:
		r.state = nil
		r.notStored(s.batch, err)
	}
	for _, req := range s.batch {
		if req.then != nil {
			req.then.answer()
		} else {
			req.wake <- false
		}
	}
}

// GroupDone is called after Done.
func (s *storing) GroupDone() {
	if s.again {
		go s.r.lead(s.batch)
		return
	}
	if run := s.end(); run != nil {
		go run()
	}
}

// end passes the queue on. If run is not nil, it must be called in a goroutine that may wait.
func (s *storing) end() (run func()) {
	r, batch := s.r, s.batch
	s.batch, s.d = nil, nil
	flushAll(batch)
	r.recycle(batch)
	return r.yield()
}
