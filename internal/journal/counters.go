package journal

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
)

// The journal counts the stored bytes of every owner in every workspace: those of
// events, and those of files that AddFiles and SetFiles report. A counter is one
// key. Every batch that adds or removes bytes merges the difference into it, so the
// counter always agrees with the log. A session's head and its kFiles entry hold the
// part of the counter that belongs to the session.

// sums adds up counters. A value is a sequence of differences of 8 bytes each. The
// name is part of store format 2: Pebble opens a store only with a merger of the
// name that it was created with.
var sums = &pebble.Merger{
	Name: pebble.DefaultMerger.Name,
	Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		s := sum(decodeSum(value))
		return &s, nil
	},
}

type sum int64

func (s *sum) MergeNewer(value []byte) error { *s += sum(decodeSum(value)); return nil }
func (s *sum) MergeOlder(value []byte) error { *s += sum(decodeSum(value)); return nil }

func (s *sum) Finish(bool) ([]byte, io.Closer, error) { return appendSum(nil, int64(*s)), nil, nil }

func appendSum(b []byte, n int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) }

func decodeSum(b []byte) (n int64) {
	for ; len(b) >= 8; b = b[8:] {
		n += int64(binary.BigEndian.Uint64(b))
	}
	return n
}

// account identifies a counter.
type account struct{ workspace, owner keyHash }

func accountKey(b []byte, a account) []byte {
	return append(hashKey(b, kStored, a.workspace), a.owner[:]...)
}

// counters caches the counters that were read.
type counters struct {
	mu  sync.Mutex
	all map[account]*counter // the counter of a workspace has an empty owner
}

type counter struct {
	load  sync.RWMutex // held for reading while a batch changes the counter
	known atomic.Bool
	bytes atomic.Int64
}

// maxCounters bounds the cache. When it is reached, all counters are read again from
// the store; a batch that is in progress then may be missing in the cache until the
// next start.
const maxCounters = 50_000

func (c *counters) of(a account) *counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.all[a]
	if one == nil {
		if c.all == nil || len(c.all) >= maxCounters {
			c.all = map[account]*counter{}
		}
		one = &counter{}
		c.all[a] = one
	}
	return one
}

// change runs apply, which writes a batch that changes a counter by n bytes.
func (c *counters) change(a account, n int64, apply func() error) error {
	owner, workspace := c.of(a), c.of(account{workspace: a.workspace})
	owner.load.RLock()
	defer owner.load.RUnlock()
	workspace.load.RLock()
	defer workspace.load.RUnlock()
	err := apply()
	if err == nil {
		owner.bytes.Add(n)
		workspace.bytes.Add(n)
	}
	return err
}

// get returns a counter. It calls load when the counter is not cached.
func (c *counters) get(a account, load func() (int64, error)) (int64, error) {
	one := c.of(a)
	if one.known.Load() {
		return one.bytes.Load(), nil
	}
	one.load.Lock() // waits for batches that change it
	defer one.load.Unlock()
	if !one.known.Load() {
		n, err := load()
		if err != nil {
			return 0, err
		}
		one.bytes.Store(n)
		one.known.Store(true)
	}
	return one.bytes.Load(), nil
}

// Stored returns how many bytes of events and files an owner has in a workspace,
// and how many the workspace has.
func (j *Journal) Stored(_ context.Context, workspace string, owner chat.Actor) (ofOwner, ofWorkspace int64, err error) {
	workspace = cmp.Or(workspace, chat.DefaultWorkspace)
	a := account{hashOf(workspace, ""), hashOf(workspace, owner.Key())}
	ofOwner, err = j.stored.get(a, func() (int64, error) {
		v, err := j.get(accountKey(nil, a))
		return decodeSum(v), err
	})
	if err != nil {
		return 0, 0, err
	}
	ofWorkspace, err = j.stored.get(account{workspace: a.workspace}, func() (n int64, err error) {
		it, err := j.iter(hashKey(nil, kStored, a.workspace))
		if err != nil {
			return 0, err
		}
		for ok := it.First(); ok; ok = it.Next() {
			n += decodeSum(it.Value())
		}
		return n, errors.Join(it.Error(), it.Close())
	})
	return ofOwner, ofWorkspace, err
}

// SizeOf returns how many bytes of events and files a session has.
func (j *Journal) SizeOf(_ context.Context, id chat.SessionID) (int64, error) {
	at, err := j.look(id)
	if err != nil {
		return 0, err
	}
	files, err := filesOfSession(j.db, at.number)
	return at.bytes + files, err
}

func filesOfSession(r pebble.Reader, n chat.Number) (int64, error) {
	v, err := getFrom(r, numberKey(nil, kFiles, n))
	return decodeSum(v), err
}

// AddFiles adds bytes, which may be negative, to the size of a session's files. For a
// session that does not exist it does nothing.
func (j *Journal) AddFiles(_ context.Context, id chat.SessionID, bytes int64) error {
	return j.changeFiles(id, func(was int64) int64 { return max(0, was+bytes) })
}

// SetFiles sets the size of a session's files.
func (j *Journal) SetFiles(_ context.Context, id chat.SessionID, bytes int64) error {
	return j.changeFiles(id, func(int64) int64 { return bytes })
}

func (j *Journal) changeFiles(id chat.SessionID, change func(was int64) int64) error {
	if err := j.failed(); err != nil {
		return err
	}
	lock := j.commitLock(id)
	lock.Lock()
	defer lock.Unlock()
	h, _, err := j.find(id)
	if code := chat.CodeOf(err); code == chat.NotFound || code == chat.Gone {
		return nil
	}
	if err == nil {
		err = j.fill(id, h)
	}
	if err != nil {
		return err
	}
	b := j.db.NewBatch()
	more, err := putFiles(j.db, b, h.number, change)
	if err != nil || more == 0 {
		b.Close()
		return err
	}
	return j.applyCounted(b, h.lists, more, j.write)
}

// putFiles changes the size of a session's files and returns the difference.
func putFiles(r pebble.Reader, b *pebble.Batch, n chat.Number, change func(was int64) int64) (more int64, err error) {
	was, err := filesOfSession(r, n)
	if err != nil {
		return 0, err
	}
	is := change(was)
	if is != was {
		b.Set(numberKey(nil, kFiles, n), appendSum(nil, is), nil)
	}
	return is - was, nil
}

// applyCounted applies a batch that adds n bytes, which may be negative, to what the owner of a
// session has stored. lists are those of the session.
func (j *Journal) applyCounted(b *pebble.Batch, lists []keyHash, n int64, apply func(*pebble.Batch) error) error {
	if len(lists) < 2 {
		return apply(b) // the record is damaged
	}
	a := account{lists[0], lists[1]}
	var key [40]byte
	var value [8]byte
	b.Merge(accountKey(key[:0], a), appendSum(value[:0], n), nil)
	return j.stored.change(a, n, func() error { return apply(b) })
}
