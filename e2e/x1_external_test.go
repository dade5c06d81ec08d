package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
)

// elsewhere runs a NATS server with the configuration that docs/x1.md shows.
func elsewhere(t *testing.T) (addr string) {
	t.Helper()
	doc, err := os.ReadFile("../docs/x1.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), "```conf\n")
	conf, _, end := strings.Cut(rest, "```")
	if !ok || !end {
		t.Fatal("docs/x1.md shows no configuration")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "nats.conf")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(conf, "/var/lib/nats", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	opts.Host, opts.Port, opts.NoSigs, opts.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("NATS is not ready")
	}
	return s.Addr().String()
}

// With a NATS that runs elsewhere, configured as documented: people and old
// sidecars meet, and viewers see each event once.
func TestX1WithANATSElsewhere(t *testing.T) {
	t.Parallel()
	addr := elsewhere(t)
	serve(t, t.TempDir(), "--nats", "nats://parley:change-me@"+addr)
	viewer := natsOf(t, addr, nats.UserInfo("viewer", "change-me-too"))
	sidecar := natsOf(t, addr, nats.UserInfo("sidecar", "change-me-as-well"))
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
			t.Fatal("nothing came")
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
			t.Fatalf("place %d has %s with number %d", i, e.Type, e.Seq)
		}
	}
	if _, err := viewer.Request("x1.session.pod.input", []byte(`{"session_id":"pod","type":"user.message","payload":{"text":"hello"}}`), 20*time.Second); err != nil {
		t.Fatal(err)
	}
	if e := next(input); e.Type != "user.message" || e.Seq != 4 {
		t.Fatalf("the sidecar was told %s with number %d", e.Type, e.Seq)
	}
	if e := next(events); e.Type != "user.message" || e.Seq != 4 {
		t.Fatalf("viewers saw %s with number %d", e.Type, e.Seq)
	}
	if len(input)+len(events) > 0 {
		t.Fatal("something came twice")
	}
}
