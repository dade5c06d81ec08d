// Tests of the x1 sidecar program.

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/freeport"
	"github.com/parley-hq/parley/internal/sidecar/sidecartest"
	"github.com/parley-hq/parley/internal/sleep"
)

// x1Agent starts an agent that ends with the test.
func x1Agent(t *testing.T, opt sidecartest.Options) *sidecartest.Agent {
	t.Helper()
	a, err := sidecartest.Start(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Kill)
	return a
}

// attachAt starts a sidecar and waits until it is ready.
func attachAt(t *testing.T, listen, session string, p *process, a *sidecartest.Agent, args ...string) *process {
	t.Helper()
	all := []string{"sidecar", session, "--url", p.url, "--stream", a.URL(), "--channel", a.URL(), "--listen", listen}
	s := launch(t, binary, append(all, args...)...)
	late := time.NewTimer(60 * time.Second)
	defer late.Stop()
	for !strings.Contains(s.out.String(), "is ready") {
		select {
		case <-s.out.changed:
		case <-s.done:
			t.Fatalf("the sidecar ended: %v\nstderr: %s", s.failure, s.err)
		case <-late.C:
			t.Fatalf("the sidecar is not ready\nstderr: %s", tail(s.err.String()))
		}
	}
	s.addr, s.url = listen, "http://"+listen
	return s
}

// stored returns the whole log of a session.
func stored(t *testing.T, p *process, session string) (events []chat.Event) {
	t.Helper()
	for after := chat.Seq(0); ; {
		var page struct {
			Events []json.RawMessage `json:"events"`
			More   bool              `json:"more"`
		}
		if err := json.Unmarshal([]byte(p.get(fmt.Sprintf("/parley/v1/sessions/%s/events?after=%d&limit=1000", session, after))), &page); err != nil {
			t.Fatal(err)
		}
		for _, raw := range page.Events {
			e, err := chat.ParseEvent(raw)
			if err != nil {
				t.Fatal(err)
			}
			events, after = append(events, e), e.Seq
		}
		if !page.More {
			return events
		}
	}
}

// column lists a field of all events of a type.
func column(events []chat.Event, typ, name string) (out []string) {
	for _, e := range events {
		var v map[string]any
		if e.Type == typ && json.Unmarshal(e.Payload, &v) == nil {
			out = append(out, fmt.Sprint(v[name]))
		}
	}
	return out
}

// postUntilAccepted posts until the server accepts it, with the same key each time.
func postUntilAccepted(ctx context.Context, url, key, body string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	for ctx.Err() == nil {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			return
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", key)
		if res, err := client.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if res.StatusCode < 300 {
				return
			}
		}
		sleep.For(ctx, 10*time.Millisecond)
	}
}

