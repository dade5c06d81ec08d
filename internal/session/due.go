package session

import (
	"context"
	"fmt"
	"sync"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/workstream"
)

// dueTimes holds, per session, the next deadline of its workstreams. It is not stored: at
// a start it is computed again from the sessions that have work.
type dueTimes struct {
	mu  sync.Mutex
	due map[chat.SessionID]chat.At
}

// set stores the next deadline of a session, 0 for none. It reports whether the earliest
// deadline may have changed.
func (a *dueTimes) set(id chat.SessionID, at chat.At) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at == 0 {
		delete(a.due, id)
		return false
	}
	if a.due == nil {
		a.due = map[chat.SessionID]chat.At{}
	}
	old, known := a.due[id]
	a.due[id] = at
	return !known || at < old
}

// take removes and returns the sessions whose deadline has passed, and returns the next
// deadline.
func (a *dueTimes) take(now chat.At) (ids []chat.SessionID, next chat.At) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, at := range a.due {
		if at <= now {
			ids = append(ids, id)
			delete(a.due, id)
		} else if next == 0 || at < next {
			next = at
		}
	}
	return ids, next
}

// scheduleAll computes the deadlines of the sessions that had work when the last process
// ended. A workstream with a running clock has a turn, or a child has one, so other
// sessions have no deadlines.
func (s *Sessions) scheduleAll(ctx context.Context) error {
	ids, err := s.Working(ctx)
	if err != nil {
		return fmt.Errorf("find workstreams: %w", err)
	}
	for _, id := range ids {
		if s.owns(id) {
			s.schedule(ctx, id)
		}
	}
	return ctx.Err()
}

// schedule computes the next deadline of a session's workstreams.
func (s *Sessions) schedule(ctx context.Context, id chat.SessionID) {
	err := s.look(ctx, id, func(st *chat.State) { s.dueTimes.set(id, workstream.First(st)) })
	if err != nil && ctx.Err() == nil {
		// Continue with the other sessions; the next commit of this one schedules it.
		s.opt.Logger.ErrorContext(ctx, "the deadlines of a session's workstreams are not known", "session", id, "err", err)
	}
}

// runDue applies the deadlines that have passed and returns the next one, 0 for none.
func (s *Sessions) runDue(ctx context.Context) (next chat.At) {
	ids, next := s.dueTimes.take(s.now())
	for _, id := range ids {
		if !s.owns(id) {
			continue // its owner does it
		}
		err := s.dueIn(ctx, id)
		switch chat.CodeOf(err) {
		case "":
			s.schedule(ctx, id) // a commit schedules too, but there is none if no deadline had passed
			continue
		case chat.Gone, chat.NotFound:
			continue
		}
		if ctx.Err() == nil {
			s.opt.Logger.ErrorContext(ctx, "what is due for workstreams could not be said; trying again", "session", id, "err", err)
		}
		s.dueTimes.set(id, s.now()+1e6)
	}
	if len(ids) > 0 {
		_, next = s.dueTimes.take(0) // includes the deadlines set by the loop
	}
	return next
}

// dueIn applies the deadlines of a session's workstreams.
func (s *Sessions) dueIn(ctx context.Context, id chat.SessionID) error {
	files, err := s.mergeDue(ctx, id)
	if err != nil {
		return err
	}
	r := s.acquire(id)
	defer r.release()
	return r.do(ctx, &request{unbounded: true, files: files, rules: &dueWork{}})
}

// dueWork holds the state of one dueIn call.
type dueWork struct {
	said map[string]*said // the last text of each workstream that ends
}

func (q *dueWork) lookUp(ctx context.Context, r *sequencer) error {
	q.said = map[string]*said{}
	if r.state == nil {
		return nil
	}
	for _, w := range r.state.Workstreams {
		if t := r.state.Line(w.ID).Turn; t != nil && ends(w, r.sessions.now()) {
			q.said[w.ID] = &said{}
			if err := q.said[w.ID].read(ctx, r, t.Answer); err != nil {
				return err
			}
		}
	}
	return nil
}

func (q *dueWork) decide(d *decision) error {
	d.work = true
	for _, w := range d.state.Workstreams {
		w = d.state.Workstream(w.ID) // the end of an earlier workstream may have replaced it
		for _, body := range workstream.Due(w, d.now) {
			switch b := body.(type) {
			case chat.WorkstreamTimeout:
				b.Files = d.files[w.ID]
				b.Summary = d.cut(w, q.said[w.ID], "its workstream has run out of time")
				d.endWork(w, b)
			case chat.WorkstreamCanceled:
				b.Files = d.files[w.ID]
				d.cut(w, nil, "its workstream was canceled")
				d.endWork(w, b)
			default:
				d.addSystem(body, w.Parent, "")
				d.advance(w.Parent)
			}
		}
	}
	return nil
}

// cut ends the running turn of a workstream without waiting for its agent, and returns
// the agent's last text.
func (d *decision) cut(w *chat.Workstream, last *said, cause string) string {
	t := d.state.Line(w.ID).Turn
	if t == nil {
		return w.Summary
	}
	d.closeTurn(t, w.ID, chat.Stopped, cause)
	return last.text(d, t.Answer) // closeTurn may have added this event
}

// ends reports whether a deadline that has passed ends the workstream.
func ends(w *chat.Workstream, now chat.At) bool {
	for _, body := range workstream.Due(w, now) {
		switch body.(type) {
		case chat.WorkstreamTimeout, chat.WorkstreamCanceled:
			return true
		}
	}
	return false
}
