package journal

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// doneCommit receives the result of a commit for which nobody waits.
type doneCommit struct {
	err       error
	groupDone chan struct{}
}

func (d *doneCommit) Done(err error) { d.err = err }
func (d *doneCommit) GroupDone()     { close(d.groupDone) }

// Of the commits of a group those that fit are stored, the others are refused. A commit whose
// session is in use does not delay the others.
func TestGroupOfCommits(t *testing.T) {
	t.Parallel()
	j := openTest(t, "/data", Options{FS: vfs.NewMem()})
	const n = 300 // some sessions share a commit lock
	var lead func()
	later := func(c *core.Commit) *doneCommit {
		t.Helper()
		d := &doneCommit{groupDone: make(chan struct{})}
		run, err := j.CommitLater(c, d)
		if err != nil {
			t.Fatal(err)
		}
		if run != nil {
			lead = run
		}
		return d
	}
	build := func(a *author, text string) *core.Commit {
		t.Helper()
		c, err := a.build(chat.UserMessage{Text: text})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var authors []*author
	for i := range n {
		authors = append(authors, begin(t, j, chat.SessionID(fmt.Sprint("s-", i))))
	}
	var good []*doneCommit
	for i, a := range authors {
		good = append(good, later(build(a, fmt.Sprint("text ", i))))
	}
	again := later(build(authors[7], "another text"))
	wrong := build(authors[8], "wrong")
	wrong.Events[0].Prev = chat.Hash{}
	unchained := later(wrong)

	inUse := j.commitLock("s-5")
	inUse.Lock()
	lead()
	select {
	case <-good[5].groupDone:
		t.Error("a commit was stored while its session was in use")
	default:
	}
	for i, d := range good {
		if j.commitLock(authors[i].id) != inUse {
			<-d.groupDone
		}
	}
	inUse.Unlock()
	for i, d := range good {
		if <-d.groupDone; d.err != nil && i != 7 {
			t.Errorf("commit %d: %v", i, d.err)
		}
		if last, _, err := j.Head(authors[i].id, 0); last != 2 || err != nil {
			t.Errorf("session %d ends with %d, %v", i, last, err)
		}
	}
	<-again.groupDone
	if (good[7].err == nil) == (again.err == nil) {
		t.Errorf("two commits that follow the same event: %v and %v", good[7].err, again.err)
	}
	if <-unchained.groupDone; chat.CodeOf(unchained.err) != chat.Conflict {
		t.Errorf("a commit that does not follow: %v", unchained.err)
	}
	var bytes int64
	for _, a := range authors {
		size, err := j.SizeOf(ctx, a.id)
		if err != nil {
			t.Fatal(err)
		}
		bytes += size
	}
	if owner, _, err := j.Stored(ctx, "", authors[0].Actor); owner != bytes || err != nil {
		t.Errorf("the owner has %d bytes, %v; the sessions have %d", owner, err, bytes)
	}
	if j.groups.led || len(j.groups.waiting) != 0 {
		t.Error("the group did not end")
	}
}
