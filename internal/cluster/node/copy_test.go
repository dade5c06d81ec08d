package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/cluster/clustertest"
)

// sends makes nodes send their stores.
func sends(t *testing.T) func(*Options) {
	dir := t.TempDir()
	return func(o *Options) { o.Folder, o.FolderPrefix = dir, "sent-" }
}

// receiver returns a transport of a process that has no store yet.
func (c *testCluster) receiver(name string) *clustertest.Port {
	c.t.Helper()
	p := c.net.Port(name, c.log.View(name))
	stop, err := p.Listen(partitions, func([]byte, func([]byte)) {}, func([]byte) {})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(stop)
	return p
}

func TestANodeWithoutAStoreGetsThatOfAnotherNode(t *testing.T) {
	t.Parallel()
	var folder string
	c := newClusterWith(t, func(o *Options) {
		sends(t)(o)
		folder = o.Folder
	})
	id := c.session(0)
	lost := 3 - c.owner(id) // neither 0 nor the owner
	c.say(0, id, 20)
	c.stop(lost)
	for part := range partitions { // the log alone cannot make the copy any more
		if _, last := c.ends(part); c.log.View("trim").Trim(t.Context(), part, last) != nil {
			t.Fatal("the log cannot be trimmed")
		}
	}
	// What is written while the store is copied is not missing.
	writing := make(chan error, 1)
	go func() {
		var err error
		for range 50 {
			if _, err = c.members[0].sessions.Append(t.Context(), ada, id, []chat.Draft{text("meanwhile")}); err != nil {
				break
			}
		}
		writing <- err
	}()
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	var done, total int64
	if err := FetchStore(t.Context(), c.receiver("new"), "n0", store, func(n int64) error { total = n; return nil }, func(n, _ int64) { done = n }); err != nil {
		t.Fatal(err)
	}
	if done == 0 || done != total {
		t.Errorf("%d of %d bytes", done, total)
	}
	c.start(lost, dir)
	if err := <-writing; err != nil {
		t.Fatal(err)
	}
	want := c.texts(0, id)
	if strings.Count(want, "meanwhile") != 50 {
		t.Fatal(want)
	}
	eventually(t, want, func() string { return c.texts(lost, id) })
	eventually(t, "0 left", func() string {
		left, err := os.ReadDir(folder)
		if err != nil || len(left) > 0 {
			return "some left"
		}
		return "0 left"
	})
}

func TestAStoreIsNotFetchedWhenTheDiskHasNoRoomOrTheNodeRefuses(t *testing.T) {
	t.Parallel()
	refuse := errors.New("not enough room")
	c := newClusterWith(t, sends(t))
	p := c.receiver("new")
	if err := FetchStore(t.Context(), p, "n0", t.TempDir(), func(int64) error { return refuse }, nil); !errors.Is(err, refuse) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := FetchStore(ctx, p, "n0", t.TempDir(), nil, func(int64, int64) { cancel() }); err == nil {
		t.Error("an interrupted copy is said to be complete")
	}
	c.members[1].opt.MaySend = func() error { return chat.Errorf(chat.Unavailable, "its store is damaged") }
	if err := FetchStore(t.Context(), p, "n1", t.TempDir(), nil, nil); err == nil || !strings.Contains(err.Error(), "its store is damaged") {
		t.Error(err)
	}
	if err := FetchStore(t.Context(), p, "nobody", t.TempDir(), nil, nil); !errors.Is(err, ErrNoNode) {
		t.Error(err)
	}
}

func TestANodeBehindTheTrimEndsWithThatError(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.session(0)
	away := 3 - c.owner(id)
	part := c.members[0].Partition(id)
	c.members[away].port.Cut(true)
	c.say(0, id, 5)
	_, last := c.ends(part)
	if err := c.log.View("trim").Trim(t.Context(), part, last); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	c.members[away].mu.Lock()
	c.members[away].failed = func(err error) { ended <- err }
	c.members[away].mu.Unlock()
	c.members[away].port.Cut(false)
	select {
	case err := <-ended:
		if !errors.Is(err, cluster.ErrTrimmed) {
			t.Error(err)
		}
	case <-time.After(limit):
		t.Error("the node goes on without what was trimmed")
	}
}
