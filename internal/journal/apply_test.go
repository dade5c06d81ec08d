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
	"pgregory.net/rapid"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// A random history on one journal, and the same as frames of three partitions on another
// one, give equal stores: all keys, and what is cached of them.
func TestApplyGivesTheSameStoreAsTheMethods(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		open := func(fs vfs.FS) *Journal {
			j, err := Open("/data", quiet(Options{FS: fs}))
			if err != nil {
				rt.Fatal(err)
			}
			return j
		}
		owner := open(vfs.NewMem())
		defer func() { owner.Close() }()
		disk := vfs.NewMem()
		copied := open(disk)
		defer func() { copied.Close() }()
		h := newHistory(rt, owner)
		var waiting [3]struct {
			changes []Change
			refused []bool
		}
		frames := 0
		apply := func(p uint16) {
			w := &waiting[p]
			frames++
			refused, err := copied.Apply(&Frame{Partition: p, Copy: frameNumber(frames), Changes: w.changes})
			if err != nil {
				rt.Fatal(err)
			}
			for i, err := range refused {
				if a, ok := w.changes[i].(*AliasChange); ok && h.gone[a.Session] {
					continue // the erasure may have come first
				}
				if (err != nil) != w.refused[i] {
					rt.Fatalf("%T %+v: %v", w.changes[i], w.changes[i], err)
				}
				if e, ok := w.changes[i].(*EraseChange); ok {
					if err := copied.FinishErase(ctx, e.Erasure); err != nil {
						rt.Fatal(err)
					}
				}
			}
			w.changes, w.refused = nil, nil
			if got, err := copied.Copies(ctx); err != nil || !bytes.Equal(got[p], frameNumber(frames)) {
				rt.Fatal(got, err)
			}
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			changes, refused := h.step()
			for _, c := range changes {
				w := &waiting[partitionOf(c)]
				w.changes, w.refused = append(w.changes, sent(t, c)), append(w.refused, refused)
				if rapid.IntRange(0, 3).Draw(rt, "frame") == 0 {
					apply(partitionOf(c))
				}
			}
			if rapid.IntRange(0, 9).Draw(rt, "restart") == 0 {
				if err := copied.Close(); err != nil {
					rt.Fatal(err)
				}
				copied = open(disk)
			}
		}
		for _, p := range rand.Perm(3) {
			apply(uint16(p))
		}
		sameStores(t, dump(t, copied), dump(t, owner))
		for id := range h.authors {
			if err := checkLog(ctx, copied, id); err != nil {
				rt.Fatal(err)
			}
		}
		for _, workspace := range []string{"w1", "w2", ""} {
			actor := chat.Actor{Kind: chat.User, ID: "ann"}
			a, wa, err1 := owner.Stored(ctx, workspace, actor)
			b, wb, err2 := copied.Stored(ctx, workspace, actor)
			if a != b || wa != wb || err1 != nil || err2 != nil {
				rt.Fatal(workspace, a, b, wa, wb, err1, err2)
			}
			if a, b := pages(t, owner, core.Filter{Workspace: workspace}), pages(t, copied, core.Filter{Workspace: workspace}); !slices.Equal(a, b) {
				rt.Fatalf("%v and %v are listed", a, b)
			}
		}
		if report, err := copied.Verify(ctx, nil); err != nil || report.Found != 0 || int(report.Sessions) != len(h.authors) {
			rt.Fatalf("%+v, %v", report, err)
		}
	})
}

