package session

import (
	"slices"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// The files of a workstream are merged in whatever way it ends, also without a running turn.
func TestFilesAreMergedAtEveryEndOfAWorkstream(t *testing.T) {
	terminate := func(w *testStore) error {
		_, err := w.TerminateWorkstream(ctx, ann, "s", "top", chat.Steering{})
		return err
	}
	for name, end := range map[string]func(w *testStore) error{
		"terminated": terminate,
		"stopped": func(w *testStore) error {
			_, err := w.StopAll(ctx, ann, "s", "")
			return err
		},
		"with the session": func(w *testStore) error {
			_, err := w.Append(ctx, chat.Trusted, "s", []chat.Draft{chat.NewDraft(chat.SessionCompleted{})})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := &fakeFiles{}
			w := newTestStore(t, Options{Artifacts: files})
			w.begin("s", chat.NewSession{Agent: "demo"})
			w.launch("s", chat.Launch{ID: "top", Interactive: true})
			w.launch("s", chat.Launch{ID: "leaf", Interactive: true, Parent: "top"})
			w.launch("s", chat.Launch{ID: "kept", Interactive: true, Parent: "top", MergeChildArtifacts: new(bool)})
			for _, line := range []string{"leaf", "kept", "top"} {
				w.finish("s", line)
			}
			files.merged = nil
			if err := end(w); err != nil {
				t.Fatal(err)
			}
			if want := []string{"workstreams/top/files/leaf/", "files/top/"}; !slices.Equal(files.merged, want) {
				t.Errorf("merged to %v, want %v", files.merged, want)
			}
			for _, s := range w.state("s").Workstreams {
				want := []string{"files/" + s.ID + "/result.txt"}
				if s.ID == "kept" {
					want = nil
				}
				if s.State != chat.WorkCanceled || !slices.Equal(s.Files, want) {
					t.Errorf("%s is %s with %v", s.ID, s.State, s.Files)
				}
			}
		})
	}
}

// The files of a workstream that ends after its parent are merged as far as if it had ended
// before its parent.
func TestFilesAreMergedWhenTheParentEndsFirst(t *testing.T) {
	files := &fakeFiles{}
	w := newTestStore(t, Options{Artifacts: files})
	w.begin("s", chat.NewSession{Agent: "demo"})
	w.launch("s", chat.Launch{ID: "a"})
	w.launch("s", chat.Launch{ID: "b", Parent: "a"})
	w.launch("s", chat.Launch{ID: "c", Parent: "b"})
	if _, err := w.TerminateWorkstream(ctx, ann, "s", "a", chat.Steering{}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		line string
		want []string
	}{
		{"a", []string{"files/a/"}},
		{"c", []string{"workstreams/b/files/c/", "workstreams/a/files/b/", "files/a/"}},
		{"b", []string{"workstreams/a/files/b/", "files/a/"}},
	} {
		files.merged = nil
		w.end(w.turnOf("s", step.line), chat.Stopped)
		if !slices.Equal(files.merged, step.want) {
			t.Errorf("at the end of %s merged to %v, want %v", step.line, files.merged, step.want)
		}
	}
	// Files of a workstream that continues are not merged.
	w.launch("s", chat.Launch{ID: "d"})
	w.launch("s", chat.Launch{ID: "e", Parent: "d"})
	files.merged = nil
	w.end(w.turnOf("s", "e"), chat.Done)
	if want := []string{"workstreams/d/files/e/"}; !slices.Equal(files.merged, want) {
		t.Errorf("merged to %v, want %v", files.merged, want)
	}
}

// Stopping the main line, or an interactive workstream that rests, ends no
// workstream and merges nothing.
func TestStopThatEndsNoWorkstreamMergesNothing(t *testing.T) {
	files := &fakeFiles{}
	w := newTestStore(t, Options{Artifacts: files})
	w.begin("s", chat.NewSession{Agent: "demo"})
	w.launch("s", chat.Launch{ID: "top", Interactive: true})
	w.finish("s", "top")
	files.merged = nil
	for _, line := range []string{"", "top"} {
		if _, err := w.Stop(ctx, ann, "s", line, ""); err != nil {
			t.Fatal(err)
		}
	}
	if files.merged != nil || w.state("s").Workstreams[0].State != chat.WorkRunning {
		t.Errorf("merged to %v", files.merged)
	}
}

// The files of a workstream are also merged when its turn fails after too many crashes.
func TestFilesAreMergedAfterTooManyCrashes(t *testing.T) {
	files := &fakeFiles{}
	w := newTestStore(t, Options{Artifacts: files})
	w.begin("s", chat.NewSession{Agent: "demo"})
	w.launch("s", chat.Launch{ID: "top"})
	for ref, ok := w.turnOf("s", "top"), true; ok; {
		var err error
		if ref, ok, err = w.ResumeTurn(ctx, ref, "it crashed", true); err != nil {
			t.Fatal(err)
		}
	}
	if s := w.state("s").Workstreams[0]; s.State != chat.WorkFailed || !slices.Equal(s.Files, []string{"files/top/result.txt"}) || len(files.merged) != 1 {
		t.Errorf("%s with %v, merged to %v", s.State, s.Files, files.merged)
	}
}
