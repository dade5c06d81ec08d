package record

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/parley-hq/parley/chat"
)

// Delete removes a record, those that are deleted with it, and those that are stored with one of them; by are those who
// asked for it, if they are known. Once it has begun, it does not end with ctx. A deletion that was not finished can be
// asked for again.
func (s *Set) Delete(ctx context.Context, id string, by ...chat.Actor) error {
	ctx = context.WithoutCancel(ctx)
	s.mu.Lock()
	err := s.update(ctx)
	rs := s.sessions[id]
	if err == nil && rs != nil && !rs.deleting {
		err = s.note(ctx, s.leavingEntries(rs, by)...)
	}
	s.mu.Unlock()
	if err != nil || rs == nil {
		return err
	}
	return s.finish(ctx, rs)
}

// leavingEntries are the entries of a deletion. The caller holds mu.
func (s *Set) leavingEntries(rs *recordSession, by []chat.Actor) []entry {
	list := []entry{{Kind: rs.kind, ID: rs.id, Gone: leaving}}
	if r := s.records[rs.id]; r != nil && s.sets.opt.DeletedWith != nil {
		for _, id := range s.sets.opt.DeletedWith(r, s.order, by) {
			if other := s.sessions[id]; other != nil && !other.deleting {
				list = append(list, entry{Kind: other.kind, ID: id, Gone: leaving, With: rs.id})
			}
		}
	}
	return list
}

// Deleting reports whether a record is being deleted.
func (s *Set) Deleting(kind, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	rs := s.sessions[id]
	return rs != nil && rs.kind == kind && rs.deleting
}

// finish erases what is left of a record that is being deleted. It is called without mu, because erasing takes long.
func (s *Set) finish(ctx context.Context, rs *recordSession) error {
	// An erasure that is recorded is finished by the session rules. It does not stop the rest, but the caller gets the
	// error, because the text is not gone from all files yet.
	var pending error
	recorded := func(err error) error {
		if chat.ReasonOf(err) == chat.EraseUnfinished {
			pending, err = err, nil
		}
		return err
	}
	for _, other := range s.deletedWith(rs) {
		if err := recorded(s.finish(ctx, other)); err != nil {
			return err
		}
	}
	if s.sets.opt.Kinds[rs.kind].ErasesSession {
		if err := recorded(s.Erase(ctx, chat.SessionID(rs.id))); err != nil {
			return err
		}
	}
	if err := recorded(s.Erase(ctx, rs.stream.id)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.update(ctx); err != nil || s.sessions[rs.id] == nil {
		return errors.Join(err, pending)
	}
	return errors.Join(s.note(ctx, entry{Kind: rs.kind, ID: rs.id, Gone: gone}), pending)
}

// deletedWith returns what is being deleted together with a record.
func (s *Set) deletedWith(rs *recordSession) (list []*recordSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.sessions {
		if other.deleting && other.with == rs.id {
			list = append(list, other)
		}
	}
	sortByID(list)
	return list
}

func sortByID(list []*recordSession) {
	slices.SortFunc(list, func(x, y *recordSession) int { return cmp.Compare(x.id, y.id) })
}

// Erase erases a session as the server, unless it is erased already. It does not end with ctx.
func (s *Set) Erase(ctx context.Context, id chat.SessionID) error {
	if _, err := s.sets.opt.Sessions.Erase(context.WithoutCancel(ctx), server(s.Workspace), id); err != nil && !absent(err) {
		return err
	}
	return nil
}

// open reads the set for the first time in this process, and finishes what earlier processes began.
func (s *Set) open(ctx context.Context) error {
	if s.ready.Load() {
		return nil
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if s.ready.Load() {
		return nil
	}
	left, err := s.leftovers(ctx)
	if err != nil {
		return err
	}
	for _, rs := range left {
		// Nobody finds the record any more. That it could not be erased does not make the others unusable.
		if err := s.Delete(ctx, rs.id); err != nil {
			s.sets.opt.Logger.ErrorContext(ctx, "a deleted record could not be erased; the next start tries again", "kind", rs.kind, "id", rs.id, "err", err)
		}
	}
	if s.sets.opt.Opened != nil {
		s.sets.opt.Opened(s)
	}
	s.ready.Store(true)
	return nil
}

// leftovers returns the records that must be deleted before the set is used: those whose deletion was begun, those that
// were named but never written, and those of erased conversations. The conversation of a record that was never written
// is erased with it: it was created just before, and no client got its id.
func (s *Set) leftovers(ctx context.Context) (list []*recordSession, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.update(ctx); err != nil {
		return nil, err
	}
	for _, rs := range s.sessions {
		if rs.last <= 1 { // another node may have written it
			if err := s.latest(ctx, rs.stream.id); err != nil {
				return nil, err
			}
			s.readLater(rs)
		}
	}
	if err := s.update(ctx); err != nil {
		return nil, err
	}
	for _, rs := range s.sessions {
		left := rs.deleting || rs.last <= 1 && time.Since(rs.named.Time()) >= s.sets.opt.WriteTime // only session.started
		if !left && s.sets.opt.Kinds[rs.kind].OfSession {
			_, err := s.sets.opt.Sessions.Get(ctx, server(s.Workspace), chat.SessionID(rs.id))
			if err != nil && !absent(err) {
				return nil, err
			}
			left = chat.CodeOf(err) == chat.Gone
		}
		if left {
			list = append(list, rs)
		}
	}
	sortByID(list)
	return list, nil
}
