package session

import (
	"context"
	"iter"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// acquireFor acquires the sequencer of a session, if the caller may see the session.
func (s *Sessions) acquireFor(ctx context.Context, c chat.Caller, id chat.SessionID) (*sequencer, error) {
	if r := s.acquireCached(id); r != nil {
		// The usual case: the session is cached, and nothing is read from the store.
		if sess := r.session.Load(); sess != nil && c.RoleIn(sess) != "" {
			return r, nil
		}
		r.release()
	}
	for applied := &s.shard(id).applied; ; {
		before := applied.Load()
		sess, err := s.visible(ctx, c, id)
		if err != nil {
			return nil, err
		}
		r := s.acquire(sess.ID)
		if applied.Load() == before {
			r.session.CompareAndSwap(nil, &sess)
			return r, nil
		}
		r.release() // the record that was read may be older than the store
	}
}

// Resolve returns the id of the session that a client's id refers to. A session that the
// caller created with this id comes first, then the caller's alias, then the id itself.
// Resolve does not check access; the call that uses the id does.
//
// All other methods except Own, Ensure, Create and Fork take exact ids. Dialects call
// Resolve once, where an id arrives: an access check with an unresolved alias could
// check another session whose id is equal to the alias.
func (s *Sessions) Resolve(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.SessionID, error) {
	id, _, err := s.resolveAnywhere(ctx, c, id, func(sess *chat.Session) bool { return c.RoleIn(sess) != "" })
	return id, err
}

// resolveAnywhere is resolve in a cluster. If this node has no alias of that name and no fitting session with it as its id, another node may
// just have stored the alias: resolveAnywhere waits until this node has it.
func (s *Sessions) resolveAnywhere(ctx context.Context, c chat.Caller, name chat.SessionID, fits func(*chat.Session) bool) (id chat.SessionID, aliased bool, err error) {
	id, aliased, err = s.resolve(ctx, c, name)
	if err != nil || aliased || !s.asksOthers(ctx) || !mayAlias(c, name) {
		return id, aliased, err
	}
	if name.Validate() == nil {
		sess := s.cached(name)
		if sess == nil {
			found, err := s.log.Record(ctx, name)
			if err != nil {
				return name, false, nil // the call that uses the id says why
			}
			sess = &found
		}
		if fits(sess) {
			return name, false, nil
		}
	}
	caught := s.opt.OtherNodes.CatchUpAlias(ctx, c.In(), c.Actor.Key(), string(name))
	if id, aliased, err = s.resolve(ctx, c, name); err == nil && !aliased && !caught {
		err = ErrBehind
	}
	return id, aliased, err
}

// mayAlias reports whether the caller can have an alias of that name.
func mayAlias(c chat.Caller, name chat.SessionID) bool {
	return c.Actor != chat.System && name != "" && len(name) <= maxForeign
}

// cached returns the record of a session that is in memory, or nil.
func (s *Sessions) cached(id chat.SessionID) *chat.Session {
	r := s.acquireCached(id)
	if r == nil {
		return nil
	}
	defer r.release()
	return r.session.Load()
}

// resolve returns the session that a name refers to in the store of this node, and whether the name is an alias of the caller.
func (s *Sessions) resolve(ctx context.Context, c chat.Caller, name chat.SessionID) (id chat.SessionID, aliased bool, err error) {
	if !mayAlias(c, name) {
		return name, false, nil
	}
	if sess := s.cached(name); sess != nil && createdBy(c, sess) {
		return name, false, nil
	}
	alias, aliased, err := s.log.Alias(ctx, c.In(), c.Actor.Key(), string(name))
	if err != nil || !aliased {
		return name, false, err
	}
	if sess, err := s.log.Record(ctx, name); err == nil && createdBy(c, &sess) {
		return name, false, nil
	}
	return alias, true, nil
}

// Own returns the session that an id chosen by a client refers to: a session that the
// caller created, or another owner's session that the caller has accepted. It does not
// return a session to which others added the caller: its owner could have chosen an id
// that the caller's client always uses, and would receive messages meant for the caller's
// own session. System sessions are returned to callers that may see them.
func (s *Sessions) Own(ctx context.Context, c chat.Caller, foreign string) (chat.Session, error) {
	id, aliased, err := s.resolveAnywhere(ctx, c, chat.SessionID(foreign), func(sess *chat.Session) bool { return createdBy(c, sess) })
	if err != nil {
		return chat.Session{}, err
	}
	sess, err := s.visible(ctx, c, id)
	if chat.CodeOf(err) == chat.NotFound || err == nil && !aliased && !createdBy(c, &sess) && !id.System() {
		return chat.Session{}, errNoSession(chat.SessionID(foreign))
	}
	return sess, err
}

// Aliased returns the session that an alias of the caller refers to, as Own does.
func (s *Sessions) Aliased(ctx context.Context, c chat.Caller, alias string) (chat.Session, error) {
	id, aliased, err := s.resolveAnywhere(ctx, c, chat.SessionID(alias), func(*chat.Session) bool { return false })
	return s.aliased(ctx, c, alias, id, aliased, err)
}

// AliasedHere is Aliased for many names that usually have no alias: it does not ask other nodes for those that this one does not have.
func (s *Sessions) AliasedHere(ctx context.Context, c chat.Caller, alias string) (chat.Session, error) {
	id, aliased, err := s.resolve(ctx, c, chat.SessionID(alias))
	return s.aliased(ctx, c, alias, id, aliased, err)
}

// aliased returns the session that an alias was resolved to.
func (s *Sessions) aliased(ctx context.Context, c chat.Caller, alias string, id chat.SessionID, aliased bool, err error) (chat.Session, error) {
	if err == nil && !aliased {
		err = errNoSession(chat.SessionID(alias))
	}
	if err != nil {
		return chat.Session{}, err
	}
	sess, err := s.visible(ctx, c, id)
	if chat.CodeOf(err) == chat.NotFound {
		err = errNoSession(chat.SessionID(alias))
	}
	return sess, err
}

// Accept makes another owner's session reachable by its id for the caller's clients, in
// every dialect. If the id was the caller's alias of another session, that session stays
// reachable by its own id only.
func (s *Sessions) Accept(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error) {
	sess, err := s.visible(ctx, c, id)
	if err != nil || createdBy(c, &sess) {
		return sess, err
	}
	if id.System() {
		return chat.Session{}, chat.Errorf(chat.Denied, "a system session cannot be accepted")
	}
	return sess, s.log.ReplaceAlias(ctx, c.In(), c.Actor.Key(), string(id), id)
}

// ReplaceAlias makes alias refer to a session that the caller owns, whatever it referred to before. It must not have the form of a
// session id, because the id of a session that the caller created comes before the caller's aliases.
func (s *Sessions) ReplaceAlias(ctx context.Context, c chat.Caller, alias string, id chat.SessionID) error {
	if alias == "" || len(alias) > maxForeign || chat.SessionID(alias).Validate() == nil {
		return chat.Errorf(chat.Invalid, "an alias has 1 to %d bytes, and at least one character that session ids cannot have", maxForeign)
	}
	sess, err := s.visible(ctx, c, id)
	if err == nil && !createdBy(c, &sess) {
		err = chat.Errorf(chat.Denied, "only the owner of a session can give it an alias")
	}
	if err != nil {
		return err
	}
	return s.log.ReplaceAlias(ctx, c.In(), c.Actor.Key(), alias, id)
}

// createdBy reports whether the caller created the session.
func createdBy(c chat.Caller, sess *chat.Session) bool {
	return sess.Owner.Same(c.Actor) && sess.Workspace == c.In()
}

// visible returns the session with an exact id, if the caller may see it.
func (s *Sessions) visible(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error) {
	if id.Validate() != nil {
		return chat.Session{}, errNoSession(id)
	}
	sess, err := s.visibleHere(ctx, c, id)
	if chat.CodeOf(err) == chat.NotFound && s.asksOthers(ctx) {
		caught := s.opt.OtherNodes.CatchUp(ctx, core.NumberFor(id, 0))
		// Another node may have created it since, or added the caller.
		if sess, err = s.visibleHere(ctx, c, id); chat.CodeOf(err) == chat.NotFound && !caught {
			return chat.Session{}, ErrBehind
		}
	}
	return sess, err
}

// visibleHere is visible without a question to other nodes.
func (s *Sessions) visibleHere(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error) {
	sess, err := s.log.Record(ctx, id)
	if err == nil && c.RoleIn(&sess) == "" || chat.CodeOf(err) == chat.NotFound {
		return chat.Session{}, errNoSession(id)
	}
	return sess, err
}

// Get returns a session's record.
func (s *Sessions) Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error) {
	return s.visible(ctx, c, id)
}

