package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/internal/sealed"
)

// Pebble does not notice missing or damaged files in its folder, so the journal records
// beside db/ what a start must find (decision 16): db.inventory lists files with what was
// synced of them, db.synced says how much of the newest log file is on disk. Every number
// is a lower bound: it is written after the sync, and a name is removed from the list
// before its file.
const (
	inventoryFile = "db.inventory"
	syncedFile    = "db.synced"
)

// extent is the beginning of a file that is known to be on disk.
type extent struct {
	Size int64  `json:"size"`
	Sum  uint32 `json:"crc32c"`
}

// inventoryList is the content of db.inventory.
type inventoryList struct {
	Format int               `json:"format"`
	Files  map[string]extent `json:"files"` // by name in db/
}

// syncMark is the content of db.synced.
type syncMark struct {
	log      uint64 // number of the newest log file
	logged   extent
	previews previewMark
}

// previewMark is how much was written of the preview file, which is never synced.
type previewMark struct {
	generation uint64 // counts the times that the file was replaced
	size       int64
}

const syncMarkSize = 8 + 8 + 4 + 8 + 8 + 4

func (m *syncMark) append(b []byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint64(b, m.log)
	b = binary.BigEndian.AppendUint64(b, uint64(m.logged.Size))
	b = binary.BigEndian.AppendUint32(b, m.logged.Sum)
	b = binary.BigEndian.AppendUint64(b, m.previews.generation)
	b = binary.BigEndian.AppendUint64(b, uint64(m.previews.size))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

func decodeSyncMark(b []byte) (m syncMark, ok bool) {
	if len(b) != syncMarkSize || binary.BigEndian.Uint32(b[syncMarkSize-4:]) != crc32.Checksum(b[:syncMarkSize-4], castagnoli) {
		return m, false
	}
	m.log = binary.BigEndian.Uint64(b)
	m.logged = extent{int64(binary.BigEndian.Uint64(b[8:])), binary.BigEndian.Uint32(b[16:])}
	m.previews = previewMark{binary.BigEndian.Uint64(b[20:]), int64(binary.BigEndian.Uint64(b[28:]))}
	return m, true
}

// inventory is the record of an open store.
type inventory struct {
	fs     vfs.FS
	dir    string // of the journal
	db     string // of Pebble
	logger *slog.Logger

	saving   sync.Mutex // held while db.inventory is replaced; taken before mu
	mu       sync.Mutex
	files    map[string]*trackedFile
	mark     syncMark
	markRoom [syncMarkSize]byte // memory for setMark
	synced   vfs.File           // db.synced; nil when the store is open for reading only
}

// inventoryDamage lists how the folder differs from the inventory.
type inventoryDamage struct{ problems []string }

func (d inventoryDamage) Error() string {
	const most = 5
	if n := len(d.problems); n > most {
		return strings.Join(d.problems[:most], "; ") + fmt.Sprintf("; and %d more", n-most)
	}
	return strings.Join(d.problems, "; ")
}

func newInventory(fs vfs.FS, dir string, logger *slog.Logger) *inventory {
	return &inventory{
		fs: fs, dir: dir, db: fs.PathDir(fs.PathJoin(dir, "db", "x")), logger: logger, files: map[string]*trackedFile{},
	}
}

// openInventory compares the folder with its inventory and changes nothing in it,
// except that a folder without a store gets an empty inventory. The caller holds
// Pebble's lock.
func openInventory(fs vfs.FS, dir string, logger *slog.Logger, readOnly bool) (*inventory, error) {
	v := newInventory(fs, dir, logger)
	found, err := v.load()
	if err != nil {
		return nil, err
	}
	if !found && !readOnly {
		// In this order: an inventory is never without the other file.
		if err := v.writeMark(); err != nil {
			return nil, err
		}
		if err := v.save(); err != nil {
			return nil, err
		}
	}
	if problems := v.compare(); len(problems) > 0 {
		return nil, inventoryDamage{problems}
	}
	if !readOnly {
		if v.synced, err = fs.OpenReadWrite(fs.PathJoin(dir, syncedFile), vfs.WriteCategoryUnspecified); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// load reads both files. It reports false for a folder that has no store yet.
func (v *inventory) load() (found bool, err error) {
	text, err := readWhole(v.fs, v.fs.PathJoin(v.dir, inventoryFile))
	if errors.Is(err, os.ErrNotExist) {
		names, err := v.fs.List(v.db)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(names, func(name string) bool { return name != "LOCK" }) {
			return false, inventoryDamage{[]string{inventoryFile + " is missing, so it is unknown whether the store is complete"}}
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var list inventoryList
	if err := sealed.Unmarshal(text, &list); err != nil {
		return false, inventoryDamage{[]string{inventoryFile + " is damaged (" + err.Error() + ")"}}
	}
	if list.Format != 1 {
		return false, inventoryDamage{[]string{fmt.Sprintf("%s has format %d, and this version of Parley reads format 1", inventoryFile, list.Format)}}
	}
	for name, e := range list.Files {
		v.files[name] = &trackedFile{v: v, name: name, durable: e, named: true, listed: true}
	}
	text, err = readWhole(v.fs, v.fs.PathJoin(v.dir, syncedFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, inventoryDamage{[]string{syncedFile + " is missing, so it is unknown whether the log is complete"}}
	}
	if err != nil {
		return false, err
	}
	mark, ok := decodeSyncMark(text)
	if !ok {
		return false, inventoryDamage{[]string{syncedFile + " is damaged, so it is unknown whether the log is complete"}}
	}
	v.mark = mark
	return true, nil
}

// compare returns how the files differ from the inventory.
func (v *inventory) compare() (problems []string) {
	for name, e := range v.expected() {
		if what := compareFile(v.fs, v.fs.PathJoin(v.db, name), e); what != "" {
			problems = append(problems, "db/"+name+" "+what)
		}
	}
	slices.Sort(problems)
	return problems
}

// expected returns the files that must exist.
func (v *inventory) expected() map[string]extent {
	v.mu.Lock()
	defer v.mu.Unlock()
	files := v.listLocked(func(f *trackedFile) bool { return f.listed })
	for name, e := range files {
		if number, ok := logNumber(name); ok && number == v.mark.log && v.mark.logged.Size > e.Size {
			files[name] = v.mark.logged
		}
	}
	return files
}

func (v *inventory) listLocked(which func(*trackedFile) bool) map[string]extent {
	files := map[string]extent{}
	for name, f := range v.files {
		if which(f) {
			files[name] = f.durable
		}
	}
	return files
}

// compareFile returns how a file differs from what was stored, or "".
func compareFile(fs vfs.FS, path string, want extent) string {
	f, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "is missing"
	}
	if err != nil {
		return "cannot be read: " + err.Error()
	}
	defer f.Close()
	sum := crc32.New(castagnoli)
	size, err := io.Copy(sum, io.NewSectionReader(f, 0, want.Size))
	switch {
	case err != nil:
		return "cannot be read: " + err.Error()
	case size < want.Size:
		return fmt.Sprintf("has %d bytes, although %d were stored", size, want.Size)
	case sum.Sum32() != want.Sum:
		return fmt.Sprintf("was changed: its first %d bytes are not those that were stored", want.Size)
	}
	return ""
}

// logNumber returns the number of a log file.
func logNumber(name string) (uint64, bool) {
	n, err := strconv.ParseUint(strings.TrimSuffix(name, ".log"), 10, 64)
	return n, err == nil && isLog(name)
}

// save replaces db.inventory by the list of what is durable now.
func (v *inventory) save() error {
	v.saving.Lock()
	defer v.saving.Unlock()
	return v.saveLocked()
}

// trySave is save for a change that may be missing: db.inventory then lists less than exists.
func (v *inventory) trySave() {
	if err := v.save(); err != nil {
		v.logger.Warn("the inventory of the store could not be written; the next change tries again", "file", v.fs.PathJoin(v.dir, inventoryFile), "err", err)
	}
}

// saveLocked is save for a caller that holds saving.
func (v *inventory) saveLocked() error {
	v.mu.Lock()
	list := inventoryList{1, v.listLocked((*trackedFile).listable)}
	v.mu.Unlock()
	text, err := sealed.Marshal(list)
	if err != nil {
		return err
	}
	if err := replaceFile(v.fs, v.dir, inventoryFile, text); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for name := range list.Files {
		if f := v.files[name]; f != nil {
			f.listed = true
		}
	}
	return nil
}

// writeMark creates db.synced.
func (v *inventory) writeMark() error {
	return replaceFile(v.fs, v.dir, syncedFile, v.mark.append(nil))
}

// setMark overwrites db.synced in place.
func (v *inventory) setMark(change func(*syncMark)) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(&v.mark)
	if v.synced == nil {
		return nil
	}
	_, err := v.synced.WriteAt(v.mark.append(v.markRoom[:0]), 0)
	return err
}

// setPreviews stores how much of the preview file was written.
func (v *inventory) setPreviews(m previewMark) error {
	return v.setMark(func(s *syncMark) { s.previews = m })
}

// close closes db.synced. Pebble may still write after a start that failed.
func (v *inventory) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	f := v.synced
	v.synced = nil
	if f == nil {
		return nil
	}
	return errors.Join(f.Sync(), f.Close())
}

// unlist removes a name from the list, before its file is removed.
func (v *inventory) unlist(name string) error {
	v.saving.Lock()
	defer v.saving.Unlock()
	if isMarker(name) {
		// Pebble removes the old marker before it syncs the new one.
		if err := v.syncDir(func() error { return syncFolder(v.fs, v.db) }); err != nil {
			return err
		}
	}
	v.mu.Lock()
	f := v.files[name]
	delete(v.files, name)
	v.mu.Unlock()
	if f == nil || !f.listed {
		return nil
	}
	if err := v.saveLocked(); err != nil {
		v.mu.Lock()
		v.files[name] = f
		v.mu.Unlock()
		return fmt.Errorf("write %s: %w", inventoryFile, err)
	}
	return nil
}

// syncDir runs a sync of Pebble's folder. The names that were there before it are
// durable after it.
func (v *inventory) syncDir(do func() error) error {
	v.mu.Lock()
	before := slices.Collect(maps.Values(v.files))
	v.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range before {
		f.named = true
	}
	return nil
}

// unlisted reports whether a file could be listed and is not. Log files do not
// count: they are listed with their first sync.
func (v *inventory) unlisted() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, f := range v.files {
		if f.listable() && !f.listed && !isLog(name) {
			return true
		}
	}
	return false
}
