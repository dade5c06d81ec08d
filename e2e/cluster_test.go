// Three nodes of a cluster, as processes.

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/freeport"
	"github.com/parley-hq/parley/internal/sleep"
)

// nodes are three processes of one cluster.
type nodes struct {
	t     *testing.T
	dir   string
	peers []string
	addrs []string
	all   [3]*process
	ids   [3]string
	token string // "" on open servers
	buses []string
	args  []string    // more of all nodes
	own   [3][]string // more of each node
}

func startNodes(t *testing.T, token string) *nodes {
	t.Helper()
	return startNodesWith(t, token, []string{"off", "off", "off"})
}

// startNodesWith starts nodes with an address of NATS for each.
func startNodesWith(t *testing.T, token string, buses []string) *nodes {
	t.Helper()
	c := newNodes(t, token, buses)
	c.startAll()
	return c
}

func (c *nodes) startAll() {
	c.t.Helper()
	for i := range c.all {
		c.start(i)
	}
	c.ready()
}

// newNodes chooses the addresses of three nodes.
func newNodes(t *testing.T, token string, buses []string) *nodes {
	t.Helper()
	c := &nodes{t: t, dir: t.TempDir(), token: token, buses: buses}
	if err := os.WriteFile(filepath.Join(c.dir, "secret"), []byte("the secret that the nodes of this test share"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c.peers, c.addrs = append(c.peers, freeport.Addr(t)), append(c.addrs, freeport.Addr(t))
	}
	return c
}

func (c *nodes) data(i int) string { return filepath.Join(c.dir, fmt.Sprint("n", i)) }

func (c *nodes) start(i int) {
	c.t.Helper()
	args := []string{"--nats", c.buses[i], "--grace", "1s",
		"--cluster-listen", c.peers[i], "--cluster-peers", strings.Join(c.peers, ","), "--cluster-secret-file", filepath.Join(c.dir, "secret")}
	if c.token != "" {
		args = append(args, "--token", c.token)
	}
	c.all[i] = serveAt(c.t, c.addrs[i], c.data(i), slices.Concat(args, c.args, c.own[i])...)
}

// ready waits until all nodes can read and write.
func (c *nodes) ready() {
	c.t.Helper()
	for i, p := range c.all {
		until(c.t, fmt.Sprintf("node %d is ready", i), func() bool {
			code, _, head := p.probe()
			c.ids[i] = head.Get("Parley-Node")
			return code == http.StatusOK
		})
	}
}

// probe asks a node whether it is ready. The code is 0 if it does not answer: a node that joins its cluster closes connections.
func (p *process) probe() (code int, body string, head http.Header) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 60*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/readyz", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	if err != nil {
		return 0, "", nil
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, "", nil
	}
	return res.StatusCode, string(b), res.Header
}

// until waits; on an idle machine it takes some seconds at most.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !done(); sleep.For(t.Context(), 20*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within three minutes: %s", what)
		}
	}
}

// status returns what a node says of the cluster.
func (c *nodes) status(from int) (st client.Cluster) {
	c.t.Helper()
	code, body, _ := c.all[from].do(call{method: "GET", path: "/parley/v1/cluster", token: c.token})
	if err := json.Unmarshal([]byte(body), &st); code != http.StatusOK || err != nil {
		c.t.Fatal(code, body, err)
	}
	return st
}

// owner returns the number of the node that owns a session.
func (c *nodes) owner(from int, id chat.SessionID) int {
	c.t.Helper()
	st := c.status(from)
	sum := sha256.Sum256([]byte(id))
	for i, name := range c.ids {
		if st.Partitions[int(sum[0])%len(st.Partitions)].Owner == name {
			return i
		}
	}
	return -1
}

// balanced waits until every partition has its usual owner: partition 0 the node with the first address, and so on. A node that is late at the start
// gets its partition later, and while a turn runs in it only after a minute, so a test that counts on its owners waits before its first turn.
func (c *nodes) balanced() {
	c.t.Helper()
	order := slices.Sorted(slices.Values(c.peers))
	until(c.t, "every partition has its usual owner", func() bool {
		for i, p := range c.status(0).Partitions {
			if p.Owner != c.ids[slices.Index(c.peers, order[i%len(order)])] {
				return false
			}
		}
		return true
	})
}

