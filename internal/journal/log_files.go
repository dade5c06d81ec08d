package journal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/internal/journal/pebblelog"
)

// logFS does not pass errors of log files to Pebble, because Pebble ends the process
// for some of them, for example when it cannot create the next file. The first
// error is final for the journal, see fail. From then on writes to the log are
// discarded, so that its files do not change, and guard acknowledges nothing. During
// Open, errors are passed on: Open returns them.
type logFS struct {
	vfs.FS
	j *Journal
}

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

// logDamage names a log file that cannot be read to its end.
type logDamage struct {
	file string
	at   int
}

func (d logDamage) Error() string {
	return fmt.Sprintf("%s cannot be read from byte %d on, although more of it was stored", d.file, d.at)
}

func (logDamage) Unwrap() error { return pebble.ErrCorruption }

// checkLogs returns a logDamage when a log file has a synced part that cannot be
// read. The caller holds Pebble's lock.
func checkLogs(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return nil // opening the store reports it
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		number, ok := logNumber(name)
		if !ok {
			continue
		}
		b, err := readWhole(fs, fs.PathJoin(dir, name))
		if err != nil {
			return err
		}
		if at, damaged := pebblelog.Check(b, uint32(number)); damaged {
			return logDamage{name, at}
		}
	}
	return nil
}

// Create creates a file.
func (f logFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.begin(name, func() (vfs.File, error) { return f.FS.Create(name, category) })
}

// ReuseForWrite renames a file to write it anew.
func (f logFS) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.begin(name, func() (vfs.File, error) { return f.FS.ReuseForWrite(old, name, category) })
}

// OpenDir opens a folder. Pebble syncs it when it creates a file; a failure is
// handled like one of the log.
func (f logFS) OpenDir(name string) (vfs.File, error) {
	dir, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return logFile{dir, f.j}, nil
}

func (f logFS) begin(name string, create func() (vfs.File, error)) (vfs.File, error) {
	if !isLog(name) {
		return create()
	}
	if f.j.failure.Load() == nil {
		file, err := create()
		if err == nil {
			return logFile{file, f.j}, nil
		}
		if !f.j.opened.Load() {
			return nil, err
		}
		f.j.fail(err)
	}
	file, err := vfs.NewMem().Create("discarded", vfs.WriteCategoryUnspecified)
	return logFile{file, f.j}, err
}

// logFile is a file of the log.
type logFile struct {
	vfs.File
	j *Journal
}

// keep makes an error final and returns nil to Pebble.
func (f logFile) keep(err error) error {
	if err == nil || !f.j.opened.Load() {
		return err
	}
	f.j.fail(err)
	return nil
}

func (f logFile) failed() bool { return f.j.failure.Load() != nil }

func (f logFile) Write(p []byte) (int, error) {
	if f.failed() {
		return len(p), nil
	}
	n, err := f.File.Write(p)
	if err != nil && f.keep(err) == nil {
		return len(p), nil
	}
	return n, err
}

func (f logFile) Sync() error {
	if f.failed() {
		return nil
	}
	return f.keep(f.File.Sync())
}

func (f logFile) SyncData() error {
	if f.failed() {
		return nil
	}
	return f.keep(f.File.SyncData())
}

func (f logFile) SyncTo(length int64) (full bool, err error) {
	if f.failed() {
		return true, nil
	}
	full, err = f.File.SyncTo(length)
	return full, f.keep(err)
}

func (f logFile) Close() error { return f.keep(f.File.Close()) }
