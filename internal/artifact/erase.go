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
	var bytes []string
	for _, entry := range entries {
		if name, _, ok := splitBytes(entry.Name()); ok && name == filepath.Base(record) {
			file := filepath.Join(folder, entry.Name())
			part := strings.TrimSuffix(file, unsettled) + unsettled
			if err := l.rename(file, part); err != nil {
				return failed("delete an artifact", err)
			}
			bytes = append(bytes, part)
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
	for _, file := range bytes {
		if err := l.remove(file); err != nil {
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
	trash = filepath.Join(l.dir, trashDir, rand.Text())
	if err := l.rename(folder, trash); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return "", err
	}
	return trash, errors.Join(l.syncDir(filepath.Dir(trash)), l.syncDir(filepath.Dir(folder)))
}

// burn removes a discarded folder.
func (l *Local) burn(trash string) (count int, bytes int64, err error) {
	entries, err := os.ReadDir(trash)
	if err != nil {
		return 0, 0, err
	}
	for _, entry := range entries {
		if isRecord(entry.Name()) {
			count++
		} else if fi, err := entry.Info(); err == nil {
			bytes += fi.Size()
		}
		if err := l.remove(filepath.Join(trash, entry.Name())); err != nil {
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
