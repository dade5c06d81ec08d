package main

import (
	"testing"

	"github.com/parley-hq/parley/internal/journal"
)

// The limits of stored bytes follow from the size of the disk unless they are given.
func TestDefaultLimitOfStoredBytesDependsOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	size, err := journal.DiskSize(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ owner, workspace, wantOwner, wantWorkspace int64 }{
		{0, 0, int64(size / 4), int64(size / 2)},
		{-1, 0, -1, int64(size / 2)},
		{1000, -1, 1000, -1},
	} {
		cfg := &ServeCmd{Data: dir, MaxStoredOwn: c.owner, MaxStoredWork: c.workspace}
		cfg.setStored()
		if q := cfg.quotas(); q.StoredOwner != c.wantOwner || q.StoredWorkspace != c.wantWorkspace {
			t.Errorf("%+v: %d and %d", c, q.StoredOwner, q.StoredWorkspace)
		}
	}
}
