package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/internal/core"
)

// Run does the journal's background work until ctx ends: the interval sync, the
// check of free space, the compaction of the preview file and interrupted erasures.
// It returns an error when the log failed.
func (j *Journal) Run(ctx context.Context) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	var tick <-chan time.Time
	if j.opt.Sync == SyncInterval {
		t := time.NewTicker(j.opt.Interval)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return j.failed()
		case <-tick:
			if err := j.sync(); err != nil {
				return err
			}
		case <-second.C:
			j.checkSpace()
			if err := j.previews.compactWhenLarge(); err != nil {
				j.opt.Logger.Error("the preview file could not be compacted", "err", err)
			}
			if err := j.finishErasures(ctx); err != nil && !errors.Is(err, context.Canceled) {
				j.opt.Logger.Error("an erasure could not be finished, trying again", "err", err)
			}
		}
		if err := j.failed(); err != nil {
			return err
		}
	}
}

// lookAfter is how many bytes may be committed before the free space is checked
// again: a burst can fill a small disk between the checks of Run.
const lookAfter = 1 << 20

// spend counts the bytes of a commit.
func (j *Journal) spend(c *core.Commit) {
	n := 0
	for i := range c.Facts {
		n += len(c.Facts[i].JSON)
	}
	if j.unchecked.Add(int64(n)) >= lookAfter {
		j.unchecked.Store(0)
		j.checkSpace()
	}
}

// Free returns how many bytes a folder's disk has free.
func Free(dir string) (uint64, error) {
	usage, err := vfs.Default.GetDiskUsage(dir)
	return usage.AvailBytes, err
}

// DiskSize returns how many bytes a folder's disk has.
func DiskSize(dir string) (uint64, error) {
	usage, err := vfs.Default.GetDiskUsage(dir)
	return usage.TotalBytes, err
}

// Room counts bytes that another package has written to the journal's disk. It
// returns an error when nothing more should be written there.
func (j *Journal) Room(bytes int64) error {
	if bytes == 0 || j.unchecked.Add(bytes) >= lookAfter {
		j.unchecked.Store(0)
		j.checkSpace()
	}
	return j.Writable()
}

// Scarce reports whether less than twice the reserve of the disk is free, and how
// large the reserve is.
func (j *Journal) Scarce() (reserve int64, scarce bool) {
	reserve = j.scarce.Load()
	return reserve, reserve > 0
}

// checkSpace compares the free space with the reserve and refuses or accepts writes.
func (j *Journal) checkSpace() {
	usage, err := j.opt.FS.GetDiskUsage(j.dir)
	if err != nil {
		// Some file systems do not report it. A write to a full disk then fails.
		j.low.Store(nil)
		j.scarce.Store(0)
		return
	}
	var need uint64
	if j.opt.MinFree > 0 {
		need = uint64(j.opt.MinFree)
	}
	if j.opt.MinFreePercent > 0 {
		need = max(need, uint64(float64(usage.TotalBytes)*j.opt.MinFreePercent/100))
	}
	j.scarce.Store(0)
	if usage.AvailBytes < 2*need {
		j.scarce.Store(int64(need))
	}
	if usage.AvailBytes >= need {
		if j.low.Swap(nil) != nil {
			j.opt.Logger.Info("there is enough free space again, appends are accepted", "free", usage.AvailBytes)
		}
		return
	}
	why := fmt.Sprintf("the disk of the server has %d MiB free, less than the %d MiB it keeps in reserve: free some space, erase sessions, or lower the reserve (--min-free, --min-free-percent)", usage.AvailBytes>>20, need>>20)
	if j.low.Swap(&why) == nil {
		j.opt.Logger.Error("too little free space, appends are refused", "free", usage.AvailBytes, "reserve", need)
	}
}
