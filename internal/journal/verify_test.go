package journal

import (
	"bytes"
	"context"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parley-hq/parley/chat"
)

func TestVerifyReportsDamage(t *testing.T) {
	t.Parallel()
	var n chat.Number
	event := func(seq chat.Seq) []byte { return seqKey(nil, kEvent, n, seq) }
	for name, c := range map[string]struct {
		damage     func(db *pebble.DB)
		kind, what string
		seq        chat.Seq
		load       bool // Load must refuse it too
	}{
		"nothing": {damage: func(*pebble.DB) {}},
		"flipped byte": {func(db *pebble.DB) {
			v, c, _ := db.Get(event(3))
			w := bytes.Replace(v, []byte("three"), []byte("thrEe"), 1)
			c.Close()
			db.Set(event(3), w, nil)
		}, "event", "does not follow", 4, true},
		"flipped byte in the last": {func(db *pebble.DB) {
			v, c, _ := db.Get(event(7))
			w := bytes.Replace(v, []byte("seven"), []byte("sEven"), 1)
			c.Close()
			db.Set(event(7), w, nil)
		}, "head", "not the one that it refers to", 7, true},
		"no JSON any more": {func(db *pebble.DB) { db.Set(event(3), []byte("{"), nil) }, "event", "unreadable", 3, true},
		"swapped":          {func(db *pebble.DB) { v, c, _ := db.Get(event(4)); db.Set(event(3), v, nil); c.Close() }, "event", "is stored in its place", 3, true},
		"missing event":    {func(db *pebble.DB) { db.Delete(event(3), nil) }, "event", "missing", 3, true},
		"missing first":    {func(db *pebble.DB) { db.Delete(event(1), nil) }, "event", "missing", 1, true},
		"cut tail":         {func(db *pebble.DB) { db.Delete(event(7), nil) }, "event", "ends before the head", 7, true},
		"no head":          {func(db *pebble.DB) { db.Delete(headKey(nil, n), nil) }, "head", "missing", 0, true},
		"behind the head":  {func(db *pebble.DB) { db.Set(event(9), []byte("{}"), nil) }, "event", "after the head", 9, false},
		"wrong record": {func(db *pebble.DB) {
			db.Set(numberKey(nil, kRecord, n), []byte(`{"session_id":"s-1","title":"other"}`), nil)
		}, "record", "differs from the log", 0, false},
		"wrong size": {func(db *pebble.DB) {
			v, c, _ := db.Get(headKey(nil, n))
			p, _ := decodeLogEnd(v)
			c.Close()
			p.bytes++
			db.Set(headKey(nil, n), p.append(nil), nil)
		}, "counter", "the head has", 0, false},
		"wrong counter": {func(db *pebble.DB) {
			db.Merge(accountKey(nil, account{hashOf("default", ""), hashOf("default", "user:ann")}), appendSum(nil, 1), nil)
		}, "counter", "the counter of an owner", 0, false},
		"no record":    {func(db *pebble.DB) { db.Delete(numberKey(nil, kRecord, n), nil) }, "record", "missing", 0, false},
		"no client id": {func(db *pebble.DB) { db.Delete(numberHashKey(nil, kClient, n, hashOf("user:ann", "c-1")), nil) }, "client id", "does not refer", 2, false},
		"orphan client": {func(db *pebble.DB) {
			db.Set(numberHashKey(nil, kClient, n, hashOf("x")), appendClient(nil, 3, 1), nil)
		}, "client id", "with another client id", 3, false},
		"no prompt": {func(db *pebble.DB) { db.Delete(numberHashKey(nil, kPrompt, n, hashOf("r-1")), nil) }, "prompt", "missing", 5, false},
		"orphan prompt": {func(db *pebble.DB) {
			db.Set(numberHashKey(nil, kPrompt, n, hashOf("r-9")), promptValue{}.append(nil), nil)
		}, "prompt", "no prompt", 0, false},
		"no deadline": {func(db *pebble.DB) { db.Delete(deadlineKey(nil, 77, n, hashOf("r-1")), nil) }, "deadline", "missing", 5, false},
		"orphan deadline": {func(db *pebble.DB) {
			db.Set(deadlineKey(nil, 78, n, hashOf("r-1")), nil, nil)
		}, "deadline", "no open prompt", 0, false},
		"not listed": {func(db *pebble.DB) {
			db.Delete(activityKey(nil, hashOf("default", ""), bucketOf(epoch), n), nil)
		}, "list", "missing in a list", 0, false},
		"listed twice":    {func(db *pebble.DB) { db.Set(activityKey(nil, hashOf("default", ""), 5, n), nil, nil) }, "list", "wrong place", 0, false},
		"orphan in lists": {func(db *pebble.DB) { db.Set(activityKey(nil, hashOf("default", ""), 5, n+1), nil, nil) }, "list", "no session", 0, false},
		"working":         {func(db *pebble.DB) { db.Delete(numberKey(nil, kWorking, n), nil) }, "working", "the log gives true", 0, false},
		"bad checkpoint":  {func(db *pebble.DB) { db.Set(seqKey(nil, kState, n, 5), []byte(`{"last":5}`), nil) }, "checkpoint", "differs from the fold", 5, false},
		"no name":         {func(db *pebble.DB) { db.Delete(hashKey(nil, kID, idHash("s-1")), nil) }, "name", "does not refer", 0, false},
		"orphan events":   {func(db *pebble.DB) { db.Set(seqKey(nil, kEvent, n+1, 1), []byte("{}"), nil) }, "event", "no session", 1, false},
		"orphan ends":     {func(db *pebble.DB) { db.Set(seqKey(nil, kEnds, n, 3), appendEnds(nil, nil), nil) }, "block ends", "finishes no block", 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			j := openTest(t, "/data", Options{FS: fs})
			a := begin(t, j, "s-1", chat.SessionStarted{Agent: "demo"})
			a.Key(0, "c-1").append(t, message("two")).append(t, message("three")).append(t, message("four"))
			a.append(t, chat.AgentInputRequest{RequestID: "r-1", InputType: chat.InputText, Text: "?", Deadline: 77})
			a.append(t, message("six")).append(t, message("seven"))
			begin(t, j, "s-2")
			n = a.State.Number
			c.damage(j.db)
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j, err := OpenReadOnly("/data", quiet(Options{FS: fs}))
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			seen := 0
			report, err := j.Verify(ctx, func(p VerifyProgress) { seen++ })
			if err != nil {
				t.Fatal(err)
			}
			if report.Sessions != 2 || seen != 2 {
				t.Errorf("looked at %d sessions, told of %d", report.Sessions, seen)
			}
			if c.kind == "" {
				if report.Found != 0 || report.Events != 8 {
					t.Fatalf("%+v", report)
				}
				return
			}
			named := false
			for _, d := range report.Damage {
				named = named || d.Kind == c.kind && d.Seq == c.seq && strings.Contains(d.String(), c.what)
			}
			if !named {
				t.Errorf("got %v, want %s at %d: %s", report.Damage, c.kind, c.seq, c.what)
			}
			_, err = j.Load(ctx, "s-1")
			if c.load && (chat.CodeOf(err) != chat.Internal || !strings.Contains(err.Error(), "session s-1 is damaged")) {
				t.Errorf("Load gave %v", err)
			}
			if _, err := j.Load(ctx, "s-2"); err != nil {
				t.Errorf("the other session: %v", err)
			}
			if err := resume(t, j, "s-2").try(message("x")); chat.CodeOf(err) != chat.Unavailable {
				t.Errorf("a store that is read only took a commit: %v", err)
			}
		})
	}
}

