package artifact

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/parley-hq/parley/chat"
)

// Blobs stores the bytes of files whose paths are kept elsewhere: in the log of a cluster. Its methods may be called at the same
// time.
type Blobs interface {
	// Key names the bytes of a file within its session. It depends on SHA256 and StoredAt only.
	Key(info Info) string

	// Put stores body and returns when another node can read it, whatever happens to this one. The path and the media type are
	// those of the returned Info. take is called with it before the bytes are stored, and may refuse them.
	Put(ctx context.Context, session chat.SessionID, path, mediaType string, body io.Reader, most int64, take func(Info) error) (Info, error)

	// Get opens the bytes of a file. They are compared with their hash, see Verified.
	Get(ctx context.Context, session chat.SessionID, info Info) (io.ReadSeekCloser, error)

	// Copy gives a session bytes of files of a session, which may be the same one, and returns the files with their new
	// StoredAt. It returns when another node can read them. take is called for each file before its bytes are stored.
	Copy(ctx context.Context, from, to chat.SessionID, infos []Info, take func(Info) error) ([]Info, error)

	// Remove removes the bytes with a key, if they are there.
	Remove(ctx context.Context, session chat.SessionID, key string) error

	// DeleteSession removes all bytes of a session. Running puts fail with Gone or are complete before it returns.
	DeleteSession(ctx context.Context, session chat.SessionID) (count int, bytes int64, err error)
}

// Receive writes body to a temporary file without a name, which disappears when it is closed, and returns it with what is known
// of the file. It is for stores that send the bytes elsewhere.
func (l *Local) Receive(ctx context.Context, session chat.SessionID, path, mediaType string, body io.Reader, most int64) (*os.File, Info, error) {
	if err := errors.Join(check(session, path), checkMediaType(mediaType)); err != nil {
		return nil, Info{}, chat.Public(err)
	}
	if err := l.roomFor(0); err != nil {
		return nil, Info{}, err
	}
	if most <= 0 || most > l.max {
		most = l.max
	}
	info := Info{Path: path, MediaType: mediaType}
	temp, err := l.receive(ctx, &info, body, most)
	if err != nil {
		return nil, Info{}, failed("receive an artifact", err)
	}
	f, err := os.Open(temp)
	if err = errors.Join(err, l.remove(temp)); err != nil {
		return nil, Info{}, failed("receive an artifact", err)
	}
	info.StoredAt = l.now()
	return f, info, nil
}
