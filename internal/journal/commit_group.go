package journal

import (
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// Commits of different sessions that wait at the same time are stored as a group, in one
// batch: they go through Pebble's commit pipeline once, share one sync and one entry for the
// counter of each owner, and one goroutine continues all of them. The goroutine that stores
// a group is the leader. There is one leader at a time: a commit that comes while a group is
// stored waits for the next one. Two leaders, of which one prepares its group while the other
// waits for a sync, took a fifth more processor time, because groups are smaller then.

// Bounds of a group. A larger one would delay the answers to its first commits.
const (
	maxGroup      = 512
	maxGroupBytes = 1 << 20
)

// groups has the commits that wait for a leader.
type groups struct {
	mu      sync.Mutex
	waiting []*member
	led     bool // there is a leader

	// Memory of members. It is not shared between journals, because a test with a clock of
	// its own must not get channels of another one.
	free sync.Pool
}

// member is a commit of a group.
type member struct {
	*core.Commit
	start time.Time
	err   error
	then  core.CommitDone // nil: a caller of Commit waits for wake
	wake  chan signal

	// Set while the group is stored.
	head *head
	next head
}

// signal is what a caller of Commit must do next.
type signal int

const (
	stored signal = iota // nothing: the commit is stored or refused
	lead                 // lead a group that begins with the commit
	alone                // store the commit alone
)

func (g *groups) newMember(c *core.Commit, then core.CommitDone) *member {
	m, ok := g.free.Get().(*member)
	if !ok {
		m = &member{wake: make(chan signal, 1)}
	}
	m.Commit, m.start, m.then = c, time.Now(), then
	return m
}

// end returns the result of a member and keeps its memory.
func (g *groups) end(m *member) error {
	err := m.err
	*m = member{wake: m.wake}
	g.free.Put(m)
	return err
}

// CommitLater is Commit for a caller that does not wait: then is called when the commit is
// durable or has failed. The commit must follow another one. If lead is not nil, the caller
// must call it soon, in a goroutine that may wait for syncs: it stores commits until none
// waits.
func (j *Journal) CommitLater(c *core.Commit, then core.CommitDone) (lead func(), err error) {
	if err := j.checkWritable(c); err != nil {
		return nil, err
	}
	m := j.groups.newMember(c, then)
	if !j.groups.add(m) {
		return nil, nil
	}
	return func() { j.lead(m) }, nil
}

// add returns true if the caller must lead a group that begins with m. Otherwise m waits.
func (g *groups) add(m *member) (lead bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.led {
		g.led = true
		return true
	}
	g.waiting = append(g.waiting, m)
	return false
}

// next returns the member that leads the next group; nil if none waits.
func (g *groups) next() *member {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.led = false
		return nil
	}
	m := g.waiting[0]
	g.waiting = slices.Delete(g.waiting, 0, 1)
	return m
}

// lead stores groups, the first with m, until no commit waits or a caller of Commit leads.
func (j *Journal) lead(m *member) {
	for m != nil {
		g := newCommitGroup(j, m)
		g.store()
		g.tell()
		g.free()
		if m = j.groups.next(); m != nil && m.then == nil {
			m.wake <- lead
			return
		}
	}
}

// leadOne stores one group for a caller of Commit.
func (j *Journal) leadOne(m *member) {
	g := newCommitGroup(j, m)
	g.store()
	if next := j.groups.next(); next != nil && next.then == nil {
		next.wake <- lead
	} else if next != nil {
		go j.lead(next)
	}
	g.tell()
	g.free()
}

// commitGroup is a group that is being stored.
type commitGroup struct {
	j       *Journal
	members []*member
	alone   []*member // commits that cannot be in the group
	locks   []*sync.Mutex
	bytes   map[account]int64 // what the batch adds to the counters
}

var commitGroups = sync.Pool{New: func() any { return &commitGroup{bytes: map[account]int64{}} }}

// newCommitGroup returns a group with m and the commits that wait, with their commit locks.
func newCommitGroup(j *Journal, m *member) *commitGroup {
	g := commitGroups.Get().(*commitGroup)
	g.j = j
	g.add(m)
	size := m.size()
	all := &j.groups
	all.mu.Lock()
	defer all.mu.Unlock()
	n := 0
	for ; n < len(all.waiting) && n < maxGroup && size < maxGroupBytes; n++ {
		size += all.waiting[n].size()
		g.add(all.waiting[n])
	}
	all.waiting = slices.Delete(all.waiting, 0, n)
	return g
}

