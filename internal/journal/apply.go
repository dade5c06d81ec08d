package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
)

// Frame is a list of changes that Apply stores as one unit, and what the node knows of
// the partition afterwards.
type Frame struct {
	Partition uint16
	Copy      []byte // the journal does not look into it; Copies returns it
	Changes   []Change
}

// Apply stores a frame in one batch, without a sync: after a crash the store has
// all frames up to one of them, and Copies returns what the last one had. Readers see
// the changes at once. Frames of one partition must be applied one after the other.
//
// refused has an element for each change: nil, or why the change does not fit the
// store and was left out (Conflict, NotFound, Gone or Invalid). It depends on nothing
// but the store and the frame, so that equal stores refuse the same. With any other
// error nothing of the frame is stored.
//
// Apply does not refuse frames when the disk has little free space: they were decided
// elsewhere.
func (j *Journal) Apply(f *Frame) (refused []error, err error) {
	start := time.Now()
	if err := j.failed(); err != nil {
		return nil, err
	}
	if j.readOnly {
		return nil, chat.Errorf(chat.Unavailable, "the store is open for reading only")
	}
	if p := j.background.Load(); p != nil {
		return nil, chat.Errorf(chat.Unavailable, "the server cannot write its tables to disk at the moment; try again in a while").Because(*p)
	}
	locks := &lockSet{j: j}
	for _, c := range f.Changes {
		c.lock(locks)
	}
	locks.lock()
	defer locks.unlock()
	s := j.newStaging(f.Changes)
	refused = make([]error, len(f.Changes))
	for i, c := range f.Changes {
		if refused[i] = c.stage(s); refused[i] != nil && !isRefusal(refused[i]) {
			s.b.Close()
			return nil, refused[i]
		}
	}
	s.b.Set(copyKey(nil, f.Partition), f.Copy, nil)
	if err := s.write(); err != nil {
		return nil, err
	}
	took := time.Since(start)
	for i, c := range f.Changes {
		if c, ok := c.(*CommitChange); ok && refused[i] == nil {
			j.spend(c.Commit)
			j.previews.committed(c.Commit)
			j.metrics.committed(c.Commit, took)
		}
	}
	return refused, nil
}

// isRefusal reports whether an error of a change means that it does not fit the store.
func isRefusal(err error) bool {
	switch chat.CodeOf(err) {
	case chat.Conflict, chat.NotFound, chat.Gone, chat.Invalid:
		return true
	}
	return false
}

// Sync syncs everything that was applied before the call.
func (j *Journal) Sync() error {
	if err := j.failed(); err != nil {
		return err
	}
	return j.sync()
}

// Copies returns the newest Frame.Copy of each partition that has one.
func (j *Journal) Copies(ctx context.Context) (map[uint16][]byte, error) {
	all := map[uint16][]byte{}
	for e, err := range j.walk(ctx, []byte{kCopy}) {
		if err != nil {
			return nil, err
		}
		all[e.partition] = e.value
	}
	return all, nil
}

// staging is a batch of several changes that is being filled.
type staging struct {
	j        *Journal
	r        pebble.Reader // what is stored after the changes so far
	b        *pebble.Batch
	sessions map[chat.SessionID]*staged
	bytes    map[account]int64 // what the batch adds to the counters
}

// newStaging returns an empty batch for changes. Changes that may depend on earlier ones need an indexed batch, which
// takes more time.
func (j *Journal) newStaging(all []Change) *staging {
	s := &staging{j: j, sessions: make(map[chat.SessionID]*staged, len(all))}
	size := 64 // for the copy and the counters
	places := make([]staged, len(all))
	for i, c := range all {
		c, ok := c.(*CommitChange)
		if !ok || c.After == 0 || len(c.Files) > 0 || s.sessions[c.Session] != nil {
			clear(s.sessions)
			s.b = j.db.NewIndexedBatch()
			s.r = s.b
			return s
		}
		s.sessions[c.Session] = &places[i]
		for i := range c.Facts {
			size += len(c.Facts[i].JSON) + entrySize
		}
	}
	s.b, s.r = j.db.NewBatchWithSize(size), j.db
	return s
}

// entrySize is more than the key and the head take that a batch has with an event.
const entrySize = 128

// staged is a session that the batch changes.
type staged struct {
	cached *head // becomes next when the batch is stored; nil before the session is found
	next   head
	erased bool
}

// find returns a session as it is after the changes so far, or NotFound or Gone.
func (s *staging) find(id chat.SessionID) (*staged, error) {
	p := s.sessions[id]
	if p == nil || p.cached == nil {
		h, _, err := s.j.find(id)
		if err != nil {
			return nil, err
		}
		// A session with a damaged record can be erased, so the error is not final.
		if err := s.j.fill(id, h); err != nil {
			return &staged{cached: h, next: *h}, err
		}
		if p == nil {
			p = &staged{}
			s.sessions[id] = p
		}
		p.cached, p.next = h, *h
	}
	if p.erased {
		return nil, errGone(id)
	}
	return p, nil
}

