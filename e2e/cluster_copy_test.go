package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// The folder of a single server becomes a cluster's, is copied to the other nodes, also to one that has lost its disk, and the
// folder of a node becomes a single server's again.
func TestASingleServerBecomesAClusterAndBack(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	c := newNodes(t, "", []string{"off", "off", "off"})
	single := serveAt(t, c.addrs[0], c.data(0), "--nats", "off")
	const sessions = 6
	for n := range sessions {
		id := chat.SessionID(fmt.Sprint("s", n))
		if _, err := single.connect("").Create(ctx, client.NewSession{ID: id, Agent: chat.NoAgent}); err != nil {
			t.Fatal(err)
		}
		if _, err := single.connect("").Send(ctx, id, chat.UserMessage{Text: "before"}, "before"); err != nil {
			t.Fatal(err)
		}
	}
	put := call{method: "PUT", path: "/parley/v1/sessions/s1/artifacts/notes.txt", body: "the notes", header: map[string]string{"Content-Type": "text/plain"}}
	if code, body, _ := single.do(put); code != http.StatusCreated && code != http.StatusOK {
		t.Fatal(code, body)
	}
	if code := single.terminate(); code != 0 {
		t.Fatal(code)
	}
	args := []string{"--cluster-listen", c.peers[0], "--cluster-peers", strings.Join(c.peers, ","), "--nats", "off"}
	if code, _, text := command(t, append([]string{"serve", "--addr", c.addrs[0], "--data", c.data(0)}, args...)...); code == 0 || !strings.Contains(text, "parley cluster init --data") {
		t.Fatalf("a single server's folder in a cluster: %d %s", code, text)
	}
	if code, _, text := command(t, "cluster", "init", "--data", c.data(0)); code != 0 {
		t.Fatal(text)
	}
	if code, _, text := command(t, "serve", "--addr", c.addrs[0], "--data", c.data(0), "--nats", "off"); code == 0 || !strings.Contains(text, "parley cluster leave --data") {
		t.Fatalf("a node's folder without a cluster: %d %s", code, text)
	}
	c.start(1) // the empty ones first: they begin no cluster of their own
	c.start(2)
	until(t, "an empty node waits for the first one", func() bool {
		code, body, _ := c.all[1].probe()
		return code == http.StatusServiceUnavailable && strings.Contains(body, c.peers[0])
	})
	c.start(0)
	c.ready()
	same := func(text string) {
		t.Helper()
		for i, p := range c.all {
			for n := range sessions {
				until(t, fmt.Sprintf("node %d has session %d", i, n), func() bool {
					_, body, _ := p.do(call{method: "GET", path: fmt.Sprintf("/parley/v1/sessions/s%d/events", n)})
					return strings.Contains(body, "before") && strings.Contains(body, text)
				})
			}
			until(t, fmt.Sprintf("node %d has the file", i), func() bool { // once it hears the node that has the bytes
				_, body, _ := p.do(call{method: "GET", path: put.path})
				return body == put.body
			})
		}
	}
	same("before")
	c.all[2].kill()
	if err := os.RemoveAll(c.data(2)); err != nil {
		t.Fatal(err)
	}
	old := c.ids[2]
	for n := range sessions {
		if _, err := c.all[n%2].connect("").Send(ctx, chat.SessionID(fmt.Sprint("s", n)), chat.UserMessage{Text: "after"}, "after"); err != nil {
			t.Fatal(err)
		}
	}
	c.start(2)
	c.ready()
	if c.ids[2] == old {
		t.Error("a node without its disk has the same id")
	}
	same("after")
	if code := c.all[2].terminate(); code != 0 {
		t.Fatal(code)
	}
	if code, _, text := command(t, "cluster", "leave", "--data", c.data(2)); code != 0 {
		t.Fatal(text)
	}
	c.all[2] = serveAt(t, c.addrs[2], c.data(2), "--nats", "off")
	same("after")
	if code, out, text := command(t, "verify", "--url", c.all[2].url); code != 0 || !strings.Contains(out, "all whole") {
		t.Fatal(code, out, text)
	}
}
