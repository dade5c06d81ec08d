package journal

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/parley-hq/parley/chat"
)

// faulty breaks operations on the files of the log once it is switched on.
type faulty struct {
	on    atomic.Bool
	kinds map[errorfs.OpKind]bool
	path  string
	err   error
}

func (f *faulty) String() string { return "faulty" }

func (f *faulty) MaybeError(op errorfs.Op) error {
	if f.on.Load() && f.kinds[op.Kind] && strings.Contains(op.Path, f.path) {
		return f.err
	}
	return nil
}

func TestLogFailureIsFinal(t *testing.T) {
	t.Parallel()
	for name, kinds := range map[string]map[errorfs.OpKind]bool{
		"sync":  {errorfs.OpFileSync: true, errorfs.OpFileSyncData: true, errorfs.OpFileSyncTo: true},
		"write": {errorfs.OpFileWrite: true},
	} {
		for cause, err := range map[string]error{"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC} {
			t.Run(name+" "+cause, func(t *testing.T) {
				mem := vfs.NewCrashableMem()
				fault := &faulty{kinds: kinds, path: "/db/", err: err} // the preview file is no log
				var fatal atomic.Int32
				var said atomic.Pointer[error]
				j, err := Open("/data", quiet(Options{FS: errorfs.Wrap(mem, fault), Fatal: func(err error) { fatal.Add(1); said.Store(&err) }}))
				if err != nil {
					t.Fatal(err)
				}
				const writers = 8
				authors := make([]*author, writers)
				for i := range authors {
					authors[i] = begin(t, j, chat.SessionID("s-"+string(rune('a'+i)))).append(t, message("safe"))
				}
				fault.on.Store(true)
				var wg sync.WaitGroup
				for _, a := range authors {
					wg.Go(func() {
						for range 3 {
							if err := a.try(message("lost")); chat.CodeOf(err) != chat.Unavailable {
								t.Errorf("a commit that is not on disk gave %v", err)
							}
						}
					})
				}
				wg.Wait()
				if fatal.Load() != 1 {
					t.Fatalf("Fatal was called %d times", fatal.Load())
				}
				if msg := (*said.Load()).Error(); !strings.Contains(msg, "/data") || !errors.Is(*said.Load(), fault.err) {
					t.Fatalf("Fatal got %q", msg)
				}
				fault.on.Store(false) // a disk that recovers does not bring the log back
				if err := authors[0].try(message("later")); chat.CodeOf(err) != chat.Unavailable {
					t.Fatal(err)
				}
				// Readers never see what was not acknowledged.
				for i := range authors {
					id := chat.SessionID("s-" + string(rune('a'+i)))
					if facts, _, err := j.Read(ctx, id, chat.Range{}); err != nil || len(facts) != 2 {
						t.Fatalf("%s: %d events, %v", id, len(facts), err)
					}
				}
				clone := mem.CrashClone(vfs.CrashCloneCfg{})
				j.Close() // says what is wrong, and does not hang
				checkAfterCut(t, clone, nil)
				again := openTest(t, "/data", Options{FS: clone})
				if err := checkLog(ctx, again, "s-a"); err != nil {
					t.Fatal(err)
				}
				resume(t, again, "s-a").append(t, message("goes on"))
			})
		}
	}
}

func TestLowSpace(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 100 << 30, TotalBytes: 1000 << 30})
	j, err := Open("/data", Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	a := begin(t, j, "s-1")
	begin(t, j, "s-2")
	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 49 << 30, TotalBytes: 1000 << 30})
	j.checkSpace()
	err = a.try(message("no room"))
	if chat.CodeOf(err) != chat.Unavailable || !strings.Contains(chat.Public(err).Msg, "51200 MiB") {
		t.Fatal(err)
	}
	piece := []chat.Preview{{Block: "b", Text: "x", End: 1}}
	if err := writePreviews(j, "s-1", piece); chat.CodeOf(err) != chat.Unavailable {
		t.Fatal(err)
	}
	if err := checkLog(ctx, j, "s-1"); err != nil { // reads go on
		t.Fatal(err)
	}
	if _, err := eraseNow(j, "s-2"); err != nil { // so does what makes room
		t.Fatal(err)
	}
	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 51 << 30, TotalBytes: 1000 << 30})
	j.checkSpace()
	a.append(t, message("room again"))
	if err := writePreviews(j, "s-1", piece); err != nil {
		t.Fatal(err)
	}
	// A small disk is held to the absolute bound.
	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1<<30 - 1, TotalBytes: 2 << 30})
	j.checkSpace()
	if err := a.try(message("no room")); chat.CodeOf(err) != chat.Unavailable {
		t.Fatal(err)
	}
}