// checkFree refuses to create a session whose id or number is taken.
func (s *staging) checkFree(id chat.SessionID, n chat.Number) error {
	switch p := s.sessions[id]; {
	case p == nil:
		return s.j.checkFree(s.r, id, n)
	case p.erased:
		return errGone(id)
	default:
		return conflict(id, p.next.last.seq)
	}
}

// count adds bytes, which may be negative, to what the owner of a session has stored.
func (s *staging) count(lists []keyHash, n int64) {
	if len(lists) < 2 {
		return // the record is damaged
	}
	if s.bytes == nil {
		s.bytes = map[account]int64{}
	}
	s.bytes[account{lists[0], lists[1]}] += n
}

// write stores the batch and then shows the changes to readers.
func (s *staging) write() error {
	for a, n := range s.bytes {
		s.b.Merge(accountKey(nil, a), appendSum(nil, n), nil)
	}
	// As in stage: the cache must contain the visible end of each session while the
	// store is newer.
	for id, p := range s.sessions {
		if p.cached == nil {
			delete(s.sessions, id) // refused
			continue
		}
		sh := s.j.shard(id)
		sh.mu.Lock()
		sh.changes++
		p.cached.inflight++
		if sh.heads[id] != p.cached {
			sh.put(id, p.cached)
		}
		sh.mu.Unlock()
	}
	err := s.j.stored.changeAll(s.bytes, func() error { return s.j.applyWith(s.b, pebble.NoSync) })
	if err != nil {
		return err // the batch may or may not be stored; readers do not see it
	}
	for id, p := range s.sessions {
		sh := s.j.shard(id)
		sh.mu.Lock()
		if p.erased {
			sh.changes++
			delete(sh.heads, id)
		} else {
			h := p.cached
			h.last, h.busy, h.lists, h.durable = p.next.last, p.next.busy, p.next.lists, p.next.last
		}
		p.cached.inflight--
		sh.mu.Unlock()
		sh.settled.Broadcast()
	}
	return nil
}

// lockSet collects the locks of a batch of several changes, so that they are taken in
// one order.
type lockSet struct {
	j       *Journal
	commits []int // indexes of commitLocks
	creates []int // indexes of createLocks
	alias   bool
	held    []*sync.Mutex
}

func (l *lockSet) session(id chat.SessionID) { l.commits = append(l.commits, l.j.commitLockIndex(id)) }

func (l *lockSet) number(n chat.Number) { l.creates = append(l.creates, l.j.createLockIndex(n)) }

func (l *lockSet) lock() {
	take := func(m *sync.Mutex) {
		m.Lock()
		l.held = append(l.held, m)
	}
	slices.Sort(l.commits)
	for _, i := range slices.Compact(l.commits) {
		take(&l.j.commitLocks[i])
	}
	slices.Sort(l.creates)
	for _, i := range slices.Compact(l.creates) {
		take(&l.j.createLocks[i])
	}
	if l.alias {
		take(&l.j.alias)
	}
}

func (l *lockSet) unlock() {
	for _, m := range slices.Backward(l.held) {
		m.Unlock()
	}
}

func copyKey(b []byte, partition uint16) []byte {
	return binary.BigEndian.AppendUint16(append(b, kCopy), partition)
}

// changeAll is change for several counters.
func (c *counters) changeAll(n map[account]int64, apply func() error) error {
	total := map[account]int64{}
	for a, bytes := range n {
		total[a] += bytes
		total[account{workspace: a.workspace}] += bytes
	}
	// Counters of owners first, as in change, then those of workspaces, each in the
	// order of their keys: two calls never wait for each other.
	order := make([]account, 0, len(total))
	for a := range total {
		order = append(order, a)
	}
	slices.SortFunc(order, compareAccounts)
	changed := make([]*counter, len(order))
	for i, a := range order {
		changed[i] = c.of(a)
		changed[i].load.RLock()
		defer changed[i].load.RUnlock()
	}
	if err := apply(); err != nil {
		return err
	}
	for i, a := range order {
		changed[i].bytes.Add(total[a])
	}
	return nil
}

func compareAccounts(a, b account) int {
	if a, b := a.owner == (keyHash{}), b.owner == (keyHash{}); a != b {
		if a {
			return 1
		}
		return -1
	}
	if c := bytes.Compare(a.workspace[:], b.workspace[:]); c != 0 {
		return c
	}
	return bytes.Compare(a.owner[:], b.owner[:])
}

// ResetCopies removes what Apply was given of all partitions: the store is that of a single server, or the first one of a new
// cluster.
func (j *Journal) ResetCopies() error {
	b := j.db.NewBatch()
	from, to := span([]byte{kCopy})
	if err := b.DeleteRange(from, to, nil); err != nil {
		return errors.Join(err, b.Close())
	}
	return j.write(b)
}
