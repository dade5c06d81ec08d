package session

import (
	"context"
	"errors"
	"path"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// PutFile stores a file in a session. It replaces an existing file unless f.IfAbsent is
// set. The file and its event are stored as one change: changes of one path have the same
// order in the file store and in the log. If the event is refused, or the process ends
// before the event is stored, the path keeps its previous content.
func (s *Sessions) PutFile(ctx context.Context, c chat.Caller, id chat.SessionID, f core.FilePut) (chat.FileInfo, error) {
	sess, err := s.fileOwner(ctx, c, id)
	if err == nil {
		err = s.mayStore(ctx, c, sess.Workspace, sess.Owner, 0) // refuse before the body is read
	}
	if err != nil {
		return chat.FileInfo{}, err
	}
	return s.opt.Artifacts.Put(ctx, sess.ID, f.Path, f.MediaType, f.Body, core.FileWrite{
		Max: f.Max, IfAbsent: f.IfAbsent, After: sess.Last,
		Commit: func(info chat.FileInfo) error {
			if err := s.mayStore(ctx, c, sess.Workspace, sess.Owner, info.Size); err != nil {
				return err
			}
			draft := chat.NewDraft(chat.FileUploaded{Path: info.Path, Name: path.Base(info.Path), MediaType: info.MediaType, Size: info.Size, SHA256: info.SHA256})
			draft.Workstream, draft.Via, draft.File = f.Workstream, f.Via, &chat.FileName{FileInfo: info, IfAbsent: f.IfAbsent}
			_, err := s.Append(ctx, c, sess.ID, []chat.Draft{draft})
			return err
		},
	})
}

// RemoveFile removes a file from a session. The removal and its event are one change.
func (s *Sessions) RemoveFile(ctx context.Context, c chat.Caller, id chat.SessionID, name, via string) error {
	sess, err := s.fileOwner(ctx, c, id)
	if err != nil {
		return err
	}
	return s.opt.Artifacts.Remove(ctx, sess.ID, name, sess.Last, func(info chat.FileInfo) error {
		draft := chat.NewDraft(chat.FileRemoved{Path: info.Path})
		draft.Via, draft.File = via, &chat.FileName{FileInfo: chat.FileInfo{Path: info.Path}}
		// A removal frees space, so it is allowed even when the owner's quota is used up.
		wait, err := s.appendLater(ctx, c, sess.ID, []chat.Draft{draft}, false)
		if err == nil {
			_, err = wait()
		}
		return err
	})
}

// checkFile refuses a change of a file that does not fit the files that the log of a cluster names. A single server has checked
// it in its file store.
func (r *sequencer) checkFile(ctx context.Context, f *chat.FileName) error {
	_, there, err := r.sessions.log.File(ctx, r.id, f.Path)
	if err != nil {
		return err
	}
	return fileFits(f, there)
}

// fileFits refuses a change of a file that does not fit the changes of the same commit.
func (d *decision) fileFits(f *chat.FileName) error {
	if f == nil {
		return nil
	}
	for _, before := range slices.Backward(d.named) {
		if before.Path == f.Path {
			return fileFits(f, before.SHA256 != "")
		}
	}
	return nil
}

func fileFits(f *chat.FileName, there bool) error {
	switch {
	case there && f.IfAbsent:
		return chat.Errorf(chat.Conflict, "there is an artifact %q already", f.Path)
	case !there && f.SHA256 == "":
		return chat.Errorf(chat.NotFound, "the session has no artifact %q", f.Path)
	}
	return nil
}

// fileOwner returns a session whose files the caller may change. The append checks
// access again; this check refuses before the body is read.
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

// Recover completes or reverts the file changes that the last process did not finish: a
// change is kept if the log has its event. Call it before any other method.
func (s *Sessions) Recover(ctx context.Context) error {
	if s.opt.Artifacts == nil {
		return nil
	}
	ids := map[chat.SessionID]bool{}
	err := s.opt.Artifacts.FinishChanges(ctx, func(c core.FileChange) (bool, error) {
		ids[c.Session] = true
		return s.hasChange(ctx, c)
	})
	for id := range ids { // what is left may differ from what was counted
		err = errors.Join(err, s.countFiles(ctx, id))
	}
	return err
}

// hasChange reports whether the log has the event of a file change. Only the last event
// about the path counts.
func (s *Sessions) hasChange(ctx context.Context, c core.FileChange) (stored bool, err error) {
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
