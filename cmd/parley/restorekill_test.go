package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// everyStep calls step whenever Err is called; a restore calls it before every entry of the backup.
type everyStep struct {
	context.Context
	step func()
}

func (c everyStep) Err() error {
	c.step()
	return nil
}

// stepWriter calls step before everything that is written.
type stepWriter struct{ step func() }

func (w stepWriter) Write(b []byte) (int, error) {
	w.step()
	return len(b), nil
}

// A killed restore leaves no data folder that looks complete: the folder does not exist, or is empty, until everything is
// restored. The next restore names the partial folder and succeeds when that is removed.
func TestRestoreKilledAtEveryStep(t *testing.T) {
	files := map[string]string{}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	add := func(name, text string) {
		files[name] = text
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		add(fmt.Sprintf("store/db/%d", i), strings.Repeat("x", 100*i))
	}
	add(manifest, "{}")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "b.tar")
	if err := os.WriteFile(file, archive.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, prepared := range map[string]bool{"absent": false, "empty": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			data := filepath.Join(dir, "data")
			if prepared {
				if err := os.Mkdir(data, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			var images []string
			step := func() {
				image := filepath.Join(t.TempDir(), "image")
				if err := os.CopyFS(image, os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
				images = append(images, image)
			}
			step()
			c := &RestoreCmd{File: file, Data: data}
			if err := c.Run(everyStep{t.Context(), step}, &stdio{err: stepWriter{step}}); err != nil {
				t.Fatal(err)
			}
			step()
			whole := 0
			for i, image := range images {
				if afterKill(t, i, file, filepath.Join(image, "data"), files) {
					whole++
				}
			}
			if whole == 0 || whole > len(images)-len(files) {
				t.Errorf("%d of %d images are whole", whole, len(images))
			}
		})
	}
}

// afterKill checks the files after a kill and reports whether the restore was complete; if it was not, it restores again.
func afterKill(t *testing.T, i int, file, data string, files map[string]string) (whole bool) {
	t.Helper()
	again := &RestoreCmd{File: file, Data: data}
	entries, err := os.ReadDir(data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	whole = len(entries) > 0
	if _, err := os.Stat(data + ".part"); err == nil {
		if whole {
			t.Errorf("image %d: a partial folder exists beside the complete one", i)
		}
		if err := again.Run(t.Context(), &stdio{err: io.Discard}); err == nil || !strings.Contains(err.Error(), "data.part") {
			t.Errorf("image %d: the partial folder is not named: %v", i, err)
		}
		if err := os.RemoveAll(data + ".part"); err != nil {
			t.Fatal(err)
		}
	}
	if !whole {
		if err := again.Run(t.Context(), &stdio{err: io.Discard}); err != nil {
			t.Errorf("image %d: %v", i, err)
		}
	}
	for name, text := range files {
		if b, err := os.ReadFile(filepath.Join(data, name)); err != nil || string(b) != text {
			t.Errorf("image %d: %s is not what was backed up: %v", i, name, err)
		}
	}
	return whole
}
