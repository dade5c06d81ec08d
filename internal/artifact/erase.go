package artifact

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parley-hq/parley/chat"
)

// DeleteSession removes all files of a session. All paths are removed at once; if the
// process is killed before their bytes are removed, the next Open continues. Running
// puts of the session fail with Gone.
func (l *Local) DeleteSession(ctx context.Context, session chat.SessionID) (count int, bytes int64, err error) {
	if err := session.Validate(); err != nil {
		return 0, 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	trash, err := l.discard(l.folder(session))
	if err != nil {
		return 0, 0, failed("erase artifacts", err)
	}
	if trash == "" {
		return 0, 0, nil
	}
	// From here on it is done even if the caller has gone away.
	count, bytes, err = l.removeDiscarded(trash)
	return count, bytes, failed("erase artifacts", err)
}

// Sessions returns the hashes of the sessions that have files, see SessionHash.
func (l *Local) Sessions() (map[string]bool, error) {
	all := map[string]bool{}
	groups, err := os.ReadDir(filepath.Join(l.dir, sessionsDir))
	if err != nil {
		return nil, failed("list artifacts", err)
	}
	for _, group := range groups {
		folders, err := os.ReadDir(filepath.Join(l.dir, sessionsDir, group.Name()))
		if err != nil {
			return nil, failed("list artifacts", err)
		}
		for _, f := range folders {
			all[f.Name()] = true
		}
	}
	return all, nil
}

// DeleteFolder removes all files of the session with a hash, like DeleteSession.
func (l *Local) DeleteFolder(hash string) error {
	trash, err := l.discard(l.folderOf(hash))
	if err == nil && trash != "" {
		_, _, err = l.removeDiscarded(trash)
	}
	return failed("erase artifacts", err)
}

// discard moves the folder of a session into the trash; "" means that it has none.
func (l *Local) discard(folder string) (trash string, err error) {
	defer l.sessions.Lock(folder)()
	trash = filepath.Join(l.dir, trashDir, rand.Text())
	if err := l.rename(folder, trash); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return "", err
	}
	return trash, errors.Join(l.syncDir(filepath.Dir(trash)), l.syncDir(filepath.Dir(folder)))
}

// removeDiscarded removes a folder from the trash.
func (l *Local) removeDiscarded(trash string) (count int, bytes int64, err error) {
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
		if _, _, err := l.removeDiscarded(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}
