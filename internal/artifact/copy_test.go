package artifact

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestCopiedSessionIsIndependent(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	put(t, l, "a", "out/x.txt", "shared")
	put(t, l, "a", "y.txt", "other")
	if err := l.CopySession(t.Context(), "a", "b", nil, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := l.CopySession(t.Context(), "a", "b", nil, func() error { return nil }); err != nil {
		t.Fatal("a second time:", err)
	}
	put(t, l, "a", "y.txt", "changed later")
	if _, _, err := l.DeleteSession(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if get(t, l, "b", "out/x.txt") != "shared" || get(t, l, "b", "y.txt") != "other" {
		t.Fatal("the copy changed with the first one")
	}
	info, err := l.Stat(t.Context(), "b", "y.txt")
	if err != nil || info.MediaType == "" || info.Path != "y.txt" {
		t.Fatal(info, err)
	}
	if left, err := os.ReadDir(filepath.Join(l.dir, tmpDir)); err != nil || len(left) != 0 {
		t.Fatal("temporary files are left", left, err)
	}
	if rep, err := l.Verify(t.Context()); err != nil || len(rep.Problems) != 0 {
		t.Fatal(rep, err)
	}
}

func TestMergeOverwritesNothing(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	put(t, l, "s", "files/w1/report.csv", "somebody else's")
	put(t, l, "s", "workstreams/w1/out/report.csv", "from out")
	put(t, l, "s", "workstreams/w1/files/report.csv", "from files")
	put(t, l, "s", "workstreams/w1/out/deep/a.b/noext", "deep")
	put(t, l, "s", "workstreams/w1/scratch/private.txt", "private")
	put(t, l, "s", "workstreams/w10/out/z.txt", "another one's")
	want := []string{"files/w1/deep/a.b/noext", "files/w1/report-2.csv", "files/w1/report-3.csv"}
	for range 2 { // an interrupted merge is repeated
		got, err := l.Merge(t.Context(), "s", []string{"workstreams/w1/out/", "workstreams/w1/files/"}, "files/w1/")
		if err != nil || !slices.Equal(got, want) {
			t.Fatal(got, err)
		}
	}
	for path, text := range map[string]string{
		"files/w1/report.csv": "somebody else's", "files/w1/report-2.csv": "from out", "files/w1/report-3.csv": "from files",
		"files/w1/deep/a.b/noext": "deep", "workstreams/w1/out/report.csv": "from out",
	} {
		if got := get(t, l, "s", path); got != text {
			t.Errorf("%s is %q", path, got)
		}
	}
	infos, _, err := l.List(t.Context(), "s", "files/", "", 0)
	if err != nil || len(infos) != 4 || strings.Contains(strings.Join(paths(infos), " "), "private") {
		t.Fatal(paths(infos), err)
	}
}

// A workstream may end in two ways at the same time, and each end merges its files.
func TestConcurrentMergesStoreEachFileOnce(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	var want []string
	for i := range 20 {
		name := fmt.Sprintf("%02d.txt", i)
		put(t, l, "s", "workstreams/w/out/"+name, name)
		want = append(want, "files/w/"+name)
	}
	put(t, l, "s", "workstreams/w/files/00.txt", "00.txt") // the same as in out
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			got, err := l.Merge(t.Context(), "s", []string{"workstreams/w/out/", "workstreams/w/files/"}, "files/w/")
			if err != nil || !slices.Equal(got, want) {
				t.Error(got, err)
			}
		})
	}
	all.Wait()
	infos, _, err := l.List(t.Context(), "s", "files/", "", 0)
	if err != nil || !slices.Equal(paths(infos), want) {
		t.Error(paths(infos), err)
	}
}
