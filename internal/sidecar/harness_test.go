package sidecar

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/bus"
	"github.com/parley-hq/parley/internal/dialect/native"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/session"
	"github.com/parley-hq/parley/internal/sidecar/sidecartest"
	"github.com/parley-hq/parley/internal/sleep"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.init.0.func1"))
}

// testTimeout only catches hangs.
const testTimeout = 60 * time.Second

const me = chat.SessionID("s1")

// testServer is a server in the process that can be stopped and started again.
type testServer struct {
	*servertest.Server
	t    *testing.T
	dir  string
	addr string // of HTTP
	nats string
	stop func()
}

func newServer(t *testing.T) *testServer {
	t.Helper()
	w := &testServer{t: t, dir: t.TempDir(), nats: "127.0.0.1:0"}
	w.start()
	return w
}

// start starts the server at its previous address.
func (w *testServer) start() {
	t := w.t
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	s := servertest.Open(t, servertest.Options{Dir: w.dir, DefaultAgent: "none", Addr: w.addr})
	d, err := x1.New(x1.Options{
		Sessions: s.Sessions, Caller: s.Auth.Caller, Main: auth.Local, Dir: w.dir,
		Check: func(chat.Caller) error { return nil }, Refused: func(context.Context, error) {}, Issued: func(chat.Caller, map[string]any) {},
		Allow: func(chat.Caller, int) error { return nil }, Listening: func() {}, Listened: func(string) bool { return true },
		Cut:         func(func(string) bool) error { return nil },
		ErasedSince: func(context.Context, chat.At) (bool, error) { return false, nil },
	})
	must(err)
	s.Sessions.Observe(session.Observer{Published: d.Published})
	s.Serve(append(d.Routes(), native.New(native.Options{Sessions: s.Sessions, Caller: s.Auth.Caller, Conns: s.Conns}).Routes()...))
	w.Server, w.addr = s, s.HTTP.Listener.Addr().String()
	main, guests := x1.Accounts()
	b, err := bus.Start(t.Context(), bus.Options{
		Addr: w.nats, Dir: w.dir + "/nats", Main: main, Accounts: []bus.Account{guests},
		Login: func(in bus.Login) bus.Grant { return d.Login(context.Background(), in) },
	})
	must(err)
	w.nats = b.Addr()
	d.Reachable(b.URL(), "", "")
	conn, err := b.Connect("parley")
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx, conn) }()
	w.stop = sync.OnceFunc(func() {
		s.HTTP.CloseClientConnections()
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		conn.Close()
		b.Close()
		s.Close()
	})
	t.Cleanup(w.stop)
}

// root connects to NATS with all permissions.
func (w *testServer) root() *nats.Conn {
	w.t.Helper()
	c, err := nats.Connect("nats://"+w.nats, nats.Timeout(30*time.Second), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

// log returns the log of the session.
func (w *testServer) log() []chat.Event { return w.Events(me) }

// texts are the values of a payload's field, of events of a type.
func (w *testServer) texts(typ, field string) (out []string) {
	w.t.Helper()
	for _, e := range w.log() {
		var p map[string]any
		if e.Type == typ && json.Unmarshal(e.Payload, &p) == nil {
			out = append(out, fmt.Sprint(p[field]))
		}
	}
	return out
}

func (w *testServer) types() (out []string) {
	for _, e := range w.log() {
		out = append(out, e.Type)
	}
	return out
}

func (w *testServer) until(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(testTimeout); !ok(); {
		if time.Now().After(end) {
			var b strings.Builder
			for _, e := range w.log() {
				fmt.Fprintf(&b, "%d %s %s [%s]\n", e.Seq, e.Type, e.Payload, e.ClientID)
			}
			w.t.Fatalf("it did not happen in time: %s\n%s", what, &b)
		}
		sleep.For(context.Background(), 2*time.Millisecond)
	}
}

// tell sends a user message.
func (w *testServer) tell(text string) chat.Event {
	w.t.Helper()
	events, err := w.Sessions.Append(context.Background(), auth.Local, me, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: text})})
	if err != nil {
		w.t.Fatal(err)
	}
	return events[0]
}

// agent starts an agent that ends with the test.
func (w *testServer) agent(opt sidecartest.Options) *sidecartest.Agent {
	w.t.Helper()
	a, err := sidecartest.Start(opt)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(a.Kill)
	return a
}

// running is a running sidecar.
type running struct {
	t    *testing.T
	s    *Sidecar
	url  string
	err  chan error
	quit context.CancelFunc
}

// attach starts a sidecar and waits until it works.
func (w *testServer) attach(a *sidecartest.Agent, change func(*Options)) *running {
	w.t.Helper()
	r, ready := w.launch(a, change)
	select {
	case r.url = <-ready:
	case err := <-r.err:
		w.t.Fatalf("the sidecar ended: %v", err)
	case <-time.After(testTimeout):
		w.t.Fatal("the sidecar does not get ready")
	}
	return r
}

func (w *testServer) launch(a *sidecartest.Agent, change func(*Options)) (*running, <-chan string) {
	w.t.Helper()
	ready := make(chan string, 1)
	opt := Options{
		Session: me, Server: "http://" + w.addr, Stream: a.URL(), Channel: a.URL(), Listen: "127.0.0.1:0",
		Retry: []time.Duration{time.Millisecond, time.Millisecond}, Probe: 300 * time.Millisecond,
		Listening: func(addr string) { ready <- "http://" + addr },
	}
	if testing.Verbose() {
		opt.Logger = slog.New(slog.NewTextHandler(logTo{w.t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if change != nil {
		change(&opt)
	}
	s, err := New(opt)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: w.t, s: s, err: make(chan error, 1), quit: cancel}
	done := make(chan struct{})
	go func() {
		r.err <- s.Run(ctx)
		close(done)
	}()
	w.t.Cleanup(func() { cancel(); <-done })
	return r, ready
}

type logTo struct{ t *testing.T }

func (l logTo) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// stop shuts it down.
func (r *running) stop() {
	r.t.Helper()
	r.quit()
	r.end("")
}

// end waits until it has ended; want is a part of the error, "" for none.
func (r *running) end(want string) {
	r.t.Helper()
	select {
	case err := <-r.err:
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			r.t.Fatalf("it ended with %v, not %q", err, want)
		}
	case <-time.After(testTimeout):
		r.t.Fatal("the sidecar does not end")
	}
}

// post posts an event, as the agent's tools do.
func (r *running) post(path, body string) (int, map[string]any) {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.url+path, bytes.NewBufferString(body))
	if err != nil {
		r.t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testTimeout}
	res, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil {
		r.t.Fatalf("%s: %d %s", path, res.StatusCode, b)
	}
	return res.StatusCode, v
}
