package journal

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/parley-hq/parley/chat"
)

// snapshots takes a copy of the disk before operations that change it.
type snapshots struct {
	mu    sync.Mutex
	disk  *vfs.MemFS
	rng   *rand.Rand
	ops   int
	acked uint64
	take  func(fs *vfs.MemFS, kind string, acked uint64)
}

func (s *snapshots) String() string { return "snapshots" }

func (s *snapshots) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || strings.HasSuffix(op.Path, "LOCK") {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ops++
	percents := []int{0, 30, 60, 100} // of what is not synced; all of it is what a kill leaves
	if op.Path != "/data/db" {        // before names are synced, many things can be left
		percents = percents[s.rng.IntN(4):][:1]
	}
	for _, percent := range percents {
		kind := fmt.Sprintf("crash before step %d, %v, %d %% of the rest stored", s.ops, op, percent)
		s.take(s.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: s.rng}), kind, s.acked)
	}
	return nil
}

func (s *snapshots) ack(n chat.Seq) {
	s.mu.Lock()
	s.acked = uint64(n)
	s.mu.Unlock()
}

// A crash before any step of the store's life leaves a folder that opens and has
// all that was acknowledged: the inventory never promises more than there is.
func TestCrashAtAnyStepMatchesTheInventory(t *testing.T) {
	t.Parallel()
	for _, mode := range []SyncMode{SyncAlways, SyncInterval} {
		disk := vfs.NewCrashableMem()
		s := &snapshots{disk: disk, rng: rand.New(rand.NewPCG(1, 2))}
		tried := 0
		s.take = func(fs *vfs.MemFS, kind string, acked uint64) {
			tried++
			j, err := Open("/data", quiet(Options{FS: fs}))
			if err != nil {
				t.Errorf("%s: %v", kind, err)
				return
			}
			defer j.Close()
			if acked == 0 || mode != SyncAlways {
				return
			}
			if facts, _, err := j.Read(ctx, "s-1", chat.Range{}); err != nil || uint64(len(facts)) < acked {
				t.Errorf("%s: %d events of %d, %v", kind, len(facts), acked, err)
			}
		}
		opt := quiet(Options{FS: errorfs.Wrap(disk, s), Sync: mode})
		for life := range 3 {
			j, err := Open("/data", opt)
			if err != nil {
				t.Fatal(err)
			}
			var a *author
			if life == 0 {
				a = begin(t, j, "s-1")
			} else {
				a = resume(t, j, "s-1")
			}
			begin(t, j, chat.SessionID(fmt.Sprint("gone-", life)))
			for i := range 6 {
				a.append(t, message("%d", i))
				s.ack(a.State.Last)
				stream(t, j, "s-1", chat.BlockID(fmt.Sprint("b", life, i)), "text")
				if i%3 == 1 {
					if err := j.db.Flush(); err != nil { // the log goes on in a new file
						t.Fatal(err)
					}
				}
			}
			if life == 1 && mode == SyncAlways { // files are rewritten and removed
				if _, err := eraseNow(j, "gone-1"); err != nil {
					t.Fatal(err)
				}
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if tried < 300 {
			t.Errorf("only %d crashes", tried)
		}
	}
}

// damages are the ways in which a file is changed. They return nil for a file that
// is removed, and the bytes themselves where they do not apply.
var damages = map[string]func(now, before []byte) []byte{
	"flip half": func(b, _ []byte) []byte { return flip(b, len(b)/2) },
	"flip last": func(b, _ []byte) []byte { return flip(b, len(b)-1) },
	"cut":       func(b, _ []byte) []byte { return b[:max(0, len(b)-1)] },
	"empty":     func(b, _ []byte) []byte { return []byte{} },
	"delete":    func(b, _ []byte) []byte { return nil },
	"older":     func(b, before []byte) []byte { return before },
}

func flip(b []byte, at int) []byte {
	b = slices.Clone(b)
	if at >= 0 && at < len(b) {
		b[at] ^= 0x10
	}
	return b
}

// Every file of a store, damaged in every way: it does not open and the file is
// named, or Verify names it, or nothing is lost. A store that does not open is
// left as it was.
func TestDamageOfEveryFileIsReported(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"closed", "killed"} {
		disk := vfs.NewCrashableMem()
		j := openTest(t, "/data", Options{FS: disk})
		a := begin(t, j, "s-1").append(t, message("%s", incompressible("old")))
		stream(t, j, "s-1", "b", "half ")
		older := contents(t, disk)
		if err := j.db.Flush(); err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			a.append(t, message("%s", incompressible(fmt.Sprint(i))))
		}
		stream(t, j, "s-1", "b", "half a sentence")
		if end == "closed" {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
		now := contents(t, disk)
		for path, was := range now {
			for name, damage := range damages {
				before, ok := older[path]
				if name == "older" && !ok {
					continue
				}
				b := damage(was, before)
				if b != nil && slices.Equal(b, was) {
					continue
				}
				damaged := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
				if b == nil {
					if err := damaged.Remove(path); err != nil {
						t.Fatal(err)
					}
				} else if err := writeFile(damaged, path, b); err != nil {
					t.Fatal(err)
				}
				checkDamaged(t, damaged, end+": "+path+": "+name, path)
			}
		}
	}
}

// checkDamaged opens a damaged store and wants the damage to be named, unless
// nothing is missing.
func checkDamaged(t *testing.T, disk *vfs.MemFS, what, path string) {
	t.Helper()
	before := contents(t, disk)
	name := path[strings.LastIndex(path, "/")+1:]
	for _, open := range []func(string, Options) (*Journal, error){OpenReadOnly, Open} {
		j, err := open("/data", quiet(Options{FS: disk}))
		if err != nil {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%s: the file is not named: %v", what, err)
			}
			after := contents(t, disk)
			delete(after, "/data/db/LOCK")
			delete(before, "/data/db/LOCK")
			// A damaged block of a table is found when it is read.
			if !maps.EqualFunc(after, before, bytes.Equal) && !strings.HasSuffix(name, ".sst") {
				t.Errorf("%s: the refused start has changed the folder", what)
			}
			continue
		}
		report, err := j.Verify(ctx, nil)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		facts, _, rerr := j.Read(ctx, "s-1", chat.Range{})
		blocks := j.OpenBlocks()["s-1"]
		whole := rerr == nil && len(facts) == 42 && len(blocks) == 1 && blocks[0].Text == "half a sentence"
		named := slices.ContainsFunc(report.Damage, func(d Damage) bool { return strings.Contains(d.What, name) })
		if !whole && !named {
			t.Errorf("%s: %d events (%v) and %v are left without a report: %v", what, len(facts), rerr, blocks, report.Damage)
		}
		if err := j.Close(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// contents returns all files of a store.
func contents(t *testing.T, disk vfs.FS) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, folder := range []string{"/data", "/data/db", "/data/previews"} {
		names, err := disk.List(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			path := folder + "/" + name
			if info, err := disk.Stat(path); err != nil || info.IsDir() {
				continue
			}
			b, err := readWhole(disk, path)
			if err != nil {
				t.Fatal(err)
			}
			files[path] = b
		}
	}
	return files
}

// What is missing can be given up, explicitly.
func TestAcceptAfterDamage(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	j := openTest(t, "/data", Options{FS: disk})
	a := begin(t, j, "s-1")
	if err := j.db.Flush(); err != nil {
		t.Fatal(err)
	}
	a.append(t, message("lost"))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for path := range contents(t, disk) {
		if isLog(path) && strings.Contains(path, "/db/") || strings.HasSuffix(path, inventoryFile) {
			if err := disk.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := Open("/data", quiet(Options{FS: disk})); err == nil || !strings.Contains(err.Error(), "--accept") {
		t.Fatalf("%v", err)
	}
	if err := Accept("/data", quiet(Options{FS: disk})); err != nil {
		t.Fatal(err)
	}
	again := openTest(t, "/data", Options{FS: disk})
	resume(t, again, "s-1").append(t, message("goes on"))
	if facts, _, err := again.Read(ctx, "s-1", chat.Range{}); err != nil || len(facts) != 2 {
		t.Errorf("%d facts, %v", len(facts), err)
	}
}
