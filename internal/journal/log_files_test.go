package journal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/chat"
)

// killed returns the disk of a store whose process was killed after it wrote so
// many events, the name of its last log file, and what is in it.
func killed(t *testing.T, events int) (disk *vfs.MemFS, log string, stored []byte) {
	t.Helper()
	fs := vfs.NewCrashableMem()
	j := openTest(t, "/data", Options{FS: fs})
	a := begin(t, j, "s-1")
	for i := range events {
		a.append(t, message("%s", incompressible(fmt.Sprint(i))))
	}
	disk = fs.CrashClone(vfs.CrashCloneCfg{})
	names, err := disk.List("/data/db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if isLog(name) {
			log = max(log, name) // the one before may not be removed yet
		}
	}
	if stored, err = readWhole(disk, "/data/db/"+log); err != nil {
		t.Fatal(err)
	}
	return disk, log, stored
}

func rewrite(t *testing.T, disk vfs.FS, log string, b []byte) {
	t.Helper()
	f, err := disk.Create("/data/db/"+log, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// wantReported opens a damaged store both ways and wants the file to be named.
func wantReported(t *testing.T, disk vfs.FS, log string) {
	t.Helper()
	for name, open := range map[string]func(string, Options) (*Journal, error){"to verify": OpenReadOnly, "to serve": Open} {
		j, err := open("/data", quiet(Options{FS: disk}))
		if err == nil {
			report, _ := j.Verify(ctx, nil)
			_ = j.Close()
			t.Errorf("%s: damage was not reported: %+v", name, report)
			continue
		}
		if msg := chat.Public(err).Msg; !strings.Contains(msg, "is damaged") || !strings.Contains(msg, log) {
			t.Errorf("%s: %s", name, msg)
		}
	}
}

// What was stored and cannot be read any more is not taken for the end of the
// log, wherever in the log it is, also in that of a new store.
func TestDamagedLogIsReported(t *testing.T) {
	t.Parallel()
	for _, events := range []int{6, 60} { // less than a block, and several
		for _, share := range []int{1, 30, 60} {
			disk, log, stored := killed(t, events)
			stored[len(stored)*share/100] ^= 0x5a
			rewrite(t, disk, log, stored)
			wantReported(t, disk, log)
		}
	}
}

// What a kill or a power cut leaves at the end of a log is no damage.
func TestIncompleteTailIsNotDamage(t *testing.T) {
	t.Parallel()
	for _, events := range []int{6, 60} {
		for _, cut := range []int{0, 1, 40, 900} {
			disk, log, stored := killed(t, events)
			stored = stored[:len(stored)-cut]
			if cut == 900 {
				stored = append(stored, make([]byte, 1<<16)...) // room that was never written
			}
			rewrite(t, disk, log, stored)
			j, err := Open("/data", quiet(Options{FS: disk}))
			if err != nil {
				t.Fatalf("%d events, %d bytes cut: %v", events, cut, err)
			}
			if err := checkLog(ctx, j, "s-1"); err != nil {
				t.Error(err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A log that another one follows ends where it was closed.
func TestShortenedOlderLogIsReported(t *testing.T) {
	t.Parallel()
	disk, log, stored := killed(t, 6)
	rewrite(t, disk, log, stored[:len(stored)-40])
	rewrite(t, disk, "000099.log", nil)
	wantReported(t, disk, log)
}
