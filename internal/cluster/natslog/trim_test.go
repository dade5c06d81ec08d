package natslog

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTrimmedFramesLeaveTheFilesOfAllNodes(t *testing.T) {
	t.Parallel() // it waits for elections
	dir := t.TempDir()
	logs, nodes := threeIn(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const text = "a text that is erased"
	for range 10 {
		store(ctx, t, logs[0], 0, []byte(text))
	}
	_, last, err := logs[0].Ends(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	if files := containing(t, dir, text); len(files) == 0 {
		t.Fatal("the search finds nothing")
	}
	if err := logs[0].Trim(ctx, 0, last); err != nil {
		t.Fatal(err)
	}
	store(ctx, t, logs[0], 0, []byte("a later frame"))
	for _, n := range nodes {
		if err := n.CompactStream(ctx, logs[0].Stream(0), uint64(last)+1); err != nil {
			t.Fatal(err)
		}
	}
	if files := containing(t, dir, text); len(files) > 0 {
		t.Errorf("the text is still in %v", files)
	}
}

// containing returns the files below a folder that have a text.
func containing(t *testing.T, dir, text string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreMissing(err)
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			all = append(all, path)
		}
		return ignoreMissing(err)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
