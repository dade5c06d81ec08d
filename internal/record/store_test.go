package record

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a data folder with a process that uses it.
type store struct {
	*session.Sessions
	t      *testing.T
	server *servertest.Server

	left atomic.Int64 // writes that are done; later ones fail, as after a kill
	lost atomic.Bool  // the last write that is done is reported as failed

	away    atomic.Bool   // the store cannot be read or written at the moment, as a cluster without an owner
	refused chan struct{} // has an element when something was refused because of that
}

func openStore(t *testing.T) *store { return openDir(t, "") }

func openDir(t *testing.T, dir string) *store {
	t.Helper()
	s := &store{t: t, refused: make(chan struct{}, 1), server: servertest.Open(t, servertest.Options{Dir: dir})}
	s.server.Serve(nil)
	s.Sessions = s.server.Sessions
	s.left.Store(1 << 40)
	t.Cleanup(s.server.Close)
	return s
}

// restart ends the process and starts another one on the same folder.
func (s *store) restart() *store {
	s.t.Helper()
	s.server.Close()
	return openDir(s.t, s.server.Dir)
}

var errCut = chat.Errorf(chat.Unavailable, "cut")

func (s *store) isAway() bool {
	away := s.away.Load()
	if away {
		select {
		case s.refused <- struct{}{}:
		default:
		}
	}
	return away
}

// write runs a write, or fails.
func write[T any](s *store, f func() (T, error)) (v T, err error) {
	if s.isAway() {
		return v, errCut
	}
	left := s.left.Add(-1)
	if left < 0 {
		return v, errCut
	}
	if v, err = f(); err == nil && left == 0 && s.lost.Load() {
		return v, errCut
	}
	return v, err
}

func (s *store) Events(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) iter.Seq2[chat.Event, error] {
	if s.isAway() {
		return func(yield func(chat.Event, error) bool) { yield(chat.Event{}, errCut) }
	}
	return s.Sessions.Events(ctx, c, id, r)
}

func (s *store) Create(ctx context.Context, c chat.Caller, n chat.NewSession) (chat.Session, bool, error) {
	sess, err := write(s, func() (chat.Session, error) {
		sess, _, err := s.Sessions.Create(ctx, c, n)
		return sess, err
	})
	return sess, err == nil, err
}

func (s *store) Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error) {
	return write(s, func() ([]chat.Event, error) { return s.Sessions.Append(ctx, c, id, drafts) })
}

func (s *store) Erase(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Receipt, error) {
	return write(s, func() (chat.Receipt, error) { return s.Sessions.Erase(ctx, c, id) })
}

// secret is a text that must be in no file once its record was deleted.
const secret = "xk7-the-marmot-sleeps-at-noon-q9"

// filesWithSecret returns the files of the data folder that have the secret.
func (s *store) filesWithSecret() (list []string) {
	s.t.Helper()
	err := filepath.WalkDir(s.server.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreMissing(err)
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(secret)) {
			list = append(list, filepath.Base(path))
		}
		return ignoreMissing(err)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

// ignoreMissing drops the error of a file that the store removed meanwhile.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