// A client of one node writes, a reader of another node follows, and the node that owns the session is killed in the middle of
// an answer: both notice a pause only.
func TestAConversationGoesOnWhenItsNodeIsKilled(t *testing.T) {
	t.Parallel()
	c := startNodes(t, "the-token-of-this-cluster-0123456789")
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	// A token that one node has issued is valid on the others.
	_, body, _ := c.all[0].do(call{method: "POST", path: "/token/issue", header: map[string]string{"X-API-Key": c.token}})
	var issued struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal([]byte(body), &issued); err != nil || issued.Token == "" {
		t.Fatal(body, err)
	}
	if code, body, _ := c.all[1].do(call{method: "GET", path: "/parley/v1/sessions", token: issued.Token}); code != http.StatusOK {
		t.Errorf("node 1 refuses a token of node 0: %s", body)
	}
	var id chat.SessionID
	writer, reader, owner := 0, 0, 0
	for n := 0; ; n++ { // a session whose owner is neither the writer's node nor the reader's
		id = chat.SessionID(fmt.Sprint("talk-", n))
		if _, err := c.all[0].connect(c.token).Create(ctx, client.NewSession{ID: id, Agent: "demo"}); err != nil {
			t.Fatal(err)
		}
		if owner = c.owner(0, id); owner != 0 {
			writer, reader = 0, 3-owner
			break
		}
	}
	seen := make(chan client.Frame, 10_000)
	go func() {
		defer close(seen)
		for f, err := range c.all[reader].connect(c.token).Watch(ctx, id, client.WatchOptions{}) {
			if err != nil {
				return
			}
			seen <- f
		}
	}()
	say := c.all[writer].connect(c.token)
	if _, err := say.Send(ctx, id, chat.UserMessage{Text: "/stream 300 60"}, "first"); err != nil {
		t.Fatal(err)
	}
	text, resumed := "", false
	killed := false
	for f := range seen {
		if f.Preview != nil {
			if f.Preview.Offset != len(text) {
				t.Fatalf("a piece at %d after %d bytes", f.Preview.Offset, len(text))
			}
			text += f.Preview.Text
			if len(text) > 200 && !killed {
				killed = true
				c.all[owner].kill()
				// A message at once, to a node that has lost the owner.
				go func() { _, _ = say.Send(ctx, id, chat.UserMessage{Text: "second"}, "second") }()
			}
		}
		if f.Event == nil {
			continue
		}
		switch b := f.Event.Body.(type) {
		case chat.TurnResumed:
			resumed = true
		case chat.AgentText:
			if strings.HasPrefix(b.Text, "tok1 ") {
				if !strings.HasPrefix(b.Text, text) || !strings.HasSuffix(b.Text, "tok300") {
					t.Fatalf("%q was shown, %q is stored", text, b.Text)
				}
			} else if b.Text == "You said: second" {
				cancel()
			}
			text = ""
		}
	}
	if !killed || !resumed {
		t.Fatalf("killed: %v, resumed: %v", killed, resumed)
	}
	c.start(owner)
	c.ready()
	var logs [3]string
	for i, p := range c.all {
		until(t, fmt.Sprintf("node %d has the whole conversation", i), func() bool {
			_, logs[i], _ = p.do(call{method: "GET", path: "/parley/v1/sessions/" + string(id) + "/events?limit=1000", token: c.token})
			return strings.Contains(logs[i], "You said: second")
		})
	}
	if logs[0] != logs[1] || logs[1] != logs[2] {
		t.Errorf("the nodes have different logs:\n%s\n%s\n%s", logs[0], logs[1], logs[2])
	}
	if n := strings.Count(logs[0], `"client_id":"second"`); n != 1 {
		t.Errorf("the message that was sent during the kill is stored %d times", n)
	}
}

// A node that is stopped gives its sessions to the others first: no request fails.
func TestNodesAreRestartedOneAfterTheOtherWithoutAnError(t *testing.T) {
	t.Parallel()
	c := startNodes(t, "")
	stop := make(chan struct{})
	failed := make(chan error, 1)
	const writers = 6
	done := make(chan int, writers)
	for w := range writers {
		// Each writer talks to a node that is not stopped while it writes: it asks the others when its own is away.
		id := chat.SessionID(fmt.Sprint("w-", w))
		if _, err := c.all[0].connect("").Create(t.Context(), client.NewSession{ID: id, Agent: "none"}); err != nil {
			t.Fatal(err)
		}
		cl := connect(t, "http://"+c.addrs[0], "")
		go func() {
			n := 0
			defer func() { done <- n }()
			for ; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := cl.Send(t.Context(), id, chat.UserMessage{Text: fmt.Sprint(n)}, fmt.Sprint("c", n)); err != nil {
					select {
					case failed <- err:
					default:
					}
					return
				}
			}
		}()
	}
	for _, i := range []int{1, 2} {
		if code := c.all[i].terminate(); code != 0 {
			t.Errorf("node %d ended with %d", i, code)
		}
		c.start(i)
		c.ready()
	}
	close(stop)
	total := 0
	for range writers {
		total += <-done
	}
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
	if total < writers {
		t.Fatalf("only %d messages were written", total)
	}
	for w := range writers {
		var logs [3]string
		for i, p := range c.all {
			_, logs[i], _ = p.do(call{method: "GET", path: fmt.Sprintf("/parley/v1/sessions/w-%d/events?limit=1000&order=desc", w)})
		}
		until(t, "the nodes have the same events", func() bool {
			for i, p := range c.all {
				_, logs[i], _ = p.do(call{method: "GET", path: fmt.Sprintf("/parley/v1/sessions/w-%d/events?limit=1000&order=desc", w)})
			}
			return logs[0] == logs[1] && logs[1] == logs[2]
		})
	}
}
