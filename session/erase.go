package session

import (
	"context"
	"iter"

	"github.com/parley-hq/parley/chat"
)

// Erase removes a session and all its text for good; it needs the role owner.
// The id answers gone for ever after. When it fails it can be asked for again.
func (s *Sessions) Erase(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Receipt, error) {
	sess, err := s.visible(ctx, c, id)
	if err != nil {
		return chat.Receipt{}, err
	}
	if err := c.May(&sess, chat.Owner); err != nil {
		return chat.Receipt{}, err
	}
	// Files go first: once the session is gone, nobody can ask for it again.
	var files chat.Receipt
	if err := s.eraseFiles(ctx, sess.ID, &files); err != nil {
		return chat.Receipt{}, err
	}
	r := s.room(sess.ID)
	defer r.leave()
	var receipt chat.Receipt
	gone := false
	// In the room's order, so that no append is under way meanwhile.
	err = r.do(ctx, &request{must: true, alone: func(ctx context.Context, r *room) (err error) {
		if receipt, err = s.log.Erase(ctx, r.id); err != nil {
			// Old files may still hold its text; for everybody it is gone all the same.
			if _, now := s.log.Record(ctx, r.id); chat.CodeOf(now) != chat.Gone || chat.CodeOf(err) == chat.Gone {
				return err
			}
		}
		gone = true
		s.live.Drop(r.id, chat.Errorf(chat.Gone, "this session was erased"))
		if s.opt.Erased != nil {
			s.opt.Erased(r.id)
		}
		return err
	}})
	var rest error
	if gone {
		rest = s.eraseFiles(ctx, sess.ID, &files) // what was put there meanwhile
	}
	if err != nil {
		return chat.Receipt{}, err
	}
	receipt.Artifacts, receipt.Bytes = files.Artifacts, receipt.Bytes+files.Bytes
	if s.opt.Forgotten != nil && !s.opt.Forgotten(ctx, sess.ID) {
		receipt.Note += "; the archive for x1 is still being overwritten, which goes on by itself"
	}
	return receipt, rest
}

func (s *Sessions) eraseFiles(ctx context.Context, id chat.SessionID, sum *chat.Receipt) error {
	if s.opt.Artifacts == nil {
		return nil
	}
	n, bytes, err := s.opt.Artifacts.DeleteSession(ctx, id)
	sum.Artifacts, sum.Bytes = sum.Artifacts+n, sum.Bytes+bytes
	return err
}

// Import stores a whole log that was exported before, byte for byte, under its
// own id, which must be free. It needs the scope admin. A session that was a
// child of another one is none afterwards, which its last event says.
func (s *Sessions) Import(ctx context.Context, c chat.Caller, id chat.SessionID, facts iter.Seq2[chat.Fact, error]) (chat.Session, error) {
	if !c.Has(chat.ScopeAdmin) {
		return chat.Session{}, chat.Errorf(chat.Denied, "importing needs the scope admin")
	}
	if err := id.Validate(); err != nil {
		return chat.Session{}, err
	}
	r := s.room(id)
	defer r.leave()
	err := r.do(ctx, &request{alone: func(ctx context.Context, r *room) error { return s.log.Import(ctx, r.id, s.detached(ctx, r, facts)) }})
	if err != nil {
		return chat.Session{}, err
	}
	// What was under way when it was exported goes on here: deadlines, and turns.
	s.arm(ctx, id)
	s.hurry()
	sess, err := s.log.Record(ctx, id)
	if err == nil && s.opt.Imported != nil {
		s.opt.Imported(sess)
	}
	return sess, err
}
