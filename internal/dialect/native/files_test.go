package native

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// lastOf returns the last hash of a path in the log, or "".
func (w *testServer) lastOf(id chat.SessionID, path string) (sum string) {
	w.t.Helper()
	for _, e := range w.Events(id) {
		switch b := e.Body.(type) {
		case chat.FileUploaded:
			if b.Path == path {
				sum = b.SHA256
			}
		case chat.FileRemoved:
			if b.Path == path {
				sum = ""
			}
		}
	}
	return sum
}

// TestFilesAndLogHaveOneOrder: several clients put and delete one path concurrently; at
// the end the store has the last file of the log.
func TestFilesAndLogHaveOneOrder(t *testing.T) {
	w := newTestServer(t, nil)
	w.create("alice", `{"id":"s","agent":"none"}`)
	for round := range 40 {
		path := fmt.Sprintf("f%d", round)
		url := "/parley/v1/sessions/s/artifacts/" + path
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				if i%4 != 3 {
					w.do("alice", "PUT", url, fmt.Sprintf("bytes of %d", i))
				} else {
					w.do("alice", "DELETE", url, "")
				}
			})
		}
		wg.Wait()
		sum := w.lastOf("s", path)
		info, err := w.Files.Local.Stat(t.Context(), "s", path)
		if err != nil && chat.CodeOf(err) != chat.NotFound {
			t.Fatal(err)
		}
		if info.SHA256 != sum {
			t.Fatalf("round %d: the log ends with %q, the store has %q", round, sum, info.SHA256)
		}
	}
}

// TestRefusedFileChangeChangesNothing: the file stays when a viewer changes it, or when
// the log refuses the event.
func TestRefusedFileChangeChangesNothing(t *testing.T) {
	w := newTestServer(t, nil)
	w.create("alice", `{"id":"s","agent":"none"}`)
	w.must("alice", "PUT", "/parley/v1/sessions/s/artifacts/f", "first")
	no := errors.New("no")
	_, err := w.Files.Local.Put(t.Context(), "s", "f", "", strings.NewReader("second"), core.FileWrite{Commit: func(chat.FileInfo) error { return no }})
	if !errors.Is(err, no) {
		t.Fatal(err)
	}
	if err := w.Files.Local.Remove(t.Context(), "s", "f", 0, func(chat.FileInfo) error { return no }); !errors.Is(err, no) {
		t.Fatal(err)
	}
	if got := w.must("alice", "GET", "/parley/v1/sessions/s/artifacts/f", ""); got != "first" {
		t.Fatalf("the file is %q", got)
	}
	_, err = w.Files.Local.Put(t.Context(), "s", "new", "", strings.NewReader("x"), core.FileWrite{Commit: func(chat.FileInfo) error { return no }})
	if !errors.Is(err, no) {
		t.Fatal(err)
	}
	if code, _ := w.do("alice", "GET", "/parley/v1/sessions/s/artifacts/new", ""); code != http.StatusNotFound {
		t.Fatal(code)
	}
}

// logs collects the log.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logs) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

// damage changes the bytes of all artifacts below dir.
func damage(t *testing.T, dir string, change func([]byte) []byte) {
	t.Helper()
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(filepath.Base(file), "-") {
			return err
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.Chmod(file, 0o600); err != nil {
			return err
		}
		return os.WriteFile(file, change(b), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamagedFilesAreNotServed: a damaged file is served neither whole nor in part, and
// the log names it.
func TestDamagedFilesAreNotServed(t *testing.T) {
	var logged logs
	w := newTestServer(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&logged, nil)) })
	w.create("alice", `{"id":"s","agent":"none"}`)
	url := "/parley/v1/sessions/s/artifacts/f.bin"
	whole := strings.Repeat("0123456789", 20_000)
	w.must("alice", "PUT", url, whole)
	get := func(part string) (int, string, error) {
		r := w.request("alice", "GET", url, nil)
		if part != "" {
			r.Header.Set("Range", part)
		}
		res, err := w.HTTP.Client().Do(r)
		if err != nil {
			return 0, "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return res.StatusCode, string(b), err
	}
	for _, part := range []string{"", "bytes=5-14"} {
		if code, b, err := get(part); err != nil || code >= 300 || b != whole && b != whole[5:15] {
			t.Fatal(part, code, err)
		}
	}
	for name, change := range map[string]func([]byte) []byte{
		"one bit":  func(b []byte) []byte { b[1000] ^= 1; return b },
		"cut":      func(b []byte) []byte { return b[:len(b)/2] },
		"emptied":  func([]byte) []byte { return nil },
		"extended": func(b []byte) []byte { return append(b, 'x') },
	} {
		w.must("alice", "PUT", url, whole) // good bytes replace damaged ones
		damage(t, w.Files.Local.Dir(), change)
		for _, part := range []string{"", "bytes=5-14", "bytes=-10"} {
			logged.Reset()
			code, b, err := get(part)
			if err == nil && code < 300 {
				t.Errorf("%s, range %q: %d with %d bytes", name, part, code, len(b))
			}
			if err == nil && !json.Valid([]byte(b)) {
				t.Errorf("%s, range %q: %.100s", name, part, b)
			}
			if !strings.Contains(logged.String(), "f.bin") {
				t.Errorf("%s, range %q: the log does not name it: %s", name, part, logged.String())
			}
		}
	}
}

// TestCancelledDeleteIsNotLogged: a client that closes its connection before the answer
// causes no log entry.
func TestCancelledDeleteIsNotLogged(t *testing.T) {
	var logged logs
	w := newTestServer(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&logged, nil)) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rec := &discarded{header: http.Header{}}
	r := w.request("alice", "DELETE", "/parley/v1/sessions/s", nil).WithContext(ctx)
	w.dialect.http.Fail(rec, r, chat.Errorf(chat.Unavailable, "it goes on").Because(ctx.Err()))
	if logged.String() != "" {
		t.Fatal(logged.String())
	}
	w.dialect.http.Fail(rec, w.request("alice", "DELETE", "/parley/v1/sessions/s", nil), chat.Errorf(chat.Unavailable, "the disk is full"))
	if !strings.Contains(logged.String(), "level=ERROR") {
		t.Fatal("a real failure is not logged")
	}
}

type discarded struct{ header http.Header }

func (d *discarded) Header() http.Header       { return d.header }
func (*discarded) Write(b []byte) (int, error) { return len(b), nil }
func (*discarded) WriteHeader(int)             {}
