package artifact

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/parley-hq/parley/chat"
)

// A node of a cluster keeps the paths of files in its log, and only the bytes in this store. Bytes are stored like a file whose
// path is their hash, so Get, Stat, Copy and DeleteSession work for them too.

// PutBytes stores body under its hash and returns when it is durable. The path and the media type are those of the returned
// Info. take is called with it before the bytes are stored, and may refuse them.
func (l *Local) PutBytes(ctx context.Context, session chat.SessionID, path, mediaType string, body io.Reader, most int64, take func(Info) error) (Info, error) {
	if err := errors.Join(check(session, path), checkMediaType(mediaType)); err != nil {
		return Info{}, chat.Public(err)
	}
	if err := l.roomFor(0); err != nil {
		return Info{}, err
	}
	if most <= 0 || most > l.max {
		most = l.max
	}
	folder := l.folder(session)
	if err := l.makeFolder(folder); err != nil {
		return Info{}, failed("put", err)
	}
	info := Info{Path: path, MediaType: mediaType}
	temp, err := l.receive(ctx, &info, body, most)
	if err != nil {
		return Info{}, failed("receive an artifact", err)
	}
	defer l.remove(temp)
	if err := take(info); err != nil {
		return Info{}, err
	}
	bytes := info
	bytes.Path = info.SHA256
	if err := l.publish(session, filepath.Join(folder, key(bytes.Path)), temp, &bytes, PutOptions{}); err != nil {
		return Info{}, failed("store an artifact", err)
	}
	info.StoredAt = bytes.StoredAt
	return info, nil
}

// ReadBytes reads from an offset into p and returns the size of all bytes. It does not compare them with their hash.
func (l *Local) ReadBytes(session chat.SessionID, hash string, p []byte, offset int64) (n int, size int64, err error) {
	if err := check(session, hash); err != nil {
		return 0, 0, err
	}
	f, info, err := openName(filepath.Join(l.folder(session), key(hash)))
	if err == nil && info == nil || errors.Is(err, fs.ErrNotExist) {
		return 0, 0, notFound(hash)
	}
	if err != nil {
		return 0, 0, failed("read an artifact", err)
	}
	defer f.Close()
	n, err = f.ReadAt(p, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, info.Size, failed("read an artifact", err)
}

// RemoveBytes removes the bytes with a hash, if they are there.
func (l *Local) RemoveBytes(ctx context.Context, session chat.SessionID, hash string) error {
	err := l.Remove(ctx, session, hash, 0, func(Info) error { return nil })
	if chat.CodeOf(err) == chat.NotFound {
		return nil
	}
	return err
}
