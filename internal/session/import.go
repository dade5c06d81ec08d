package session

import (
	"cmp"
	"context"
	"iter"

	"github.com/parley-hq/parley/chat"
)

// Import stores an exported log byte for byte under its original id, which must not be
// in use. It needs the scope admin for the workspace that the log names. If the session
// was a child of another session, Import appends an event that detaches it.
func (s *Sessions) Import(ctx context.Context, c chat.Caller, id chat.SessionID, facts iter.Seq2[chat.Fact, error]) (chat.Session, error) {
	if !c.Has(chat.ScopeAdmin) {
		return chat.Session{}, chat.Errorf(chat.Denied, "importing needs the scope admin")
	}
	if err := id.Validate(); err != nil {
		return chat.Session{}, err
	}
	if id.System() && !c.AdministersAll() {
		return chat.Session{}, chat.Errorf(chat.Denied, "the log is of a system session: importing it needs the scope admin for all workspaces")
	}
	r := s.acquire(id)
	defer r.release()
	err := r.do(ctx, &request{exclusive: func(ctx context.Context, r *sequencer) error {
		return s.log.Import(ctx, r.id, s.detached(ctx, r, administered(c, facts)))
	}})
	if err != nil {
		return chat.Session{}, err
	}
	sess, err := s.log.Record(ctx, id)
	if err == nil && s.opt.OtherNodes == nil {
		s.imported(ctx, sess)
	}
	return sess, err
}

// imported continues the turns and deadlines that were open at the export.
func (s *Sessions) imported(ctx context.Context, sess chat.Session) {
	s.schedule(ctx, sess.ID)
	s.wakeRun()
	s.tellImported(sess)
}

// administered returns facts, with an error if the caller does not administer the
// workspace of the log.
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

// importable returns an error if the caller may not import a log whose first event is f.
// The store refuses a log that does not begin with session.started.
func importable(c chat.Caller, f chat.Fact) error {
	e, err := f.Event()
	if err != nil {
		return err
	}
	started, ok := e.Body.(chat.SessionStarted)
	if workspace := cmp.Or(started.Workspace, chat.DefaultWorkspace); ok && !c.Administers(workspace) {
		return chat.Errorf(chat.Denied, "the log is of the workspace %q: importing it needs the scope admin there", workspace)
	}
	return nil
}
