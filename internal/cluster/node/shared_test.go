package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/artifact/s3"
	"github.com/parley-hq/parley/internal/artifact/s3/s3test"
	"github.com/parley-hq/parley/internal/core"
)

// newSharedCluster starts nodes that keep the bytes of files in one S3 service.
func newSharedCluster(t *testing.T) (*testCluster, *s3test.Server) {
	t.Helper()
	server := s3test.Start(t)
	at, err := s3.ParseLocation("s3://"+s3test.Bucket, server.URL, "us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	return newClusterWith(t, func(o *Options) {
		store := s3.New(s3.Options{
			Location: at, Credentials: s3.Static(s3.NewCredentials(s3test.KeyID, s3test.Secret, "")), Cluster: o.Cluster, Received: o.Files,
			Stall: 5 * time.Second, Pause: time.Millisecond, Tries: 2,
		})
		t.Cleanup(store.Close)
		o.Shared, o.Unused, o.Pin = store, time.Second, 200*time.Millisecond
	}), server
}

func objects(server *s3test.Server) func() string {
	return func() string { return fmt.Sprint(len(server.Keys())) }
}

// failing answers the requests of a method with an error.
func failing(method string, status int, code string) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == method {
			s3test.Error(w, status, code)
		}
		return r.Method == method
	}
}

func TestSharedFileIsReadAtAllNodesAndRemovedOnce(t *testing.T) {
	t.Parallel()
	c, server := newSharedCluster(t)
	id := c.known()
	for n := range 3 {
		c.put(n, id, "a", fmt.Sprint("data ", n))
		for i := range c.members {
			eventually(t, fmt.Sprint("data ", n), func() string { return c.get(i, id, "a") })
			if c.onDisk(i) != 0 {
				t.Errorf("node %d has bytes on its disk", i)
			}
		}
	}
	eventually(t, "1", objects(server))
	c.put(0, id, "b", "data 2") // the same bytes
	if err := c.members[2].sessions.RemoveFile(t.Context(), ada, id, "a", ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "1", objects(server))
	c.awaitFile(id, "b", "data 2")
	c.sameSize(id)
}

// A file gets the same bytes again and again at all nodes, while they remove those that it had before.
func TestSharedBytesOfARunningUploadAreNotRemoved(t *testing.T) {
	t.Parallel()
	c, server := newSharedCluster(t)
	id := c.known()
	var all sync.WaitGroup
	for i := range c.members {
		all.Go(func() {
			for range 10 {
				_, err := c.members[i].sessions.PutFile(t.Context(), ada, id, core.FilePut{Path: "a", Body: strings.NewReader("the same bytes")})
				if err != nil {
					t.Error(err)
				}
				if got := c.get(i, id, "a"); got != "the same bytes" {
					t.Errorf("node %d: %q", i, got)
				}
			}
		})
	}
	all.Wait()
	eventually(t, "1", objects(server))
	c.wantFile(id, "a", "the same bytes")
}

