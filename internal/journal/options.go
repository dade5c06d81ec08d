package journal

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// SyncMode determines when a commit is synced.
type SyncMode int

// The modes.
const (
	// SyncAlways syncs before a commit is acknowledged: commits survive a power cut.
	SyncAlways SyncMode = iota
	// SyncInterval syncs every Options.Interval. A crash of the process or of
	// the machine may lose the acknowledged commits since the last sync.
	SyncInterval
	// SyncNever leaves syncs to Pebble; a crash may lose the newest commits.
	SyncNever
)

// Options configures a journal. The zero value works.
type Options struct {
	Sync     SyncMode
	Interval time.Duration // between syncs with SyncInterval; 0 means 100 ms

	// Commits are refused while less than the larger of MinFree bytes and
	// MinFreePercent of the disk is free. 0 means 1 GiB and 5 %; a negative
	// value switches that bound off.
	MinFree        int64
	MinFreePercent float64

	FS         vfs.FS // nil means the real file system
	CacheBytes int64  // of Pebble's block cache; 0 means 16 MiB
	Logger     *slog.Logger

	// Fatal is called once, after a write or sync of the log has failed. It should
	// end the process and must not wait for calls of the journal. nil means: log
	// the error and exit with status 1.
	Fatal func(error)

	// Damaged is called when a read finds that a file of the store is damaged. It must not block; it may be nil.
	Damaged func(error)

	Now func() time.Time // nil means time.Now
}

const defaultCache = 16 << 20

// Validate returns all that is wrong with o.
func (o Options) Validate() error {
	var problems []error
	if o.Sync < SyncAlways || o.Sync > SyncNever {
		problems = append(problems, fmt.Errorf("journal: unknown sync mode %d", o.Sync))
	}
	if o.Interval < 0 {
		problems = append(problems, fmt.Errorf("journal: the sync interval %v is negative", o.Interval))
	}
	if o.MinFreePercent >= 100 {
		problems = append(problems, fmt.Errorf("journal: %v %% of the disk can never be free", o.MinFreePercent))
	}
	if o.CacheBytes < 0 {
		problems = append(problems, fmt.Errorf("journal: the cache cannot have %d bytes", o.CacheBytes))
	}
	return errors.Join(problems...)
}

func (o Options) withDefaults() Options {
	o.Interval = cmp.Or(o.Interval, 100*time.Millisecond)
	o.MinFree = cmp.Or(o.MinFree, 1<<30)
	o.MinFreePercent = cmp.Or(o.MinFreePercent, 5)
	o.CacheBytes = cmp.Or(o.CacheBytes, defaultCache)
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Fatal == nil {
		logger := o.Logger
		o.Fatal = func(err error) {
			logger.Error("the log cannot be written, the process ends", "err", err)
			fmt.Fprintln(os.Stderr, "parley:", err)
			os.Exit(1)
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}
