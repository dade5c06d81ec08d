package journal

import (
	"testing"

	"github.com/parley-hq/parley/chat"
)

// logBytes is what the events of sessions take.
func logBytes(t *testing.T, j *Journal, ids ...chat.SessionID) (n int64) {
	t.Helper()
	for _, id := range ids {
		facts, _, err := j.Read(ctx, id, chat.Range{})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range facts {
			n += int64(len(f.JSON))
		}
	}
	return n
}

// wantStored compares the counters with what is expected, and has them verified.
func wantStored(t *testing.T, j *Journal, owner chat.Actor, ofOwner, ofWorkspace int64) {
	t.Helper()
	a, b, err := j.Stored(ctx, "", owner)
	if err != nil || a != ofOwner || b != ofWorkspace {
		t.Fatalf("the owner has %d and the workspace %d bytes (%v), want %d and %d", a, b, err, ofOwner, ofWorkspace)
	}
	if r, err := j.Verify(ctx, nil); err != nil || r.Found > 0 {
		t.Fatal(r.Damage, err)
	}
}

// The bytes of owners and workspaces follow commits, imports, files and erasures.
// A restart changes nothing, whether a counter was asked for before or not.
func TestStoredBytesAreCounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir, Options{})
	restart := func() {
		t.Helper()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = openTest(t, dir, Options{})
	}
	one := begin(t, j, "s-1")
	one.append(t, message("one"))
	owner := mustRecord(t, j, "s-1").Owner
	restart() // nobody has asked yet
	n := logBytes(t, j, "s-1")
	wantStored(t, j, owner, n, n)
	begin(t, j, "s-2").append(t, message("two"), message("three"))
	n = logBytes(t, j, "s-1", "s-2")
	wantStored(t, j, owner, n, n)

	if err := j.AddFiles(ctx, "s-1", 1000); err != nil {
		t.Fatal(err)
	}
	if err := j.AddFiles(ctx, "s-1", -400); err != nil {
		t.Fatal(err)
	}
	if err := j.SetFiles(ctx, "s-2", 50); err != nil {
		t.Fatal(err)
	}
	if err := j.AddFiles(ctx, "nobody", 7); err != nil {
		t.Fatal(err)
	}
	wantStored(t, j, owner, n+650, n+650)
	if size, err := j.SizeOf(ctx, "s-1"); err != nil || size != logBytes(t, j, "s-1")+600 {
		t.Fatal(size, err)
	}
	if err := j.db.Compact(ctx, []byte{0}, []byte{0xff}, false); err != nil {
		t.Fatal(err)
	}
	restart()
	wantStored(t, j, owner, n+650, n+650)

	facts, _, err := j.Read(ctx, "s-1", chat.Range{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eraseNow(j, "s-1"); err != nil {
		t.Fatal(err)
	}
	n = logBytes(t, j, "s-2") + 50
	wantStored(t, j, owner, n, n)
	restart()
	wantStored(t, j, owner, n, n)
	wantStored(t, j, chat.Actor{Kind: chat.User, ID: "nobody"}, 0, n)

	// The same log on another server.
	other := openTest(t, t.TempDir(), Options{})
	err = other.Import(ctx, "s-1", func(yield func(chat.Fact, error) bool) {
		for _, f := range facts {
			if !yield(f, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	n = logBytes(t, other, "s-1")
	wantStored(t, other, owner, n, n)
}

func mustRecord(t *testing.T, j *Journal, id chat.SessionID) chat.Session {
	t.Helper()
	rec, err := j.Record(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}