// A crash before any write leaves the frames up to one of them, and Copies says which.
func TestCrashLeavesWholeFrames(t *testing.T) {
	t.Parallel()
	frames := exampleFrames(t)
	// What the store has after each frame, by the copies of the partitions.
	states, place := map[string]map[string]string{}, map[string]int{}
	key := func(j *Journal) string {
		copies, err := j.Copies(ctx)
		if err != nil {
			t.Error(err)
		}
		return fmt.Sprint(copies)
	}
	disk := vfs.NewCrashableMem()
	s := &snapshots{disk: disk, rng: rand.New(rand.NewPCG(3, 4))}
	j := openTest(t, "/data", Options{FS: vfs.NewMem()})
	states[key(j)] = dump(t, j)
	for i, f := range frames {
		applyFrame(t, j, f)
		states[key(j)], place[key(j)] = dump(t, j), i+1
	}
	if len(states) != len(frames)+1 {
		t.Fatalf("%d states of %d frames", len(states), len(frames))
	}
	tried, reached := 0, map[string]bool{}
	s.take = func(fs *vfs.MemFS, kind string, synced uint64) {
		tried++
		j, err := Open("/data", quiet(Options{FS: fs}))
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			return
		}
		defer j.Close()
		at := key(j)
		want, ok := states[at]
		if !ok {
			t.Errorf("%s: the copies are at no frame: %s", kind, at)
			return
		}
		reached[at] = true
		if got := dump(t, j); !maps.Equal(got, want) {
			t.Errorf("%s: the data and the copies differ at %s", kind, at)
		}
		if place[at] < int(synced) {
			t.Errorf("%s: %d frames are left, %d were synced", kind, place[at], synced)
		}
		if report, err := j.Verify(ctx, nil); err != nil || report.Found > 0 {
			t.Errorf("%s: %+v, %v", kind, report, err)
		}
	}
	j = openTest(t, "/data", Options{FS: errorfs.Wrap(disk, s)})
	for i, f := range frames {
		applyFrame(t, j, f)
		switch i % 4 {
		case 1, 2:
			if err := j.Sync(); err != nil {
				t.Fatal(err)
			}
			s.ack(chat.Seq(i + 1))
		case 3:
			if i%8 == 7 {
				if err := j.db.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if tried < 50 || len(reached) < len(frames)/3 {
		t.Errorf("%d crashes left %d of %d states", tried, len(reached), len(frames))
	}
}

// exampleFrames returns frames of two partitions with changes of all kinds.
func exampleFrames(t *testing.T) (frames []*Frame) {
	j := openTest(t, "/made", Options{FS: vfs.NewMem()})
	n := 0
	add := func(p uint16, changes ...Change) {
		n++
		frames = append(frames, &Frame{Partition: p, Copy: frameNumber(n), Changes: changes})
	}
	commit := func(a *author, bodies ...chat.Body) Change {
		c := must(a.build(bodies...))(t)
		a.State = a.next
		return sent(t, &CommitChange{Commit: c})
	}
	one, two := must(newAuthor(j, "s-1"))(t), must(newAuthor(j, "s-2"))(t)
	add(0, commit(one, chat.SessionStarted{Agent: "demo"}), commit(one, message("hello")))
	add(1, commit(two, chat.SessionStarted{Agent: "demo"}))
	for i := range 8 {
		add(0, commit(one, message("%d", i), chat.AgentInputRequest{RequestID: fmt.Sprint("r-", i), InputType: chat.InputText, Text: "?", Deadline: epoch}),
			commit(one, chat.UserInputResponse{RequestID: fmt.Sprint("r-", i), Text: "!"}))
		add(1, commit(two, message("%s", strings.Repeat("x", 3000))), &FilesChange{"s-2", []chat.FileInfo{{Path: fmt.Sprint(i % 3), Size: int64(i * 100), SHA256: "ab"}}, false})
	}
	ghost := must(newAuthor(j, "s-3"))(t)
	whole := must(ghost.build(chat.SessionStarted{Agent: "demo"}, message("one"), message("two")))(t)
	first, rest := cutImport(&ImportChange{whole, ImportEnd}, 1)
	second, third := cutImport(rest, 1)
	add(1, first, &AliasChange{Alias: AliasIDOf("w", "a", "f"), Session: "s-1"})
	add(1, second)
	add(1, third)
	add(0, &EraseChange{core.Erasure{Number: one.State.Number, Receipt: chat.Receipt{Session: "s-1", ErasedAt: epoch}}})
	return frames
}

func applyFrame(t testing.TB, j *Journal, f *Frame) {
	t.Helper()
	refused, err := j.Apply(f)
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range refused {
		if err != nil {
			t.Fatalf("%T: %v", f.Changes[i], err)
		}
	}
}

// A change that does not fit is left out; the rest of its frame is stored.
func TestApplyRefusesWhatDoesNotFit(t *testing.T) { onEachStore(t, testApplyRefusesWhatDoesNotFit) }

func testApplyRefusesWhatDoesNotFit(t *testing.T, j *Journal) {
	a := begin(t, j, "s-1").append(t, message("two"))
	stale := &CommitChange{Commit: must(a.build(message("stale")))(t)}
	a.append(t, message("three"))
	broken := &CommitChange{Commit: must(a.build(message("broken")))(t)}
	broken.Events[0].Prev[0] ^= 1
	good := &CommitChange{Commit: must(a.build(message("four")))(t)}
	twice := &CommitChange{Commit: must(must(newAuthor(j, "s-2"))(t).build(chat.SessionStarted{Agent: chat.NoAgent}))(t)}
	lost := &CommitChange{Commit: must(a.build(message("x")))(t)}
	lost.Session = "s-none"
	eraseOther := &EraseChange{core.Erasure{Number: 7, Receipt: chat.Receipt{Session: "s-1"}}}
	_, orphan := cutImport(&ImportChange{must(must(newAuthor(j, "s-3"))(t).build(chat.SessionStarted{Agent: chat.NoAgent}, message("x")))(t), ImportEnd}, 1)
	refused, err := j.Apply(&Frame{Partition: 3, Copy: []byte("c"), Changes: []Change{
		stale, broken, good, good, twice, twice, lost, eraseOther, orphan, &FilesChange{Session: "s-none", Files: []chat.FileInfo{{Path: "a"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []chat.Code{chat.Conflict, chat.Conflict, "", chat.Conflict, "", chat.Conflict, chat.NotFound, chat.Invalid, chat.Conflict, chat.NotFound}
	for i, err := range refused {
		if chat.CodeOf(err) != want[i] {
			t.Errorf("change %d: %v, want %q", i, err, want[i])
		}
	}
	if n := len(readAll(t, j, "s-1")); n != 4 {
		t.Errorf("%d events", n)
	}
	if copies := must(j.Copies(ctx))(t); string(copies[3]) != "c" || len(copies) != 1 {
		t.Errorf("%v", copies)
	}
	if report, err := j.Verify(ctx, nil); err != nil || report.Found > 0 || report.Sessions != 2 {
		t.Fatal(report, err)
	}
}

// An import that frames have begun is continued after a restart. The same of this
// process is removed.
func TestImportOfFramesSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir, Options{})
	ghost := must(newAuthor(j, "s-1"))(t)
	whole := &ImportChange{must(ghost.build(chat.SessionStarted{Agent: "demo"}, message("one"), message("two")))(t), ImportEnd}
	first, rest := cutImport(whole, 2)
	applyFrame(t, j, &Frame{Changes: []Change{sent(t, first)}})
	wantCode(t, second(j.Record(ctx, "s-1")), chat.NotFound)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openTest(t, dir, Options{})
	applyFrame(t, j, &Frame{Changes: []Change{sent(t, rest)}})
	if n := len(readAll(t, j, "s-1")); n != 3 {
		t.Fatalf("%d events", n)
	}
	if err := checkLog(ctx, j, "s-1"); err != nil {
		t.Fatal(err)
	}
}

// Frames of several partitions, commits and readers at the same time.
func TestApplyBesideCommits(t *testing.T) { onEachStore(t, testApplyBesideCommits) }

func testApplyBesideCommits(t *testing.T, j *Journal) {
	const rounds, sessions = 40, 5
	var wg sync.WaitGroup
	for p := range 3 {
		authors := make([]*author, sessions)
		for i := range authors {
			authors[i] = begin(t, j, chat.SessionID(fmt.Sprintf("p-%d-%d", p, i)))
		}
		wg.Go(func() {
			for n := range rounds {
				f := &Frame{Partition: uint16(p), Copy: frameNumber(n)}
				for _, a := range authors {
					c, err := a.build(message("%d", n))
					if err != nil {
						t.Error(err)
						return
					}
					a.State = a.next
					f.Changes = append(f.Changes, &CommitChange{Commit: c})
				}
				if refused, err := j.Apply(f); err != nil || slices.ContainsFunc(refused, func(err error) bool { return err != nil }) {
					t.Error(refused, err)
					return
				}
				for _, a := range authors {
					if rec, err := j.Record(ctx, a.id); err != nil || rec.Last != a.State.Last {
						t.Errorf("%s ends at %d after %d was applied: %v", a.id, rec.Last, a.State.Last, err)
					}
				}
			}
		})
	}
	single := begin(t, j, "single")
	wg.Go(func() {
		for n := range rounds {
			if err := single.try(message("%d", n)); err != nil {
				t.Error(err)
			}
			if _, _, err := j.Stored(ctx, "", single.Actor); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	report, err := j.Verify(ctx, nil)
	if err != nil || report.Found > 0 || report.Events != 3*sessions*(rounds+1)+rounds+1 {
		t.Fatal(report, err)
	}
	of, _, err := j.Stored(ctx, "", single.Actor)
	if err != nil || of != int64(report.Bytes) {
		t.Fatalf("%d bytes are counted of %d, %v", of, report.Bytes, err)
	}
}

// A session that is created under another number while it is imported stays as it is.
func TestImportEndIsRefusedWhenTheSessionExists(t *testing.T) {
	t.Parallel()
	j := openTest(t, "/data", Options{FS: vfs.NewMem()})
	ghost := must(newAuthor(j, "s-1"))(t)
	first, rest := cutImport(&ImportChange{must(ghost.build(chat.SessionStarted{Agent: "demo"}, message("imported")))(t), ImportEnd}, 1)
	applyFrame(t, j, &Frame{Changes: []Change{first}})
	ghost.State.Number = 4711
	applyFrame(t, j, &Frame{Changes: []Change{&CommitChange{Commit: must(ghost.build(chat.SessionStarted{Agent: "demo"}))(t)}}})
	refused, err := j.Apply(&Frame{Changes: []Change{rest, &ImportChange{&core.Commit{Session: "s-1", Number: first.Number}, ImportDrop}}})
	if err != nil || refused[1] != nil {
		t.Fatal(refused, err)
	}
	wantCode(t, refused[0], chat.Conflict)
	if n := len(readAll(t, j, "s-1")); n != 1 {
		t.Fatalf("%d events", n)
	}
	if report, err := j.Verify(ctx, nil); err != nil || report.Found > 0 || report.Sessions != 1 {
		t.Fatal(report, err)
	}
}
