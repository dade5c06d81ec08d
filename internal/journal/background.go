package journal

import (
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// retryPause is the time between two attempts of failing background work.
	// Pebble retries without a pause, which uses a whole core on a full disk.
	retryPause = 250 * time.Millisecond
	// retryReport is how often a lasting failure is logged.
	retryReport = time.Minute
)

// openEngine opens Pebble. At its start Pebble writes its log into tables and
// retries without end. openEngine returns the first failure instead.
func (j *Journal) openEngine(dir string, readOnly bool, lock *pebble.Lock) (*pebble.DB, error) {
	type opened struct {
		db  *pebble.DB
		err error
	}
	done := make(chan opened, 1)
	j.stuck = make(chan error, 1)
	go func() {
		o := j.engineOptions(readOnly)
		o.Lock = lock
		db, err := pebble.Open(dir, o)
		done <- opened{db, err}
	}()
	select {
	case o := <-done:
		return o.db, o.err
	case err := <-j.stuck:
		go func() {
			if o := <-done; o.err == nil {
				_ = o.db.Close() // it opened after openEngine had returned an error
			}
		}()
		return nil, err
	}
}

// backgroundFailed is called when a flush or compaction failed. Pebble retries.
// Until one succeeds, commits are refused: they would block when the tables in
// memory are full.
func (j *Journal) backgroundFailed(err error) {
	if j.closing.Load() {
		return
	}
	j.background.Store(&err)
	select {
	case j.stuck <- err:
	default: // the store is open already
	}
	now := time.Now().UnixNano()
	if last := j.reported.Load(); now-last > int64(retryReport) && j.reported.CompareAndSwap(last, now) {
		j.opt.Logger.Error("background work of the store failed; nothing can be stored until it succeeds, trying again", "err", err.Error())
	}
}

// backgroundDone is called at the end of a flush or compaction.
func (j *Journal) backgroundDone(err error) {
	if err == nil && j.background.Swap(nil) != nil {
		j.reported.Store(0)
	}
}

// pausingFS delays the creation of tables while background work fails.
type pausingFS struct {
	vfs.FS
	j *Journal
}

// Create creates a file; Pebble holds no lock when it is a table.
func (f pausingFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") && f.j.background.Load() != nil && !f.j.closing.Load() {
		time.Sleep(retryPause)
	}
	return f.FS.Create(name, category)
}