// TestSidecarSurvivesKills kills the sidecar and the server repeatedly while the agent
// and a person write. Each event is stored once and in order, and every message reaches
// the agent.
func TestSidecarSurvivesKills(t *testing.T) {
	t.Parallel()
	data, addr, bus, listen := t.TempDir(), freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)
	p := serveAt(t, addr, data, "--nats", bus)
	a := x1Agent(t, sidecartest.Options{Memory: 100_000})
	s := attachAt(t, listen, "job", p, a, "--replay", "100000")

	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	writing, stopWriting := context.WithCancel(ctx)
	var wg sync.WaitGroup
	texts, posts, words := 0, 0, 0
	wg.Go(func() { // the agent's stream
		for ; writing.Err() == nil; texts++ {
			a.Say("agent.text", map[string]any{"text": fmt.Sprintf("t%d", texts)})
			if texts%3 == 0 {
				a.Say("agent.status", map[string]any{"message": "always the same"})
			}
			sleep.For(writing, 5*time.Millisecond)
		}
	})
	wg.Go(func() { // its tools
		for ; writing.Err() == nil; posts++ {
			postUntilAccepted(ctx, "http://"+listen+"/event", fmt.Sprint("post", posts), fmt.Sprintf(`{"type":"agent.artifact","payload":{"type":"text","title":"p%d","data":"x"}}`, posts))
			sleep.For(writing, 20*time.Millisecond)
		}
	})
	wg.Go(func() { // a person
		for ; writing.Err() == nil; words++ {
			postUntilAccepted(ctx, "http://"+addr+"/parley/v1/sessions/job/events", "", fmt.Sprintf(`{"type":"user.message","payload":{"text":"w%d"},"client_id":"w%d"}`, words, words))
			sleep.For(writing, 50*time.Millisecond)
		}
	})
	kills := 0
	for i := range 6 {
		sleep.For(t.Context(), time.Duration(100+rand.IntN(400))*time.Millisecond)
		if i%3 != 1 {
			s.kill()
			kills++
		}
		if i%3 != 0 {
			p.kill()
			p = serveAt(t, addr, data, "--nats", bus)
		}
		if i%3 != 1 {
			s = attachAt(t, listen, "job", p, a, "--replay", "100000")
		}
	}
	sleep.For(t.Context(), 200*time.Millisecond)
	stopWriting()
	wg.Wait()
	if ctx.Err() != nil {
		t.Fatal("the test took too long")
	}
	var events []chat.Event
	for end := time.Now().Add(5 * time.Minute); ; {
		events = stored(t, p, "job")
		received, _ := a.Received()
		// The last event of the agent is a text or a state.
		said := len(column(events, "agent.text", "text")) >= texts && len(column(events, "agent.status", "message")) >= (texts+2)/3
		if said && len(received) >= words && len(column(events, "x1.input.delivered", "sequence")) >= words || time.Now().After(end) {
			break
		}
		sleep.For(t.Context(), 20*time.Millisecond)
	}
	want := func(prefix string, n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint(prefix, i))
		}
		return out
	}
	if got := column(events, "agent.text", "text"); !slices.Equal(got, want("t", texts)) {
		t.Errorf("of %d texts are stored %d: %v", texts, len(got), got)
	}
	if got := column(events, "agent.status", "message"); len(got) != (texts+2)/3 {
		t.Errorf("of %d states are stored %d", (texts+2)/3, len(got))
	}
	if got := column(events, "agent.artifact", "title"); !slices.Equal(got, want("p", posts)) {
		t.Errorf("of %d posts are stored %v", posts, got)
	}
	if got := column(events, "user.message", "text"); !slices.Equal(got, want("w", words)) {
		t.Errorf("of %d messages are stored %v", words, got)
	}
	for i, e := range events {
		if e.Seq != chat.Seq(i+1) {
			t.Fatalf("event %d has number %d", i+1, e.Seq)
		}
	}
	received, _ := a.Received()
	var got []string
	for _, h := range received {
		got = append(got, fmt.Sprint(h["text"]))
	}
	if again := len(got) - words; again > kills { // a kill between the call and its record
		t.Errorf("the agent received %d messages twice", again)
	}
	if got = slices.Compact(got); !slices.Equal(got, want("w", words)) {
		t.Errorf("the agent received %v", got)
	}
	t.Logf("%d texts, %d posts and %d messages over %d kills of the sidecar and 4 of the server", texts, posts, words, kills)
}

