package session

import (
	"context"
	"iter"

	"github.com/parley-hq/parley/chat"
)

// enter finds the session's room for a caller who may at least see it.
func (s *Sessions) enter(ctx context.Context, c chat.Caller, id chat.SessionID) (*room, error) {
	if r := s.open(id); r != nil {
		// The usual case on the way of every append: no look into the store.
		if sess := r.session.Load(); sess != nil && c.RoleIn(sess) != "" {
			return r, nil
		}
		r.leave()
	}
	sess, err := s.find(ctx, c, id)
	if err != nil {
		return nil, err
	}
	r := s.room(sess.ID)
	r.session.CompareAndSwap(nil, &sess)
	return r, nil
}

// find returns the session that id means for the caller.
func (s *Sessions) find(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error) {
	var gone error
	if id.Validate() == nil {
		sess, err := s.log.Record(ctx, id)
		switch {
		case err == nil && c.RoleIn(&sess) != "":
			return sess, nil
		case chat.CodeOf(err) == chat.Gone:
			gone = err
		case err != nil && chat.CodeOf(err) != chat.NotFound:
			return chat.Session{}, err
		}
	}
	if len(id) > 0 && len(id) <= MaxForeign {
		alias, ok, err := s.log.Alias(ctx, c.In(), c.Actor.Key(), string(id))
		if err != nil {
			return chat.Session{}, err
		}
		if ok {
			sess, err := s.log.Record(ctx, alias)
			if err == nil && c.RoleIn(&sess) != "" {
				return sess, nil
			}
			if err != nil && chat.CodeOf(err) != chat.NotFound {
				return chat.Session{}, err
			}
		}
	}
	if gone != nil {
		return chat.Session{}, gone
	}
	return chat.Session{}, errNoSession(id)
}

// visible returns a session by its own id, when the caller may see it.
func (s *Sessions) visible(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error) {
	sess, err := s.log.Record(ctx, id)
	if err == nil && c.RoleIn(&sess) == "" || chat.CodeOf(err) == chat.NotFound {
		return chat.Session{}, errNoSession(id)
	}
	return sess, err
}

// Get returns a session's record.
func (s *Sessions) Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error) {
	return s.find(ctx, c, id)
}

// ByID returns the session and sequence that an event, turn or prompt id names.
func (s *Sessions) ByID(ctx context.Context, c chat.Caller, id chat.ID) (chat.Session, chat.Seq, error) {
	// One answer for all that is not there: not even the session's name is told.
	nothing := chat.Errorf(chat.NotFound, "there is nothing with that id, or it is not yours")
	n, seq, ok := id.Parts()
	if !ok {
		return chat.Session{}, 0, nothing
	}
	sid, err := s.log.SessionOf(ctx, n)
	if err == nil {
		var sess chat.Session
		if sess, err = s.visible(ctx, c, sid); err == nil && seq != 0 && seq <= sess.Last {
			return sess, seq, nil
		}
	}
	if err == nil || chat.CodeOf(err) == chat.NotFound {
		err = nothing
	}
	return chat.Session{}, 0, err
}

// List returns sessions the caller may see, the most recently active first.
func (s *Sessions) List(ctx context.Context, c chat.Caller, f chat.Filter) (chat.SessionPage, error) {
	f.Workspace = c.In()
	if !c.Has(chat.ScopeAdmin) {
		f.Actor = &c.Actor
	}
	return s.log.List(ctx, f)
}

// All gives the records of all sessions of all workspaces, for what the server
// itself has to see to.
func (s *Sessions) All(ctx context.Context) iter.Seq2[chat.Session, error] { return s.log.All(ctx) }
