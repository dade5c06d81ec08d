package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/parley-hq/parley/internal/cluster/datafolder"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/terminal"
)

// RestoreCmd unpacks a backup.
type RestoreCmd struct {
	File string `arg:"" help:"Tar file that backup wrote."`
	Data string `required:"" help:"Data folder to create; it must be empty or not exist." placeholder:"DIR"`
}

// manifest is the last entry of every backup. A backup without it is not complete.
const manifest = "manifest.json"

// Run unpacks the file into a folder next to the data folder and renames it when everything is unpacked.
func (c *RestoreCmd) Run(ctx context.Context, std *stdio) error {
	f, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer f.Close()
	if entries, err := os.ReadDir(c.Data); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty; choose another folder for --data, or move its files away", c.Data)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := checkBackup(f, filepath.Dir(filepath.Clean(c.Data))); err != nil {
		return fmt.Errorf("restore %s: %w", c.File, err)
	}
	temporary := strings.TrimRight(c.Data, string(filepath.Separator)) + ".part"
	if err := os.Mkdir(temporary, 0o700); errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s already exists: another restore is running, or one was interrupted; in that case remove it and try again", temporary)
	} else if err != nil {
		return fmt.Errorf("cannot make %s: %w", temporary, err)
	}
	p := newProgress(std.err)
	defer p.end()
	files, bytes, err := unpack(ctx, f, temporary, func(files int, bytes int64) {
		p.printf("unpacked %s, %s", terminal.Count(files, "file", "files"), terminal.Size(bytes))
	})
	if err == nil {
		if err = os.Remove(c.Data); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = datafolder.SyncFolders(temporary)
	}
	if err == nil {
		err = os.Rename(temporary, c.Data)
	}
	if err == nil {
		err = datafolder.SyncFolder(filepath.Dir(filepath.Clean(c.Data)))
	}
	p.end()
	if err != nil {
		os.RemoveAll(temporary)
		return fmt.Errorf("restore %s: %w", c.File, err)
	}
	fmt.Fprintf(std.err, "restored %s, %s; start the server with: parley serve --data %s\n", terminal.Count(files, "file", "files"), terminal.Size(bytes), c.Data)
	return nil
}

// checkBackup checks a backup before anything is written: it is complete, its entries are not larger than the file, and the
// disk of dir has room for it.
func checkBackup(f *os.File, dir string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil // a pipe can be read only once
	}
	var bytes int64
	err = walkTar(f, func(h *tar.Header, _ io.Reader) error {
		bytes += h.Size
		if h.Size < 0 || bytes < 0 || bytes > info.Size() {
			return fmt.Errorf("%q is said to be larger than the whole file; this is not a backup of Parley", h.Name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if free, err := journal.Free(dir); err == nil && uint64(bytes) > free { // an error means that the file system does not report it
		return fmt.Errorf("it unpacks to %s, and %s has %s free: free some space, or choose another disk for --data", terminal.Size(bytes), dir, terminal.Size(int64(free)))
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}

// unpack writes the files of a backup into dir, and nowhere else.
func unpack(ctx context.Context, r io.Reader, dir string, tell func(files int, bytes int64)) (files int, bytes int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, 0, err
	}
	defer root.Close()
	err = walkTar(r, func(h *tar.Header, body io.Reader) error {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		name := filepath.FromSlash(path.Clean(h.Name))
		if h.Typeflag == tar.TypeDir {
			return root.MkdirAll(name, 0o700)
		}
		if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if h.Typeflag == tar.TypeLink {
			// Files with equal bytes are in a backup once; both names are below root.
			return root.Link(filepath.FromSlash(path.Clean(h.Linkname)), name)
		}
		n, err := putFile(root, name, body)
		if err != nil {
			return err
		}
		files, bytes = files+1, bytes+n
		tell(files, bytes)
		return nil
	})
	return files, bytes, err
}

func putFile(root *os.Root, name string, body io.Reader) (int64, error) {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(f, body)
	if err == nil {
		err = f.Sync()
	}
	return n, errors.Join(err, f.Close())
}

// walkTar visits the entries of a backup and refuses entries that a backup never contains.
func walkTar(r io.Reader, visit func(*tar.Header, io.Reader) error) error {
	archive := tar.NewReader(r)
	complete := false
	for {
		h, err := archive.Next()
		if err == io.EOF && !complete {
			return fmt.Errorf("the file has no %s: it is not a backup, or it is not complete", manifest)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return incompleteTar(err)
		}
		if h.Typeflag == tar.TypeGNUSparse || sparse(h) {
			return fmt.Errorf("%q is a sparse file, which may unpack to any size; this is not a backup of Parley", h.Name)
		}
		complete = complete || h.Name == manifest
		names := []string{h.Name}
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeDir:
		case tar.TypeLink:
			names = append(names, h.Linkname)
		default:
			return fmt.Errorf("%q is neither file nor folder; this is not a backup of Parley", h.Name)
		}
		for _, name := range names {
			if !filepath.IsLocal(filepath.FromSlash(name)) || strings.Contains(name, `\`) {
				return fmt.Errorf("%q is outside the folder; this is not a backup of Parley", name)
			}
		}
		if err := visit(h, archive); errors.Is(err, io.ErrUnexpectedEOF) {
			return incompleteTar(err)
		} else if err != nil {
			return err
		}
	}
}

// sparse reports whether an entry is a sparse file.
func sparse(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

func incompleteTar(err error) error {
	return fmt.Errorf("the tar file is not complete: make the backup again, or use an older one (%w)", err)
}

// checkTar reads a backup to its end, so that an incomplete one is noticed when it is made.
func checkTar(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return walkTar(f, func(_ *tar.Header, body io.Reader) error {
		_, err := io.Copy(io.Discard, body)
		return err
	})
}
