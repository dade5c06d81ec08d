package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// formatVersion is the layout of keys and values. A store with another one is not
// opened. Version 2 is the first that was released.
const formatVersion = 2

// memTableBytes bounds what a restart must replay and what the tables in memory
// take; two of them can exist at a time.
const memTableBytes = 16 << 20

// l0Tables is how many flushed tables may overlap before they are compacted. It is
// twice Pebble's default: appends of many sessions overlap in every table, so a
// compaction rewrites most of the level below. Fewer compactions save a seventh of
// the processor time of an append; a read examines a few more tables.
const l0Tables = 8

// engineOptions returns the options of Pebble.
func (j *Journal) engineOptions(readOnly bool) *pebble.Options {
	fs := lockable(j.opt.FS, readOnly)
	if j.inventory != nil && !readOnly {
		fs = inventoryFS{fs, j.inventory}
	}
	o := EngineOptions()
	o.FS = logFS{pausingFS{fs, j}, j}
	o.ReadOnly, o.ErrorIfNotExists = readOnly, readOnly
	o.CacheSize = j.opt.CacheBytes
	o.Logger = engineLogger{j}
	o.EventListener = &pebble.EventListener{
		BackgroundError: j.backgroundFailed,
		FlushEnd:        func(i pebble.FlushInfo) { j.backgroundDone(i.Err) },
		CompactionEnd:   func(i pebble.CompactionInfo) { j.backgroundDone(i.Err) },
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			// A read of the damaged part returns an error of its own.
			j.opt.Logger.Error("a file of the store is damaged; run parley verify", "file", i.Path, "err", i.Details.Error())
			if j.opt.Damaged != nil {
				j.opt.Damaged(fmt.Errorf("%s: %w", i.Path, i.Details))
			}
		},
		DiskSlow: func(i pebble.DiskSlowInfo) {
			j.opt.Logger.Warn("the disk is slow", "file", i.Path, "took", i.Duration)
		},
	}
	return o
}

// EngineOptions returns the settings with which the journal runs Pebble. Benchmarks open
// Pebble alone with them.
func EngineOptions() *pebble.Options {
	o := &pebble.Options{
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       l0Tables,
		L0StopWritesThreshold:       32,
		LBaseMaxBytes:               64 << 20,
		MaxOpenFiles:                512,
		CacheSize:                   defaultCache,
		Merger:                      sums,
		Cleaner:                     removerLike(pebble.ArchiveCleaner.Clean),
		CompactionConcurrencyRange:  func() (int, int) { return 1, max(1, min(3, runtime.GOMAXPROCS(0)-1)) },
	}
	for i := range o.Levels {
		// Most lookups of client ids and of new session ids find nothing.
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

// unlockedFS takes no lock on a file system that is mounted read-only: no process
// can use a store there for writing.
type unlockedFS struct{ vfs.FS }

// lockable returns a file system on which a store can be read although it is mounted read-only.
func lockable(fs vfs.FS, readOnly bool) vfs.FS {
	if readOnly {
		return unlockedFS{fs}
	}
	return fs
}

// Lock takes the lock unless the file system is read-only.
func (f unlockedFS) Lock(name string) (io.Closer, error) {
	c, err := f.FS.Lock(name)
	if errors.Is(err, syscall.EROFS) {
		return io.NopCloser(nil), nil
	}
	return c, err
}

// remover deletes obsolete files. It embeds ArchiveCleaner because Pebble then does
// not reuse old log files: a reused file contains text of erased sessions behind
// its new, shorter content.
//
// T is Pebble's type of a file, which is internal.
type remover[T any] struct{ pebble.ArchiveCleaner }

// Clean removes the file.
func (remover[T]) Clean(fs vfs.FS, _ T, path string) error { return fs.Remove(path) }

func (remover[T]) String() string { return "delete" }

func removerLike[T any](func(pebble.ArchiveCleaner, vfs.FS, T, string) error) remover[T] {
	return remover[T]{}
}

// engineLogger passes Pebble's messages to slog at a low level.
type engineLogger struct{ j *Journal }

func (l engineLogger) Infof(format string, args ...any) {
	if l.j.opt.Logger.Enabled(context.Background(), slog.LevelDebug) {
		l.j.opt.Logger.Debug("store: " + fmt.Sprintf(format, args...))
	}
}

func (l engineLogger) Errorf(format string, args ...any) {
	l.j.opt.Logger.Warn("store: " + fmt.Sprintf(format, args...))
}

// Fatalf is called when Pebble cannot continue. It does not return: Options.Fatal
// ends the process, and in tests, where it does not, the goroutine ends.
func (l engineLogger) Fatalf(format string, args ...any) {
	if len(args) == 1 && strings.HasPrefix(format, "pebble: fatal commit error") {
		if err, ok := args[0].(error); ok {
			// A sync failed for the commit of this goroutine, which holds no lock
			// of Pebble. guard turns the panic into an error.
			panic(commitFailure{err})
		}
	}
	l.j.engineLocked.Store(true)
	l.j.fail(fmt.Errorf(format, args...))
	runtime.Goexit()
}
