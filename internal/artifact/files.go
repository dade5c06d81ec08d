package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/sealed"
)

// The folders inside a store.
const (
	sessionsDir = "sessions"
	tmpDir      = "tmp"
	trashDir    = "trash"
	changesDir  = "changes"
)

// key is the hash of a text, in hexadecimal. It is the name on disk.
func key(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

const keyLen = 2 * sha256.Size

func (l *Local) folder(session chat.SessionID) string {
	return l.folderOf(key(string(session)))
}

func (l *Local) folderOf(hash string) string {
	return filepath.Join(l.dir, sessionsDir, hash[:2], hash)
}

// bytesFile is the path of the bytes of a name, next to its record.
func bytesFile(record, sum string) string { return record + "-" + sum }

// unsettled is the ending of bytes whose record is not written yet, or is about to be
// removed. So bytes without this ending and without a record have lost their record.
const unsettled = ".part"

// openBytes opens the bytes of a record, settled or not.
func openBytes(record, sum string) (f *os.File, err error) {
	file := bytesFile(record, sum)
	for _, name := range []string{file, file + unsettled, file} { // the last: it was renamed in between
		if f, err = os.Open(name); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, err
}

// splitBytes takes the name of a bytes file apart.
func splitBytes(name string) (record, sum string, ok bool) {
	record, sum, ok = strings.Cut(strings.TrimSuffix(name, unsettled), "-")
	return record, sum, ok && len(record) == keyLen && len(sum) == keyLen
}

func isRecord(name string) bool { return len(name) == keyLen && !strings.Contains(name, "-") }

// readRecord reads the record of a name; nil means that there is none.
func readRecord(file string) (*Info, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var info Info
	if err := sealed.Unmarshal(b, &info); err != nil {
		return nil, fmt.Errorf("record %s: %w", filepath.Base(file), err)
	}
	if key(info.Path) != filepath.Base(file) || len(info.SHA256) != keyLen {
		return nil, fmt.Errorf("record %s does not hold what its name says", filepath.Base(file))
	}
	return &info, nil
}

// writeRecord makes a record appear, whole, in place of an old one. The caller
// syncs the folder.
func (l *Local) writeRecord(file string, info Info) error {
	b, err := sealed.Marshal(info)
	if err != nil {
		return err
	}
	return l.writeWhole(file, b)
}

// writeWhole makes a file appear, whole, in place of an old one. The caller syncs
// the folder.
func (l *Local) writeWhole(file string, b []byte) error {
	f, err := l.create(filepath.Join(l.dir, tmpDir))
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = finish(f, err); err == nil {
		err = l.rename(f.Name(), file)
	}
	if err != nil {
		err = errors.Join(err, l.remove(f.Name()))
	}
	return err
}

// finish syncs and closes a file that was written, unless writing failed.
func finish(f *os.File, err error) error {
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (l *Local) createTemp(dir string) (*os.File, error) {
	if err := l.step(); err != nil {
		return nil, err
	}
	return os.CreateTemp(dir, "put-*")
}

// makeFolder makes a folder and the one above it durable.
func (l *Local) makeFolder(dir string) error {
	if err := l.step(); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o700)
	switch {
	case err == nil:
		return l.syncDir(filepath.Dir(dir))
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if err := l.makeFolder(filepath.Dir(dir)); err != nil {
			return err
		}
		return l.makeFolder(dir)
	}
	return err
}

// syncDir makes the names in a folder durable.
func (l *Local) syncDir(dir string) error {
	if err := l.step(); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// remove is os.Remove for what may be gone already.
func (l *Local) remove(file string) error {
	if err := l.step(); err != nil {
		return err
	}
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (l *Local) rename(from, to string) error {
	if err := l.step(); err != nil {
		return err
	}
	return os.Rename(from, to)
}

func (l *Local) hardLink(from, to string) error {
	if err := l.step(); err != nil {
		return err
	}
	return os.Link(from, to)
}

// step is called before every change of the folder.
func (l *Local) step() error {
	if l.beforeStep == nil {
		return nil
	}
	return l.beforeStep()
}

// failed adds context to an error of the file system.
func failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*chat.Error](err); ok {
		return e
	}
	err = fmt.Errorf("%s: %w", doing, err)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return chat.Errorf(chat.Unavailable, "the server's disk is full, so the artifact was not stored; try again when there is room").Because(err)
	}
	return err
}
