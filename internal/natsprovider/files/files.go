// Package files is the provider of files: agents read and write the artifacts of their own
// session, which people see in the session's list of files. All operations may run at the
// same time.
package files

import (
	"bytes"
	"context"
	"io"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/natsprovider"
)

// Store is the artifact store.
type Store interface {
	Put(ctx context.Context, session chat.SessionID, path, mediaType string, body io.Reader, limit int64) (chat.FileInfo, error)
	Get(ctx context.Context, session chat.SessionID, path string) (io.ReadSeekCloser, chat.FileInfo, error)
	Stat(ctx context.Context, session chat.SessionID, path string) (chat.FileInfo, error)
	List(ctx context.Context, session chat.SessionID, prefix, after string, limit int) ([]chat.FileInfo, bool, error)
	Delete(ctx context.Context, session chat.SessionID, path string) error
}

// maxInline is the most bytes that fit into one answer.
const maxInline = 512 << 10

type query struct {
	Path   string `json:"path"`
	Prefix string `json:"prefix"`
	After  string `json:"after"`
	Limit  int    `json:"limit"`

	MediaType string `json:"media_type"`
	Text      string `json:"text"`
	Base64    []byte `json:"content_b64"`
	Offset    int64  `json:"offset"`
}

type answer struct {
	OK     bool            `json:"ok"`
	File   *chat.FileInfo  `json:"file,omitempty"`
	Files  []chat.FileInfo `json:"files,omitempty"`
	More   bool            `json:"more,omitempty"`
	Text   string          `json:"text,omitempty"`
	Base64 []byte          `json:"content_b64,omitempty"`
	Next   int64           `json:"next_offset,omitempty"`
}

// New returns the provider.
func New(store Store) natsprovider.Provider {
	s := server{store}
	return natsprovider.Provider{Domain: "files", Ops: map[string]natsprovider.Op{
		"list": s.op(s.list), "stat": s.op(s.stat), "get": s.op(s.get), "download": s.op(s.get), "put": s.op(s.put), "upload": s.op(s.put), "delete": s.op(s.remove),
	}}
}

type server struct{ store Store }

// op refuses requests without a session.
func (server) op(f func(context.Context, chat.SessionID, query) (answer, error)) natsprovider.Op {
	return natsprovider.Typed(func(ctx context.Context, c natsprovider.Call, q query) (answer, error) {
		if err := c.Session.Validate(); err != nil {
			return answer{}, chat.Errorf(chat.Denied, "files belong to a session, and the request names none")
		}
		a, err := f(ctx, c.Session, q)
		a.OK = err == nil
		return a, err
	})
}

func (s server) list(ctx context.Context, id chat.SessionID, q query) (a answer, err error) {
	if q.Limit <= 0 || q.Limit > 1000 {
		q.Limit = 100
	}
	a.Files, a.More, err = s.store.List(ctx, id, q.Prefix, q.After, q.Limit)
	return a, err
}

func (s server) stat(ctx context.Context, id chat.SessionID, q query) (answer, error) {
	info, err := s.store.Stat(ctx, id, q.Path)
	return answer{File: &info}, err
}

// get returns a part of a file: text when it is text.
func (s server) get(ctx context.Context, id chat.SessionID, q query) (answer, error) {
	body, info, err := s.store.Get(ctx, id, q.Path)
	if err != nil {
		return answer{}, err
	}
	defer body.Close()
	if q.Offset < 0 || q.Offset > info.Size {
		return answer{}, chat.Errorf(chat.Invalid, "offset is 0 to %d", info.Size)
	}
	if _, err := body.Seek(q.Offset, io.SeekStart); err != nil {
		return answer{}, err
	}
	b, err := io.ReadAll(io.LimitReader(body, maxInline))
	if err != nil {
		return answer{}, err
	}
	a := answer{File: &info}
	if end := q.Offset + int64(len(b)); end < info.Size {
		a.Next = end
	}
	if utf8.Valid(b) && !bytes.ContainsRune(b, 0) {
		a.Text = string(b)
	} else {
		a.Base64 = b
	}
	return a, nil
}

func (s server) put(ctx context.Context, id chat.SessionID, q query) (answer, error) {
	if q.Text != "" && len(q.Base64) > 0 {
		return answer{}, chat.Errorf(chat.Invalid, "give text or content_b64, not both")
	}
	body := q.Base64
	if q.Text != "" {
		body = []byte(q.Text)
	}
	info, err := s.store.Put(ctx, id, q.Path, q.MediaType, bytes.NewReader(body), 0)
	return answer{File: &info}, err
}

func (s server) remove(ctx context.Context, id chat.SessionID, q query) (answer, error) {
	return answer{}, s.store.Delete(ctx, id, q.Path)
}
