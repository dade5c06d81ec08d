package artifact

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

var errKilled = errors.New("the process was killed")

// killAt lets the store do n steps and no more, as a kill would: what comes behind,
// cleaning up included, does not happen.
func killAt(l *Local, n int) {
	l.beforeStep = func() error {
		if n--; n < 0 {
			return errKilled
		}
		return nil
	}
}

// logOf is a log of one path: it survives a kill, and knows what was stored.
type logOf struct{ sum string }

func (g *logOf) put(l *Local, text string) error {
	_, err := l.Put(context.Background(), "s", "f", "text/plain", strings.NewReader(text), PutOptions{Commit: func(info Info) error {
		if err := l.step(); err != nil { // the kill may come before the log has it
			return err
		}
		g.sum = info.SHA256
		return l.step() // or after it
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

func (g *logOf) has(c chat.FileChange) (bool, error) {
	if c.New == nil {
		return g.sum == "", nil
	}
	return g.sum == c.New.SHA256, nil
}

// TestKilledAtEveryStep: a change of a file is killed at each of its steps. After the
// next start the path has what the log says, whole, and nothing else is left.
func TestKilledAtEveryStep(t *testing.T) {
	for name, c := range map[string]struct {
		before string // what the path has; "" for nothing
		do     func(g *logOf, l *Local) error
	}{
		"put anew":   {"", func(g *logOf, l *Local) error { return g.put(l, "new") }},
		"put over":   {"old", func(g *logOf, l *Local) error { return g.put(l, "new") }},
		"put again":  {"old", func(g *logOf, l *Local) error { return g.put(l, "old") }},
		"remove":     {"old", func(g *logOf, l *Local) error { return g.remove(l) }},
		"put shared": {"old", func(g *logOf, l *Local) error { return g.put(l, "of another session") }},
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

// TestCopyAndEraseKilledAtEveryStep: a copy of all files for a new session, and the
// end of a session, are whole or not there after the next start.
func TestCopyAndEraseKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		dir, forked := t.TempDir(), false
		l := open(t, dir, Options{})
		for i := range 3 {
			put(t, l, "s", fmt.Sprint(i), fmt.Sprint("secret ", i))
		}
		killAt(l, n)
		failure := l.CopySession(context.Background(), "s", "fork", func() error {
			if err := l.step(); err != nil {
				return err
			}
			forked = true
			return l.step()
		})
		l = open(t, dir, Options{})
		if err := l.FinishChanges(t.Context(), func(chat.FileChange) (bool, error) { return forked, nil }); err != nil {
			t.Fatal(err)
		}
		count, _, err := l.Usage(t.Context(), "fork")
		if err != nil || forked && count != 3 || !forked && count != 0 {
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
		if _, _, err := l.DeleteSession(t.Context(), "s"); err != nil { // the intention is carried out
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

// TestUploadsKeepTheReserve: nothing is written when there is no room, and an upload
// that takes the last of it ends and leaves nothing.
func TestUploadsKeepTheReserve(t *testing.T) {
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
