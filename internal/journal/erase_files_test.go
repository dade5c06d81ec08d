package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// marker does not compress away and is not split by a table's encoding.
const marker = "Zebra7Qx91MarkerText"

// filesWithMarker lists the files below dir that have the marker.
func filesWithMarker(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if bytes.Contains(text, []byte(marker)) {
			list = append(list, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// fillWithMarker puts the marker everywhere a session can hold text.
func fillWithMarker(t *testing.T, j *Journal, id chat.SessionID) {
	t.Helper()
	a := begin(t, j, id, chat.SessionStarted{Agent: "demo", Title: marker})
	a.Key(0, marker).append(t, message("my secret is %s", marker))
	a.append(t, chat.AgentInputRequest{RequestID: marker, InputType: chat.InputText, Text: marker, Deadline: epoch * 2})
	for i := range 3 { // and into checkpoints
		bodies := make([]chat.Body, core.CheckpointEvery-1)
		for k := range bodies {
			bodies[k] = chat.AgentStatus{Message: fmt.Sprint(marker, i, k)}
		}
		a.append(t, bodies...)
	}
	if err := writePreviews(j, id, []chat.Preview{{Block: "b", Text: marker, End: len(marker), Kind: chat.TextBlock}}); err != nil {
		t.Fatal(err)
	}
}

func TestEraseLeavesNoText(t *testing.T) {
	t.Parallel()
	for _, flushed := range []bool{false, true} {
		t.Run(fmt.Sprintf("flushed=%t", flushed), func(t *testing.T) {
			dir := t.TempDir()
			j := openTest(t, dir, Options{})
			bystander := begin(t, j, "s-before")
			fillWithMarker(t, j, "s-1")
			other := begin(t, j, "s-other").append(t, message("stays"))
			if err := writePreviews(j, "s-other", []chat.Preview{{Block: "b", Text: "half a wor", End: 10}}); err != nil {
				t.Fatal(err)
			}
			if flushed {
				if err := j.db.Flush(); err != nil {
					t.Fatal(err)
				}
				if err := j.db.Compact(ctx, []byte{0}, []byte{0xff}, false); err != nil {
					t.Fatal(err)
				}
				bystander.append(t, message("newer than the tables"))
			}
			// Writers and readers go on during the erase.
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					bystander.try(message("meanwhile"))
					j.List(ctx, core.Filter{})
					j.Read(ctx, "s-other", chat.Range{})
				}
			})
			_, err := eraseNow(j, "s-1")
			close(stop)
			wg.Wait()
			if err != nil {
				t.Fatal(err)
			}
			if left := filesWithMarker(t, dir); len(left) > 0 {
				t.Fatalf("the text is still in %v", left)
			}
			if err := checkLog(ctx, j, "s-other"); err != nil {
				t.Fatal(err)
			}
			if report, err := j.Verify(ctx, nil); err != nil || report.Found > 0 {
				t.Fatal(report, err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j = openTest(t, dir, Options{})
			if blocks := j.OpenBlocks(); len(blocks) != 1 || blocks["s-other"][0].Text != "half a wor" {
				t.Fatalf("%v", blocks)
			}
			if _, _, err := j.Number(ctx, "s-1"); chat.CodeOf(err) != chat.Gone {
				t.Fatal(err)
			}
			_ = other
		})
	}
}

// The marker test is worth something only if the text is found before.
func TestMarkerIsFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir, Options{})
	fillWithMarker(t, j, "s-1")
	left := strings.Join(filesWithMarker(t, dir), " ")
	if !strings.Contains(left, ".log") || !strings.Contains(left, previewFile) {
		t.Fatalf("found in %q", left)
	}
	if err := j.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if left = strings.Join(filesWithMarker(t, dir), " "); !strings.Contains(left, ".sst") {
		t.Fatalf("found in %q", left)
	}
}

