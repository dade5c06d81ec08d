package artifact

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// Delete removes a path. What an earlier delete or put of the same path left
// when the process was killed goes too, also when the path itself is not there.
func (l *Local) Delete(ctx context.Context, session chat.SessionID, path string) error {
	if err := check(session, path); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	folder := l.folder(session)
	record := filepath.Join(folder, key(path))
	defer l.paths.lock(record)()
	defer l.sessions.lock(folder)()
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return notFound(path)
	}
	if err != nil {
		return failed("delete an artifact", err)
	}
	bytes := map[string]string{} // hashes by file
	for _, entry := range entries {
		if name, sum, ok := splitBytes(entry.Name()); ok && name == filepath.Base(record) {
			file := filepath.Join(folder, entry.Name())
			settled := strings.TrimSuffix(file, unsettled)
			if err := l.rename(file, settled+unsettled); err != nil {
				return failed("delete an artifact", err)
			}
			bytes[settled+unsettled] = sum
		}
	}
	found := exists(record)
	old, _ := readRecord(record) // one that cannot be read is removed all the same
	if err := l.remove(record); err != nil {
		return failed("delete an artifact", err)
	}
	if old != nil {
		l.count(&change{FileChange: chat.FileChange{Session: session, Old: old}})
	}
	for file, sum := range bytes {
		if err := l.drop(file, sum); err != nil {
			return failed("delete an artifact", err)
		}
	}
	if err := l.syncDir(folder); err != nil {
		return failed("delete an artifact", err)
	}
	if !found {
		return notFound(path)
	}
	return nil
}

// drop removes the bytes of one name, and with the last of them the entry in blobs. The
// entry is removed first: what a crash leaves must be in the folder of a session, where
// erasing finds it.
func (l *Local) drop(file, sum string) error {
	defer l.contents.lock(sum)()
	blob := l.blob(sum)
	fi, err := os.Lstat(blob)
	if err == nil {
		// The last links are this file and the entry, or the entry alone when
		// it holds a copy of its own.
		last := 1
		if own, err := os.Lstat(file); err == nil && os.SameFile(fi, own) {
			last = 2
		}
		if links(fi) <= last {
			if err := l.remove(blob); err != nil {
				return err
			}
			if err := l.syncDir(filepath.Dir(blob)); err != nil {
				return err
			}
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return l.remove(file)
}

// DeleteSession removes all that a session has. All its names vanish at once; if
// the process is killed before their bytes are gone, the next Open goes on. Puts
// under way in the session fail with gone.
func (l *Local) DeleteSession(ctx context.Context, session chat.SessionID) (count int, bytes int64, err error) {
	if err := session.Validate(); err != nil {
		return 0, 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	trash, err := l.discard(session)
	if err != nil {
		return 0, 0, failed("erase artifacts", err)
	}
	if trash == "" {
		return 0, 0, nil
	}
	// From here on it is done even if the caller has gone away.
	count, bytes, err = l.burn(trash)
	return count, bytes, failed("erase artifacts", err)
}

// discard moves a session's folder out of sight; "" means that it has none.
func (l *Local) discard(session chat.SessionID) (trash string, err error) {
	folder := l.folder(session)
	defer l.sessions.lock(folder)()
	l.mu.Lock()
	for up := range l.flight[session] {
		up.erased = true
	}
	l.mu.Unlock()
	trash = filepath.Join(l.dir, trashDir, rand.Text())
	if err := l.rename(folder, trash); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return "", err
	}
	return trash, errors.Join(l.syncDir(filepath.Dir(trash)), l.syncDir(filepath.Dir(folder)))
}

// burn removes a discarded folder and the entries in blobs that nobody else has.
func (l *Local) burn(trash string) (count int, bytes int64, err error) {
	entries, err := os.ReadDir(trash)
	if err != nil {
		return 0, 0, err
	}
	for _, entry := range entries {
		file := filepath.Join(trash, entry.Name())
		if isRecord(entry.Name()) {
			count++
			err = l.remove(file)
		} else if _, sum, ok := splitBytes(entry.Name()); ok {
			if fi, err := entry.Info(); err == nil {
				bytes += fi.Size()
			}
			err = l.drop(file, sum)
		} else {
			err = l.remove(file)
		}
		if err != nil {
			return count, bytes, err
		}
	}
	if err := l.remove(trash); err != nil {
		return count, bytes, err
	}
	return count, bytes, l.syncDir(filepath.Dir(trash))
}

func (l *Local) emptyTrash() error {
	dir := filepath.Join(l.dir, trashDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if _, _, err := l.burn(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}
