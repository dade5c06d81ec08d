package journal

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

const (
	shardCount    = 256
	headsPerShard = 64 // so about 16 000 sessions in all, a few MB
)

// shard caches the heads of some sessions.
type shard struct {
	mu      sync.Mutex
	settled sync.Cond // a commit became durable
	changes uint64    // counts commits and erasures, so that find notices them while it loads
	heads   map[chat.SessionID]*head
}

// head describes the end of one session's log. Fields are guarded by shard.mu; the
// second group is written only by the holder of the session's commit lock.
type head struct {
	number   chat.Number
	durable  logEnd // readers see events up to here
	inflight int    // 1 during the sync of a commit

	last  logEnd    // includes a commit whose sync is in progress
	busy  bool      // the working index has it
	lists []keyHash // the lists that contain it
	full  bool      // busy and lists are loaded
}

// view is the part of a head that a reader needs.
type view struct {
	number chat.Number
	logEnd
}

func (s *shard) init() {
	s.settled.L = &s.mu
	s.heads = map[chat.SessionID]*head{}
}

func (j *Journal) shard(id chat.SessionID) *shard {
	return &j.shards[maphash.String(j.seed, string(id))%shardCount]
}

// commitLock is held from the check of a session's head until its commit is
// durable. There are many locks, so that two sessions rarely share one and wait
// for each other's syncs.
func (j *Journal) commitLock(id chat.SessionID) *sync.Mutex {
	return &j.commitLocks[j.commitLockIndex(id)]
}

func (j *Journal) commitLockIndex(id chat.SessionID) int {
	return int(maphash.String(j.seed, string(id)) / shardCount % uint64(len(j.commitLocks)))
}

// createLock is held while a session with a number is created or imported.
func (j *Journal) createLock(n chat.Number) *sync.Mutex {
	return &j.createLocks[j.createLockIndex(n)]
}

func (j *Journal) createLockIndex(n chat.Number) int {
	return int(uint64(n) % uint64(len(j.createLocks)))
}

// Head returns the number of a session's last event and the hash of an event: that with number seq, or the last one if seq is 0.
func (j *Journal) Head(id chat.SessionID, seq chat.Seq) (last chat.Seq, hash chat.Hash, err error) {
	v, err := j.look(id)
	if err != nil || seq == 0 {
		return v.seq, v.hash, err
	}
	f, err := j.Get(context.Background(), id, seq)
	if err != nil {
		return v.seq, hash, err
	}
	return v.seq, f.Hash(), nil
}

// look returns a session's durable end.
func (j *Journal) look(id chat.SessionID) (view, error) {
	h, s, err := j.find(id)
	if err != nil {
		return view{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.durable.seq == 0 { // its first commit is not durable yet
		return view{}, chat.Errorf(chat.NotFound, "there is no session %s", id)
	}
	return view{h.number, h.durable}, nil
}

// LastAt returns the position of a session's last event.
func (j *Journal) LastAt(id chat.SessionID) (chat.At, error) {
	v, err := j.look(id)
	return v.at, err
}

// find returns the head of a session from the cache or the store, or NotFound or Gone.
func (j *Journal) find(id chat.SessionID) (*head, *shard, error) {
	s := j.shard(id)
	for {
		s.mu.Lock()
		h, changes := s.heads[id], s.changes
		s.mu.Unlock()
		if h != nil {
			return h, s, nil
		}
		// A session that is not cached has no commit in progress, so its stored
		// head is durable, unless a commit begins meanwhile: see changes.
		h, err := j.loadHead(id)
		if err != nil {
			return nil, nil, err
		}
		s.mu.Lock()
		if s.changes == changes {
			s.put(id, h)
			s.mu.Unlock()
			return h, s, nil
		}
		s.mu.Unlock()
	}
}

func (j *Journal) loadHead(id chat.SessionID) (*head, error) {
	n, ok, err := j.numberOf(id)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, j.missing(id)
	}
	v, err := j.get(headKey(nil, n))
	if err != nil {
		return nil, err
	}
	p, ok := decodeLogEnd(v)
	if !ok {
		return nil, j.lost(id, 0, "its head is missing or unreadable")
	}
	return &head{number: n, durable: p, last: p}, nil
}

// fill loads the rest of a head, for a commit. The caller holds the session's commit lock.
func (j *Journal) fill(id chat.SessionID, h *head) error {
	if h.full {
		return nil
	}
	busy, err := j.has(numberKey(nil, kWorking, h.number))
	if err != nil {
		return err
	}
	rec, err := j.record(id, h.number)
	if err != nil {
		return err
	}
	h.busy, h.lists, h.full = busy, listsOf(&rec), true
	return nil
}

// record reads the stored record. Its Last may be older than the head.
func (j *Journal) record(id chat.SessionID, n chat.Number) (rec chat.Session, err error) {
	v, err := j.get(numberKey(nil, kRecord, n))
	if err != nil {
		return rec, err
	}
	if v == nil {
		return rec, j.lost(id, 0, "its record is missing")
	}
	if err := json.Unmarshal(v, &rec); err != nil {
		return rec, damaged(id, 0, "its record is unreadable")
	}
	return rec, nil
}

// missing returns Gone when an id was erased, else NotFound.
func (j *Journal) missing(id chat.SessionID) error {
	erased, err := j.has(hashKey(nil, kTombstone, idHash(id)))
	if err != nil {
		return err
	}
	if erased {
		return errGone(id)
	}
	return chat.Errorf(chat.NotFound, "there is no session %s", id)
}

func errGone(id chat.SessionID) error {
	return chat.Errorf(chat.Gone, "the session %s was erased, and its id is not used again", id)
}

// lost returns the error for a key that was not found: Gone when the session was
// erased meanwhile, else damaged.
func (j *Journal) lost(id chat.SessionID, seq chat.Seq, what string) error {
	if err := j.missing(id); chat.CodeOf(err) == chat.Gone {
		return err
	}
	return damaged(id, seq, what)
}

// damaged returns an error that says what is wrong; seq is 0 when it concerns the
// whole session.
func damaged(id chat.SessionID, seq chat.Seq, what string) error {
	if seq == 0 {
		return chat.Errorf(chat.Internal, "session %s is damaged: %s; run parley verify and restore it from a backup", id, what)
	}
	return chat.Errorf(chat.Internal, "session %s is damaged at sequence %d: %s; run parley verify and restore it from a backup", id, seq, what).
		With("sequence", seq)
}

// put adds a head and removes another one when the cache is full. The caller holds
// s.mu.
func (s *shard) put(id chat.SessionID, h *head) {
	if len(s.heads) >= headsPerShard {
		for other, o := range s.heads {
			// The durable end of a session with a commit in progress is stored
			// nowhere else.
			if o.inflight == 0 {
				delete(s.heads, other)
				break
			}
		}
	}
	s.heads[id] = h
}

// listsOf returns the lists that contain a session: the workspace's, its owner's
// and its members', in this order.
func listsOf(rec *chat.Session) []keyHash {
	lists := make([]keyHash, 0, 2+len(rec.Members))
	add := func(actor string) {
		if t := hashOf(rec.Workspace, actor); !slices.Contains(lists, t) {
			lists = append(lists, t)
		}
	}
	add("")
	add(rec.Owner.Key())
	for _, m := range rec.Members {
		add(m.Actor.Key())
	}
	return lists
}
