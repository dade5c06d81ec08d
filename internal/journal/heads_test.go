package journal

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/chat"
)

// With many sessions the cache lets go of heads. A reader that holds one looks
// again when the session has gone on meanwhile: that is no damage.
func TestRecordAfterItsHeadIsEvicted(t *testing.T) {
	t.Parallel()
	j := openTest(t, "/data", Options{FS: vfs.NewMem()})
	a := begin(t, j, "s-1")
	h, s, err := j.find("s-1")
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	delete(s.heads, "s-1")
	s.mu.Unlock()
	title := "new"
	a.append(t, chat.SessionUpdated{Title: &title})
	if _, current, err := j.recordUpTo("s-1", h, s); current || err != nil {
		t.Errorf("by the old head: current %t, %v", current, err)
	}
	if rec, err := j.Record(ctx, "s-1"); err != nil || rec.Title != title || rec.Last != 2 {
		t.Errorf("%+v, %v", rec, err)
	}
	// One that the cache has, and that is behind its record, is damage.
	s.mu.Lock()
	s.heads["s-1"] = h
	s.mu.Unlock()
	if _, err := j.Record(ctx, "s-1"); chat.CodeOf(err) != chat.Internal {
		t.Errorf("a record without its event gave %v", err)
	}
}

// A reader with the head of a session that is erased at this moment gets Gone, not
// damage.
func TestReadDuringEraseReturnsGone(t *testing.T) {
	t.Parallel()
	j := openTest(t, "/data", Options{FS: vfs.NewMem()})
	begin(t, j, "s-1")
	h, s, err := j.find("s-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eraseNow(j, "s-1"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := j.recordUpTo("s-1", h, s); chat.CodeOf(err) != chat.Gone {
		t.Errorf("its record: %v", err)
	}
	s.mu.Lock()
	s.heads["s-1"] = h
	s.mu.Unlock()
	if _, _, err := j.Read(ctx, "s-1", chat.Range{Limit: 10}); chat.CodeOf(err) != chat.Gone {
		t.Errorf("its events: %v", err)
	}
}
