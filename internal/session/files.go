package session

import (
	"context"
	"errors"
	"path"

	"github.com/parley-hq/parley/chat"
)

// PutFile puts a file into a session, over one that is there unless f says
// otherwise. The file and the event in the log are one change: changes of one path
// have the same order in both, and when the event is refused, or the process ends
// before it is stored, the path has what it had before.
func (s *Sessions) PutFile(ctx context.Context, c chat.Caller, id chat.SessionID, f chat.FilePut) (chat.FileInfo, error) {
	sess, err := s.fileOwner(ctx, c, id)
	if err == nil {
		err = s.mayStore(ctx, c, sess.Workspace, sess.Owner, 0) // spares the bytes
	}
	if err != nil {
		return chat.FileInfo{}, err
	}
	return s.opt.Artifacts.Put(ctx, sess.ID, f.Path, f.MediaType, f.Body, chat.FileWrite{
		Max: f.Max, IfAbsent: f.IfAbsent, After: sess.Last,
		Commit: func(info chat.FileInfo) error {
			if err := s.mayStore(ctx, c, sess.Workspace, sess.Owner, info.Size); err != nil {
				return err
			}
			draft := chat.NewDraft(chat.FileUploaded{Path: info.Path, Name: path.Base(info.Path), MediaType: info.MediaType, Size: info.Size, SHA256: info.SHA256})
			draft.Workstream, draft.Via = f.Workstream, f.Via
			_, err := s.Append(ctx, c, sess.ID, []chat.Draft{draft})
			return err
		},
	})
}

// RemoveFile takes a file out of a session, as one change with the event in the log.
func (s *Sessions) RemoveFile(ctx context.Context, c chat.Caller, id chat.SessionID, name, via string) error {
	sess, err := s.fileOwner(ctx, c, id)
	if err != nil {
		return err
	}
	return s.opt.Artifacts.Remove(ctx, sess.ID, name, sess.Last, func(info chat.FileInfo) error {
		draft := chat.NewDraft(chat.FileRemoved{Path: info.Path})
		draft.Via = via
		// It frees bytes, so it is stored also when the owner has none left.
		a, err := s.join(ctx, c, sess.ID, []chat.Draft{draft}, false)
		if err == nil {
			_, err = a.finish(ctx)
		}
		return err
	})
}

// fileOwner finds a session whose files the caller may change. The rule itself is
// checked with the event; this spares the bytes.
func (s *Sessions) fileOwner(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error) {
	sess, err := s.visible(ctx, c, id)
	if err == nil {
		err = c.May(&sess, chat.Answerer)
	}
	if err == nil && s.opt.Artifacts == nil {
		err = chat.Errorf(chat.Unavailable, "this server keeps no files")
	}
	return sess, err
}

// Recover settles the changes of files that the last process left in the middle: the
// log decides. It is called before anything else.
func (s *Sessions) Recover(ctx context.Context) error {
	if s.opt.Artifacts == nil {
		return nil
	}
	ids := map[chat.SessionID]bool{}
	err := s.opt.Artifacts.Settle(ctx, func(c chat.FileChange) (bool, error) {
		ids[c.Session] = true
		return s.hasChange(ctx, c)
	})
	return errors.Join(err, s.countSettled(ctx, ids))
}

// hasChange reports whether the log has a change of a file. The last event about
// the path decides.
func (s *Sessions) hasChange(ctx context.Context, c chat.FileChange) (stored bool, err error) {
	if _, err := s.log.Record(ctx, c.Session); chat.CodeOf(err) == chat.NotFound || chat.CodeOf(err) == chat.Gone {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if c.Path == "" {
		return true, nil
	}
	for e, err := range chat.Events(s.stored(ctx, c.Session, chat.Range{After: c.After})) {
		if err != nil {
			return false, err
		}
		switch b := e.Body.(type) {
		case chat.FileUploaded:
			if b.Path == c.Path {
				stored = c.New != nil && c.New.SHA256 == b.SHA256
			}
		case chat.AgentArtifact:
			if b.Path == c.Path {
				stored = c.New != nil && c.New.Size == b.Size
			}
		case chat.FileRemoved:
			if b.Path == c.Path {
				stored = c.New == nil
			}
		}
	}
	return stored, nil
}
