package node

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

func TestReplacedAndRemovedFilesDisappearOnAllNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.known()
	for n := range 3 {
		c.put(n, id, "a", fmt.Sprint("data ", n))
		c.awaitFile(id, "a", fmt.Sprint("data ", n))
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
	c := newCluster(t)
	id := c.known()
	c.put(0, id, "a", "secret")
	c.wantFile(id, "a", "secret")
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
	c := newCluster(t)
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
func (c *testCluster) sameSize(id chat.SessionID) {
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
	c := newCluster(t)
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
	c.awaitFile(id, "a", won[0])
}

func TestForkHasItsFilesAtEveryNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
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
		data := make([]byte, 40<<10)
		edit := &chat.UserMessage{Content: []chat.Part{{Type: "file", URL: "data:text/plain;base64," + base64.StdEncoding.EncodeToString(data)}}}
		edited, err := m.sessions.Fork(t.Context(), ada, id, chat.Fork{Message: edit})
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		for k := range c.members {
			eventually(t, "true", func() string {
				return fmt.Sprint(c.get(k, edited.ID, "uploads/"+hex.EncodeToString(sum[:12])+".txt") == string(data))
			})
		}
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
	c := newCluster(t)
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
	c := newCluster(t)
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
	c.wantFile(id, "a", "first")
	eventually(t, "1", func() string { return fmt.Sprint(c.onDisk(1)) })
	c.sameSize(id)
}
