package session

import (
	"context"

	"github.com/parley-hq/parley/chat"
)

// MayStore returns an error if n more bytes in a session would exceed the quota of its
// owner or of its workspace. It is for dialects that store files outside the log.
func (s *Sessions) MayStore(ctx context.Context, c chat.Caller, id chat.SessionID, n int64) error {
	sess, err := s.visible(ctx, c, id)
	if err != nil {
		return err
	}
	return s.mayStore(ctx, c, sess.Workspace, sess.Owner, n)
}

func (s *Sessions) mayStore(ctx context.Context, c chat.Caller, workspace string, owner chat.Actor, n int64) error {
	q := &s.opt.Quotas
	if q.StoredOwner <= 0 && q.StoredWorkspace <= 0 || c.Administers(workspace) {
		return nil
	}
	ofOwner, ofWorkspace, err := s.log.Stored(ctx, workspace, owner)
	if err != nil {
		return err
	}
	const text = "%s has %d KiB of events and files; with this it would have more than %d KiB, the most there can be: erase sessions, remove files, or ask the operator to raise %s"
	switch {
	case q.StoredOwner > 0 && ofOwner+n > q.StoredOwner:
		return s.overQuota(QuotaStored, 60, text, "the owner of this session", ofOwner>>10, q.StoredOwner>>10, "--max-stored-owner")
	case q.StoredWorkspace > 0 && ofWorkspace+n > q.StoredWorkspace:
		return s.overQuota(QuotaStored, 60, text, "this workspace", ofWorkspace>>10, q.StoredWorkspace>>10, "--max-stored-workspace")
	}
	return nil
}

// countFiles stores the total size of a session's files, for the quota.
func (s *Sessions) countFiles(ctx context.Context, id chat.SessionID) error {
	_, bytes, err := s.opt.Artifacts.Usage(ctx, id)
	if err == nil {
		err = s.log.SetFiles(ctx, id, bytes)
	}
	return err
}