// An erasure that was cut short is finished at the next start, or by Run.
func TestEraseIsFinishedLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir, Options{})
	fillWithMarker(t, j, "s-1")
	fillWithMarker(t, j, "s-2")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	eraseInPart := func(id chat.SessionID) {
		t.Helper()
		e, err := j.BeginErase(ctx, id, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.FinishErase(ended, e); chat.CodeOf(err) != chat.Unavailable {
			t.Fatal(err)
		}
	}
	eraseInPart("s-1")
	if _, err := j.Load(ctx, "s-1"); chat.CodeOf(err) != chat.Gone {
		t.Fatal(err)
	}
	if err := j.finishErasures(ctx); err != nil { // what Run does
		t.Fatal(err)
	}
	eraseInPart("s-2") // and then the process ends
	if len(filesWithMarker(t, dir)) == 0 {
		t.Fatal("nothing is left to finish")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openTest(t, dir, Options{})
	if left := filesWithMarker(t, dir); len(left) > 0 {
		t.Fatalf("the text is still in %v", left)
	}
	if pending, _ := j.iter([]byte{kErasing}); pending.First() {
		t.Fatal("the note is still there")
	} else {
		pending.Close()
	}
}

// A preview file that cannot be rewritten at the moment is rewritten later.
func TestErasePreviewsLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir, Options{})
	fillWithMarker(t, j, "s-1")
	begin(t, j, "s-other")
	if err := writePreviews(j, "s-other", []chat.Preview{{Block: "b", Text: "half a wor", End: 10}}); err != nil {
		t.Fatal(err)
	}
	obstacle := filepath.Join(dir, previewFolder, previewFile+".new")
	if err := os.MkdirAll(filepath.Join(obstacle, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := eraseNow(j, "s-1"); chat.CodeOf(err) != chat.Unavailable {
		t.Fatal(err)
	}
	if err := os.RemoveAll(obstacle); err != nil {
		t.Fatal(err)
	}
	if err := j.finishErasures(ctx); err != nil { // what Run does
		t.Fatal(err)
	}
	if left := filesWithMarker(t, dir); len(left) > 0 {
		t.Fatalf("the text is still in %v", left)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if blocks := openTest(t, dir, Options{}).OpenBlocks(); len(blocks) != 1 || blocks["s-other"][0].Text != "half a wor" {
		t.Fatalf("%v", blocks)
	}
}

// An import that ends with the process leaves nothing.
func TestImportCutShort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir, Options{})
	a, err := newAuthor(j, "s-1")
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.build(chat.SessionStarted{Agent: "demo"}, message("one"),
		chat.AgentInputRequest{RequestID: "r", InputType: chat.InputText, Text: "?", Deadline: 5}, message("two"))
	if err != nil {
		t.Fatal(err)
	}
	if err := j.storeImport(&ImportChange{c, ImportPart}, &head{}); err != nil {
		t.Fatal(err)
	}
	if err := a.try(chat.SessionStarted{}); chat.CodeOf(err) != chat.Conflict {
		t.Fatalf("a session was created into an import: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openTest(t, dir, Options{})
	if report, err := j.Verify(ctx, nil); err != nil || report.Found > 0 || report.Sessions != 0 {
		t.Fatal(report, err)
	}
	if v, err := j.get(seqKey(nil, kEvent, c.Number, 1)); v != nil || err != nil {
		t.Fatal("events of the import are left", err)
	}
	a.journal = j
	a.append(t, chat.SessionStarted{Agent: "demo"})
}

// Callers that keep copies ask whether a session was erased since they made them.
func TestErasedSince(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	j := openTest(t, t.TempDir(), Options{Now: func() time.Time { return now }})
	since := func(at time.Time, want bool) {
		t.Helper()
		if got, err := j.ErasedSince(ctx, chat.AtOf(at)); err != nil || got != want {
			t.Errorf("since %s: %v %v", at, got, err)
		}
	}
	begin(t, j, "a", chat.SessionStarted{Agent: "demo"})
	begin(t, j, "b", chat.SessionStarted{Agent: "demo"})
	since(time.Unix(0, 0), false)
	if _, err := eraseNow(j, "a"); err != nil {
		t.Fatal(err)
	}
	since(now, true)
	since(now.Add(time.Second), false)
	now = now.Add(time.Minute)
	if _, err := eraseNow(j, "b"); err != nil {
		t.Fatal(err)
	}
	since(now, true)
}
