package artifact

import (
	"context"
	"io"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// Store keeps the files of sessions: Local on a single server, node.Files in a cluster.
type Store interface {
	Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, w PutOptions) (chat.FileInfo, error)
	Get(ctx context.Context, id chat.SessionID, path string) (io.ReadSeekCloser, chat.FileInfo, error)
	Stat(ctx context.Context, id chat.SessionID, path string) (chat.FileInfo, error)
	List(ctx context.Context, id chat.SessionID, prefix, after string, limit int) ([]chat.FileInfo, bool, error)
	Remove(ctx context.Context, id chat.SessionID, path string, after chat.Seq, commit func(chat.FileInfo) error) error
	Usage(ctx context.Context, id chat.SessionID) (count int, bytes int64, err error)
	DeleteSession(ctx context.Context, id chat.SessionID) (count int, bytes int64, err error)
	FinishChanges(ctx context.Context, stored func(core.FileChange) (bool, error)) error
	CopySession(ctx context.Context, from, to chat.SessionID, added []core.FilePut, commit func() error) error
	Merge(ctx context.Context, id chat.SessionID, folders []string, into string) ([]string, error)
}