// A changed bit in a file damages the session it belongs to, not
// the others: the store opens, and Verify names the session and the file.
func TestVerifyReportsADamagedFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir, Options{})
	for _, id := range []chat.SessionID{"s-1", "s-2", "s-3"} {
		a := begin(t, j, id)
		stream(t, j, id, "b", "half") // looked up in the log when the store opens
		for i := range 8 {            // more than a block of the file each
			a.append(t, message("%s", incompressible(fmt.Sprint(id, i))))
		}
	}
	if err := errors.Join(j.db.Flush(), j.Close()); err != nil {
		t.Fatal(err)
	}
	changed := 0
	files, _ := filepath.Glob(filepath.Join(dir, "db", "*.sst"))
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if i := bytes.Index(b, []byte(incompressible("s-23")[:12])); i >= 0 {
			b[i] ^= 1
			changed++
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if changed != 1 {
		t.Fatalf("%d files were changed", changed)
	}
	for _, how := range []struct {
		name string
		open func(string, Options) (*Journal, error)
	}{{"read only", OpenReadOnly}, {"to serve", Open}} {
		name := how.name
		j, err := how.open(dir, quiet(Options{}))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		report, err := j.Verify(ctx, nil)
		if err != nil || report.Sessions != 3 {
			t.Fatalf("%s: %+v, %v", name, report, err)
		}
		if len(report.Damage) == 0 {
			t.Fatalf("%s: no damage is named", name)
		}
		for _, d := range report.Damage {
			if d.Session != "" && d.Session != "s-2" {
				t.Errorf("%s: %v", name, d)
			}
		}
		if d := report.Damage[0]; d.Session != "s-2" || d.Kind != "event" || !strings.Contains(d.What, "file 0") {
			t.Errorf("%s: %v", name, d)
		}
		for _, id := range []chat.SessionID{"s-1", "s-3"} {
			if _, err := j.Load(ctx, id); err != nil {
				t.Errorf("%s: the other session: %v", name, err)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// A file that was cut is found when the store is opened.
	if err := os.Truncate(files[0], 100); err != nil {
		t.Fatal(err)
	}
	_, err := OpenReadOnly(dir, quiet(Options{}))
	if chat.CodeOf(err) != chat.Unavailable || !strings.Contains(chat.Public(err).Msg, "is damaged") {
		t.Fatalf("a store with a cut file: %v", err)
	}
}

// noLockFS is a disk that is mounted read-only.
type noLockFS struct{ vfs.FS }

func (noLockFS) Lock(string) (io.Closer, error) { return nil, syscall.EROFS }

func TestVerifyOnAReadOnlyDisk(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	j := openTest(t, "/data", Options{FS: fs})
	begin(t, j, "s-1")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j, err := OpenReadOnly("/data", quiet(Options{FS: noLockFS{fs}}))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if report, err := j.Verify(ctx, nil); err != nil || report.Sessions != 1 || report.Found != 0 {
		t.Fatal(report, err)
	}
	if _, err := Open("/data", quiet(Options{FS: noLockFS{fs}})); chat.CodeOf(err) != chat.Unavailable {
		t.Fatalf("a store that cannot be written was opened to be written: %v", err)
	}
}

// incompressible is a text of a kilobyte that stands in a file as it is, the
// same in every run.
func incompressible(seed string) string {
	var text strings.Builder
	for i := range 11 {
		for _, b := range sha512.Sum512(fmt.Append(nil, seed, i)) {
			text.WriteRune(0x4e00 + rune(i)<<8 + rune(b))
		}
	}
	return text.String()
}

func TestBackup(t *testing.T) {
	t.Parallel()
	dir, to := t.TempDir(), t.TempDir()
	j := openTest(t, dir, Options{})
	a := begin(t, j, "s-1").append(t, message("two"))
	stream(t, j, "s-1", "b", "half")
	if err := j.Backup(ctx, to); err != nil {
		t.Fatal(err)
	}
	if err := j.Backup(ctx, to); chat.CodeOf(err) != chat.Conflict {
		t.Fatalf("a second backup into the same folder: %v", err)
	}
	a.append(t, message("after the backup"))
	if _, err := os.Stat(to + "/" + backupFile); err != nil {
		t.Fatal(err)
	}
	restored, _ := snapshot(t, to) // a plain copy
	if err := checkLog(ctx, restored, "s-1"); err != nil {
		t.Fatal(err)
	}
	if rec, _ := restored.Record(ctx, "s-1"); rec.Last != 2 {
		t.Fatalf("%+v", rec)
	}
	if blocks := restored.OpenBlocks()["s-1"]; len(blocks) != 1 || blocks[0].Text != "half" {
		t.Fatalf("%+v", blocks)
	}
	if report, err := restored.Verify(ctx, nil); err != nil || report.Found != 0 {
		t.Fatal(report, err)
	}
	resume(t, restored, "s-1").append(t, message("continued"))
}

// Run watches the space and syncs, and ends with its context.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 90 << 30, TotalBytes: 100 << 30})
		j, err := Open("/data", Options{FS: mem, Sync: SyncInterval})
		if err != nil {
			t.Fatal(err)
		}
		run, cancel := context.WithCancel(ctx)
		done := make(chan error)
		go func() { done <- j.Run(run) }()
		a := begin(t, j, "s-1").append(t, message("two"))
		<-time.After(150 * time.Millisecond) // of the bubble's clock: past one interval
		synctest.Wait()
		cut, err := Open("/data", quiet(Options{FS: mem.CrashClone(vfs.CrashCloneCfg{})}))
		if err != nil {
			t.Fatal(err)
		}
		if err := checkLog(ctx, cut, "s-1"); err != nil {
			t.Fatal(err)
		}
		cut.Close()
		mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 20, TotalBytes: 100 << 30})
		<-time.After(1100 * time.Millisecond)
		synctest.Wait()
		if err := a.try(message("x")); chat.CodeOf(err) != chat.Unavailable {
			t.Fatal(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCollectors(t *testing.T) {
	t.Parallel()
	j := openTest(t, "/data", Options{FS: vfs.NewMem()})
	begin(t, j, "s-1").append(t, message("two"), message("three"))
	stream(t, j, "s-1", "b", "abc")
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(j.Collectors()...)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		got[f.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	for name, want := range map[string]float64{"commits_total": 2, "events_total": 3, "preview_writes_total": 1, "writable": 1, "refused_total": 0} {
		if v, ok := got["parley_journal_"+name]; !ok || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	if got["parley_journal_disk_bytes"] <= 0 || got["parley_journal_bytes_total"] <= 0 {
		t.Errorf("%v", got)
	}
}
