package artifact

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

func TestReceivedFileDisappearsWhenItIsClosed(t *testing.T) {
	l, err := Open(t.TempDir(), Options{Max: 10})
	if err != nil {
		t.Fatal(err)
	}
	f, info, err := l.Receive(t.Context(), "s", "a", "text/plain", strings.NewReader("data"), 0)
	if err != nil || info.Size != 4 || info.SHA256 != key("data") || info.StoredAt == 0 {
		t.Fatal(info, err)
	}
	if b, err := io.ReadAll(f); string(b) != "data" || err != nil {
		t.Errorf("%q %v", b, err)
	}
	f.Close()
	if list, err := os.ReadDir(filepath.Join(l.Dir(), tmpDir)); len(list) > 0 || err != nil {
		t.Error(list, err)
	}
	if _, _, err := l.Receive(t.Context(), "s", "a", "", strings.NewReader("more than ten bytes"), 0); chat.CodeOf(err) != chat.TooLarge {
		t.Error(err)
	}
	if _, _, err := l.Receive(t.Context(), "s", "../a", "", strings.NewReader("x"), 0); chat.CodeOf(err) != chat.Invalid {
		t.Error(err)
	}
}

func TestNotesOfBlobsAreFoundByTheNextProcess(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []struct {
		session chat.SessionID
		blob    string
	}{{"s", "a"}, {"s", "a"}, {"s", "b-1"}, {"t", "a"}, {"t", "b"}, {"u", "a"}} {
		if err := l.NoteBlob(n.session, n.blob); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.NoteBlob("s", "../x"); err == nil {
		t.Error("a key that is a path was noted")
	}
	for range 2 {
		if err := l.ForgetBlob("t", "a"); err != nil {
			t.Error(err)
		}
	}
	if err := l.ForgetBlobs("u"); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, notesDir, "damaged"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		all, err := l.NotedBlobs()
		if err != nil || len(all) != 2 || strings.Join(all["s"], " ") != "a b-1" || strings.Join(all["t"], " ") != "b" {
			t.Errorf("%v %v", all, err)
		}
	}
}
