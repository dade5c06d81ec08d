package journal

import (
	"cmp"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/chat"
)

// Accept writes a new inventory of the files that exist, so that a store with
// missing or changed files can be opened again. The content of those files is
// lost: the next Open deletes files that the others do not reference. No process
// may use the store.
func Accept(dir string, opt Options) error {
	opt = opt.withDefaults()
	lock, err := pebble.LockDirectory(opt.FS.PathJoin(dir, "db"), opt.FS)
	if err != nil {
		return openProblem(dir, err)
	}
	return errors.Join(writeInventory(opt.FS, dir), lock.Close())
}

// writeInventory writes the inventory of a folder that no process writes to.
func writeInventory(fs vfs.FS, dir string) error {
	v := newInventory(fs, dir, nil)
	names, err := fs.List(v.db)
	if err != nil {
		return err
	}
	slices.Sort(names)
	manifest := ""
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, "marker.manifest."); ok {
			_, manifest, _ = strings.Cut(rest, ".") // the last one counts
		}
	}
	if !slices.Contains(names, manifest) {
		return chat.Errorf(chat.Unavailable, "the store in %s cannot be used: db/%s is missing, and without it nothing can be read; restore the last good backup into a new folder", dir, cmp.Or(manifest, "marker.manifest.*"))
	}
	for _, name := range names {
		if !isListed(name) || isManifest(name) && name != manifest {
			continue
		}
		text, err := readWhole(fs, fs.PathJoin(v.db, name))
		if err != nil {
			return err
		}
		f := &trackedFile{v: v, name: name, named: true}
		f.durable.Size = int64(len(text))
		f.durable.Sum = crc32.Checksum(text, castagnoli)
		v.files[name] = f
	}
	if v.mark.previews, err = measurePreviews(fs, fs.PathJoin(dir, previewFolder, previewFile)); err != nil {
		return err
	}
	return errors.Join(v.writeMark(), v.save())
}

// measurePreviews reads the generation and the readable size of a preview file.
func measurePreviews(fs vfs.FS, path string) (m previewMark, err error) {
	f, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	defer f.Close()
	r := newPieceReader(f)
	for {
		q, _, _, err := r.next()
		if errors.Is(err, io.EOF) {
			m.size = r.good
			return m, nil
		}
		if err != nil {
			return m, err
		}
		if q.isHeader() {
			m.generation = uint64(q.after)
		}
	}
}
