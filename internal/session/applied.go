package session

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// A node of a cluster stores commits and erasures that other nodes decided. It calls
// Applied and AppliedErasure for each of them, after the store has it and before readers
// get it. Commits that were decided here must not be passed.

// Applied drops what is cached of a session that c has changed. From then on requests see
// the session as it is after c, and readers that have lost access with c get no more of
// it: their streams end when they get the next event.
func (s *Sessions) Applied(c *core.Commit) {
	if c.After == 0 {
		s.owners.add(c.Record, 1)
	}
	sh := s.shard(c.Session)
	if c.Record != nil {
		sh.applied.Add(1) // before the sequencer is looked up, see acquireFor
	}
	r := s.acquireCached(c.Session)
	if r == nil {
		return
	}
	defer r.release()
	r.stale.Store(true)
	if c.Record == nil {
		return
	}
	sess := *c.Record
	if old := r.session.Swap(&sess); old == nil || !sameAccess(old, &sess) {
		r.access.Add(1)
	}
}

// sameAccess reports whether all callers have the same roles in both records of a session.
func sameAccess(a, b *chat.Session) bool {
	return a.Owner == b.Owner && a.Workspace == b.Workspace && a.Agent == b.Agent && a.ServedBy == b.ServedBy &&
		slices.Equal(a.Agents, b.Agents) && slices.Equal(a.Members, b.Members)
}

// Shown tells observers what the readers of this server, or of this node, receive.
func (s *Sessions) Shown(id chat.SessionID, entries []core.Entry) {
	for _, o := range s.opt.Observers {
		if o.Published != nil {
			s.tell(id, func() { o.Published(id, entries) })
		}
	}
}

// AppliedImport drops what is cached of a session whose imported log has become readable. The
// owner of the session continues its turns and deadlines.
func (s *Sessions) AppliedImport(c *core.Commit) {
	s.owners.add(c.Record, 1)
	s.shard(c.Session).applied.Add(1)
	if r := s.acquireCached(c.Session); r != nil {
		r.stale.Store(true)
		r.session.Store(nil)
		r.access.Add(1)
		r.release()
	}
	sess := *c.Record
	if s.owns(c.Session) {
		go s.imported(context.Background(), sess) // it waits for commits, which the caller applies
	} else {
		s.tellImported(sess)
	}
}

// TookOver makes Run look for deadlines again, after this node has become the owner of more
// sessions.
func (s *Sessions) TookOver() {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, r := range sh.sequencers {
			r.stale.Store(true) // it may know less text than the hub, if it was the owner before
		}
		sh.mu.Unlock()
	}
	s.armed.Store(false)
	s.wakeRun()
}

// AppliedErasure drops what is cached of a session that was erased, and ends its streams.
// Run finishes the erasure, or FinishErasure.
func (s *Sessions) AppliedErasure(e core.Erasure) {
	id := e.Receipt.Session
	s.owners.add(&chat.Session{ID: id, Workspace: e.Workspace, Owner: e.Owner}, -1)
	s.shard(id).applied.Add(1)
	if r := s.acquireCached(id); r != nil {
		r.stale.Store(true)
		if sess := r.session.Swap(nil); sess != nil {
			r.setOpen(sess, 0)
		}
		r.access.Add(1)
		r.release()
	}
	s.live.Drop(id, chat.Errorf(chat.Gone, "this session was erased"))
	s.tellErased(id)
}
