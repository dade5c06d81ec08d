package journal

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/internal/journal/journaltest"
)

// quiet switches the free-space check off: what the machine has free is not the
// subject.
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

func TestContract(t *testing.T) {
	t.Parallel()
	t.Run("disk", func(t *testing.T) {
		journaltest.Run(t, func(t *testing.T) journaltest.Store { return openTest(t, t.TempDir(), Options{}) })
	})
	t.Run("memory, interval", func(t *testing.T) {
		journaltest.Run(t, func(t *testing.T) journaltest.Store {
			return openTest(t, "/data", Options{FS: vfs.NewMem(), Sync: SyncInterval})
		})
	})
}