// ByID returns the session and the sequence of an event, turn or prompt id.
func (s *Sessions) ByID(ctx context.Context, c chat.Caller, id chat.ID) (chat.Session, chat.Seq, error) {
	// One error for all cases, so that it does not reveal whether the session exists.
	nothing := chat.Errorf(chat.NotFound, "the id does not exist, or it is not yours")
	n, seq, ok := id.Parts()
	if !ok {
		return chat.Session{}, 0, nothing
	}
	sid, err := s.log.SessionOf(ctx, n)
	if chat.CodeOf(err) == chat.NotFound && s.asksOthers(ctx) {
		caught := s.opt.OtherNodes.CatchUp(ctx, n)
		if sid, err = s.log.SessionOf(ctx, n); chat.CodeOf(err) == chat.NotFound && !caught {
			return chat.Session{}, 0, ErrBehind
		}
	}
	if err == nil {
		var sess chat.Session
		if sess, err = s.GetAt(ctx, c, sid, seq); err == nil && seq != 0 && seq <= sess.Last {
			return sess, seq, nil
		}
	}
	if err == nil || chat.CodeOf(err) == chat.NotFound {
		err = nothing
	}
	return chat.Session{}, 0, err
}

// List returns sessions the caller may see, the most recently active first.
func (s *Sessions) List(ctx context.Context, c chat.Caller, f core.Filter) (chat.SessionPage, error) {
	f.Workspace = c.In()
	f.System = f.System && c.AdministersAll()
	if !c.Administers(f.Workspace) {
		f.Actor = &c.Actor
	}
	page, err := s.log.List(ctx, f)
	if err != nil {
		return page, err
	}
	// Leave out sessions whose id is the caller's alias of another session: the caller
	// would open the other session by it.
	page.Sessions = slices.DeleteFunc(page.Sessions, func(sess chat.Session) bool {
		if err != nil || createdBy(c, &sess) {
			return false
		}
		var id chat.SessionID
		id, _, err = s.resolve(ctx, c, sess.ID)
		if chat.CodeOf(err) == chat.Gone {
			err = nil
			return true
		}
		return id != sess.ID
	})
	return page, err
}

// ListAll returns the sessions of all pages of List. The sequence ends after the
// first error.
func (s *Sessions) ListAll(ctx context.Context, c chat.Caller, f core.Filter) iter.Seq2[chat.Session, error] {
	return func(yield func(chat.Session, error) bool) {
		for {
			page, err := s.List(ctx, c, f)
			if err != nil {
				yield(chat.Session{}, err)
				return
			}
			for _, sess := range page.Sessions {
				if !yield(sess, nil) {
					return
				}
			}
			if f.Cursor = page.Next; f.Cursor == "" {
				return
			}
		}
	}
}

// All returns the records of all sessions of all workspaces, for the server's own
// maintenance. It checks no access.
func (s *Sessions) All(ctx context.Context) iter.Seq2[chat.Session, error] { return s.log.All(ctx) }
