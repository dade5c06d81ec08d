package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/parley-hq/parley/chat"
)

func open(t *testing.T, dir string, opt Options) *Local {
	t.Helper()
	l, err := Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func put(t *testing.T, s *Local, session, path, body string) Info {
	t.Helper()
	info, err := s.Put(t.Context(), chat.SessionID(session), path, "", strings.NewReader(body), PutOptions{})
	if err != nil {
		t.Fatalf("put %s %s: %v", session, path, err)
	}
	return info
}

func get(t *testing.T, s *Local, session, path string) string {
	t.Helper()
	f, info, err := s.Get(t.Context(), chat.SessionID(session), path)
	if err != nil {
		t.Fatalf("get %s %s: %v", session, path, err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil || int64(len(b)) != info.Size {
		t.Fatalf("get %s %s: %d bytes of %d, %v", session, path, len(b), info.Size, err)
	}
	return string(b)
}

func wantCode(t *testing.T, err error, code chat.Code) {
	t.Helper()
	if chat.CodeOf(err) != code {
		t.Fatalf("error %v has code %q, want %q", err, chat.CodeOf(err), code)
	}
}

func paths(infos []Info) (list []string) {
	for _, i := range infos {
		list = append(list, i.Path)
	}
	return list
}

// remove removes a path without an event in the log.
func remove(ctx context.Context, l *Local, session chat.SessionID, path string) error {
	return l.Remove(ctx, session, path, 0, func(Info) error { return nil })
}

func TestPutGetStatListRemove(t *testing.T) {
	ctx := t.Context()
	l := open(t, t.TempDir(), Options{Now: func() chat.At { return 1_700_000_000_000_000 }})
	info := put(t, l, "s-1", "files/a.csv", "a,b\n")
	want := Info{
		Path: "files/a.csv", MediaType: "text/csv; charset=utf-8", Size: 4, StoredAt: 1_700_000_000_000_000,
		SHA256: key("a,b\n"),
	}
	if info != want {
		t.Fatalf("info %+v, want %+v", info, want)
	}
	if got, err := l.Stat(ctx, "s-1", "files/a.csv"); err != nil || got != want {
		t.Fatalf("stat %+v, %v", got, err)
	}
	if got := get(t, l, "s-1", "files/a.csv"); got != "a,b\n" {
		t.Fatalf("got %q", got)
	}
	put(t, l, "s-1", "files/b", "")
	put(t, l, "s-1", "z", "z")
	put(t, l, "s-2", "files/other", "o")

	for _, c := range []struct {
		prefix, after string
		limit         int
		want          string
		more          bool
	}{
		{"", "", 0, "files/a.csv files/b z", false},
		{"files/", "", 0, "files/a.csv files/b", false},
		{"", "files/a.csv", 0, "files/b z", false},
		{"", "", 2, "files/a.csv files/b", true},
		{"", "files/b", 1, "z", false},
		{"nothing", "", 0, "", false},
	} {
		infos, more, err := l.List(ctx, "s-1", c.prefix, c.after, c.limit)
		if got := strings.Join(paths(infos), " "); err != nil || got != c.want || more != c.more {
			t.Errorf("list %+v: %q more=%v %v", c, got, more, err)
		}
	}
	if err := remove(ctx, l, "s-1", "files/b"); err != nil {
		t.Fatal(err)
	}
	_, _, err := l.Get(ctx, "s-1", "files/b")
	wantCode(t, err, chat.NotFound)
	wantCode(t, remove(ctx, l, "s-1", "files/b"), chat.NotFound)
	_, err = l.Stat(ctx, "s-9", "x")
	wantCode(t, err, chat.NotFound)
	wantCode(t, remove(ctx, l, "s-9", "x"), chat.NotFound)
	if infos, _, err := l.List(ctx, "s-9", "", "", 0); err != nil || len(infos) != 0 {
		t.Fatalf("list of nothing: %v %v", infos, err)
	}
	if get(t, l, "s-2", "files/other") != "o" {
		t.Fatal("another session was touched")
	}
}

func TestPathsOutsideOfTheStoreAreRefused(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	l := open(t, dir+"/in/artifacts", Options{})
	for _, p := range []string{"../x", "/x", "a/../../x", `..\x`, "a\x00", ""} {
		_, err := l.Put(ctx, "s", p, "", strings.NewReader("x"), PutOptions{})
		wantCode(t, err, chat.Invalid)
		_, _, err = l.Get(ctx, "s", p)
		wantCode(t, err, chat.Invalid)
		_, err = l.Stat(ctx, "s", p)
		wantCode(t, err, chat.Invalid)
		wantCode(t, remove(ctx, l, "s", p), chat.Invalid)
	}
	for _, s := range []chat.SessionID{"", "..", "../x", "a/b", "."} {
		_, err := l.Put(ctx, s, "x", "", strings.NewReader("x"), PutOptions{})
		wantCode(t, err, chat.Invalid)
		_, _, err = l.DeleteSession(ctx, s)
		wantCode(t, err, chat.Invalid)
		_, _, err = l.List(ctx, s, "", "", 0)
		wantCode(t, err, chat.Invalid)
	}
	if files := tree(t, dir); len(files) != 0 {
		t.Fatalf("refused puts left %v", files)
	}
	_, err := l.Put(ctx, "s", "x", "not a type", strings.NewReader("x"), PutOptions{})
	wantCode(t, err, chat.Invalid)
}

func TestRefusedUploadsChangeNothing(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{Max: 8})
	put(t, l, "s", "kept", "12345678")
	before := tree(t, dir)

	_, err := l.Put(t.Context(), "s", "kept", "", strings.NewReader("123456789"), PutOptions{})
	wantCode(t, err, chat.TooLarge)
	_, err = l.Put(t.Context(), "s", "kept", "", strings.NewReader("1234"), PutOptions{Max: 3})
	wantCode(t, err, chat.TooLarge)
	_, err = l.Put(t.Context(), "s", "kept", "", strings.NewReader("123456789"), PutOptions{Max: 100})
	wantCode(t, err, chat.TooLarge) // the limit of the store
	_, err = l.Put(t.Context(), "s", "kept", "", io.MultiReader(strings.NewReader("12"), failing{io.ErrUnexpectedEOF}), PutOptions{})
	wantCode(t, err, chat.Invalid)
	_, err = l.Put(t.Context(), "s", "kept", "", failing{chat.Errorf(chat.SlowDown, "wait")}, PutOptions{})
	wantCode(t, err, chat.SlowDown)
	big := http.MaxBytesReader(httptest.NewRecorder(), io.NopCloser(strings.NewReader("12345")), 2)
	_, err = l.Put(t.Context(), "s", "kept", "", big, PutOptions{})
	wantCode(t, err, chat.TooLarge)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = l.Put(ctx, "s", "kept", "", readFunc(func(p []byte) (int, error) { cancel(); return copy(p, "1"), nil }), PutOptions{})
	wantCode(t, err, chat.Unavailable)

	if after := tree(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Fatalf("refused puts changed the folder: %v, was %v", after, before)
	}
	if get(t, l, "s", "kept") != "12345678" {
		t.Fatal("a refused put changed the old bytes")
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestPutIfAbsentOverwritesNothing(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	once := func(body io.Reader) error {
		_, err := l.Put(t.Context(), "s", "x", "", body, PutOptions{IfAbsent: true})
		return err
	}
	if err := once(strings.NewReader("first")); err != nil {
		t.Fatal(err)
	}
	wantCode(t, once(strings.NewReader("second")), chat.Conflict)
	if err := remove(t.Context(), l, "s", "x"); err != nil {
		t.Fatal(err)
	}
	// Another put stores the path during the upload.
	wantCode(t, once(readFunc(func(p []byte) (int, error) { put(t, l, "s", "x", "between"); return 0, io.EOF })), chat.Conflict)
	if get(t, l, "s", "x") != "between" {
		t.Fatal("the path was overwritten")
	}
}

func TestOpenFileKeepsItsContent(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	put(t, l, "s", "x", "old bytes")
	f, _, err := l.Get(t.Context(), "s", "x")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	put(t, l, "s", "x", "new")
	if get(t, l, "s", "x") != "new" {
		t.Fatal("the put is not seen")
	}
	if err := remove(t.Context(), l, "s", "x"); err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(f); string(b) != "old bytes" {
		t.Fatalf("reader got %q", b)
	}
	if at, err := f.Seek(4, io.SeekStart); at != 4 || err != nil {
		t.Fatal(at, err)
	}
	if b, _ := io.ReadAll(f); string(b) != "bytes" {
		t.Fatalf("reader got %q after seeking", b)
	}
}

// A put may rename the bytes after Get has read the record. Get then reads the record
// again instead of reporting damage.
func TestGetDuringPutReportsNoDamage(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	info := put(t, l, "s", "x", "bytes")
	file := bytesFile(filepath.Join(l.folder("s"), key("x")), info.SHA256)
	for range 50 {
		unlock := l.sessions.Lock(l.folder("s"))
		if err := os.Rename(file, file+".aside"); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				f, _, err := l.Get(t.Context(), "s", "x")
				if err != nil {
					t.Error(err)
					return
				}
				f.Close()
			})
			runtime.Gosched()
		}
		err := os.Rename(file+".aside", file)
		unlock()
		wg.Wait()
		if err != nil || t.Failed() {
			t.Fatal(err)
		}
	}
}

func TestRangesAreServed(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	put(t, l, "s", "x", "0123456789")
	f, info, err := l.Get(t.Context(), "s", "x")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Range", "bytes=2-4")
	w := httptest.NewRecorder()
	http.ServeContent(w, r, info.Path, info.StoredAt.Time(), f)
	if w.Code != http.StatusPartialContent || w.Body.String() != "234" {
		t.Fatalf("%d %q", w.Code, w.Body)
	}
}

func TestConcurrentReadersSeeWholeFiles(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	bodies := [4]string{}
	for i := range bodies {
		bodies[i] = strings.Repeat(string(rune('a'+i)), 40_000+i)
	}
	put(t, l, "s", "x", bodies[0])
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 15 {
				put(t, l, "s", "x", bodies[i])
				other := fmt.Sprintf("s-%d", i)
				put(t, l, other, "same", bodies[0])
				if _, _, err := l.DeleteSession(t.Context(), chat.SessionID(other)); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 60 {
				if got := get(t, l, "s", "x"); !bytes.Equal([]byte(got), bytes.Repeat([]byte(got[:1]), len(got))) {
					t.Error("a reader saw bytes of two files")
				}
			}
		})
	}
	wg.Wait()
	report, err := l.Verify(t.Context())
	if err != nil || len(report.Problems) != 0 || report.Names != 1 {
		t.Fatalf("%+v %v", report, err)
	}
	if files := tree(t, l.dir); len(files) != 2 { // the record and the bytes
		t.Fatalf("puts left %v", files)
	}
	if count, _, err := l.DeleteSession(t.Context(), "s"); count != 1 || err != nil {
		t.Fatal(count, err)
	}
	if files := tree(t, l.dir); len(files) != 0 {
		t.Fatalf("left: %v", files)
	}
}

func TestCanceledCallsChangeNothing(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	put(t, l, "s", "x", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := l.Get(ctx, "s", "x")
	_, err2 := l.Stat(ctx, "s", "x")
	_, _, err3 := l.List(ctx, "s", "", "", 0)
	_, _, err4 := l.DeleteSession(ctx, "s")
	for _, err := range []error{err, err2, err3, err4, remove(ctx, l, "s", "x"), l.Walk(ctx, func(Entry) error { return nil })} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want canceled", err)
		}
	}
	if get(t, l, "s", "x") != "x" {
		t.Fatal("gone")
	}
}
