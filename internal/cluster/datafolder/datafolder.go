// Package datafolder records which cluster a data folder belongs to, and replaces the store in it by a copy of another node's.
//
//	node             id of the node; a new folder is a new node
//	store            the store; its file cluster says which cluster it belongs to ([Membership])
//	store.incoming   a copy that is being received; removed at the next start
//	store.received   a complete copy that takes the place of store
//	store.replaced   a store whose place was taken
//	store.damaged    a store that cannot be opened; removed when a copy has taken its place
//
// A store changes its name as a whole, and the file cluster with it. So a store is either the one before, or a complete copy,
// wherever the process is killed; [Recover] finishes what was begun.
package datafolder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parley-hq/parley/internal/sealed"
)

// Membership says which cluster a store belongs to. The zero value belongs to none.
type Membership struct {
	Cluster   string `json:"cluster"`              // id of the cluster; "" while the node looks for one
	FromEmpty bool   `json:"from_empty,omitempty"` // the cluster began without sessions, so its log alone can make a copy
	NeedsCopy string `json:"needs_copy,omitempty"` // why this store cannot be used; "" if it can
	Damaged   bool   `json:"damaged,omitempty"`    // it needs a copy because it did not match the log
	Copied    bool   `json:"copied,omitempty"`     // it is a copy, and files of sessions that it does not have may be left in the folder
	NewDisk   bool   `json:"new_disk,omitempty"`   // the folder was empty; files of the cluster have to be copied to it
}

// Folder is a data folder. One process uses it at a time.
type Folder struct {
	dir  string
	step func() error // for tests: called before every change; may be nil
}

// New returns the data folder dir. Nothing is changed.
func New(dir string) *Folder { return &Folder{dir: dir} }

func (f *Folder) path(name string) string { return filepath.Join(f.dir, name) }

// Store is the folder of the store.
func (f *Folder) Store() string { return f.path("store") }

// incoming is the folder into which a copy is received.
func (f *Folder) incoming() string { return f.path("store.incoming") }

func (f *Folder) received() string { return f.path("store.received") }
func (f *Folder) replaced() string { return f.path("store.replaced") }

// damaged is the folder of a store that cannot be opened.
func (f *Folder) damaged() string { return f.path("store.damaged") }

func membershipFile(store string) string { return filepath.Join(store, "cluster") }

// Membership returns which cluster the store belongs to. there is false if the folder has no such file: it has the store of a
// single server, or none.
func (f *Folder) Membership() (m Membership, there bool, err error) {
	switch err := sealed.ReadFile(membershipFile(f.Store()), &m); {
	case errors.Is(err, fs.ErrNotExist):
		return m, false, nil
	case err != nil:
		return m, false, fmt.Errorf("%s: %w", membershipFile(f.Store()), err)
	}
	return m, true, nil
}

// SetMembership stores which cluster the store belongs to.
func (f *Folder) SetMembership(m Membership) error {
	if err := f.before(); err != nil {
		return err
	}
	if err := os.MkdirAll(f.Store(), 0o700); err != nil {
		return err
	}
	return sealed.WriteFile(membershipFile(f.Store()), m)
}

// RemoveMembership makes the store that of a single server.
func (f *Folder) RemoveMembership() error {
	if err := os.Remove(membershipFile(f.Store())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return SyncFolder(f.Store())
}

// HasStore reports whether the folder has a store that was opened before.
func (f *Folder) HasStore() bool { return exists(filepath.Join(f.Store(), "db")) }

// Begin makes an empty folder for a copy.
func (f *Folder) Begin() (dir string, err error) {
	if err := f.removeAll(f.incoming()); err != nil {
		return "", err
	}
	return f.incoming(), os.MkdirAll(f.incoming(), 0o700)
}

// Complete marks the incoming copy as complete. Its files are synced. Recover puts it in place, when no process uses the store.
func (f *Folder) Complete(m Membership) error {
	if err := f.before(); err != nil {
		return err
	}
	if err := sealed.WriteFile(membershipFile(f.incoming()), m); err != nil {
		return err
	}
	if err := SyncFolders(f.incoming()); err != nil {
		return err
	}
	if err := f.removeAll(f.received()); err != nil {
		return err
	}
	return f.rename(f.incoming(), f.received())
}

// SetAside puts a store that cannot be opened aside. The folder has an empty one then, which needs a copy.
func (f *Folder) SetAside(m Membership) error {
	if !exists(f.damaged()) {
		if err := f.rename(f.Store(), f.damaged()); err != nil {
			return err
		}
	}
	return f.SetMembership(m)
}

// Recover finishes or undoes what an earlier process has begun. It is called before the store is opened.
func (f *Folder) Recover() error {
	if err := f.removeAll(f.incoming()); err != nil {
		return err
	}
	if exists(f.received()) {
		if exists(f.Store()) {
			if err := f.removeAll(f.replaced()); err != nil {
				return err
			}
			if err := f.rename(f.Store(), f.replaced()); err != nil {
				return err
			}
		}
		if err := f.rename(f.received(), f.Store()); err != nil {
			return err
		}
	}
	if exists(f.damaged()) && !exists(f.Store()) { // killed while it was put aside
		if err := f.restoreMembership(); err != nil {
			return err
		}
	}
	m, there, err := f.Membership()
	if err != nil {
		return err
	}
	if there && m.NeedsCopy == "" && m.Cluster != "" {
		if err := f.removeAll(f.damaged()); err != nil {
			return err
		}
	}
	return f.removeAll(f.replaced())
}

// restoreMembership makes the empty store that belongs to the one that was put aside.
func (f *Folder) restoreMembership() error {
	var m Membership
	if err := sealed.ReadFile(membershipFile(f.damaged()), &m); err != nil {
		return err
	}
	m.NeedsCopy = "its store cannot be opened"
	return f.SetMembership(m)
}

func (f *Folder) before() error {
	if f.step != nil {
		return f.step()
	}
	return nil
}

func (f *Folder) rename(from, to string) error {
	if err := f.before(); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return SyncFolder(f.dir)
}

func (f *Folder) removeAll(dir string) error {
	if !exists(dir) {
		return nil
	}
	if err := f.before(); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// SyncFolders syncs a folder and all folders below it.
func SyncFolders(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return SyncFolder(path)
	})
}

// SyncFolder syncs a folder, so that the names in it survive a power cut.
func SyncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