// A burst fills a small disk within a second: the reserve is looked at meanwhile.
func TestLowSpaceIsNoticedInABurst(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 2 << 30, TotalBytes: 4 << 30})
	j, err := Open("/data", Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	a := begin(t, j, "s-1")
	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1<<30 - 1, TotalBytes: 4 << 30})
	big, taken := strings.Repeat("x", 300<<10), 0
	for taken < 10 && err == nil {
		if err = a.try(message("%s", big)); err == nil {
			taken++
		}
	}
	if chat.CodeOf(err) != chat.Unavailable || taken != 4 {
		t.Errorf("%d pieces of 300 KiB were taken: %v", taken, err)
	}
}

func TestOpenErrorsNameTheCause(t *testing.T) {
	t.Parallel()
	want := func(err error, code chat.Code, word string) {
		t.Helper()
		if chat.CodeOf(err) != code || !strings.Contains(chat.Public(err).Msg, word) {
			t.Errorf("got %v, want code %s and %q", err, code, word)
		}
	}
	dir := t.TempDir()
	openTest(t, dir, Options{})
	_, err := Open(dir, quiet(Options{}))
	want(err, chat.Unavailable, "in use by another process")
	for version, word := range map[byte]string{formatVersion + 1: "newer version", formatVersion - 1: "export its sessions with that version"} {
		other := t.TempDir()
		j := openTest(t, other, Options{})
		if err := j.db.Set([]byte{kFormat}, []byte{version}, nil); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		for _, open := range []func(string, Options) (*Journal, error){Open, OpenReadOnly} {
			_, err = open(other, quiet(Options{}))
			want(err, chat.Unavailable, word)
		}
	}
	_, err = OpenReadOnly(t.TempDir(), quiet(Options{}))
	want(err, chat.NotFound, "no store")

	mem := vfs.NewMem()
	if err := writeFile(mem, "/file", []byte("x")); err != nil {
		t.Fatal(err)
	}
	_, err = Open("/file", quiet(Options{FS: mem}))
	want(err, chat.Invalid, "is a file")
	for cause, word := range map[syscall.Errno]string{syscall.EROFS: "cannot be written", syscall.EACCES: "cannot be written", syscall.ENOSPC: "full"} {
		fault := &faulty{kinds: map[errorfs.OpKind]bool{errorfs.OpCreate: true, errorfs.OpMkdirAll: true}, err: cause}
		fault.on.Store(true)
		_, err = Open("/data", quiet(Options{FS: errorfs.Wrap(vfs.NewMem(), fault)}))
		want(err, chat.Unavailable, word)
	}
	if _, err := Open(dir, Options{Sync: 9, Interval: -1, CacheBytes: -1, MinFreePercent: 100}); err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("all problems at once: %v", err)
	}
}

// A start that cannot write its tables ends with the reason; a later one finds
// everything that was acknowledged.
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	j, err := Open("/data", quiet(Options{FS: mem}))
	if err != nil {
		t.Fatal(err)
	}
	begin(t, j, "s-1").append(t, message("safe"))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	fault := &faulty{kinds: map[errorfs.OpKind]bool{errorfs.OpFileWrite: true}, path: ".sst", err: syscall.ENOSPC}
	fault.on.Store(true)
	if _, err := Open("/data", quiet(Options{FS: errorfs.Wrap(mem, fault)})); chat.CodeOf(err) != chat.Unavailable || !strings.Contains(err.Error(), "full") {
		t.Fatalf("on a full disk: %v", err)
	}
	fault.on.Store(false)
	for {
		j, err = Open("/data", quiet(Options{FS: mem}))
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), "in use") { // by the first start, which still ends
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	defer j.Close()
	facts, _, err := j.Read(t.Context(), "s-1", chat.Range{})
	if err != nil || len(facts) != 2 {
		t.Errorf("%d facts, %v", len(facts), err)
	}
}
