package journal

import (
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/journal/journaltest"
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
	one := journaltest.Begin(t, j, "s-1")
	one.Say(t, journaltest.Text("one"))
	owner := mustRecord(t, j, "s-1").Owner
	restart() // nobody has asked yet
	n := logBytes(t, j, "s-1")
	wantStored(t, j, owner, n, n)
	journaltest.Begin(t, j, "s-2").Say(t, journaltest.Text("two"), journaltest.Text("three"))
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
	if _, err := j.Erase(ctx, "s-1"); err != nil {
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

// A session of a store without counters is counted with its next event. Erasing one
// that was not counted takes nothing from the owner.
func TestSessionsWithoutCounters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir, Options{})
	a := journaltest.Begin(t, j, "s-1").Say(t, journaltest.Text("one"))
	journaltest.Begin(t, j, "s-2")
	if err := j.db.Set([]byte{kFormat}, []byte{1}, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	owner := mustRecord(t, j, "s-1").Owner
	for _, id := range []chat.SessionID{"s-1", "s-2"} {
		at, err := j.look(id)
		if err != nil {
			t.Fatal(err)
		}
		at.bytes = uncounted
		if err := j.db.Set(headKey(nil, at.number), at.position.append(nil), pebble.Sync); err != nil {
			t.Fatal(err)
		}
		s := j.shard(id)
		s.mu.Lock()
		delete(s.heads, id)
		s.mu.Unlock()
	}
	acc := account{tokenOf("default", ""), tokenOf("default", owner.Key())}
	if err := j.db.Delete(accountKey(nil, acc), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	wantStored(t, j, owner, 0, 0)
	if _, err := j.Erase(ctx, "s-2"); err != nil {
		t.Fatal(err)
	}
	wantStored(t, j, owner, 0, 0)
	a.Say(t, journaltest.Text("two"))
	n := logBytes(t, j, "s-1")
	wantStored(t, j, owner, n, n)
	// An older version would take the new heads for damage: it must not open the store.
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openTest(t, dir, Options{})
	if v, err := j.get([]byte{kFormat}); err != nil || v[0] != formatVersion {
		t.Errorf("format %v, %v", v, err)
	}
	wantStored(t, j, owner, n, n)
}

func mustRecord(t *testing.T, j *Journal, id chat.SessionID) chat.Session {
	t.Helper()
	rec, err := j.Record(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}
