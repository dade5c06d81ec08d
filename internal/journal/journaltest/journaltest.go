// Package journaltest opens journals for tests of programs that are killed.
package journaltest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/journal"
)

// ErrKilled is returned by writes after the kill.
var ErrKilled = chat.Errorf(chat.Unavailable, "the process was killed")

// Journal is a journal whose process is killed after a number of writes: all later writes fail. What was written is on the
// disk for the next one.
type Journal struct {
	*journal.Journal
	Full   atomic.Bool   // writes fail because the disk is full
	Killed chan struct{} // closed at the first write after the kill

	left atomic.Int64 // writes until the kill
	once sync.Once
}

// Open opens the journal on a disk. It is killed after a number of writes; 0 means never.
func Open(t testing.TB, disk vfs.FS, writes int64) *Journal {
	t.Helper()
	j, err := journal.Open("/data", journal.Options{FS: disk, Sync: journal.SyncNever, MinFree: -1, MinFreePercent: -1})
	if err != nil {
		t.Fatal(err)
	}
	k := &Journal{Journal: j, Killed: make(chan struct{})}
	if writes == 0 {
		writes = 1 << 60
	}
	k.KillAfter(writes)
	return k
}

// KillAfter kills the process after a number of further writes.
func (k *Journal) KillAfter(writes int64) { k.left.Store(writes) }

func (k *Journal) write() error {
	if k.Full.Load() {
		return chat.Errorf(chat.Unavailable, "the disk is full")
	}
	if k.left.Add(-1) < 0 {
		k.once.Do(func() { close(k.Killed) })
		return ErrKilled
	}
	return nil
}

// Commit stores a commit.
func (k *Journal) Commit(ctx context.Context, c *core.Commit) error {
	if err := k.write(); err != nil {
		return err
	}
	return k.Journal.Commit(ctx, c)
}

// CommitLater stores a commit.
func (k *Journal) CommitLater(c *core.Commit, then core.CommitDone) (lead func(), err error) {
	if err := k.write(); err != nil {
		return nil, err
	}
	return k.Journal.CommitLater(c, then)
}

// WritePreviews stores pieces of open blocks.
func (k *Journal) WritePreviews(ctx context.Context, all []core.SessionPieces) {
	if err := k.write(); err != nil {
		for i := range all {
			all[i].Err = err
		}
		return
	}
	k.Journal.WritePreviews(ctx, all)
}
