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
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

func hashOf(data string) string {
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:])
}

// known creates a session and waits until all nodes have it and hear each other.
func (c *testCluster) known() chat.SessionID {
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
func (c *testCluster) put(i int, id chat.SessionID, path, data string) {
	c.t.Helper()
	if _, err := c.members[i].sessions.PutFile(c.t.Context(), ada, id, core.FilePut{Path: path, Body: strings.NewReader(data)}); err != nil {
		c.t.Fatalf("node %d: %v", i, err)
	}
}

// get reads a file at a node; an error is returned as its code.
func (c *testCluster) get(i int, id chat.SessionID, path string) string {
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

// wantFile checks that all nodes read a file.
func (c *testCluster) wantFile(id chat.SessionID, path, want string) {
	c.t.Helper()
	for i := range c.members {
		if got := c.get(i, id, path); got != want {
			c.t.Errorf("node %d: %q, want %q", i, got, want)
		}
	}
}

// awaitFile waits until all nodes read a file, or the code of an error.
func (c *testCluster) awaitFile(id chat.SessionID, path, want string) {
	c.t.Helper()
	for i := range c.members {
		eventually(c.t, want, func() string { return c.get(i, id, path) })
	}
}

// holders returns how many nodes have bytes on their disk.
func (c *testCluster) holders(id chat.SessionID, data string) (n int) {
	for _, m := range c.members {
		if _, err := m.local.Stat(c.t.Context(), id, hashOf(data)); err == nil {
			n++
		}
	}
	return n
}

// onDisk returns how many bytes files a node has for a session.
func (c *testCluster) onDisk(i int) (n int) {
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
	c := newCluster(t)
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
	c := newCluster(t)
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
	c := newCluster(t)
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
	c := newCluster(t)
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
	c := newCluster(t)
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

func TestNodeThatWasDownServesFilesOfThatTime(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
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
	c := newCluster(t)
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
