// What must not depend on the node of a cluster that a client talks to: workers, sign-in, and clients that know all nodes.

package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// urls are the addresses of all nodes, beginning with one of them.
func (c *nodes) urls(first int) string {
	var all []string
	for i := range c.addrs {
		all = append(all, "http://"+c.addrs[(first+i)%len(c.addrs)])
	}
	return strings.Join(all, ",")
}

// A worker is connected to one node and knows the others. It answers the sessions of all partitions. Its node is killed, and then the
// owner of a session, in the middle of turns: they go on.
func TestWorkerAnswersSessionsOfAllNodes(t *testing.T) {
	t.Parallel()
	c := startNodes(t, "")
	c.balanced()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	const slots = 4
	var mu sync.Mutex
	running, most := 0, 0
	release := make(chan struct{}) // turns with "wait" end when it is closed
	begun := make(chan chat.SessionID, 100)
	answer := agent.Func(func(ctx context.Context, turn *agent.Turn) error {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			running--
		}()
		said := turn.Trigger.Body.(chat.UserMessage).Text
		if strings.HasPrefix(said, "wait") {
			begun <- turn.Ref().Session
			select {
			case <-release:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return turn.Say(ctx, "re "+said)
	})
	home := 1
	worker := connect(t, c.urls(home), "")
	worked := make(chan error, 1)
	go func() { worked <- worker.Work(ctx, "far", client.WorkOptions{Slots: slots}, answer) }()
	for i, p := range c.all {
		until(t, fmt.Sprintf("node %d lists the worker", i), func() bool {
			_, body, _ := p.do(call{method: "GET", path: "/parley/v1/agents"})
			return strings.Contains(body, `"far"`) && strings.Contains(body, `"workers":1`)
		})
	}
	cl := connect(t, c.urls(0), "")
	ask := func(id chat.SessionID, text string) {
		t.Helper()
		if _, err := cl.Create(ctx, client.NewSession{ID: id, Agent: "far"}); err != nil {
			t.Fatal(err)
		}
		if _, err := cl.Send(ctx, id, chat.UserMessage{Text: text}, text); err != nil {
			t.Fatal(err)
		}
	}
	answered := func(id chat.SessionID, text string) {
		t.Helper()
		until(t, fmt.Sprintf("session %s has its answer", id), func() bool {
			texts, ended := 0, false
			for e, err := range cl.Events(ctx, id, client.EventQuery{}) {
				if err != nil {
					return false
				}
				switch b := e.Body.(type) {
				case chat.AgentText:
					if b.Text != "re "+text {
						t.Fatalf("%s: %q", id, b.Text)
					}
					texts++
				case chat.TurnCompleted:
					if ended = true; b.Outcome != chat.Done {
						t.Fatalf("%s ended as %s: %s", id, b.Outcome, b.Error)
					}
				}
			}
			if texts > 1 {
				t.Fatalf("%s has %d answers", id, texts)
			}
			return ended && texts == 1
		})
	}
	for n := range 12 {
		ask(chat.SessionID(fmt.Sprint("quick-", n)), fmt.Sprint("quick ", n))
	}
	for n := range 12 {
		answered(chat.SessionID(fmt.Sprint("quick-", n)), fmt.Sprint("quick ", n))
	}
	// One turn of a session of each node.
	waiting := map[int]chat.SessionID{} // by owner
	for n := 0; len(waiting) < 3; n++ {
		id := chat.SessionID(fmt.Sprint("wait-", n))
		if owner := c.owner(0, id); owner >= 0 && waiting[owner] == "" {
			waiting[owner] = id
			ask(id, fmt.Sprint("wait ", n))
		}
	}
	for range waiting {
		select {
		case <-begun:
		case <-ctx.Done():
			t.Fatal("a turn did not begin")
		}
	}
	// The worker's node is killed; it owns one of the sessions, too.
	c.all[home].kill()
	until(t, "the worker is at another node", func() bool { return !strings.HasSuffix(worker.URL(), c.addrs[home]) })
	until(t, "the sessions of the killed node have an owner", func() bool {
		owner := c.owner(0, waiting[home])
		return owner >= 0 && owner != home
	})
	c.start(home)
	c.ready()
	// The owner of another session is killed.
	lost := waiting[2]
	second := c.owner(0, lost)
	c.all[second].kill()
	until(t, "the sessions of the second killed node have an owner", func() bool {
		i := (second + 1) % 3
		owner := c.owner(i, lost)
		return owner >= 0 && owner != second
	})
	c.start(second)
	c.ready()
	close(release)
	for _, id := range waiting {
		answered(id, strings.Replace(string(id), "-", " ", 1))
	}
	cancel()
	<-worked
	if most > slots {
		t.Errorf("%d turns at once, the worker has %d slots", most, slots)
	}
}

// A client knows three nodes and follows a session. The node that it talks to is killed: it gets every event once, and a message
// that it sends meanwhile is stored once.
func TestClientOfSeveralNodesGoesOnWithTheNext(t *testing.T) {
	t.Parallel()
	c := startNodes(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	const first, messages = 1, 40
	cl, writer := connect(t, c.urls(first), ""), connect(t, c.urls(first), "")
	id := chat.SessionID("followed")
	for n := 0; c.owner(0, id) == first; n++ { // its owner is another node
		id = chat.SessionID(fmt.Sprint("followed-", n))
	}
	if _, err := cl.Create(ctx, client.NewSession{ID: id, Agent: "none"}); err != nil {
		t.Fatal(err)
	}
	sess, err := cl.Get(ctx, id)
	if sum := sha256.Sum256([]byte(id)); err != nil || sess.Partition == nil || *sess.Partition != int(sum[0])%3 {
		t.Errorf("the record of the session does not have its partition: %+v, %v", sess, err)
	}
	failed := make(chan error, 1)
	go func() {
		for n := range messages {
			if n == messages/2 {
				c.all[first].kill()
			}
			if _, err := writer.Send(ctx, id, chat.UserMessage{Text: fmt.Sprint(n)}, fmt.Sprint("c-", n)); err != nil {
				failed <- err
				cancel()
				return
			}
		}
		failed <- nil
	}()
	last := chat.Seq(0)
	var texts []string
	for f, err := range cl.Watch(ctx, id, client.WatchOptions{After: "0"}) {
		if err != nil {
			t.Fatal(err, <-failed)
		}
		if f.Event == nil {
			continue
		}
		if last++; f.Event.Seq != last {
			t.Fatalf("event %d after %d", f.Event.Seq, last-1)
		}
		if m, ok := f.Event.Body.(chat.UserMessage); ok {
			if texts = append(texts, m.Text); len(texts) == messages {
				break
			}
		}
	}
	for n, text := range texts {
		if text != fmt.Sprint(n) {
			t.Fatalf("message %d is %q", n, text)
		}
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(cl.URL(), c.addrs[first]) {
		t.Error("the client is still at the killed node")
	}
}

// A browser signs in at one node and uses the others; a link is used once, though it is opened at two nodes at the same time.
func TestSignInIsValidAtAllNodes(t *testing.T) {
	t.Parallel()
	token := "the-token-of-this-cluster-0123456789"
	c := startNodes(t, token)
	signIn := func(i int) string {
		t.Helper()
		code, body, head := c.all[i].do(call{method: "POST", path: "/auth/session", token: token})
		if code != http.StatusOK {
			t.Fatal(code, body)
		}
		return cookiePair(t, head)
	}
	status := func(i int, cookie string) int {
		code, _, _ := c.all[i].do(call{method: "GET", path: "/parley/v1/sessions", header: map[string]string{"Cookie": cookie, "X-Parley-Request": "1"}})
		return code
	}
	cookie, other := signIn(0), signIn(0)
	for i := range c.all {
		if code := status(i, cookie); code != http.StatusOK {
			t.Errorf("node %d answers a cookie of node 0 with %d", i, code)
		}
	}
	if code, body, _ := c.all[1].do(call{method: "DELETE", path: "/auth/session", header: map[string]string{"Cookie": cookie}}); code != http.StatusNoContent {
		t.Fatal(code, body)
	}
	for i := range c.all {
		until(t, fmt.Sprintf("node %d has signed the browser out", i), func() bool { return status(i, cookie) == http.StatusUnauthorized })
		if code := status(i, other); code != http.StatusOK {
			t.Errorf("node %d answers the other browser with %d", i, code)
		}
	}
	// A node that starts again still knows both.
	c.all[2].kill()
	c.start(2)
	c.ready()
	if out, in := status(2, cookie), status(2, other); out != http.StatusUnauthorized || in != http.StatusOK {
		t.Errorf("after a restart: %d and %d", out, in)
	}

	printed := regexp.MustCompile(`Sign in once with http://[^/]*(/\S+)`).FindStringSubmatch(c.all[0].out.String())
	if printed == nil {
		t.Fatalf("node 0 printed no link: %s", c.all[0].out)
	}
	link := printed[1]
	stay := &http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer stay.CloseIdleConnections()
	var wg sync.WaitGroup
	codes := make([]int, 12)
	cookies := make([]string, len(codes))
	for i := range codes {
		wg.Go(func() {
			var head http.Header
			codes[i], _, head = c.all[i%3].do(call{method: "GET", path: link, client: stay})
			if codes[i] == http.StatusSeeOther {
				cookies[i] = cookiePair(t, head)
			}
		})
	}
	wg.Wait()
	signedIn := 0
	for i, code := range codes {
		switch code {
		case http.StatusSeeOther:
			if signedIn++; status((i+1)%3, cookies[i]) != http.StatusOK {
				t.Error("the cookie of the link is not valid at the next node")
			}
		case http.StatusUnauthorized, http.StatusTooManyRequests:
		default:
			t.Errorf("the link is answered with %d", code)
		}
	}
	if signedIn != 1 {
		t.Errorf("the link signed %d browsers in", signedIn)
	}
}

// cookiePair returns the cookie that a response sets.
func cookiePair(t *testing.T, head http.Header) string {
	t.Helper()
	pair, _, _ := strings.Cut(head.Get("Set-Cookie"), ";")
	if !strings.HasPrefix(pair, "parley_session=") {
		t.Errorf("no cookie: %v", head)
	}
	return pair
}