// TestSidecarProvidersAndChildren: providers, grants and child sessions work through the
// sidecar program.
func TestSidecarProvidersAndChildren(t *testing.T) {
	t.Parallel()
	bus, listen := freeport.Addr(t), freeport.Addr(t)
	p := serve(t, t.TempDir(), "--nats", bus, "--preview-command", "/bin/echo {\"ok\":true,\"url\":\"https://preview.test\"}")
	a := x1Agent(t, sidecartest.Options{})
	s := attachAt(t, listen, "boss", p, a)

	// A second sidecar for the session exits.
	second := launch(t, binary, "sidecar", "boss", "--url", p.url, "--stream", a.URL(), "--channel", a.URL(), "--listen", freeport.Addr(t))
	if code := second.code(60 * time.Second); code != 1 || !strings.Contains(second.err.String(), "has a sidecar already") {
		t.Fatalf("%d %s", code, second.err)
	}

	post := func(path, body string) (int, map[string]any) {
		t.Helper()
		code, raw, _ := s.do(call{method: "POST", path: path, body: body})
		var v map[string]any
		if err := json.Unmarshal([]byte(raw), &v); err != nil {
			t.Fatalf("%s: %d %s", path, code, raw)
		}
		return code, v
	}
	// Without a provider the call fails at once.
	if code, v := post("/calendar/list", `{}`); code != 502 || !strings.Contains(fmt.Sprint(v), "no_provider") {
		t.Fatal(code, v)
	}
	for _, c := range []struct{ path, body, want string }{
		{"/vector/upsert", `{"id":"a","vector":[1,0],"metadata":{"t":1}}`, "id:a"},
		{"/vector/upsert", `{"id":"b","vector":[0,1]}`, "id:b"},
		{"/vector/search", `{"vector":[0.9,0.1],"top_k":1}`, "id:a"},
		{"/graph/write", `{"record_type":"person","data":{"id":"ada","name":"Ada"}}`, "id:ada"},
		{"/graph/write", `{"record_type":"city","data":{"id":"paris"}}`, "id:paris"},
		{"/graph/relate", `{"from":"ada","edge":"lives_in","to":"paris"}`, "ok:true"},
		{"/graph/query", `{"query":"person name=$who ->lives_in","vars":{"who":"Ada"}}`, "id:paris"},
		{"/files/put", `{"path":"notes/a.txt","text":"hello"}`, "size:5"},
		{"/files/get", `{"path":"notes/a.txt"}`, "text:hello"},
	} {
		if code, v := post(c.path, c.body); code != 200 || !strings.Contains(fmt.Sprint(v), c.want) {
			t.Fatal(c.path, code, v)
		}
	}
	if got := p.get("/parley/v1/sessions/boss/artifacts/notes/a.txt"); got != "hello" {
		t.Fatal(got)
	}
	if code, v := post("/files/get", `{"path":"no.txt"}`); code != 404 {
		t.Fatal(code, v)
	}
	// Children need a grant.
	spawn := `{"agent":"demo","prompt":"hello child","tool_use_id":"call-1"}`
	if code, v := post("/spawn", spawn); code != 403 {
		t.Fatal(code, v)
	}
	if _, v := post("/event", `{"type":"session.started","payload":{"agent_id":"boss-agent"}}`); v["sequence"] == nil {
		t.Fatal(v)
	}
	p.post("/api/workspaces/default/grants", `{"agent_id":"boss-agent","grant_type":"spawn","details":{"agent":["demo"]},"scope":"session","session_id":"boss"}`)
	_, v := post("/spawn", spawn)
	_, again := post("/spawn", spawn)
	child, _ := v["session_id"].(string)
	if child == "" || again["session_id"] != child {
		t.Fatal(v, again)
	}
	waitFor(t, func() bool {
		return strings.Contains(p.get("/parley/v1/sessions/"+child+"/events"), "You said: hello child")
	}, "not in time: the child answers")
	if code, v := post("/children/boss/message", `{"text":"x"}`); code != 404 {
		t.Fatal("the child has no parent", code, v)
	}
	if code, v := post("/children/"+child+"/message", `{"text":"more","message_id":"m1"}`); code != 200 {
		t.Fatal(code, v)
	}
	// The child's answer reaches the parent.
	p.post("/parley/v1/sessions/"+child+"/events", `{"type":"agent.message_to_caller","payload":{"text":"I need you"}}`)
	for _, text := range []string{"(demo) has answered: You said: hello child", "(demo) has answered: You said: more", "I need you"} {
		waitFor(t, func() bool {
			received, _ := a.Received()
			return slices.ContainsFunc(received, func(h map[string]any) bool {
				said, _ := h["text"].(string)
				return strings.HasSuffix(said, text) && h["from_session_id"] == child
			})
		}, "not in time: the parent receives "+text)
	}
	if code, v := post("/children/"+child+"/cancel", `{"reason":"enough"}`); code != 200 {
		t.Fatal(code, v)
	}
	if code, raw, _ := s.do(call{path: "/children"}); code != 200 || !strings.Contains(raw, `"completed"`) {
		t.Fatal(code, raw)
	}
	c := connectNATS(t, bus)
	m, err := c.Request("x1.provider.preview.provision", []byte(`{"preview_yaml":"a: b","repo_full_name":"x/y"}`), 20*time.Second)
	if err != nil || !strings.Contains(string(m.Data), "https://preview.test") {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		got := p.get("/parley/v1/x1/audit?session=boss&limit=1000")
		return strings.Contains(got, "/vector/search") && strings.Contains(got, "to_agent")
	}, "not in time: the calls are audited")
	if code := s.terminate(); code != 0 {
		t.Fatalf("it ended with %d: %s", code, s.err)
	}
}

