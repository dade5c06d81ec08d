package session

import (
	"cmp"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
)

// Quotas bound the resources of one owner or one workspace. 0 means the default of a
// field, a negative value no limit. Sessions, Stored and Shares do not apply
// to administrators of the workspace.
type Quotas struct {
	Sessions      int   // that an actor owns in a workspace; 100 000
	OpenSession   int64 // bytes of text that is being written in a session; 16 MiB
	OpenOwner     int64 // in all sessions of an owner in a workspace; 256 MiB
	OpenWorkspace int64 // in all sessions of a workspace; 1 GiB

	StoredOwner     int64 // bytes of events and files in all sessions of an owner in a workspace; no limit
	StoredWorkspace int64 // in all sessions of a workspace; no limit

	// While less than twice the disk's reserve is free, an actor may write one part
	// of the reserve in an hour. Shares is how many parts there are; 64.
	Shares int64
}

func (q *Quotas) defaults() {
	q.Sessions = cmp.Or(q.Sessions, 100_000)
	q.OpenSession = cmp.Or(q.OpenSession, 16<<20)
	q.OpenOwner = cmp.Or(q.OpenOwner, 256<<20)
	q.OpenWorkspace = cmp.Or(q.OpenWorkspace, 1<<30)
	q.Shares = cmp.Or(q.Shares, 64)
}

// The names of the quotas in metrics and in error details.
const (
	QuotaSessions = "sessions"
	QuotaOpenText = "open_text"
	QuotaDisk     = "disk_share"
	QuotaStored   = "stored_bytes"
)

// overQuota returns the error for a request that exceeds a quota. seconds is the time
// after which the client may retry.
func (s *Sessions) overQuota(quota string, seconds int, format string, args ...any) error {
	if s.opt.Refused != nil {
		s.opt.Refused(quota)
	}
	return chat.Errorf(chat.SlowDown, format, args...).With("quota", quota).With("retry_after", seconds)
}

// openText counts the bytes of open blocks, per workspace and per owner in a workspace.
// The text of open blocks is in memory.
type openText struct {
	mu    sync.Mutex
	bytes map[string]int64
}

// pieceCost is the memory of a piece in bytes, without its text.
const pieceCost = 16

// costOf returns the memory of a block in bytes.
func costOf(b *chat.Block) int64 { return int64(len(b.Text) + pieceCost*len(b.Ends)) }

// costOfPieces is what new pieces take.
func costOfPieces(pieces []chat.Preview) (n int) {
	for i := range pieces {
		n += pieceCost + len(pieces[i].Text)
	}
	return n
}

func (o *openText) add(n int64, keys ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bytes == nil {
		o.bytes = map[string]int64{}
	}
	for _, k := range keys {
		if o.bytes[k] += n; o.bytes[k] <= 0 {
			delete(o.bytes, k)
		}
	}
}

func (o *openText) of(key string) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes[key]
}

func ownerKey(s *chat.Session) string { return s.Workspace + "/" + s.Owner.Key() }

// ownerKeyOf is ownerKey for the session of the sequencer, whose owner does not change.
func (r *sequencer) ownerKeyOf(s *chat.Session) string {
	if k := r.ownerKey.Load(); k != nil {
		return *k
	}
	k := ownerKey(s)
	r.ownerKey.Store(&k)
	return k
}

// mayOpen returns an error if n more bytes of open text would exceed a quota.
func (r *sequencer) mayOpen(s *chat.Session, n int64) error {
	const text = "%s has %d KiB of text that is being written, the most there can be: finish blocks first"
	q, open := &r.sessions.opt.Quotas, &r.sessions.openText
	switch {
	case q.OpenSession > 0 && r.open.Load()+n > q.OpenSession:
		return r.sessions.overQuota(QuotaOpenText, 1, text, "this session", q.OpenSession>>10)
	case q.OpenOwner > 0 && open.of(r.ownerKeyOf(s))+n > q.OpenOwner:
		return r.sessions.overQuota(QuotaOpenText, 1, text, "the owner of this session", q.OpenOwner>>10)
	case q.OpenWorkspace > 0 && open.of(s.Workspace)+n > q.OpenWorkspace:
		return r.sessions.overQuota(QuotaOpenText, 1, text, "this workspace", q.OpenWorkspace>>10)
	}
	return nil
}

// setOpen sets the number of bytes of open text in the session.
func (r *sequencer) setOpen(s *chat.Session, n int64) {
	if old := r.open.Swap(n); old != n {
		r.sessions.openText.add(n-old, s.Workspace, r.ownerKeyOf(s))
	}
}

// recountOpen counts the bytes of open text in the session again.
func (r *sequencer) recountOpen(s *chat.Session) {
	var n int64
	for _, b := range r.sessions.live.Blocks(r.id) {
		n += costOf(&b)
	}
	r.setOpen(s, n)
}

// shares counts the bytes that actors write while the disk is nearly full.
type shares struct {
	mu    sync.Mutex
	since time.Time
	bytes map[string]int64
}

// sharePeriod is the time after which the counts of shares start again at 0.
const sharePeriod = time.Hour

// countWritten counts n bytes that the caller is about to write. It returns an error if
// the disk is nearly full and the caller has used its share.
func (s *Sessions) countWritten(c chat.Caller, n int) error {
	if s.opt.Scarce == nil || s.opt.Quotas.Shares <= 0 || c.Administers(c.In()) {
		return nil
	}
	reserve, scarce := s.opt.Scarce()
	if !scarce {
		return nil
	}
	share := reserve / s.opt.Quotas.Shares
	key, now := c.In()+"/"+c.Actor.Key(), s.opt.Now()
	s.shares.mu.Lock()
	defer s.shares.mu.Unlock()
	if now.Sub(s.shares.since) >= sharePeriod || s.shares.bytes == nil {
		s.shares.since, s.shares.bytes = now, map[string]int64{}
	}
	if s.shares.bytes[key]+int64(n) > share {
		return s.overQuota(QuotaDisk, 60, "the disk of the server is nearly full, and you have written your share of what is left, %d KiB an hour: erase sessions, or ask the operator for space", share>>10)
	}
	s.shares.bytes[key] += int64(n)
	return nil
}

// size estimates the bytes that drafts take in the log.
func size(drafts []chat.Draft) int {
	n := 0
	for i := range drafts {
		n += 384 + len(drafts[i].Payload)
	}
	return n
}
