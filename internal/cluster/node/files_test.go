package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

func hashOf(data string) string {
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:])
}

// known creates a session and waits until all nodes have it and hear each other.
func (c *cell) known() chat.SessionID {
	c.t.Helper()
	sess, _, err := c.members[0].sessions.Create(c.t.Context(), ada, chat.NewSession{Agent: chat.NoAgent})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range c.members {
		eventually(c.t, "2", func() string { return fmt.Sprint(len(m.present())) })
		eventually(c.t, "<nil>", func() string {
			_, err := m.sessions.Get(c.t.Context(), ada, sess.ID)
			return fmt.Sprint(err)
		})
	}
	return sess.ID
}

// put uploads a file at a node.
func (c *cell) put(i int, id chat.SessionID, path, data string) {
	c.t.Helper()
	if _, err := c.members[i].sessions.PutFile(c.t.Context(), ada, id, core.FilePut{Path: path, Body: strings.NewReader(data)}); err != nil {
		c.t.Fatalf("node %d: %v", i, err)
	}
}

// get reads a file at a node; an error is returned as its code.
func (c *cell) get(i int, id chat.SessionID, path string) string {
	c.t.Helper()
	body, _, err := c.members[i].Files().Get(c.t.Context(), id, path)
	if err != nil {
		return string(chat.CodeOf(err))
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	if err != nil {
		return string(chat.CodeOf(err))
	}
	return string(b)
}

// holders returns how many nodes have bytes on their disk.
func (c *cell) holders(id chat.SessionID, data string) (n int) {
	for _, m := range c.members {
		if _, err := m.local.Stat(c.t.Context(), id, hashOf(data)); err == nil {
			n++
		}
	}
	return n
}

// onDisk returns how many bytes files a node has for a session.
func (c *cell) onDisk(i int) (n int) {
	err := filepath.WalkDir(filepath.Join(c.members[i].dir, "artifacts", "sessions"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(d.Name(), "-") {
			n++
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

func TestFileIsOnTwoNodesAndReadAtAll(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	for uploader := range c.members {
		id := c.known()
		data := fmt.Sprint("uploaded at ", uploader)
		c.put(uploader, id, "a/b.txt", data)
		if n := c.holders(id, data); n != 2 {
			t.Errorf("uploaded at %d: %d nodes have the bytes, want 2", uploader, n)
		}
		for i, m := range c.members {
			if got := c.get(i, id, "a/b.txt"); got != data {
				t.Errorf("uploaded at %d, read at %d: %q", uploader, i, got)
			}
			list, _, err := m.Files().List(t.Context(), id, "", "", 0)
			if err != nil || len(list) != 1 || list[0].SHA256 != hashOf(data) || list[0].Path != "a/b.txt" {
				t.Errorf("node %d lists %v %v", i, list, err)
			}
		}
		if n := c.holders(id, data); n != 3 {
			t.Errorf("after all have read it, %d nodes have the bytes", n)
		}
	}
}

func TestLargeAndEmptyFilesAreCopied(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	id := c.known()
	large := strings.Repeat("0123456789abcdef", 5*chunkSize/16) + "end"
	for name, data := range map[string]string{"large": large, "empty": "", "one chunk": large[:chunkSize]} {
		c.put(0, id, name, data)
		for i := range c.members {
			if got := c.get(i, id, name); got != data {
				t.Errorf("%s at node %d: %d bytes, want %d", name, i, len(got), len(data))
			}
		}
	}
}

func TestUploadIsRefusedWithoutASecondNode(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	id := c.known()
	c.put(0, id, "a", "first")
	c.members[1].port.Cut(true)
	c.members[2].port.Cut(true)
	eventually(t, "true", func() string { return fmt.Sprint(len(c.members[0].present()) == 0) })
	_, err := c.members[0].Files().Put(t.Context(), id, "a", "", strings.NewReader("second"), core.FileWrite{Commit: func(chat.FileInfo) error {
		t.Error("the event of a file was stored that is on one node only")
		return nil
	}})
	if chat.CodeOf(err) != chat.Unavailable || !strings.Contains(fmt.Sprint(err), "two nodes") {
		t.Errorf("%v", err)
	}
	if got := c.get(0, id, "a"); got != "first" {
		t.Errorf("%q", got)
	}
}

// The heartbeats of a node that has just failed are still fresh.
func TestUploadGoesToTheNodeThatAnswers(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	id := c.known()
	dead := 1
	if c.owner(id) == dead {
		dead = 2
	}
	c.members[dead].port.Cut(true)
	for n := range 4 {
		data := fmt.Sprint("data ", n)
		c.put(0, id, "a", data)
		if n := c.holders(id, data); n != 2 {
			t.Errorf("%d nodes have the bytes", n)
		}
	}
	c.members[dead].port.Cut(false)
	eventually(t, "data 3", func() string { return c.get(dead, id, "a") })
}

func TestBytesWithAnotherHashAreNotKept(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	id := c.known()
	c.put(0, id, "a", "the right bytes")
	b := blob{id, hashOf("the right bytes")}
	// Damage one of the two copies.
	var third, bad *member
	for _, m := range c.members {
		if _, err := m.local.Stat(t.Context(), id, b.key); err != nil {
			third = m
			continue
		}
		bad = m
	}
	damage(t, bad, "the right bytes", "the wrong bytes")
	if err := third.Files().disk.fetch(t.Context(), b, 15, []string{bad.Name()}); err == nil {
		t.Error("wrong bytes were taken")
	}
	if _, err := third.local.Stat(t.Context(), id, b.key); chat.CodeOf(err) != chat.NotFound {
		t.Errorf("wrong bytes are stored: %v", err)
	}
	for i := range c.members {
		if c.members[i] == third {
			if got := c.get(i, id, "a"); got != "the right bytes" {
				t.Errorf("%q", got)
			}
		}
	}
	// The node with the damaged copy says so once, and then has a good one.
	for i := range c.members {
		if c.members[i] == bad {
			if got := c.get(i, id, "a"); got == "the wrong bytes" {
				t.Error("damaged bytes were served")
			}
			if got := c.get(i, id, "a"); got != "the right bytes" {
				t.Errorf("%q", got)
			}
		}
	}
}

// damage changes bytes on the disk of a node.
func damage(t *testing.T, m *member, was, is string) {
	t.Helper()
	done := false
	err := filepath.WalkDir(filepath.Join(m.dir, "artifacts", "sessions"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, []byte(was)) {
			return err
		}
		done = true
		if err := os.Chmod(path, 0o600); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(is), 0o600)
	})
	if err != nil || !done {
		t.Fatal(done, err)
	}
}

func TestReplacedAndRemovedFilesDisappearOnAllNodes(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	id := c.known()
	for n := range 3 {
		c.put(n, id, "a", fmt.Sprint("data ", n))
		for i := range c.members {
			eventually(t, fmt.Sprint("data ", n), func() string { return c.get(i, id, "a") })
		}
	}
	for i := range c.members {
		eventually(t, "1", func() string { return fmt.Sprint(c.onDisk(i)) })
	}
	// The same bytes under two paths stay until both are removed.
	c.put(0, id, "b", "data 2")
	if err := c.members[2].sessions.RemoveFile(t.Context(), ada, id, "a", ""); err != nil {
		t.Fatal(err)
	}
	for i := range c.members {
		eventually(t, string(chat.NotFound), func() string { return c.get(i, id, "a") })
		if got := c.get(i, id, "b"); got != "data 2" {
			t.Errorf("node %d: %q", i, got)
		}
	}
	if err := c.members[1].sessions.RemoveFile(t.Context(), ada, id, "b", ""); err != nil {
		t.Fatal(err)
	}
	if err := c.members[2].sessions.RemoveFile(t.Context(), ada, id, "b", ""); chat.CodeOf(err) != chat.NotFound {
		t.Errorf("removed twice: %v", err)
	}
	for i := range c.members {
		eventually(t, "0", func() string { return fmt.Sprint(c.onDisk(i)) })
	}
}

func TestErasedFilesDisappearOnAllNodes(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	id := c.known()
	c.put(0, id, "a", "secret")
	for i := range c.members {
		if got := c.get(i, id, "a"); got != "secret" {
			t.Errorf("%q", got)
		}
	}
	receipt, err := c.members[0].sessions.Erase(t.Context(), ada, id)
	if err != nil || receipt.Artifacts != 1 {
		t.Errorf("%+v %v", receipt, err)
	}
	for i := range c.members {
		eventually(t, string(chat.NotFound)+" 0", func() string { return c.get(i, id, "a") + fmt.Sprint(" ", c.onDisk(i)) })
	}
}

func TestReplacementsAtAllNodesHaveTheOrderOfTheLog(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	id := c.known()
	var all sync.WaitGroup
	for i := range c.members {
		all.Go(func() {
			for n := range 10 {
				data := fmt.Sprintf("%d from %d %s", n, i, strings.Repeat("x", n*i*10))
				if _, err := c.members[i].sessions.PutFile(t.Context(), ada, id, core.FilePut{Path: "a", Body: strings.NewReader(data)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	last, size := "", int64(0)
	for e, err := range c.members[c.owner(id)].sessions.Events(t.Context(), ada, id, chat.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := e.Body.(chat.FileUploaded); ok {
			last, size = b.SHA256, b.Size
		}
	}
	for i, m := range c.members {
		eventually(t, last, func() string {
			info, err := m.Files().Stat(t.Context(), id, "a")
			if err != nil {
				return err.Error()
			}
			return info.SHA256
		})
		if got := c.get(i, id, "a"); hashOf(got) != last {
			t.Errorf("node %d has other bytes: %q", i, got)
		}
		// Nodes do not count differently.
		if _, bytes, err := m.Files().Usage(t.Context(), id); err != nil || bytes != size {
			t.Errorf("node %d counts %d bytes, want %d: %v", i, bytes, size, err)
		}
		eventually(t, "1", func() string { return fmt.Sprint(c.onDisk(i)) })
	}
	c.sameSize(id)
}

// sameSize checks that all nodes count the same stored bytes of a session.
func (c *cell) sameSize(id chat.SessionID) {
	c.t.Helper()
	want, err := c.members[c.owner(id)].journal.SizeOf(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range c.members {
		eventually(c.t, fmt.Sprint(want), func() string {
			n, err := m.journal.SizeOf(c.t.Context(), id)
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint(n)
		})
	}
}

func TestOneOfManyFirstUploadsWins(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	id := c.known()
	var mu sync.Mutex
	var won []string
	var all sync.WaitGroup
	for n := range 12 {
		all.Go(func() {
			data := fmt.Sprint("data ", n)
			_, err := c.members[n%3].sessions.PutFile(t.Context(), ada, id, core.FilePut{Path: "a", Body: strings.NewReader(data), IfAbsent: true})
			if err == nil {
				mu.Lock()
				won = append(won, data)
				mu.Unlock()
			} else if chat.CodeOf(err) != chat.Conflict {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Fatalf("%d uploads won", len(won))
	}
	for i := range c.members {
		eventually(t, won[0], func() string { return c.get(i, id, "a") })
	}
}

func TestNodeThatWasDownServesFilesOfThatTime(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	id := c.known()
	c.put(0, id, "old", "before")
	for i := range c.members {
		c.get(i, id, "old")
	}
	dir := c.members[2].dir
	c.stop(2)
	c.settle()
	c.put(0, id, "old", "replaced")
	c.put(1, id, "new", "new")
	c.start(2, dir)
	c.settle()
	eventually(t, "replaced", func() string { return c.get(2, id, "old") })
	eventually(t, "new", func() string { return c.get(2, id, "new") })
	eventually(t, "2", func() string { return fmt.Sprint(c.onDisk(2)) })
	c.sameSize(id)
}

// A disk is lost. The node that replaces it copies the files that were on it, so that they survive the loss of another disk.
func TestFilesAreOnTwoNodesAgainAfterADiskWasLost(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	id, removed := c.known(), c.known()
	for n := range 6 {
		c.put(n%3, id, fmt.Sprint(n), fmt.Sprint("file ", n))
	}
	c.put(0, removed, "a", "of an erased session")
	c.stop(2)
	c.settle()
	if _, err := c.members[0].sessions.Erase(t.Context(), ada, removed); err != nil {
		t.Fatal(err)
	}
	c.start(2, t.TempDir())
	c.settle()
	eventually(t, "6 <nil>", func() string {
		count, err := c.members[2].Files().FetchAll(t.Context())
		return fmt.Sprint(count, " ", err)
	})
	for n := range 6 {
		if got := c.holders(id, fmt.Sprint("file ", n)); got < 2 {
			t.Errorf("file %d is on %d nodes", n, got)
		}
	}
	if got := c.onDisk(2); got != 6 {
		t.Errorf("the new disk has %d files", got)
	}
}

func TestForkHasItsFilesAtEveryNode(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	id := c.known()
	c.put(0, id, "a", "one")
	c.put(1, id, "b/c", "two")
	for i, m := range c.members {
		eventually(t, "one two", func() string { return c.get(i, id, "a") + " " + c.get(i, id, "b/c") })
		fork, err := m.sessions.Fork(t.Context(), ada, id, chat.Fork{})
		if err != nil {
			t.Fatal(err)
		}
		if n := c.holders(fork.ID, "one"); n < 2 {
			t.Errorf("%d nodes have the bytes of the fork", n)
		}
		for k := range c.members {
			eventually(t, "one two", func() string { return c.get(k, fork.ID, "a") + " " + c.get(k, fork.ID, "b/c") })
		}
		c.sameSize(fork.ID)
		// The two are independent.
		if err := c.members[(i+1)%3].sessions.RemoveFile(t.Context(), ada, fork.ID, "a", ""); err != nil {
			t.Error(err)
		}
		if got := c.get(i, id, "a"); got != "one" {
			t.Errorf("%q", got)
		}
	}
}

func TestMergedFilesAreReadAtEveryNode(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	id := c.known()
	c.put(0, id, "w/out/a.csv", "one")
	c.put(1, id, "w/files/a.csv", "two")
	for range 2 { // a merge may be repeated
		paths, err := c.members[2].Files().Merge(t.Context(), id, []string{"w/out/", "w/files/"}, "files/w/")
		if err != nil || strings.Join(paths, " ") != "files/w/a.csv files/w/a-2.csv" {
			t.Fatal(paths, err)
		}
	}
	for i := range c.members {
		eventually(t, "one two", func() string { return c.get(i, id, "files/w/a.csv") + " " + c.get(i, id, "files/w/a-2.csv") })
	}
	c.sameSize(id)
}

func TestRefusedEventLeavesTheFileAsItWas(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	id := c.known()
	c.put(0, id, "a", "first")
	refuse := func(chat.FileInfo) error { return chat.Errorf(chat.Denied, "no") }
	if _, err := c.members[1].Files().Put(t.Context(), id, "a", "", strings.NewReader("second"), core.FileWrite{Commit: refuse}); chat.CodeOf(err) != chat.Denied {
		t.Error(err)
	}
	_, err := c.members[1].Files().Put(t.Context(), id, "a", "", strings.NewReader("third"), core.FileWrite{Commit: func(info chat.FileInfo) error {
		return c.members[1].Files().Named(t.Context(), id, info, func() error { return chat.Errorf(chat.Denied, "no") })
	}})
	if chat.CodeOf(err) != chat.Denied {
		t.Error(err)
	}
	for i := range c.members {
		if got := c.get(i, id, "a"); got != "first" {
			t.Errorf("node %d: %q", i, got)
		}
	}
	eventually(t, "1", func() string { return fmt.Sprint(c.onDisk(1)) })
	c.sameSize(id)
}
