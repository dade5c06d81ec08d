package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// backupFile is the name of the manifest in a backup. It is written last: a
// folder without it is not a whole backup.
const backupFile = "backup.json"

// BackupManifest lists the files of a backup.
type BackupManifest struct {
	Format int              `json:"format"`
	MadeAt chat.At          `json:"made_at"`
	Files  map[string]int64 `json:"files"` // size by path below the folder
}

// Backup writes a consistent copy of the store into dir, which must be empty or
// absent. Commits continue meanwhile; everything acknowledged before the call is
// in it. Files that never change are linked when dir is on the same disk.
func (j *Journal) Backup(ctx context.Context, dir string) (err error) {
	if err := j.failed(); err != nil {
		return err
	}
	fs := j.opt.FS
	if names, err := fs.List(dir); err == nil && len(names) > 0 {
		return chat.Errorf(chat.Conflict, "the folder %s is not empty: name a new one for the backup", dir)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return chat.Errorf(chat.Invalid, "the backup cannot be written to %s: name a folder", dir).Because(err)
	}
	if err := makeFolder(fs, fs.PathJoin(dir, previewFolder)); err != nil {
		return fmt.Errorf("make the backup folder: %w", err)
	}
	// Previews are copied first: a block that is finished while the store is
	// copied is then finished in the copy, and every block has its turn there.
	if err := j.previews.copyTo(fs.PathJoin(dir, previewFolder, previewFile)); err != nil {
		return fmt.Errorf("back up previews: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := j.guard(func() error { return j.db.Checkpoint(fs.PathJoin(dir, "db"), pebble.WithFlushedWAL()) }); err != nil {
		return fmt.Errorf("back up the store: %w", err)
	}
	if err := writeInventory(fs, dir); err != nil {
		return fmt.Errorf("write the inventory of the backup: %w", err)
	}
	m := BackupManifest{Format: formatVersion, MadeAt: chat.AtOf(j.opt.Now()), Files: map[string]int64{}}
	for _, folder := range []string{"db", previewFolder, ""} {
		names, err := fs.List(fs.PathJoin(dir, folder))
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, name := range names {
			info, err := fs.Stat(fs.PathJoin(dir, folder, name))
			if err != nil {
				return err
			}
			if !info.IsDir() {
				m.Files[strings.TrimPrefix(folder+"/"+name, "/")] = info.Size()
			}
		}
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(fs, fs.PathJoin(dir, backupFile), text); err != nil {
		return fmt.Errorf("write the manifest of the backup: %w", err)
	}
	return syncFolder(fs, dir)
}

// copyTo copies the complete records of the file.
func (p *previews) copyTo(path string) error {
	p.mu.Lock()
	size := p.size
	from, err := p.j.opt.FS.Open(p.path) // stays readable when a rewrite replaces it
	p.mu.Unlock()
	if err != nil {
		return err
	}
	defer from.Close()
	text, err := io.ReadAll(io.NewSectionReader(from, 0, size))
	if err != nil {
		return err
	}
	return writeFile(p.j.opt.FS, path, text)
}
