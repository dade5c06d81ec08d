package artifact

import (
	"context"
	"io"

	"github.com/parley-hq/parley/chat"
)

// Store keeps files of sessions by name. Local is the one on the local disk.
type Store interface {
	// Put stores body under path and returns when it is durable. Until then
	// nobody sees it, and a path that was there keeps its old bytes.
	Put(ctx context.Context, session chat.SessionID, path, mediaType string, body io.Reader, opt PutOptions) (Info, error)
	// Get opens the bytes of a path. The caller closes them.
	Get(ctx context.Context, session chat.SessionID, path string) (io.ReadSeekCloser, Info, error)
	// Stat tells what is known of a path.
	Stat(ctx context.Context, session chat.SessionID, path string) (Info, error)
	// List returns the paths that begin with prefix and come after the path
	// after, in the order of their bytes, at most limit of them (0 means all),
	// and whether there are more.
	List(ctx context.Context, session chat.SessionID, prefix, after string, limit int) (infos []Info, more bool, err error)
	// Delete removes a path.
	Delete(ctx context.Context, session chat.SessionID, path string) error
	// DeleteSession removes all that a session has and returns how many paths
	// and bytes that was. A session that has nothing is no error.
	DeleteSession(ctx context.Context, session chat.SessionID) (count int, bytes int64, err error)
	// Walk visits every file that a copy of the store needs.
	Walk(ctx context.Context, visit func(Entry) error) error
	// Verify reads every byte and reports what is damaged.
	Verify(ctx context.Context) (Report, error)
}

// Info is what is known of one name.
type Info = chat.FileInfo

// PutOptions is what one Put may ask for.
type PutOptions = chat.FileWrite

// Options of a store. The zero value works.
type Options struct {
	Max  int64                   // most bytes of one file; 0 means DefaultMax
	Now  func() chat.At          // the clock; nil means the system's
	Room func(bytes int64) error // told of bytes that were written, 0 before the first; an error says that there is no room. nil means there always is

	// Changed is told how many bytes more, or fewer, the files of a session have. It
	// is called before a change that is part of the log is settled. nil means that
	// nobody counts.
	Changed func(session chat.SessionID, bytes int64)
}

// DefaultMax is the most bytes of a file unless something else is configured.
const DefaultMax = 1 << 30
