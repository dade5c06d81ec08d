package session

import (
	"context"
	"runtime/debug"

	"github.com/parley-hq/parley/chat"
)

// Observer gets what happens in all sessions. Functions that are nil are not
// called. The functions are called in the order of the session's events, while the
// session is locked: they must not block and must not call Sessions. An observer
// that has more to do puts it into a queue of its own, with a bound.
type Observer struct {
	// Committed gets the events of every commit.
	Committed func(events []chat.Event)
	// Published gets what readers get: committed events and previews.
	Published func(id chat.SessionID, entries []chat.Entry)
	// Erased gets the id of every erased session. It is called again after a start
	// for erasures that the last process did not finish.
	Erased func(id chat.SessionID)
	// Imported gets the record of every imported session.
	Imported func(s chat.Session)
	// Purge waits until the observer has no copy of an erased session any more. The
	// erasure is complete when it returns nil; it is repeated after an error. It
	// may block, until ctx ends.
	Purge func(ctx context.Context, id chat.SessionID) error
}

// Observe adds an observer that could not be named in the options, because it uses
// the sessions itself. It must be called before the first request.
func (s *Sessions) Observe(o Observer) { s.opt.Observers = append(s.opt.Observers, o) }

func (s *Sessions) tellCommitted(id chat.SessionID, events []chat.Event) {
	for _, o := range s.opt.Observers {
		if o.Committed != nil {
			s.tell(id, func() { o.Committed(events) })
		}
	}
}

// publish shows entries to readers and observers.
func (s *Sessions) publish(id chat.SessionID, entries []chat.Entry) {
	s.tell(id, func() { s.live.Publish(id, entries) })
	for _, o := range s.opt.Observers {
		if o.Published != nil {
			s.tell(id, func() { o.Published(id, entries) })
		}
	}
}

func (s *Sessions) tellErased(id chat.SessionID) {
	for _, o := range s.opt.Observers {
		if o.Erased != nil {
			s.tell(id, func() { o.Erased(id) })
		}
	}
}

func (s *Sessions) tellImported(sess chat.Session) {
	for _, o := range s.opt.Observers {
		if o.Imported != nil {
			s.tell(sess.ID, func() { o.Imported(sess) })
		}
	}
}

// tell calls readers or an observer. A panic must not fail what is already durable,
// nor keep the change from other observers.
func (s *Sessions) tell(id chat.SessionID, f func()) {
	defer func() {
		if p := recover(); p != nil {
			s.opt.Logger.Error("readers or observers could not be told of a change", "session", id, "fault", p, "stack", string(debug.Stack()))
		}
	}()
	f()
}

// purge waits until no observer has a copy of an erased session any more.
func (s *Sessions) purge(ctx context.Context, id chat.SessionID) error {
	for _, o := range s.opt.Observers {
		if o.Purge != nil {
			if err := o.Purge(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}
