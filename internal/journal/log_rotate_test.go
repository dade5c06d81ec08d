package journal

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/parley-hq/parley/chat"
)

// When the table in memory is full, the log goes on in a new file. A failure to
// begin it is as final as a failed write: what was acknowledged is there after a
// power cut, nothing else is shown, and no call hangs.
func TestRotationFailureIsFinal(t *testing.T) {
	t.Parallel()
	for name, kinds := range map[string]map[errorfs.OpKind]bool{
		"create":      {errorfs.OpCreate: true, errorfs.OpReuseForWrite: true},
		"first write": {errorfs.OpFileWrite: true},
		"folder":      {errorfs.OpFileSync: true},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			fault := &rotation{kinds: kinds}
			var fatal atomic.Int32
			var said atomic.Pointer[error]
			j, err := Open("/data", quiet(Options{FS: errorfs.Wrap(mem, fault), Fatal: func(err error) { fatal.Add(1); said.Store(&err) }}))
			if err != nil {
				t.Fatal(err)
			}
			const writers = 4
			authors, stored := make([]*author, writers), make([]int, writers)
			id := func(i int) chat.SessionID { return chat.SessionID("s-" + string(rune('a'+i))) }
			for i := range authors {
				authors[i], stored[i] = begin(t, j, id(i)), 1
			}
			fault.on.Store(true)
			var wg sync.WaitGroup
			for i, a := range authors {
				wg.Go(func() {
					for range 1000 {
						err := a.try(message("%s", strings.Repeat("x", 64<<10)))
						if err != nil {
							if chat.CodeOf(err) != chat.Unavailable {
								t.Errorf("a commit that is not on disk gave %v", err)
							}
							return
						}
						stored[i]++
					}
					t.Error("the log never had to go on in a new file")
				})
			}
			wg.Wait()
			if fatal.Load() != 1 || !errors.Is(*said.Load(), syscall.EIO) {
				t.Fatalf("Fatal was called %d times", fatal.Load())
			}
			if err := authors[0].try(message("later")); chat.CodeOf(err) != chat.Unavailable {
				t.Fatal(err)
			}
			for i, n := range stored {
				if facts, _, err := j.Read(ctx, id(i), chat.Range{}); err != nil || len(facts) != min(n, 100) {
					t.Errorf("%s shows %d events of %d, %v", id(i), len(facts), n, err)
				}
			}
			clone := mem.CrashClone(vfs.CrashCloneCfg{})
			if err := j.Close(); err == nil {
				t.Error("closing does not say that the log failed")
			}
			again := openTest(t, "/data", Options{FS: clone})
			for i, n := range stored {
				rec, err := again.Record(ctx, id(i))
				if err != nil || int(rec.Last) < n {
					t.Errorf("%s has %d events after the restart, %d were acknowledged, %v", id(i), rec.Last, n, err)
				}
				if err := checkLog(ctx, again, id(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// rotation breaks what happens to log files that are begun after it is switched
// on, and to the folder that must remember them.
type rotation struct {
	on    atomic.Bool
	kinds map[errorfs.OpKind]bool

	mu    sync.Mutex
	begun map[string]bool
}

func (r *rotation) String() string { return "rotation" }

func (r *rotation) MaybeError(op errorfs.Op) error {
	if !r.on.Load() {
		return nil
	}
	log := strings.HasSuffix(op.Path, ".log") && strings.Contains(op.Path, "/db")
	begins := op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpReuseForWrite
	r.mu.Lock()
	defer r.mu.Unlock()
	if log && begins {
		if r.begun == nil {
			r.begun = map[string]bool{}
		}
		r.begun[op.Path] = true
	}
	folder := op.Kind == errorfs.OpFileSync && strings.HasSuffix(op.Path, "/db") && len(r.begun) > 0
	if r.kinds[op.Kind] && (log && r.begun[op.Path] || folder) {
		return syscall.EIO
	}
	return nil
}