// TestSidecarWithTokens: a person creates the session for an agent; the sidecar attaches
// with the agent's token and does not pass it on.
func TestSidecarWithTokens(t *testing.T) {
	t.Parallel()
	const person, helper = "token-of-a-person-0123456789", "token-of-an-agent-0123456789"
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte(person+" user user:alice\n"+helper+" agent agent:helper\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, t.TempDir(), "--nats", freeport.Addr(t), "--token-file", tokens)
	p.must(call{method: "POST", path: "/parley/v1/sessions", token: person, body: `{"id":"mine","agent":"helper"}`})
	a := x1Agent(t, sidecartest.Options{})
	expectExit(t, 1, []string{"token"}, "sidecar", "mine", "--url", p.url, "--stream", a.URL(), "--channel", a.URL(), "--listen", "127.0.0.1:0")
	expectExit(t, 1, []string{"scope agent"}, "sidecar", "mine", "--url", p.url, "--token", person, "--stream", a.URL(), "--channel", a.URL(), "--listen", "127.0.0.1:0")
	s := attachAt(t, freeport.Addr(t), "mine", p, a, "--token", helper)
	p.must(call{method: "POST", path: "/parley/v1/sessions/mine/events", token: person, body: `{"type":"user.message","payload":{"text":"hello"}}`})
	waitFor(t, func() bool { h, _ := a.Received(); return len(h) == 1 }, "not in time: the agent receives it")
	if h, _ := a.Received(); h[0]["text"] != "hello" || h[0]["sender_id"] != "alice" {
		t.Fatal(h)
	}
	a.Say("agent.text", map[string]any{"text": "hello, Alice"})
	waitFor(t, func() bool {
		return strings.Contains(p.must(call{path: "/parley/v1/sessions/mine/events", token: person}), "hello, Alice")
	}, "not in time: the person receives the answer")
	if got := p.must(call{method: "POST", path: "/parley/v1/sessions/mine/stop", token: person, body: `{"reason":"enough"}`}); !strings.Contains(got, `"stopped":true`) {
		t.Error(got)
	}
	waitFor(t, func() bool { _, stops := a.Signals(); return stops == 1 }, "not in time: the agent gets the stop")
	if code, body, _ := s.do(call{method: "POST", path: "/event", body: `{"type":"agent.status","payload":{"message":"x"}}`, header: map[string]string{"Origin": "https://page.test"}}); code != 403 {
		t.Fatal("a web page was accepted", code, body)
	}
	if text := s.out.String() + s.err.String(); strings.Contains(text, helper) {
		t.Fatal("the token is in its log")
	}
}

// TestSidecarWalkThrough runs the steps of docs/sidecar.md with the agent that it names.
func TestSidecarWalkThrough(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "x1agent")
	if out, err := exec.Command("go", "build", "-o", program, "../examples/x1agent").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p := serve(t, t.TempDir(), "--nats", freeport.Addr(t))
	stream, channel, listen := freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)
	start := func() *process {
		return launch(t, program, "-stream", stream, "-channel", channel, "-sidecar", "http://"+listen)
	}
	agent := start()
	attach := func() *process {
		return launch(t, binary, "sidecar", "my-session", "--url", p.url, "--stream", "http://"+stream, "--channel", "http://"+channel, "--listen", listen)
	}
	side := attach()
	answered := func(text string) {
		t.Helper()
		waitFor(t, func() bool { code, _, _ := p.do(call{path: "/parley/v1/sessions/my-session"}); return code == 200 }, "not in time: the session exists")
		if code, out, errs := command(t, "send", "my-session", text, "--url", p.url); code != 0 {
			t.Fatalf("%d %s %s", code, out, errs)
		}
		waitFor(t, func() bool {
			return strings.Contains(p.get("/parley/v1/sessions/my-session/events?limit=1000"), `"You said: `+text+`"`)
		}, "not in time: it answers "+text)
	}
	answered("one")
	waitFor(t, func() bool { return strings.Contains(p.get("/parley/v1/sessions/my-session"), `"agent_id":"example"`) }, "not in time: the agent is known by its name")
	side.kill()
	side = attach()
	answered("two")
	agent.kill()
	start()
	answered("three")
	if got := column(stored(t, p, "my-session"), "agent.text", "text"); !slices.Equal(got, []string{"You said: one", "You said: two", "You said: three"}) {
		t.Error(got)
	}
	if code := side.terminate(); code != 0 {
		t.Errorf("it ended with %d: %s", code, side.err)
	}
}
