package artifact

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// Get opens the bytes of a path. They can be sought in, so that ranges can be
// served, and stay readable when the path is put again or deleted. Damaged bytes
// are an error, see Verified.
func (l *Local) Get(ctx context.Context, session chat.SessionID, path string) (io.ReadSeekCloser, Info, error) {
	if err := check(session, path); err != nil {
		return nil, Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return nil, Info{}, err
	}
	record := filepath.Join(l.folder(session), key(path))
	f, info, err := openName(record)
	if errors.Is(err, fs.ErrNotExist) {
		// The name may have got other bytes between the two reads. Nothing
		// moves while the lock is held.
		unlock := l.sessions.Lock(filepath.Dir(record))
		f, info, err = openName(record)
		unlock()
	}
	switch {
	case err != nil && errors.Is(err, fs.ErrNotExist):
		return nil, Info{}, chat.Errorf(chat.Internal, "the bytes of artifact %q are missing on the server; run parley verify", path).Because(err)
	case err != nil:
		return nil, Info{}, failed("open an artifact", err)
	case info == nil:
		return nil, Info{}, notFound(path)
	}
	file, err := l.check(f, *info)
	if err != nil {
		f.Close()
		return nil, Info{}, failed("open an artifact", err)
	}
	return file, *info, nil
}

// openName opens the bytes that a record names; no record, no error.
func openName(record string) (*os.File, *Info, error) {
	info, err := readRecord(record)
	if err != nil || info == nil {
		return nil, nil, err
	}
	f, err := openBytes(record, info.SHA256)
	if err != nil {
		return nil, nil, err
	}
	return f, info, nil
}

// Stat returns the record of a path.
func (l *Local) Stat(ctx context.Context, session chat.SessionID, path string) (Info, error) {
	if err := check(session, path); err != nil {
		return Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	info, err := readRecord(filepath.Join(l.folder(session), key(path)))
	if err != nil {
		return Info{}, failed("read an artifact's record", err)
	}
	if info == nil {
		return Info{}, notFound(path)
	}
	return *info, nil
}

// List returns the paths of a session in order. It reads one record per path of
// the session, whatever the limit.
func (l *Local) List(ctx context.Context, session chat.SessionID, prefix, after string, limit int) (infos []Info, more bool, err error) {
	if err := session.Validate(); err != nil {
		return nil, false, err
	}
	folder := l.folder(session)
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, failed("list artifacts", err)
	}
	infos = []Info{}
	for _, entry := range entries {
		if !isRecord(entry.Name()) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		info, err := readRecord(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, false, failed("list artifacts", err)
		}
		if info != nil && strings.HasPrefix(info.Path, prefix) && info.Path > after {
			infos = append(infos, *info)
		}
	}
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.Path, b.Path) })
	if limit > 0 && len(infos) > limit {
		infos, more = infos[:limit], true
	}
	return infos, more, nil
}

// Usage counts the paths of a session and their bytes.
func (l *Local) Usage(ctx context.Context, session chat.SessionID) (count int, bytes int64, err error) {
	infos, _, err := l.List(ctx, session, "", "", 0)
	for _, info := range infos {
		bytes += info.Size
	}
	return len(infos), bytes, err
}