func TestSharedFilesOfForksAndMergesAreIndependent(t *testing.T) {
	t.Parallel()
	c, server := newSharedCluster(t)
	id := c.known()
	c.put(0, id, "w/a", "one")
	c.put(1, id, "w/b", "two")
	eventually(t, "one two", func() string { return c.get(2, id, "w/a") + " " + c.get(2, id, "w/b") })
	fork, err := c.members[2].sessions.Fork(t.Context(), ada, id, chat.Fork{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.members[1].Files().Merge(t.Context(), id, []string{"w/"}, "merged/"); err != nil {
			t.Fatal(err)
		}
	}
	if got := objects(server)(); got != "6" {
		t.Errorf("%s objects", got)
	}
	if _, err := c.members[0].sessions.Erase(t.Context(), ada, id); err != nil {
		t.Fatal(err)
	}
	if got := objects(server)(); got != "2" {
		t.Errorf("%s objects after the receipt", got)
	}
	for i := range c.members {
		eventually(t, "one two", func() string { return c.get(i, fork.ID, "w/a") + " " + c.get(i, fork.ID, "w/b") })
	}
}

func TestReceiptOfAnErasureWaitsForTheSharedStore(t *testing.T) {
	t.Parallel()
	c, server := newSharedCluster(t)
	id := c.known()
	c.put(0, id, "a", "secret")
	server.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		s3test.Error(w, http.StatusInternalServerError, "InternalError")
		return true
	})
	_, err := c.members[1].sessions.Erase(t.Context(), ada, id)
	if chat.CodeOf(err) != chat.Unavailable || chat.ReasonOf(err) != chat.EraseUnfinished {
		t.Errorf("%v", err)
	}
	server.Fail(nil)
	eventually(t, "<nil>", func() string {
		_, err := c.members[1].sessions.Erase(t.Context(), ada, id)
		return fmt.Sprint(err)
	})
	if keys := server.Keys(); len(keys) > 0 {
		t.Errorf("%v is left", keys)
	}
}

func TestRefusedAndFailedSharedUploadsLeaveNothing(t *testing.T) {
	t.Parallel()
	c, server := newSharedCluster(t)
	id := c.known()
	c.put(0, id, "a", "first")
	refuse := func(chat.FileInfo) error { return chat.Errorf(chat.Denied, "no") }
	if _, err := c.members[1].Files().Put(t.Context(), id, "a", "", strings.NewReader("second"), core.FileWrite{Commit: refuse}); chat.CodeOf(err) != chat.Denied {
		t.Error(err)
	}
	server.Fail(failing(http.MethodPut, http.StatusServiceUnavailable, "SlowDown"))
	_, err := c.members[2].sessions.PutFile(t.Context(), ada, id, core.FilePut{Path: "a", Body: strings.NewReader("third")})
	if chat.CodeOf(err) != chat.Unavailable {
		t.Error(err)
	}
	server.Fail(nil)
	eventually(t, "1", objects(server))
	c.wantFile(id, "a", "first")
}

// A node is killed when the bytes are stored and their path is not, and when a path is removed and its bytes are not.
func TestKilledNodeRemovesSharedBytesWhenItIsBack(t *testing.T) {
	t.Parallel()
	c, server := newSharedCluster(t)
	id := c.known()
	c.put(0, id, "kept", "kept")
	c.put(1, id, "removed", "removed")
	files := c.members[0].Files()
	// The commit does not come back before the node ends.
	block, reached := make(chan struct{}), make(chan struct{})
	var upload sync.WaitGroup
	upload.Go(func() {
		_, _ = files.Put(context.Background(), id, "new", "", strings.NewReader("new"), core.FileWrite{Commit: func(chat.FileInfo) error {
			close(reached)
			<-block
			return chat.Errorf(chat.Unavailable, "the node was killed")
		}})
	})
	<-reached
	// No node can remove anything any more.
	server.Fail(failing(http.MethodDelete, http.StatusInternalServerError, "InternalError"))
	if err := c.members[1].sessions.RemoveFile(t.Context(), ada, id, "removed", ""); err != nil {
		t.Fatal(err)
	}
	c.awaitFile(id, "removed", string(chat.NotFound))
	var dirs []string
	for i := range c.members {
		dirs = append(dirs, c.members[i].dir)
		c.stop(i)
	}
	close(block)
	upload.Wait()
	if got := objects(server)(); got != "3" {
		t.Errorf("%s objects", got)
	}
	server.Fail(nil)
	for i := range c.members {
		c.start(i, dirs[i])
	}
	c.settle()
	eventually(t, "1", objects(server))
	for i := range c.members {
		eventually(t, "kept", func() string { return c.get(i, id, "kept") })
		eventually(t, "0", func() string {
			notes, err := os.ReadDir(filepath.Join(dirs[i], "artifacts", "blobs"))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err.Error()
			}
			return fmt.Sprint(len(notes))
		})
	}
}
