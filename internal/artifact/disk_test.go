package artifact

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// tree lists all files under dir.
func tree(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, strings.TrimPrefix(file, dir))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// holds reports which files, by name or content, contain a text.
func holds(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	for _, file := range tree(t, dir) {
		b, err := os.ReadFile(dir + file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(file, text) || bytes.Contains(b, []byte(text)) {
			found = append(found, file)
		}
	}
	return found
}

func inodes(t *testing.T, dir string) int {
	t.Helper()
	var seen []fs.FileInfo
	for _, file := range tree(t, dir) {
		fi, err := os.Lstat(dir + file)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(seen, func(o fs.FileInfo) bool { return os.SameFile(o, fi) }) {
			seen = append(seen, fi)
		}
	}
	return len(seen)
}

func TestCopiesShareTheirBytes(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	put(t, l, "one", "a", "the same bytes")
	for _, to := range []chat.SessionID{"one", "two"} {
		if _, err := l.Copy(t.Context(), "one", "a", to, "b"); err != nil {
			t.Fatal(err)
		}
	}
	if n := inodes(t, dir); n != 3+1 {
		t.Fatalf("%d files for three records and one content", n)
	}
	put(t, l, "two", "b", "the same bytes")
	if n := inodes(t, dir); n != 3+1 {
		t.Fatalf("%d files after the same put again", n)
	}
	put(t, l, "two", "b", "others")
	if err := remove(t.Context(), l, "one", "a"); err != nil {
		t.Fatal(err)
	}
	if get(t, l, "one", "b") != "the same bytes" {
		t.Fatal("removing another path removed the bytes")
	}
	if err := remove(t.Context(), l, "one", "b"); err != nil {
		t.Fatal(err)
	}
	if found := holds(t, dir, "the same"); found != nil {
		t.Fatalf("bytes without a name are left in %v", found)
	}
}

func TestEraseLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	put(t, l, "secret-session", "plans/hidden-name.txt", "confidential words")
	put(t, l, "secret-session", "shared.txt", "words of both")
	put(t, l, "secret-session", "twice.txt", "words of both")
	put(t, l, "other", "mine.txt", "words of both")
	put(t, l, "other", "own.txt", "own words")

	count, size, err := l.DeleteSession(t.Context(), "secret-session")
	if err != nil || count != 3 || size != 18+13+13 {
		t.Fatalf("erased %d names, %d bytes, %v", count, size, err)
	}
	for _, text := range []string{"secret-session", "hidden-name", "plans", "confidential", "shared.txt", key("secret-session"), key("confidential words")} {
		if found := holds(t, dir, text); found != nil {
			t.Errorf("%q is left in %v", text, found)
		}
	}
	if get(t, l, "other", "mine.txt") != "words of both" || get(t, l, "other", "own.txt") != "own words" {
		t.Fatal("another session lost its bytes")
	}
	if infos, _, err := l.List(t.Context(), "secret-session", "", "", 0); len(infos) != 0 || err != nil {
		t.Fatal(infos, err)
	}
	if count, size, err = l.DeleteSession(t.Context(), "secret-session"); count != 0 || size != 0 || err != nil {
		t.Fatal("a second erase", count, size, err)
	}
	if _, _, err := l.DeleteSession(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	if files := tree(t, dir); len(files) != 0 {
		t.Fatalf("left: %v", files)
	}
}

func TestUploadIsRefusedWhenItsSessionIsErased(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	put(t, l, "s", "old", "old")
	body := io.MultiReader(strings.NewReader("late words"), readFunc(func([]byte) (int, error) {
		_, _, err := l.DeleteSession(context.WithoutCancel(t.Context()), "s")
		if err != nil {
			t.Error(err)
		}
		return 0, io.EOF
	}))
	_, err := l.Put(t.Context(), "s", "new", "", body, PutOptions{})
	wantCode(t, err, chat.Gone)
	if files := tree(t, dir); len(files) != 0 {
		t.Fatalf("left: %v", files)
	}
}

// Each crash makes the files that a process leaves when it is killed at that point.
func TestStoreRecoversFromCrashes(t *testing.T) {
	record := func(dir, session, path string) string {
		k := key(session)
		return filepath.Join(dir, sessionsDir, k[:2], k, key(path))
	}
	for _, c := range []struct {
		name  string
		crash func(t *testing.T, l *Local)
		names int    // paths that exist after the restart
		left  string // content that stays on disk until the name or the session is deleted
	}{
		{"upload cut off", func(t *testing.T, l *Local) {
			f, err := l.create(filepath.Join(l.dir, tmpDir))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = f.WriteString("half of a lost upload")
			f.Close()
		}, 1, ""},
		{"put: bytes renamed, no record", func(t *testing.T, l *Local) {
			put(t, l, "s", "y", "lost upload")
			unsettle(t, l)
			_ = os.Remove(record(l.dir, "s", "y"))
		}, 1, "lost upload"},
		{"put: record written, bytes not settled", func(t *testing.T, l *Local) {
			put(t, l, "s", "y", "late")
			old := bytesFile(record(l.dir, "s", "y"), key("late"))
			if err := os.Rename(old, old+unsettled); err != nil {
				t.Fatal(err)
			}
		}, 2, ""},
		{"delete: record gone, bytes left", func(t *testing.T, l *Local) {
			put(t, l, "s", "y", "lost upload")
			unsettle(t, l)
			_ = os.Remove(record(l.dir, "s", "y"))
		}, 1, "lost upload"},
		{"overwrite: old bytes left", func(t *testing.T, l *Local) {
			put(t, l, "s", "y", "lost upload")
			old := bytesFile(record(l.dir, "s", "y"), key("lost upload"))
			if err := os.Link(old, l.dir+"/aside"); err != nil {
				t.Fatal(err)
			}
			put(t, l, "s", "y", "new")
			if err := os.Rename(l.dir+"/aside", old); err != nil {
				t.Fatal(err)
			}
		}, 2, "lost upload"},
		{"erase: session moved to the trash", func(t *testing.T, l *Local) {
			put(t, l, "gone", "y", "lost upload")
			put(t, l, "gone", "z", "kept words")
			if _, err := l.discard(l.folder("gone")); err != nil {
				t.Fatal(err)
			}
		}, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir, Options{})
			put(t, l, "s", "x", "kept words")
			c.crash(t, l)

			l = open(t, dir, Options{})
			infos, _, err := l.List(t.Context(), "s", "", "", 0)
			if err != nil || len(infos) != c.names {
				t.Fatalf("names %v, %v", paths(infos), err)
			}
			for _, info := range infos {
				get(t, l, "s", info.Path)
			}
			if get(t, l, "s", "x") != "kept words" {
				t.Fatal("lost what was acknowledged")
			}
			report, err := l.Verify(t.Context())
			if err != nil || len(report.Problems) != 0 {
				t.Fatalf("%+v %v", report, err)
			}
			if c.left == "" {
				if found := holds(t, dir, "lost upload"); found != nil {
					t.Fatalf("left in %v", found)
				}
			}
			if _, _, err := l.DeleteSession(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			if files := tree(t, dir); len(files) != 0 {
				t.Fatalf("after erase left: %v", files)
			}
		})
	}
}