// add adds a commit to the group, if it gets the commit lock without waiting: somebody else
// may hold it for long.
func (g *commitGroup) add(m *member) {
	if g.lock(m.Session) {
		g.members = append(g.members, m)
	} else {
		g.alone = append(g.alone, m)
	}
}

// size is the number of bytes of the events.
func (m *member) size() (n int) {
	for i := range m.Facts {
		n += len(m.Facts[i].JSON)
	}
	return n
}

// lock takes the commit lock of a session without waiting. It fails if the group has a
// commit of this session already.
func (g *commitGroup) lock(id chat.SessionID) bool {
	lock := g.j.commitLock(id)
	if lock.TryLock() {
		g.locks = append(g.locks, lock)
		return true
	}
	// Another session of the group may use the same lock.
	return slices.Contains(g.locks, lock) && !slices.ContainsFunc(g.members, func(m *member) bool { return m.Session == id })
}

// store stores the commits and sets their errors. It releases the locks.
func (g *commitGroup) store() {
	for _, m := range g.alone {
		if m.then != nil {
			go g.j.storeAlone(m)
		} else {
			m.wake <- alone
		}
	}
	err := g.tryStore()
	for _, lock := range g.locks {
		lock.Unlock()
	}
	for _, m := range g.members {
		if m.err == nil {
			m.err = err
		}
		if m.err == nil {
			g.j.committed(m.Commit, m.start)
		}
	}
}

// storeAlone stores a commit for which nobody waits.
func (j *Journal) storeAlone(m *member) {
	m.then.Done(j.commitAlone(m.Commit))
	m.then.GroupDone()
	j.groups.end(m)
}

func (g *commitGroup) tryStore() error {
	b, n := g.fill()
	if n == 0 {
		return b.Close()
	}
	for _, m := range g.members {
		if m.err == nil {
			g.j.begin(m.Session, m.head)
			if len(m.next.lists) >= 2 { // otherwise the record is damaged
				g.bytes[account{m.next.lists[0], m.next.lists[1]}] += m.next.last.bytes - m.head.last.bytes
			}
		}
	}
	var key [40]byte
	var value [8]byte
	for a, n := range g.bytes {
		b.Merge(accountKey(key[:0], a), appendSum(value[:0], n), nil)
	}
	if err := g.j.stored.changeAll(g.bytes, func() error { return g.j.apply(b) }); err != nil {
		return err // b may or may not be stored; readers do not see it
	}
	for _, m := range g.members {
		if m.err == nil {
			g.j.settle(m.Session, m.head, &m.next)
		}
	}
	return nil
}

// fill returns a batch with the commits that can be stored, and how many they are. It sets
// the errors of the others.
func (g *commitGroup) fill() (b *pebble.Batch, n int) {
	for {
		b, n = g.j.db.NewBatch(), 0
		if g.fillAll(b, &n) {
			return b, n
		}
		b.Close() // has a part of a commit that failed
	}
}

// fillAll returns false if the batch has a part of a commit that failed.
func (g *commitGroup) fillAll(b *pebble.Batch, n *int) bool {
	for _, m := range g.members {
		if m.err != nil {
			continue
		}
		if m.head, m.err = g.j.headFor(m.Commit); m.err == nil {
			m.err = g.j.checkFollows(m.Commit, m.head)
		}
		if m.err != nil {
			continue
		}
		if m.next, m.err = g.j.fillBatch(g.j.db, b, m.head, m.Commit); m.err != nil {
			return false
		}
		*n++
	}
	return true
}

// tell tells all members that they are done.
func (g *commitGroup) tell() {
	for i, m := range g.members {
		if m.then == nil {
			g.members[i] = nil // its caller frees it
			m.wake <- stored
		} else {
			m.then.Done(m.err)
		}
	}
	for _, m := range g.members {
		if m != nil {
			m.then.GroupDone()
			g.j.groups.end(m)
		}
	}
}

// free returns the memory of the group.
func (g *commitGroup) free() {
	clear(g.members)
	clear(g.alone)
	clear(g.locks)
	clear(g.bytes)
	*g = commitGroup{members: g.members[:0], alone: g.alone[:0], locks: g.locks[:0], bytes: g.bytes}
	commitGroups.Put(g)
}
