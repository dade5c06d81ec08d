// Tests of rate, session and disk limits.

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/freeport"
	"github.com/parley-hq/parley/internal/sleep"
)

// rateLimited reports whether a reply of any dialect is a refusal of the rate limit.
func rateLimited(reply string) bool { return strings.Contains(reply, "too many requests at once") }

// flood sends n frames on one socket and counts the replies that match and those that
// the rate limit refuses.
func (p *process) flood(path string, n int, frame func(i int) string, match func(string) bool) (done, refused int) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	conn, res, err := websocket.Dial(ctx, p.url+path, &websocket.DialOptions{HTTPClient: plain, HTTPHeader: http.Header{"Authorization": {"Bearer " + tokenOf("alice")}}})
	if res != nil && res.StatusCode == http.StatusTooManyRequests { // this request counts too
		sleep.For(ctx, 200*time.Millisecond)
		return p.flood(path, n, frame, match)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 20)
	for i := range n {
		if err := conn.Write(ctx, websocket.MessageText, []byte(frame(i))); err != nil {
			p.t.Fatal(err)
		}
	}
	for done+refused < n {
		_, b, err := conn.Read(ctx)
		if err != nil {
			p.t.Fatalf("%s: after %d and %d: %v", path, done, refused, err)
		}
		switch {
		case rateLimited(string(b)):
			refused++
		case match(string(b)):
			done++
		}
	}
	return done, refused
}

// TestFramesCountTowardsRateLimit: frames on the sockets of every dialect and messages
// on NATS count as requests.
func TestFramesCountTowardsRateLimit(t *testing.T) {
	bus := freeport.Addr(t)
	p := serveWithTokens(t, "--rate", "5", "--nats", bus)
	const n = 200
	few := func(what string, done, refused int) {
		t.Helper()
		if done > n/4 || refused == 0 {
			t.Errorf("%s: %d were accepted and %d refused at 5 a second", what, done, refused)
		}
	}
	done, refused := p.flood("/parley/v1/ws", n, func(i int) string {
		return fmt.Sprintf(`{"op":"append","id":%d,"session":"hers","events":[{"type":"user.message","payload":{"text":"%d"}}]}`, i, i)
	}, func(s string) bool { return strings.Contains(s, `"op":"ok"`) || strings.Contains(s, `"op":"error"`) })
	few("native", done, refused)
	// Accepted answers fail, because there is no such conversation: an answer that is stored gets no reply.
	done, refused = p.flood("/websocket", n, func(i int) string {
		return fmt.Sprintf(`{"type":"user_interaction_message","id":"m%d","conversation_id":"none","parent_id":"nothing","content":{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}}`, i)
	}, func(s string) bool { return strings.Contains(s, `"error_message"`) })
	few("NeMo", done, refused)
	done, refused = p.flood("/api/v1/workflows/runs/hers/hers/ws", n, func(int) string { return `{"type":"ping"}` }, func(s string) bool { return strings.Contains(s, `"pong"`) })
	few("Vertesia", done, refused)

	var cred x1.Credential
	for { // this request counts too
		code, body, _ := p.do(call{method: "POST", path: "/parley/v1/sessions/hers/credentials", token: tokenOf("alice"), body: `{}`})
		if code == http.StatusTooManyRequests {
			sleep.For(t.Context(), 200*time.Millisecond)
			continue
		}
		if err := json.Unmarshal([]byte(body), &cred); err != nil || code != 200 && code != 201 {
			t.Fatalf("%d %s: %v", code, body, err)
		}
		break
	}
	c := connectNATS(t, bus, credentialOf(cred, make(chan error, n))...)
	replies := make([]*nats.Subscription, 40)
	for i := range replies {
		inbox := c.NewInbox()
		sub, err := c.SubscribeSync(inbox)
		if err == nil {
			err = c.PublishRequest("x1.session.hers.input", inbox, fmt.Appendf(nil, `{"session_id":"hers","type":"user.message","client_id":"n%d","payload":{"text":"%d"}}`, i, i))
		}
		if err != nil {
			t.Fatal(err)
		}
		replies[i] = sub
	}
	done, refused = 0, 0
	for _, sub := range replies {
		m, err := sub.NextMsg(time.Minute)
		switch {
		case err != nil:
			t.Fatal(err)
		case rateLimited(string(m.Data)):
			refused++
		default:
			done++
		}
	}
	if refused == 0 {
		t.Errorf("NATS: all %d were accepted at 5 a second", done)
	}
	metrics := p.must(call{path: "/metrics", token: tokenOf("root")})
	if !strings.Contains(metrics, `parley_refused_total{limit="rate"}`) {
		t.Error("the metrics do not count refused frames")
	}
}

