package journal

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/chat"
)

// quiet switches the free-space check off: the tests must not depend on what the
// machine has free.
func quiet(o Options) Options {
	o.MinFree, o.MinFreePercent = -1, -1
	return o
}

func openTest(t testing.TB, dir string, o Options) *Journal {
	t.Helper()
	j, err := Open(dir, quiet(o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if j.closing.Load() {
			return
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// onEachStore runs a test on a store on disk, and on one in memory that syncs in
// intervals.
func onEachStore(t *testing.T, test func(*testing.T, *Journal)) {
	t.Parallel()
	t.Run("disk", func(t *testing.T) { test(t, openTest(t, t.TempDir(), Options{})) })
	t.Run("memory, interval", func(t *testing.T) {
		test(t, openTest(t, "/data", Options{FS: vfs.NewMem(), Sync: SyncInterval}))
	})
}

// eraseNow erases a session that has nothing outside the journal.
func eraseNow(j *Journal, id chat.SessionID) (chat.Receipt, error) {
	e, err := j.BeginErase(ctx, id, 0, 0)
	if err != nil {
		return e.Receipt, err
	}
	return e.Receipt, j.FinishErase(ctx, e)
}
