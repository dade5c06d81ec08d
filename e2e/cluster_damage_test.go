// Damage in a cluster of three processes.

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// onePerPartition creates a session in each partition.
func (c *nodes) onePerPartition(ctx context.Context) (ids [3]chat.SessionID) {
	c.t.Helper()
	for n, found := 0, 0; found < len(ids); n++ {
		id := chat.SessionID(fmt.Sprint("part-", n))
		sum := sha256.Sum256([]byte(id))
		if p := int(sum[0]) % len(ids); ids[p] == "" {
			ids[p] = id
			found++
			if _, err := c.all[0].connect(c.token).Create(ctx, client.NewSession{ID: id, Agent: chat.NoAgent}); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	return ids
}

// write sends messages to each session through a node, one after the other for each session.
func (c *nodes) write(ctx context.Context, node int, ids [3]chat.SessionID, count int, text string) {
	c.t.Helper()
	var tasks sync.WaitGroup
	for _, id := range ids {
		cl := c.all[node].connect(c.token)
		tasks.Go(func() {
			for n := range count {
				name := fmt.Sprint(text, " ", n)
				if _, err := cl.Send(ctx, id, chat.UserMessage{Text: name}, name); err != nil {
					c.t.Errorf("%s to %s: %v", name, id, err)
					return
				}
			}
		})
	}
	tasks.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
}

// stopAll ends all nodes at the same time.
func (c *nodes) stopAll() {
	c.t.Helper()
	var tasks sync.WaitGroup
	for i, p := range c.all {
		tasks.Go(func() {
			if code := p.terminate(); code != 0 {
				c.t.Errorf("node %d ended with %d: %s", i, code, p.err)
			}
		})
	}
	tasks.Wait()
}

// same waits until parley cluster verify finds no difference between three nodes.
func (c *nodes) same() {
	c.t.Helper()
	text := ""
	for end := time.Now().Add(3 * time.Minute); ; {
		code, out, errs := command(c.t, "cluster", "verify", "--url", c.all[0].url)
		if text = out + errs; code == 0 {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("the nodes differ: %s", text)
		}
	}
}

// metric returns the line of a metric of a node that begins with a text.
func (c *nodes) metric(i int, name string) string {
	for line := range strings.Lines(c.all[i].get("/metrics")) {
		if strings.HasPrefix(line, name) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// JetStream of all nodes goes back to an older state, as disks do that have acknowledged what they had not stored. The nodes have
// stored more: they refuse writes until parley cluster repair, and lose nothing.
func TestLogsThatHaveLostFramesAreRepaired(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	c := startNodes(t, "")
	ids := c.onePerPartition(ctx)
	c.write(ctx, 0, ids, 3, "before")
	if code, out, text := command(t, "cluster", "repair", "--url", c.all[1].url); code != 0 || !strings.Contains(out, "nothing to repair") {
		t.Errorf("repair of a cluster without damage: %d %s %s", code, out, text)
	}
	c.stopAll()
	for i := range c.all {
		if err := os.CopyFS(filepath.Join(c.dir, fmt.Sprint("old", i)), os.DirFS(filepath.Join(c.data(i), "nats"))); err != nil {
			t.Fatal(err)
		}
	}
	c.startAll()
	c.write(ctx, 0, ids, 150, "lost") // more frames than the nodes append while they find out
	c.stopAll()
	for i := range c.all {
		if err := os.RemoveAll(filepath.Join(c.data(i), "nats")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(c.dir, fmt.Sprint("old", i)), filepath.Join(c.data(i), "nats")); err != nil {
			t.Fatal(err)
		}
	}
	for i := range c.all {
		c.start(i)
	}
	for i, p := range c.all {
		until(t, fmt.Sprintf("node %d says that its logs are too short", i), func() bool {
			code, body, _ := p.probe()
			return code == http.StatusServiceUnavailable && strings.Contains(body, "parley cluster repair")
		})
	}
	for i, p := range c.all {
		if got := p.get("/parley/v1/sessions/" + string(ids[i]) + "/events?limit=1000"); !strings.Contains(got, `"lost 149"`) {
			t.Errorf("node %d cannot read what it has: %s", i, tail(got))
		}
	}
	until(t, "all partitions are halted at all nodes", func() bool {
		for _, p := range c.all {
			if _, state, _ := command(t, "cluster", "status", "--url", p.url); strings.Count(state, "accepts no writes") != 3 {
				return false
			}
		}
		return true
	})
	code, body, _ := c.all[0].do(call{method: "POST", path: "/parley/v1/sessions/" + string(ids[0]) + "/events", body: `{"type":"user.message","payload":{"text":"refused"}}`})
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "accepts no writes") {
		t.Errorf("a write while the log is too short: %d %s", code, body)
	}
	code, out, text := command(t, "cluster", "repair", "--url", c.all[1].url)
	if code == 0 || !strings.Contains(text, "--yes") || strings.Count(out, "A new log begins after that position") != 3 || strings.Count(out, "nothing is lost") != 3 {
		t.Fatalf("the plan of the repair: %d %s %s", code, out, text)
	}
	if code, out, text = command(t, "cluster", "repair", "--url", c.all[1].url, "--yes"); code != 0 {
		t.Fatalf("the repair: %d %s %s", code, out, text)
	}
	c.ready()
	c.write(ctx, 2, ids, 3, "after")
	c.same()
	for i, p := range c.all {
		for _, id := range ids {
			got := p.get("/parley/v1/sessions/" + string(id) + "/events?limit=1000")
			if strings.Count(got, `"lost `) != 2*150 || !strings.Contains(got, `"after 2"`) || strings.Contains(got, `"refused"`) { // text and client_id
				t.Errorf("node %d has lost something of %s: %d of 300", i, id, strings.Count(got, `"lost `))
			}
		}
	}
	c.stopAll() // the new logs are there after a start
	c.startAll()
	c.write(ctx, 1, ids, 1, "restarted")
	c.same()
}

// flip changes one bit of a text in the files of the log of a node.
func (c *nodes) flip(i int, text string) {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(c.data(i), "nats", "jetstream", "*", "streams", "*", "msgs", "*.blk"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			c.t.Fatal(err)
		}
		if at := bytes.Index(b, []byte(text)); at >= 0 {
			b[at] ^= 1
			if err := os.WriteFile(name, b, 0o600); err != nil {
				c.t.Fatal(err)
			}
			return
		}
	}
	c.t.Fatalf("%q is in none of %v", text, files)
}

// The server that leads the log of a partition has lost frames that another node needs: that node says so, and copies a store.
func TestANodeThatMeetsADamagedLogCopies(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	c := startNodes(t, "")
	ids := c.onePerPartition(ctx)
	c.write(ctx, 0, ids, 3, "before")
	if code := c.all[2].terminate(); code != 0 {
		t.Fatal(code)
	}
	c.write(ctx, 0, ids, 30, "missed")
	if code := c.all[0].terminate(); code != 0 { // a server that was killed restores its frames from the log of Raft
		t.Fatal(code)
	}
	c.all[1].kill()
	c.flip(0, "missed 10")
	c.start(0) // it is ahead of node 2, so it leads the logs
	c.start(2)
	until(t, "node 2 has found the damage", func() bool { return strings.Contains(c.all[2].err.String(), "the log has lost a frame") })
	c.start(1)
	c.ready()
	for _, name := range []string{`parley_cluster_damage_total{in="log"}`, "parley_cluster_copies_total"} {
		until(t, "node 2 has counted it in "+name, func() bool { return strings.HasSuffix(c.metric(2, name), " 1") })
	}
	c.write(ctx, 2, ids, 3, "after")
	c.same()
	for _, id := range ids {
		if got := c.all[2].get("/parley/v1/sessions/" + string(id) + "/events?limit=1000"); strings.Count(got, `"missed `) != 2*30 || !strings.Contains(got, `"after 2"`) {
			t.Errorf("node 2 has lost something of %s", id)
		}
	}
}

// A node loses its disk. Its replacement stores the logs, so that another node can be lost.
func TestANodeWithALostDiskIsReplaced(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	c := startNodes(t, "")
	ids := c.onePerPartition(ctx)
	c.write(ctx, 0, ids, 3, "before")
	c.all[2].kill()
	if err := os.RemoveAll(c.data(2)); err != nil {
		t.Fatal(err)
	}
	old := c.ids[2]
	c.start(2)
	c.ready()
	stored := func() (least int) {
		least = 3
		for _, p := range c.status(0).Partitions {
			least = min(least, p.Stored)
		}
		return least
	}
	until(t, "the lost node does not store the logs", func() bool { return stored() < 3 })
	until(t, "the node is replaced", func() bool { // it is refused until the old one was silent for some seconds
		code, _, text := command(t, "cluster", "replace", old, c.ids[2], "--url", c.all[0].url)
		if code != 0 && !strings.Contains(text, "still there") && !strings.Contains(text, "ready") {
			t.Fatal(text)
		}
		return code == 0
	})
	until(t, "three nodes store the logs", func() bool { return stored() == 3 })
	c.all[0].kill()
	c.write(ctx, 2, ids, 3, "after")
	c.start(0)
	c.ready()
	c.same()
	for i, p := range c.all {
		for _, id := range ids {
			if got := p.get("/parley/v1/sessions/" + string(id) + "/events"); !strings.Contains(got, `"before 2"`) || !strings.Contains(got, `"after 2"`) {
				t.Errorf("node %d has lost something of %s", i, id)
			}
		}
	}
}

// A file of a store is damaged while the node does not use it. The first read that meets the damage makes the node copy the store of
// another one; until then and afterwards no session is lost.
func TestANodeThatReadsDamageCopies(t *testing.T) {
	t.Parallel()
	c := startNodes(t, "")
	c.balanced()
	ids := c.onePerPartition(t.Context())
	cl := c.all[0].connect("")
	for _, id := range ids {
		for n := range 50 {
			if _, err := cl.Send(t.Context(), id, chat.UserMessage{Text: strings.Repeat(fmt.Sprint("text ", n), 400)}, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 { // a start writes what is in the engine's log to tables
		if code := c.all[1].terminate(); code != 0 {
			t.Fatal(code, c.all[1].err)
		}
		c.start(1)
		c.ready()
	}
	c.all[1].kill()
	var largest string
	var size int64
	files, err := filepath.Glob(filepath.Join(c.data(1), "store", "db", "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.Size() > size {
			largest, size = f, info.Size()
		}
	}
	b, err := os.ReadFile(largest)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/3] ^= 4
	if err := os.WriteFile(largest, b, 0o600); err != nil {
		t.Fatal(err)
	}
	c.start(1)
	c.ready()
	until(t, "the node has copied a store", func() bool {
		for _, id := range ids { // the answers of the damaged store are errors, and for a moment there are none
			if res, err := http.Get(c.all[1].url + "/parley/v1/sessions/" + string(id) + "/events?limit=1000"); err == nil {
				res.Body.Close()
			}
		}
		return strings.Contains(c.all[1].err.String(), "the store of another node was copied")
	})
	c.ready()
	c.write(t.Context(), 1, ids, 5, "after the copy")
	c.same()
	if m := c.metric(1, `parley_cluster_damage_total{in="store"}`); !strings.HasSuffix(m, " 1") {
		t.Errorf("the metrics have %q", m)
	}
}