// TestWorkerIsThrottledNotRefused: the rate limit delays the events of a worker and
// refuses none, because a turn needs them.
func TestWorkerIsThrottledNotRefused(t *testing.T) {
	p := serveWithTokens(t, "--rate", "20")
	bob := tokenOf("bob")
	p.must(call{method: "POST", path: "/parley/v1/sessions", token: bob, body: `{"id":"job","agent":"robot"}`})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const n = 100 // five seconds at this rate; a burst saves two
	begun, answered := time.Now(), make(chan error, 1)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() {
		_ = p.connect(tokenOf("robot")).Work(ctx, "robot", client.WorkOptions{}, agent.Func(func(ctx context.Context, turn *agent.Turn) (err error) {
			for range n {
				if err == nil {
					err = turn.Say(ctx, "hello")
				}
			}
			answered <- err
			return err
		}))
	})
	p.must(call{method: "POST", path: "/parley/v1/sessions/job/events", token: bob, body: `{"type":"user.message","payload":{"text":"go"}}`})
	select {
	case err := <-answered:
		if took := time.Since(begun); err != nil || took < 2*time.Second {
			t.Errorf("%d events after %s: %v", n, took, err)
		}
	case <-ctx.Done():
		t.Error("no answer")
	}
}

// TestExpensiveRoutesNeedTheHeader: a link in a message cannot start expensive work,
// because a browser follows it without the header that these routes need.
func TestExpensiveRoutesNeedTheHeader(t *testing.T) {
	p := serve(t, t.TempDir(), "--nats", freeport.Addr(t))
	p.post("/parley/v1/sessions", `{"id":"s","agent":"none"}`)
	for _, path := range []string{"/parley/v1/backup", "/parley/v1/verify", "/parley/v1/sessions/s/export", "/parley/v1/audit"} {
		for _, site := range []string{"", "same-origin", "cross-site"} {
			if code, body, _ := p.do(call{path: path, header: map[string]string{"X-Parley-Request": "", "Sec-Fetch-Site": site}}); code != 403 || !strings.Contains(body, "X-Parley-Request") {
				t.Errorf("%s from %q: %d %.200s", path, site, code, body)
			}
		}
		p.get(path)
	}
}

// TestSessionLimitPerOwner: the limit of sessions per owner is reported in the header,
// the body and the metrics.
func TestSessionLimitPerOwner(t *testing.T) {
	p := serveWithTokens(t, "--max-sessions", "2")
	p.must(call{method: "POST", path: "/parley/v1/sessions", token: tokenOf("alice"), body: `{"id":"second"}`})
	code, body, header := p.do(call{method: "POST", path: "/parley/v1/sessions", token: tokenOf("alice"), body: `{"id":"third"}`})
	if code != http.StatusTooManyRequests || header.Get("Retry-After") == "" || !strings.Contains(body, `"slow_down"`) {
		t.Errorf("%d %s %v", code, body, header)
	}
	if got := p.must(call{path: "/metrics", token: tokenOf("root")}); !strings.Contains(got, `parley_refused_total{limit="sessions"} 1`) {
		t.Error("the metrics do not count the refusal")
	}
	p.must(call{method: "DELETE", path: "/parley/v1/sessions/second", token: tokenOf("alice")})
	p.must(call{method: "POST", path: "/parley/v1/sessions", token: tokenOf("alice"), body: `{"id":"third"}`})
}

// TestWritersShareTheRemainingDisk: while less than twice the reserve is free, files are
// refused and each writer has a share of the rest; other writers continue.
func TestWritersShareTheRemainingDisk(t *testing.T) {
	var disk syscall.Statfs_t
	dir := t.TempDir()
	if err := syscall.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	// The reserve is two thirds of the free space; the rest has many shares.
	reserve := disk.Bavail * uint64(disk.Bsize) / 3 * 2
	file := filepath.Join(dir, "tokens")
	if err := os.WriteFile(file, []byte(tokenOf("alice")+" user alice\n"+tokenOf("bob")+" user bob\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, filepath.Join(dir, "data"), "--token-file", file, "--min-free", fmt.Sprint(reserve), "--disk-shares", fmt.Sprint(reserve>>20))
	for _, who := range []string{"alice", "bob"} {
		p.must(call{method: "POST", path: "/parley/v1/sessions", token: tokenOf(who), body: `{"id":"of-` + who + `","agent":"none"}`})
	}
	say := func(who string) (int, string, http.Header) {
		return p.do(call{method: "POST", path: "/parley/v1/sessions/of-" + who + "/events", token: tokenOf(who), body: `{"type":"user.message","payload":{"text":"` + strings.Repeat("x", 100_000) + `"}}`})
	}
	n := 0
	for code := 0; code != http.StatusTooManyRequests && n < 20; n++ {
		code, _, _ = say("alice")
	}
	if n > 12 {
		t.Errorf("one writer stored %d messages of 100 kB with a share of 1 MiB", n)
	}
	if code, body, _ := say("bob"); code != http.StatusCreated {
		t.Errorf("another writer: %d %s", code, body)
	}
	if code, body, _ := p.do(call{method: "PUT", path: "/parley/v1/sessions/of-bob/artifacts/f", token: tokenOf("bob"), body: "x"}); code != http.StatusServiceUnavailable {
		t.Errorf("a file: %d %s", code, body)
	}
}
