// Tests of x1 with an external NATS server.

package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/freeport"
	"github.com/parley-hq/parley/internal/sidecar/sidecartest"
)

// externalNATS is a NATS server outside of Parley with the configuration of docs/x1.md.
type externalNATS struct {
	t      *testing.T
	config string // the file
	port   int
	server *server.Server
}

func startExternalNATS(t *testing.T) *externalNATS {
	t.Helper()
	doc, err := os.ReadFile("../docs/x1.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), "```conf\n")
	conf, rest, end := strings.Cut(rest, "```")
	_, rest, more := strings.Cut(rest, "```conf\n")
	user, _, last := strings.Cut(rest, "```")
	if !ok || !end || !more || !last {
		t.Fatal("docs/x1.md shows no configuration of a server, or of a user")
	}
	// The user for one session is added to the user for all.
	const all = `{ user: "sidecar", password: "change-me-last" }`
	if !strings.Contains(conf, all) {
		t.Fatal("docs/x1.md has no user for sidecars")
	}
	conf = strings.Replace(conf, all, all+",\n"+user, 1)
	dir := t.TempDir()
	file := filepath.Join(dir, "nats.conf")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(conf, "/var/lib/nats", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	// It is started again on the same port, which must not be one that the system gives to outgoing connections.
	_, port, _ := net.SplitHostPort(freeport.Addr(t))
	o := &externalNATS{t: t, config: file}
	if o.port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	o.start()
	t.Cleanup(o.stop)
	return o
}

func (o *externalNATS) start() {
	o.t.Helper()
	opts, err := server.ProcessConfigFile(o.config)
	if err != nil {
		o.t.Fatal(err)
	}
	opts.Host, opts.Port, opts.NoSigs, opts.NoLog = "127.0.0.1", o.port, true, true
	s, err := server.NewServer(opts)
	if err != nil {
		o.t.Fatal(err)
	}
	o.server = s
	s.Start()
	if !s.ReadyForConnections(60 * time.Second) {
		o.t.Fatal("NATS is not ready")
	}
}

func (o *externalNATS) stop() {
	o.server.Shutdown()
	o.server.WaitForShutdown()
}

func (o *externalNATS) addr() string { return o.server.Addr().String() }

// TestX1WithExternalNATS: with an external NATS, writeConfig as documented, messages of
// people and of older sidecars arrive, and viewers see each event once.
func TestX1WithExternalNATS(t *testing.T) {
	t.Parallel()
	addr := startExternalNATS(t).addr()
	serve(t, t.TempDir(), "--nats", "nats://parley:change-me@"+addr)
	viewer := connectNATS(t, addr, nats.UserInfo("viewer", "change-me-too"))
	sidecar := connectNATS(t, addr, nats.UserInfo("sidecar", "change-me-last"))
	events, input := make(chan *nats.Msg, 256), make(chan *nats.Msg, 256)
	if _, err := viewer.ChanSubscribe("x1.session.*.events", events); err != nil {
		t.Fatal(err)
	}
	if _, err := sidecar.ChanSubscribe("x1.session.pod.input", input); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*nats.Conn{viewer, sidecar} {
		if err := c.FlushTimeout(20 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	next := func(from chan *nats.Msg) chat.Event {
		t.Helper()
		select {
		case m := <-from:
			e, err := chat.ParseEvent(m.Data)
			if err != nil {
				t.Fatalf("%s: %v", m.Data, err)
			}
			return e
		case <-time.After(30 * time.Second):
			t.Fatal("no message")
			return chat.Event{}
		}
	}
	for n, text := range []string{"one", "two"} {
		body := []byte(`{"session_id":"pod","timestamp":"2026-01-01T00:00:00Z","sequence":` + string(rune('0'+n)) + `,"type":"agent.text","payload":{"text":"` + text + `"}}`)
		if _, err := sidecar.Request("x1.session.pod.events", body, 20*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"session.started", "agent.text", "agent.text"} {
		if e := next(events); e.Seq != chat.Seq(i+1) || e.Type != want {
			t.Fatalf("event %d is %s with number %d", i, e.Type, e.Seq)
		}
	}
	if _, err := viewer.Request("x1.session.pod.input", []byte(`{"session_id":"pod","type":"user.message","payload":{"text":"hello"}}`), 20*time.Second); err != nil {
		t.Fatal(err)
	}
	if e := next(input); e.Type != "user.message" || e.Seq != 4 {
		t.Fatalf("the sidecar got %s with number %d", e.Type, e.Seq)
	}
	if e := next(events); e.Type != "user.message" || e.Seq != 4 {
		t.Fatalf("viewers saw %s with number %d", e.Type, e.Seq)
	}
	if len(input)+len(events) > 0 {
		t.Fatal("a message was delivered twice")
	}
}

// TestNATSAddressIsPrintedWhenItIsLate: the server does not wait for a NATS that needs long to answer, and prints its address,
// without the password, when it is there.
func TestNATSAddressIsPrintedWhenItIsLate(t *testing.T) {
	t.Parallel()
	far := startExternalNATS(t).addr()
	near, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan struct{})
	var relay sync.WaitGroup
	relay.Go(func() {
		for {
			in, err := near.Accept()
			if err != nil {
				return
			}
			relay.Go(func() {
				defer in.Close()
				<-answer
				out, err := net.Dial("tcp", far)
				if err != nil {
					return
				}
				defer out.Close()
				relay.Go(func() { _, _ = io.Copy(out, in); out.Close() })
				_, _ = io.Copy(in, out)
			})
		}
	})
	t.Cleanup(func() { near.Close(); relay.Wait() })
	p := launch(t, binary, "serve", "--addr", "127.0.0.1:0", "--data", t.TempDir(), "--min-free=-1", "--min-free-percent=-1", "--nats", "nats://parley:change-me@"+near.Addr().String())
	waitFor(t, func() bool { return strings.Contains(p.out.String(), "is ready at") }, "the server waits for NATS")
	if text := p.out.String(); strings.Contains(text, "find NATS") {
		t.Errorf("the address comes before NATS: %s", text)
	}
	close(answer)
	waitFor(t, func() bool { return strings.Contains(p.out.String(), "find NATS at") }, "the address of NATS is not printed")
	if text := p.out.String(); strings.Contains(text, "change-me") {
		t.Errorf("the password is printed: %s", text)
	}
}

// TestSidecarWithExternalNATS: the sidecar, providers, child sessions, presence and history
// work with an external NATS, also after a restart of it.
func TestSidecarWithExternalNATS(t *testing.T) {
	t.Parallel()
	out := startExternalNATS(t)
	addr := out.addr()
	p := serve(t, t.TempDir(), "--nats", "nats://parley:change-me@"+addr)
	a := x1Agent(t, sidecartest.Options{})
	listen := freeport.Addr(t)
	login := []string{"--nats", "nats://" + addr, "--user", "pod-7", "--password", "its-own"}
	s := attachAt(t, listen, "my-session", p, a, login...)
	second := launch(t, binary, append([]string{"sidecar", "my-session", "--stream", a.URL(), "--channel", a.URL(), "--listen", "127.0.0.1:0", "--user", "sidecar", "--password", "change-me-last"}, login[:2]...)...)
	if code := second.code(60 * time.Second); code != 1 || !strings.Contains(second.err.String(), "has a sidecar already") {
		t.Fatalf("a second one: %d %s", code, second.err)
	}
	var denied atomic.Int64
	viewer := connectNATS(t, addr, nats.UserInfo("viewer", "change-me-too"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			denied.Add(1)
		}
	}))
	provider := connectNATS(t, addr, nats.UserInfo("provider", "change-me-as-well"))
	if _, err := provider.QueueSubscribe("x1.provider.calendar.*", "calendar", func(m *nats.Msg) { _ = m.Respond([]byte(`{"ok":true,"days":["today"]}`)) }); err != nil {
		t.Fatal(err)
	}
	if err := provider.FlushTimeout(60 * time.Second); err != nil {
		t.Fatal(err)
	}
	post := func(path, body string) (int, string) {
		t.Helper()
		code, raw, _ := s.do(call{method: "POST", path: path, body: body})
		return code, raw
	}
	for _, c := range []struct {
		path, body, want string
		code             int
	}{
		{"/calendar/list", `{}`, `"today"`, 200},
		{"/vector/upsert", `{"id":"a","vector":[1,0]}`, `"a"`, 200},
		{"/email/send", `{}`, "no_provider", 502},
		{"/spawn", `{"agent":"demo","prompt":"hello","tool_use_id":"c1"}`, "granted", 403},
		{"/status", `{"message":"working"}`, `"sequence"`, 200},
	} {
		if code, raw := post(c.path, c.body); code != c.code || !strings.Contains(raw, c.want) {
			t.Errorf("%s: %d %s", c.path, code, raw)
		}
	}
	p.post("/api/workspaces/default/grants", `{"user_id":"local","grant_type":"spawn","details":{"agent":"demo"},"scope":"session","session_id":"my-session"}`)
	code, raw := post("/spawn", `{"agent":"demo","prompt":"hello","tool_use_id":"c1"}`)
	if code != 200 {
		t.Fatalf("a child: %d %s", code, raw)
	}
	child := field(t, raw, "session_id")
	answer := "Session " + child + " (demo) has answered: You said: hello"
	waitFor(t, func() bool { h, _ := a.Received(); return len(h) == 1 && h[0]["text"] == answer }, "not in time: the parent receives the child's answer")
	exchange := func(text string) {
		t.Helper()
		a.Say("agent.text", map[string]any{"text": "says " + text})
		waitFor(t, func() bool {
			return strings.Contains(p.get("/parley/v1/sessions/my-session/events?limit=1000"), `"says `+text+`"`)
		}, "not in time: the log has "+text)
		body := fmt.Sprintf(`{"session_id":"my-session","type":"user.message","client_id":"k-%s","payload":{"text":"%s"}}`, text, text)
		waitFor(t, func() bool {
			_, err := viewer.Request("x1.session.my-session.input", []byte(body), 5*time.Second)
			return err == nil
		}, "not in time: input is accepted")
		waitFor(t, func() bool { h, _ := a.Received(); return len(h) > 0 && h[len(h)-1]["text"] == text }, "not in time: the agent receives "+text)
	}
	exchange("one")
	keepalives, _ := a.Signals()
	if err := viewer.Publish("x1.session.my-session.presence", nil); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { n, _ := a.Signals(); return n > keepalives }, "not in time: the agent is kept alive")
	m, err := viewer.Request("x1.session.my-session.history", []byte(`{"limit":1000}`), 60*time.Second)
	if err != nil || !strings.Contains(string(m.Data), `"says one"`) {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		return strings.Contains(p.get("/parley/v1/x1/audit?session=my-session&limit=1000"), "/calendar/list")
	}, "not in time: the calls are audited")
	for _, subject := range []string{"x1.session.my-session.events", "x1.session.my-session.archive", "parley.in.raw.my-session.input", "$JS.API.STREAM.DELETE.X1_ARCHIVE"} {
		was := denied.Load()
		if err := viewer.Publish(subject, []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool { return denied.Load() > was }, "not in time: a viewer is refused "+subject)
	}
	out.stop()
	out.start()
	exchange("two")
	var received []string
	messages, _ := a.Received()
	for _, h := range messages {
		received = append(received, fmt.Sprint(h["text"]))
	}
	if events := stored(t, p, "my-session"); !slices.Equal(column(events, "agent.text", "text"), []string{"says one", "says two"}) || !slices.Equal(received, []string{answer, "one", "two"}) {
		t.Errorf("stored %v, received %v", column(events, "agent.text", "text"), received)
	}
	// A NATS user for one session cannot use another.
	foreign := connectNATS(t, addr, nats.UserInfo("pod-7", "its-own"))
	for _, subject := range []string{"x1.session.other.events", "x1.session.other.history", "x1.session.other.input"} {
		if m, err := foreign.Request(subject, []byte(`{}`), time.Second); err == nil {
			t.Errorf("%s: %s", subject, m.Data)
		}
	}
	if code := s.terminate(); code != 0 {
		t.Errorf("it ended with %d: %s", code, s.err)
	}
}
