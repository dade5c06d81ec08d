//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-hq/parley/internal/journal"
)

// The disk of a node fills up to its reserve: the node gives its partitions to the others, which go on, and gets them back when
// there is room again.
func TestANodeWithAFullDiskHandsItsPartitionsOver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	c := newNodes(t, "", []string{"off", "off", "off"})
	free, err := journal.Free(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	const room = 2 << 30 // more than other programs use during the test
	c.own[0] = []string{fmt.Sprint("--min-free=", free-room)}
	c.startAll()
	owns := func() (n int) {
		for _, p := range c.status(1).Partitions {
			if p.Owner == c.ids[0] {
				n++
			}
		}
		return n
	}
	until(t, "node 0 owns a partition", func() bool { return owns() > 0 })
	ids := c.onePerPartition(ctx)
	c.write(ctx, 0, ids, 3, "before")
	filler := filepath.Join(c.dir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, 2*room); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "node 0 owns nothing", func() bool { return owns() == 0 })
	c.write(ctx, 1, ids, 3, "full")
	if _, out, _ := command(t, "cluster", "status", "--url", c.all[1].url); !strings.Contains(out, c.ids[0]+": it owns no partitions: ") {
		t.Errorf("the status does not say why node 0 owns nothing: %s", out)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	until(t, "node 0 owns a partition again", func() bool { return owns() > 0 })
	c.write(ctx, 0, ids, 3, "after")
	c.same()
}
