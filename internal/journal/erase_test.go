package journal

import (
	"reflect"
	"slices"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// pending lists the sessions whose erasure is not finished.
func pending(t *testing.T, j *Journal) (ids []chat.SessionID) {
	t.Helper()
	for e, err := range j.Erasures(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.Receipt.Session)
	}
	return ids
}

// An erasure stays over restarts, without the text of the
// session, and with nothing left at the end, its id included.
func TestErasureStaysUntilItIsFinished(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir, Options{})
	id := chat.SessionID("s-" + marker)
	begin(t, j, "s-other")
	fillWithMarker(t, j, id)
	e, err := j.BeginErase(ctx, id, 3, 1000)
	if err != nil || e.Receipt.Artifacts != 3 || e.Receipt.Bytes <= 1000 || e.Receipt.Events == 0 {
		t.Fatal(e, err)
	}
	if _, err := j.BeginErase(ctx, id, 0, 0); chat.CodeOf(err) != chat.Gone {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := j.Load(ctx, id); chat.CodeOf(err) != chat.Gone {
			t.Fatal(err)
		}
		if got := pending(t, j); !slices.Equal(got, []chat.SessionID{id}) {
			t.Fatal(got)
		}
		if got, ok, err := j.Erasure(ctx, id); !ok || err != nil || !reflect.DeepEqual(got, e) {
			t.Fatal(got, ok, err)
		}
		if report, err := j.Verify(ctx, nil); err != nil || report.Found > 0 {
			t.Fatal(report, err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = openTest(t, dir, Options{})
		if len(j.OpenBlocks()) != 0 {
			t.Fatal("blocks of the erased session are shown")
		}
	}
	if err := j.ScrubErased(ctx, e); err != nil {
		t.Fatal(err)
	}
	if err := j.FinishErase(ctx, e); err != nil {
		t.Fatal(err)
	}
	if left := filesWithMarker(t, dir); len(left) > 0 {
		t.Fatalf("the text, or the id, is still in %v", left)
	}
	if got := pending(t, j); len(got) > 0 {
		t.Fatal(got)
	}
	if err := j.FinishErase(ctx, e); err != nil {
		t.Fatal("a second time:", err)
	}
	if _, err := j.Load(ctx, id); chat.CodeOf(err) != chat.Gone {
		t.Fatal(err)
	}
}

// A copy elsewhere cannot be removed yet, and the
// journal's own files are clean all the same, now or after a restart.
func TestScrubErasedKeepsTheErasure(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		dir := t.TempDir()
		j := openTest(t, dir, Options{})
		fillWithMarker(t, j, "s-1")
		e, err := j.BeginErase(ctx, "s-1", 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(filesWithMarker(t, dir)) == 0 {
			t.Fatal("the text is not where it is looked for")
		}
		if restart {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j = openTest(t, dir, Options{})
		} else if err := j.ScrubErased(ctx, e); err != nil {
			t.Fatal(err)
		}
		if left := filesWithMarker(t, dir); len(left) > 0 {
			t.Fatalf("restart %v: the text is still in %v", restart, left)
		}
		if got := pending(t, j); len(got) != 1 {
			t.Fatal(got)
		}
	}
}
