package artifact

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

var errKilled = errors.New("the process was killed")

// killAt simulates a kill after n steps: every later step fails, also those that clean up.
func killAt(l *Local, n int) {
	l.beforeStep = func() error {
		if n--; n < 0 {
			return errKilled
		}
		return nil
	}
}

// logOf is the log of one path. It survives a kill.
type logOf struct{ sum string }

func (g *logOf) put(l *Local, text string) error {
	_, err := l.Put(context.Background(), "s", "f", "text/plain", strings.NewReader(text), PutOptions{Commit: func(info Info) error {
		if err := l.step(); err != nil { // killed before the log has it
			return err
		}
		g.sum = info.SHA256
		return l.step() // killed after the log has it
	}})
	return err
}

func (g *logOf) remove(l *Local) error {
	return l.Remove(context.Background(), "s", "f", 0, func(Info) error {
		if err := l.step(); err != nil {
			return err
		}
		g.sum = ""
		return l.step()
	})
}

func (g *logOf) has(c core.FileChange) (bool, error) {
	if c.New == nil {
		return g.sum == "", nil
	}
	return g.sum == c.New.SHA256, nil
}

// A change of a file is killed at each of its steps. After the next start the path has the
// complete content that the log names, and nothing else is left.
func TestKilledAtEveryStep(t *testing.T) {
	for name, c := range map[string]struct {
		before string // what the path has; "" for nothing
		do     func(g *logOf, l *Local) error
	}{
		"new":                      {"", func(g *logOf, l *Local) error { return g.put(l, "new") }},
		"overwrite":                {"old", func(g *logOf, l *Local) error { return g.put(l, "new") }},
		"same bytes":               {"old", func(g *logOf, l *Local) error { return g.put(l, "old") }},
		"remove":                   {"old", func(g *logOf, l *Local) error { return g.remove(l) }},
		"bytes of another session": {"old", func(g *logOf, l *Local) error { return g.put(l, "of another session") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := 0; ; n++ {
				dir, g := t.TempDir(), &logOf{}
				l := open(t, dir, Options{})
				put(t, l, "other", "x", "of another session")
				if c.before != "" {
					if err := g.put(l, c.before); err != nil {
						t.Fatal(err)
					}
				}
				killAt(l, n)
				failure := c.do(g, l)
				l = open(t, dir, Options{})
				if err := l.FinishChanges(t.Context(), g.has); err != nil {
					t.Fatal(err)
				}
				info, err := l.Stat(t.Context(), "s", "f")
				if err != nil && chat.CodeOf(err) != chat.NotFound || info.SHA256 != g.sum {
					t.Fatalf("killed at step %d: the log has %q, the store %q, %v", n, g.sum, info.SHA256, err)
				}
				if g.sum != "" {
					get(t, l, "s", "f")
				}
				if report, err := l.Verify(t.Context()); err != nil || len(report.Problems) > 0 {
					t.Fatalf("killed at step %d: %+v %v", n, report, err)
				}
				if left := holds(t, dir+"/"+changesDir, ""); len(left) > 0 {
					t.Fatalf("killed at step %d: left %v", n, left)
				}
				if _, _, err := l.DeleteSession(t.Context(), "s"); err != nil {
					t.Fatal(err)
				}
				for _, text := range []string{"old", "new"} {
					if left := holds(t, dir, text); len(left) > 0 {
						t.Fatalf("killed at step %d: %q is still in %v after the session was erased", n, text, left)
					}
				}
				if failure == nil {
					if n < 5 {
						t.Fatalf("only %d steps", n)
					}
					return
				}
			}
		})
	}
}

// After the next start a copied session has all its files or none, and an erased one has none.
func TestCopyAndEraseKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		dir, forked := t.TempDir(), false
		l := open(t, dir, Options{})
		for i := range 3 {
			put(t, l, "s", fmt.Sprint(i), fmt.Sprint("secret ", i))
		}
		killAt(l, n)
		failure := l.CopySession(context.Background(), "s", "fork", []core.FilePut{{Path: "added", Body: strings.NewReader("secret 3")}}, func() error {
			if err := l.step(); err != nil {
				return err
			}
			forked = true
			return l.step()
		})
		l = open(t, dir, Options{})
		if err := l.FinishChanges(t.Context(), func(core.FileChange) (bool, error) { return forked, nil }); err != nil {
			t.Fatal(err)
		}
		count, _, err := l.Usage(t.Context(), "fork")
		if err != nil || forked && count != 4 || !forked && count != 0 {
			t.Fatalf("killed at step %d: forked %v with %d files, %v", n, forked, count, err)
		}
		if failure == nil {
			break
		}
	}
	for n := 0; ; n++ {
		dir := t.TempDir()
		l := open(t, dir, Options{})
		for i := range 3 {
			put(t, l, "s", fmt.Sprint(i), fmt.Sprint("secret ", i))
		}
		put(t, l, "other", "x", "secret 1, but of another session")
		killAt(l, n)
		_, _, failure := l.DeleteSession(context.Background(), "s")
		l = open(t, dir, Options{})
		if _, _, err := l.DeleteSession(t.Context(), "s"); err != nil { // finishes the erasure
			t.Fatal(err)
		}
		if left := holds(t, dir, "secret "); len(left) != 1 { // the other session's
			t.Fatalf("killed at step %d: left %v", n, left)
		}
		if failure == nil {
			return
		}
	}
}

// An upload that reaches the reserve fails and leaves nothing; the next one is not read.
func TestUploadsStopAtTheDiskReserve(t *testing.T) {
	dir := t.TempDir()
	room := int64(1 << 20)
	full := chat.Errorf(chat.Unavailable, "the reserve is reached")
	l := open(t, dir, Options{Room: func(n int64) error {
		if room -= n; room <= 0 {
			return full
		}
		return nil
	}})
	var sent int64
	_, err := l.Put(t.Context(), "s", "f", "", readFunc(func(p []byte) (int, error) { sent += int64(len(p)); return len(p), nil }), PutOptions{})
	wantCode(t, err, chat.Unavailable)
	if sent > 2<<20 {
		t.Fatalf("%d bytes were taken", sent)
	}
	asked := false
	_, err = l.Put(t.Context(), "s", "f", "", readFunc(func([]byte) (int, error) { asked = true; return 0, nil }), PutOptions{})
	wantCode(t, err, chat.Unavailable)
	if asked || len(tree(t, dir)) > 0 {
		t.Fatal("it was read, or something is left", asked, tree(t, dir))
	}
}