func TestFullDiskChangesNothing(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	put(t, l, "s", "x", "old")
	before := tree(t, dir)
	full := func(dir string) (*os.File, error) {
		name := filepath.Join(dir, "full")
		if err := os.Symlink("/dev/full", name); err != nil {
			return nil, err
		}
		return os.OpenFile(name, os.O_WRONLY, 0)
	}
	for _, good := range []int{0, 1} { // the disk is full for the bytes, or for the record
		made := 0
		l.create = func(dir string) (*os.File, error) {
			if made++; made > good {
				return full(dir)
			}
			return l.createTemp(dir)
		}
		_, err := l.Put(t.Context(), "s", "x", "", strings.NewReader("new bytes"), PutOptions{})
		wantCode(t, err, chat.Unavailable)
		if after := tree(t, dir); !slices.Equal(after, before) {
			t.Fatalf("a full disk left %v, was %v", after, before)
		}
	}
	l.create = l.createTemp
	if get(t, l, "s", "x") != "old" {
		t.Fatal("lost the old bytes")
	}
}

// copyStore writes the entries of Walk to a folder, as a backup does.
func copyStore(t *testing.T, l *Local, dir string) error {
	return l.Walk(t.Context(), func(e Entry) error {
		file := filepath.Join(dir, filepath.FromSlash(e.Path))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if e.SameAs != "" {
			return os.Link(filepath.Join(dir, filepath.FromSlash(e.SameAs)), file)
		}
		b, err := io.ReadAll(e.Body())
		if err != nil {
			return err
		}
		return os.WriteFile(file, b, 0o600)
	})
}

