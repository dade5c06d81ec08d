package natsprovider_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/bus"
	"github.com/parley-hq/parley/internal/natsprovider"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.init.0.func1"))
}

// testTimeout only catches hangs.
const testTimeout = 60 * time.Second

func dial(t *testing.T, b *bus.Server) *nats.Conn {
	t.Helper()
	c, err := nats.Connect(b.URL(), nats.Timeout(30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, c *nats.Conn, p natsprovider.Provider) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, c) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

type post struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

func TestProvider(t *testing.T) {
	b, err := bus.Start(t.Context(), bus.Options{Addr: "127.0.0.1:0", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	var mu sync.Mutex
	served := map[string]int{}
	one := func(name string) natsprovider.Provider {
		return natsprovider.Provider{Domain: "messaging", Timeout: testTimeout, Ops: map[string]natsprovider.Op{
			"post": natsprovider.Typed(func(_ context.Context, c natsprovider.Call, m post) (map[string]any, error) {
				mu.Lock()
				defer mu.Unlock()
				served[name]++
				if m.To == "" {
					return nil, chat.Errorf(chat.Invalid, "to whom?")
				}
				return map[string]any{"ok": true, "text": m.Text, "session": c.Session}, nil
			}),
			"panic": func(context.Context, natsprovider.Call, json.RawMessage) (any, error) { panic("a fault") },
			"fault": func(context.Context, natsprovider.Call, json.RawMessage) (any, error) {
				return nil, errors.New("the password is 1234")
			},
		}}
	}
	serve(t, dial(t, b), one("a"))
	serve(t, dial(t, b), one("b"))
	serve(t, dial(t, b), natsprovider.Provider{Domain: "hanging", Timeout: 200 * time.Millisecond, Ops: map[string]natsprovider.Op{
		"slow": func(ctx context.Context, _ natsprovider.Call, _ json.RawMessage) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}})
	c := dial(t, b)
	audit, err := c.SubscribeSync("x1.audit.>")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(domain, op, body string) (string, string) {
		t.Helper()
		for end := time.Now().Add(testTimeout); ; {
			m, err := c.Request("x1.provider."+domain+"."+op, []byte(body), testTimeout)
			if errors.Is(err, nats.ErrNoResponders) && time.Now().Before(end) {
				continue // it is just about to serve
			}
			if err != nil {
				t.Fatal(err)
			}
			return m.Header.Get(natsprovider.HeaderStatus), string(m.Data)
		}
	}
	for _, x := range []struct{ op, body, status, want string }{
		{"post", `{"to":"x","text":"hi","provenance":{"session_id":"s1"}}`, "200", `"session":"s1"`},
		{"post", `{"text":"hi"}`, "400", "to whom?"},
		{"post", `{"to":7}`, "400", "it must be a string"},
		{"post", `[1]`, "400", "it must be an object"},
		{"post", `nonsense`, "400", "not understood"},
		{"none", `{}`, "404", "no operation"},
		{"panic", `{}`, "500", "internal"},
		{"fault", `{}`, "500", "internal"},
	} {
		status, got := ask("messaging", x.op, x.body)
		if status != x.status || !strings.Contains(got, x.want) || strings.Contains(got, "1234") {
			t.Errorf("%s %s: %s %s", x.op, x.body, status, got)
		}
	}
	// The records of several providers come in any order.
	for {
		m, err := audit.NextMsg(testTimeout)
		if err != nil || m.Subject != "x1.audit.provider.messaging" {
			t.Fatal(m, err)
		}
		if strings.Contains(string(m.Data), `"session_id":"s1"`) {
			break
		}
	}
	if status, got := ask("hanging", "slow", `{}`); status != "504" || !strings.Contains(got, "hanging.slow took longer than 200ms") {
		t.Errorf("a request without an end: %s %s", status, got)
	}
	// Both share the work, and each request is done once.
	for end := time.Now().Add(testTimeout); ; {
		ask("messaging", "post", `{"to":"x"}`)
		mu.Lock()
		both := served["a"] > 0 && served["b"] > 0
		mu.Unlock()
		if both {
			break
		}
		if time.Now().After(end) {
			t.Fatal("one of them serves nothing")
		}
	}
	mu.Lock()
	clear(served)
	mu.Unlock()
	for range 100 {
		ask("messaging", "post", `{"to":"x"}`)
	}
	mu.Lock()
	defer mu.Unlock()
	if served["a"]+served["b"] != 100 || served["a"] == 0 || served["b"] == 0 {
		t.Error(served)
	}
	if _, err := c.Request("x1.provider.calendar.list", nil, testTimeout); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("nobody serves it: %v", err)
	}
}

// A provider that ends does not wait for a request without an end, and answers it with an
// error.
func TestAProviderEnds(t *testing.T) {
	b, err := bus.Start(t.Context(), bus.Options{Addr: "127.0.0.1:0", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	begun := make(chan struct{})
	p := natsprovider.Provider{Domain: "docs", Timeout: time.Hour, Grace: time.Millisecond, Ops: map[string]natsprovider.Op{
		"read": func(ctx context.Context, _ natsprovider.Call, _ json.RawMessage) (any, error) {
			close(begun)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}}
	conn, c := dial(t, b), dial(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, conn) }()
	answer := make(chan *nats.Msg, 1)
	go func() {
		for end := time.Now().Add(testTimeout); time.Now().Before(end); {
			m, err := c.Request("x1.provider.docs.read", nil, testTimeout)
			if errors.Is(err, nats.ErrNoResponders) {
				continue // it is just about to serve
			}
			answer <- m
			return
		}
	}()
	<-begun
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(testTimeout):
		t.Fatal("it does not end")
	}
	if m := <-answer; m == nil || m.Header.Get(natsprovider.HeaderStatus) != "503" || !strings.Contains(string(m.Data), "ask again") {
		t.Errorf("%+v", m)
	}
}
