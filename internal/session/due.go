package session

import (
	"context"
	"fmt"
	"sync"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/workstream"
)

// dueTimes holds, per session, the time when something is due for its workstreams. It
// is a projection: at a start it is made anew from the sessions that have work.
type dueTimes struct {
	mu  sync.Mutex
	due map[chat.SessionID]chat.At
}

// set says when to look at a session next, 0 for never. It reports whether the
// earliest time may have changed.
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
	was, known := a.due[id]
	a.due[id] = at
	return !known || at < was
}

// take removes and returns the sessions that are due, and returns the next time.
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

// scheduleAll finds what is due in sessions that had work when the last process
// ended. A workstream whose clock runs has a turn, its own or a child's, so no
// other session need be looked at.
func (s *Sessions) scheduleAll(ctx context.Context) error {
	ids, err := s.Working(ctx)
	if err != nil {
		return fmt.Errorf("find workstreams: %w", err)
	}
	for _, id := range ids {
		s.schedule(ctx, id)
	}
	return ctx.Err()
}

// schedule finds the next time when something is due in a session.
func (s *Sessions) schedule(ctx context.Context, id chat.SessionID) {
	r := s.acquire(id)
	defer r.release()
	err := r.do(ctx, &request{unbounded: true, look: func(st *chat.State) error {
		s.dueTimes.set(id, workstream.First(st))
		return nil
	}})
	if err != nil && ctx.Err() == nil {
		// It does not keep the others waiting; its next commit arms it.
		s.opt.Logger.ErrorContext(ctx, "the deadlines of a session's workstreams are not known", "session", id, "err", err)
	}
}

// runDue handles what is due and returns the next time, 0 for none.
func (s *Sessions) runDue(ctx context.Context) (next chat.At) {
	ids, next := s.dueTimes.take(s.now())
	for _, id := range ids {
		err := s.dueIn(ctx, id)
		switch chat.CodeOf(err) {
		case "":
			s.schedule(ctx, id) // when nothing was due after all, nothing was stored that would do so
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
		_, next = s.dueTimes.take(0) // what they set anew
	}
	return next
}

// dueIn says what is due for the workstreams of a session.
func (s *Sessions) dueIn(ctx context.Context, id chat.SessionID) error {
	files, err := s.mergeDue(ctx, id)
	if err != nil {
		return err
	}
	r := s.acquire(id)
	defer r.release()
	return r.do(ctx, &request{unbounded: true, files: files, rules: &dueWork{}})
}

// dueWork is what is due, under way.
type dueWork struct {
	said map[string]*said // what those that end last said
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
		w = d.state.Workstream(w.ID) // one that ended before may have changed it
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

// cut ends the running turn of a workstream, whatever its agent does, and
// returns what it last said.
func (d *decision) cut(w *chat.Workstream, words *said, cause string) string {
	t := d.state.Line(w.ID).Turn
	if t == nil {
		return w.Summary
	}
	d.closeTurn(t, w.ID, chat.Stopped, cause)
	return words.text(d, t.Answer) // which may have become a fact just now
}

// ends reports whether a workstream ends now because of what is due.
func ends(w *chat.Workstream, now chat.At) bool {
	for _, body := range workstream.Due(w, now) {
		switch body.(type) {
		case chat.WorkstreamTimeout, chat.WorkstreamCanceled:
			return true
		}
	}
	return false
}
