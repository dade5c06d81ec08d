package journal

import (
	"errors"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// makeFolder creates a folder and syncs its parents, so that a power cut does not
// remove it.
func makeFolder(fs vfs.FS, dir string) error {
	var made []string
	for at := dir; ; at = fs.PathDir(at) {
		if _, err := fs.Stat(at); !errors.Is(err, os.ErrNotExist) || at == fs.PathDir(at) {
			break
		}
		made = append(made, fs.PathDir(at))
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, parent := range made {
		if err := syncFolder(fs, parent); err != nil {
			return err
		}
	}
	return nil
}

// syncFolder makes the names in a folder durable.
func syncFolder(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writeFile creates a file and syncs it.
func writeFile(fs vfs.FS, path string, text []byte) error {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(f.Sync(), f.Close())
}

// readWhole reads a file in one call.
func readWhole(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, info.Size())
	n, err := io.ReadFull(f, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return b[:n], err
}

// replaceFile replaces a file. A crash leaves the old one or the new one.
func replaceFile(fs vfs.FS, dir, name string, text []byte) error {
	path := fs.PathJoin(dir, name)
	if err := writeFile(fs, path+".new", text); err != nil {
		return err
	}
	if err := fs.Rename(path+".new", path); err != nil {
		return err
	}
	return syncFolder(fs, dir)
}
