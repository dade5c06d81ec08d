package session

import (
	"context"
	"runtime/debug"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// Observer receives the changes of all sessions. Functions that are nil are not called. In a
// cluster Committed is called on the node that owns the session, the others on all nodes.
// The functions are called in the order of the session's events, by the caller that handles
// the session's queue: they must not block and must not call Sessions. An observer with more work puts
// it into a bounded queue of its own.
type Observer struct {
	// Committed receives the events of every commit.
	Committed func(events []chat.Event)
	// Published receives what readers receive: committed events and previews. It must
	// not keep the slice.
	Published func(id chat.SessionID, entries []core.Entry)
	// Erased receives the id of every erased session. It is called again after a start
	// for erasures that the last process did not finish.
	Erased func(id chat.SessionID)
	// Imported receives the record of every imported session.
	Imported func(s chat.Session)
	// Purge waits until the observer has no copy of an erased session any more. The
	// erasure is complete when it returns nil; it is repeated after an error. It
	// may block, until ctx ends.
	Purge func(ctx context.Context, id chat.SessionID) error
}

// Observe adds an observer that cannot be in the options, because it needs the Sessions
// itself. It must be called before the first request.
func (s *Sessions) Observe(o Observer) { s.opt.Observers = append(s.opt.Observers, o) }

func (s *Sessions) tellCommitted(id chat.SessionID, events []chat.Event) {
	for _, o := range s.opt.Observers {
		if o.Committed != nil {
			s.tell(id, func() { o.Committed(events) })
		}
	}
}

// publish sends entries to readers and observers.
func (s *Sessions) publish(id chat.SessionID, entries []core.Entry) {
	s.tell(id, func() { s.live.Publish(id, entries) })
	s.Shown(id, entries)
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

// tell calls readers or an observer. A panic must not fail a commit that is already
// durable, and must not keep the change from other observers.
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
