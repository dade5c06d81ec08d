package datafolder

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

var errKilled = errors.New("killed")

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

// copyOver replaces the store of a folder, and puts it aside before if it is damaged.
func copyOver(t *testing.T, f *Folder, damaged bool) error {
	t.Helper()
	if err := f.Recover(); err != nil {
		return err
	}
	m, _, err := f.Membership()
	if err != nil {
		t.Fatal(err)
	}
	if m.NeedsCopy == "" {
		return nil
	}
	if damaged && read(t, filepath.Join(f.Store(), "db", "data")) == "old" {
		if err := f.SetAside(m); err != nil {
			return err
		}
	}
	dir, err := f.Begin()
	if err != nil {
		return err
	}
	write(t, filepath.Join(dir, "db", "data"), "new")
	if err := f.Complete(Membership{Cluster: "c1", Copied: true}); err != nil {
		return err
	}
	return f.Recover()
}

// Wherever the process is killed, the folder has the old store or the whole copy, and the next attempt completes it.
func TestAStoreIsReplacedAsAWholeWhereverTheProcessIsKilled(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		for kill := 1; ; kill++ {
			f := New(t.TempDir())
			write(t, filepath.Join(f.Store(), "db", "data"), "old")
			if err := f.SetMembership(Membership{Cluster: "c1", NeedsCopy: "it is behind"}); err != nil {
				t.Fatal(err)
			}
			steps := 0
			f.step = func() error {
				if steps++; steps >= kill {
					return errKilled
				}
				return nil
			}
			err := copyOver(t, f, damaged)
			if err != nil && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			f.step = nil
			if err := f.Recover(); err != nil {
				t.Fatalf("killed at step %d: %v", kill, err)
			}
			m, there, merr := f.Membership()
			data := read(t, filepath.Join(f.Store(), "db", "data"))
			if merr != nil || !there || m.Cluster != "c1" || (m.NeedsCopy == "") != (data == "new") {
				t.Fatalf("killed at step %d: the store has %q, %+v, %v", kill, data, m, merr)
			}
			if damaged && data != "new" && data != "old" && read(t, filepath.Join(f.damaged(), "db", "data")) != "old" {
				t.Fatalf("killed at step %d: the damaged store is gone before there is a copy", kill)
			}
			if err := copyOver(t, f, damaged); err != nil {
				t.Fatal(err)
			}
			if data := read(t, filepath.Join(f.Store(), "db", "data")); data != "new" {
				t.Fatalf("killed at step %d: the next attempt leaves %q", kill, data)
			}
			left, err2 := os.ReadDir(f.dir)
			if err2 != nil || len(left) != 1 {
				t.Fatalf("killed at step %d: %v is left, %v", kill, left, err2)
			}
			if err == nil {
				if kill < 5 {
					t.Fatalf("only %d steps", kill)
				}
				break
			}
		}
	}
}

func TestASingleServersFolderBelongsToNoCluster(t *testing.T) {
	f := New(t.TempDir())
	if _, there, err := f.Membership(); there || err != nil || f.HasStore() {
		t.Fatal(there, err)
	}
	write(t, filepath.Join(f.Store(), "db", "data"), "old")
	if err := f.Recover(); err != nil {
		t.Fatal(err)
	}
	if _, there, err := f.Membership(); there || err != nil || !f.HasStore() {
		t.Fatal(there, err)
	}
}
