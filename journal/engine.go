package journal

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// formatVersion is the layout of keys and values. A store with a newer one is
// not opened.
const formatVersion = 1

// memTableBytes bounds what a restart must replay and what the tables in memory
// take; two of them can exist at a time.
const memTableBytes = 16 << 20

// engineOptions returns how Pebble is run.
func (j *Journal) engineOptions(readOnly bool) *pebble.Options {
	o := &pebble.Options{
		FS:                          j.opt.FS,
		ReadOnly:                    readOnly,
		ErrorIfNotExists:            readOnly,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       32,
		LBaseMaxBytes:               64 << 20,
		MaxOpenFiles:                512,
		CacheSize:                   j.opt.CacheBytes,
		Logger:                      engineLogger{j},
		Cleaner:                     removerLike(pebble.ArchiveCleaner.Clean),
		EventListener: &pebble.EventListener{
			BackgroundError: j.backgroundFailed,
			FlushEnd: func(i pebble.FlushInfo) {
				if i.Err == nil {
					j.background.Store(nil)
				}
			},
			DataCorruption: func(i pebble.DataCorruptionInfo) {
				// Reads that meet the damage fail by themselves and say so.
				j.opt.Logger.Error("a file of the store is damaged; run parley verify", "file", i.Path, "err", i.Details)
			},
			DiskSlow: func(i pebble.DiskSlowInfo) {
				j.opt.Logger.Warn("the disk is slow", "file", i.Path, "took", i.Duration)
			},
		},
	}
	o.CompactionConcurrencyRange = func() (int, int) { return 1, max(1, min(3, runtime.GOMAXPROCS(0)-1)) }
	for i := range o.Levels {
		// Most lookups of client ids and of new session ids find nothing.
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

// remover deletes obsolete files. Because it claims to need their contents, as
// the cleaner it embeds does, Pebble does not reuse old log files: a reused one
// keeps the text of erased sessions behind its new, shorter contents.
//
// T is Pebble's type of a file, which has no public name.
type remover[T any] struct{ pebble.ArchiveCleaner }

// Clean removes the file.
func (remover[T]) Clean(fs vfs.FS, _ T, path string) error { return fs.Remove(path) }

func (remover[T]) String() string { return "delete" }

func removerLike[T any](func(pebble.ArchiveCleaner, vfs.FS, T, string) error) remover[T] {
	return remover[T]{}
}

// backgroundFailed is called when a flush or compaction failed. Pebble tries
// again; until a flush succeeds, commits are refused rather than left to hang
// when the tables in memory are full.
func (j *Journal) backgroundFailed(err error) {
	if j.closing.Load() {
		return
	}
	j.background.Store(&err)
	j.opt.Logger.Error("background work of the store failed, trying again", "err", err)
}

// engineLogger hands Pebble's words to slog, quietly.
type engineLogger struct{ j *Journal }

func (l engineLogger) Infof(format string, args ...any) {
	if l.j.opt.Logger.Enabled(context.Background(), slog.LevelDebug) {
		l.j.opt.Logger.Debug("store: " + fmt.Sprintf(format, args...))
	}
}

func (l engineLogger) Errorf(format string, args ...any) {
	l.j.opt.Logger.Warn("store: " + fmt.Sprintf(format, args...))
}

// Fatalf is called when Pebble cannot go on. It never returns: Fatal ends the
// process, and where it does not, the goroutine ends, so that Pebble does not
// run on with a state that it has declared broken.
func (l engineLogger) Fatalf(format string, args ...any) {
	if len(args) == 1 && strings.HasPrefix(format, "pebble: fatal commit error") {
		if err, ok := args[0].(error); ok {
			// A sync failed for the commit that this goroutine makes, which
			// holds no lock of Pebble's: guard turns it into an error.
			panic(commitFailure{err})
		}
	}
	l.j.wedged.Store(true)
	l.j.fail(fmt.Errorf(format, args...))
	runtime.Goexit()
}