func TestCopiedStoreIsIndependent(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	put(t, l, "s", "a", "the same bytes")
	put(t, l, "s", "b", "the same bytes")
	put(t, l, "t", "c", "the same bytes")
	put(t, l, "t", "empty", "")
	dir := t.TempDir() + "/nested/copy"
	if err := copyStore(t, l, dir); err != nil {
		t.Fatal(err)
	}
	if n := inodes(t, dir); n != 4+2 {
		t.Fatalf("%d files for four records and two contents", n)
	}
	// Neither the store nor its copy changes with the other.
	if _, _, err := l.DeleteSession(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	c := open(t, dir, Options{})
	if get(t, c, "s", "a") != "the same bytes" || get(t, c, "t", "empty") != "" {
		t.Fatal("the copy lacks bytes")
	}
	put(t, c, "u", "d", "the same bytes")
	for _, s := range []chat.SessionID{"s", "t", "u"} {
		if _, _, err := c.DeleteSession(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if files := tree(t, dir); len(files) != 0 {
		t.Fatalf("erase in a restored store left %v", files)
	}
	if get(t, l, "t", "c") != "the same bytes" {
		t.Fatal("the store lost bytes to its copy")
	}
}

// unsettle gives the bytes of y the name that they have while its record is written or removed.
func unsettle(t *testing.T, l *Local) {
	t.Helper()
	file := bytesFile(filepath.Join(l.folder("s"), key("y")), key("lost upload"))
	if err := os.Rename(file, file+unsettled); err != nil {
		t.Fatal(err)
	}
}

// A record that was deleted or changed is named, and its bytes are kept.
func TestVerifyFindsLostAndChangedRecords(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	put(t, l, "s", "gone", "its bytes stay")
	put(t, l, "s", "kind", "text")
	if err := os.Remove(filepath.Join(l.folder("s"), key("gone"))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(l.folder("s"), key("kind"))
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := rewrite(file, strings.Replace(string(b), "text/plain", "text/pl\x20in", 1)); err != nil {
		t.Fatal(err)
	}
	report, err := l.Verify(t.Context())
	if err != nil || len(report.Problems) != 2 {
		t.Fatalf("%+v %v", report, err)
	}
	for i, name := range []string{"kind", "gone"} {
		if report.Problems[i].Record != key(name) {
			t.Errorf("%s: %+v", name, report.Problems[i])
		}
	}
}

func TestVerifyFindsDamage(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	damage := map[string]func(record, bytes string) error{
		"changed":   func(_, b string) error { return rewrite(b, "CHANGED") },
		"cut short": func(_, b string) error { return rewrite(b, "cut") },
		"missing":   func(_, b string) error { return os.Remove(b) },
		"record":    func(r, _ string) error { return rewrite(r, "{") },
		"swapped":   func(r, _ string) error { return rewrite(r, `{"path":"another"}`) },
		"undamaged": func(string, string) error { return nil },
	}
	for path, apply := range damage {
		info := put(t, l, "s", path, path)
		record := filepath.Join(l.folder("s"), key(path))
		if err := apply(record, bytesFile(record, info.SHA256)); err != nil {
			t.Fatal(err)
		}
	}
	report, err := l.Verify(t.Context())
	if err != nil || report.Names != len(damage) || len(report.Problems) != len(damage)-1 {
		t.Fatalf("%+v %v", report, err)
	}
	for _, p := range report.Problems {
		if p.Session != key("s") || p.What == "" || p.Path == "undamaged" {
			t.Errorf("%+v", p)
		}
	}
	_, _, err = l.Get(t.Context(), "s", "missing")
	wantCode(t, err, chat.Internal)
	// Putting the file again repairs it.
	for _, path := range []string{"missing", "cut short", "record"} {
		put(t, l, "s", path, path)
		if get(t, l, "s", path) != path {
			t.Errorf("%s is not repaired", path)
		}
	}
	if err := copyStore(t, l, t.TempDir()+"/b"); err == nil {
		t.Error("a backup of damaged records returns no error")
	}
}

// Good bytes that are put over damaged ones of the same length replace them.
func TestGoodBytesReplaceDamagedOnes(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	info := put(t, l, "a", "x", "the right bytes")
	f, err := os.OpenFile(bytesFile(filepath.Join(l.folder("a"), key("x")), info.SHA256), os.O_WRONLY, 0) // overwritten, as a failing disk does it
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.WriteString("the wrong"); err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	put(t, l, "a", "x", "the right bytes")
	if got := get(t, l, "a", "x"); got != "the right bytes" {
		t.Errorf("after the put it has %q", got)
	}
}

func rewrite(file, content string) error {
	if err := os.Remove(file); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(content), 0o600)
}

func BenchmarkPut(b *testing.B) {
	l, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	body := bytes.Repeat([]byte("x"), 1<<20)
	b.SetBytes(int64(len(body)))
	for i := 0; b.Loop(); i++ {
		body[0], body[1], body[2] = byte(i), byte(i>>8), byte(i>>16)
		if _, err := l.Put(b.Context(), "s", "x", "", bytes.NewReader(body), PutOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
