package journal

import (
	"hash/crc32"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func isMarker(name string) bool { return strings.HasPrefix(name, "marker.") }

func isManifest(name string) bool { return strings.HasPrefix(name, "MANIFEST-") }

// isListed reports whether the inventory lists files with such a name.
func isListed(name string) bool {
	return isLog(name) || isManifest(name) || isMarker(name) || strings.HasPrefix(name, "OPTIONS-")
}

// inventoryFS updates the inventory when Pebble creates, syncs and removes files.
type inventoryFS struct {
	vfs.FS
	v *inventory
}

// tracked returns the name of a file that the inventory lists, or may list once it is
// renamed.
func (f inventoryFS) tracked(path string) (name string, ok bool) {
	name = f.PathBase(path)
	return name, f.PathDir(path) == f.v.db && (isListed(name) || strings.HasSuffix(name, ".dbtmp"))
}

// Create creates a file.
func (f inventoryFS) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if name, ok := f.tracked(path); ok && isMarker(name) {
		// A marker must not survive a power cut without the manifest that it names.
		if err := f.v.syncDir(func() error { return syncFolder(f.v.fs, f.v.db) }); err != nil {
			return nil, err
		}
	}
	file, err := f.FS.Create(path, category)
	return f.track(path, file, err)
}

// ReuseForWrite renames a file to write it anew.
func (f inventoryFS) ReuseForWrite(old, path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if name, ok := f.tracked(old); ok {
		if err := f.v.unlist(name); err != nil {
			return nil, err
		}
	}
	file, err := f.FS.ReuseForWrite(old, path, category)
	return f.track(path, file, err)
}

func (f inventoryFS) track(path string, file vfs.File, err error) (vfs.File, error) {
	name, ok := f.tracked(path)
	if err != nil || !ok {
		return file, err
	}
	t := &trackedFile{File: file, v: f.v, name: name}
	f.v.mu.Lock()
	f.v.files[name] = t
	f.v.mu.Unlock()
	return t, nil
}

// Rename renames a file.
func (f inventoryFS) Rename(from, to string) error {
	if err := f.FS.Rename(from, to); err != nil {
		return err
	}
	old, ok := f.tracked(from)
	name, listed := f.tracked(to)
	if !ok || !listed {
		return nil
	}
	f.v.mu.Lock()
	defer f.v.mu.Unlock()
	if t := f.v.files[old]; t != nil {
		delete(f.v.files, old)
		t.name, t.named = name, false
		f.v.files[name] = t
	}
	return nil
}

// Remove removes a file.
func (f inventoryFS) Remove(path string) error {
	if name, ok := f.tracked(path); ok {
		if err := f.v.unlist(name); err != nil {
			return err
		}
	}
	return f.FS.Remove(path)
}

// OpenDir opens a folder.
func (f inventoryFS) OpenDir(path string) (vfs.File, error) {
	dir, err := f.FS.OpenDir(path)
	if err != nil || f.PathDir(f.PathJoin(path, "x")) != f.v.db {
		return dir, err
	}
	return trackedDir{dir, f.v}, nil
}

// trackedDir is Pebble's folder.
type trackedDir struct {
	vfs.File
	v *inventory
}

func (d trackedDir) Sync() error {
	if err := d.v.syncDir(d.File.Sync); err != nil {
		return err
	}
	if d.v.unlisted() {
		d.v.trySave()
	}
	return nil
}

// trackedFile is a file that the inventory lists. Its fields are guarded by the
// inventory's mu.
type trackedFile struct {
	vfs.File // nil for a file of an earlier process
	v        *inventory
	name     string
	written  extent
	durable  extent // of written, what is synced
	named    bool   // its name is synced
	listed   bool   // db.inventory has it
}

// listable reports whether the file survives a power cut.
func (f *trackedFile) listable() bool {
	return f.named && (f.durable.Size > 0 || isMarker(f.name)) && isListed(f.name)
}

func (f *trackedFile) Write(p []byte) (int, error) {
	f.v.mu.Lock()
	next := extent{f.written.Size + int64(len(p)), crc32.Update(f.written.Sum, castagnoli, p)}
	f.v.mu.Unlock()
	n, err := f.File.Write(p)
	if err == nil {
		f.v.mu.Lock()
		f.written = next
		f.v.mu.Unlock()
	}
	return n, err
}

func (f *trackedFile) Sync() error { return f.sync(f.File.Sync) }

func (f *trackedFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *trackedFile) SyncTo(length int64) (full bool, err error) {
	f.v.mu.Lock()
	upto := f.written
	f.v.mu.Unlock()
	if full, err = f.File.SyncTo(length); err != nil || !full {
		return full, err
	}
	return full, f.synced(upto)
}

func (f *trackedFile) sync(do func() error) error {
	f.v.mu.Lock()
	upto := f.written
	f.v.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	return f.synced(upto)
}

// synced stores that the file is on disk up to an extent.
func (f *trackedFile) synced(upto extent) error {
	f.v.mu.Lock()
	longer, listed, named := upto.Size > f.durable.Size, f.listed, f.named
	if longer {
		f.durable = upto
	}
	f.v.mu.Unlock()
	number, log := logNumber(f.name)
	switch {
	case !longer:
		return nil
	case !log:
		if named && isManifest(f.name) {
			f.v.trySave()
		}
		return nil
	case !listed:
		// Nothing in a log file is acknowledged before the file is listed.
		if err := f.v.save(); err != nil {
			return err
		}
	}
	return f.v.setMark(func(m *syncMark) {
		if number >= m.log {
			m.log, m.logged = number, upto
		}
	})
}
