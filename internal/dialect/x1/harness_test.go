package x1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agentpool"
	"github.com/parley-hq/parley/internal/agents/demo"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/bus"
	"github.com/parley-hq/parley/internal/hub"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/server"
	"github.com/parley-hq/parley/internal/session"
)

// testTimeout only catches hangs.
const testTimeout = 60 * time.Second

// people of the tests that need authentication.
func tokenOf(name string) string { return "token-of-" + name + "-0123456789abcdef" }

func person(name string, scopes ...chat.Scope) auth.Token {
	return auth.Token{Token: auth.Secret(tokenOf(name)), Actor: chat.Actor{Kind: chat.User, ID: name}, Scopes: scopes, AllWorkspaces: name == "root"}
}

// options says what differs from an open server.
type options struct {
	secured    bool
	dir        string
	url        string // of a NATS that runs elsewhere
	notStarted bool   // the dialect does not speak until speak is called
	change     func(*Options)
}

// testServer is a whole server in the process: the real store, rules, agents and NATS.
type testServer struct {
	t        testing.TB
	dir      string
	journal  *journal.Journal
	sessions *session.Sessions
	dialect  *Dialect
	bus      *bus.Server
	http     *httptest.Server
	url      string
	options  options
	stops    []func()
}

func newServer(t testing.TB, s options) *testServer {
	t.Helper()
	w := &testServer{t: t, dir: s.dir, options: s}
	if w.dir == "" {
		w.dir = t.TempDir()
	}
	var err error
	if w.journal, err = journal.Open(w.dir+"/store", journal.Options{Sync: journal.SyncNever, MinFree: -1, MinFreePercent: -1}); err != nil {
		t.Fatal(err)
	}
	h := hub.New(w.journal, hub.Options{})
	registry := agentpool.NewRegistry(agentpool.NewPool(agentpool.PoolOptions{}))
	registry.Add(demo.Info, demo.Agent{})
	runner := agentpool.NewRunner(registry, agentpool.Options{Grace: time.Millisecond, Clean: true})
	w.sessions = session.New(w.journal, h, session.Options{
		Observers: []session.Observer{{Committed: runner.Committed, Erased: runner.Erased}},
	})
	runner.Attach(w.sessions)
	who := auth.Options{Rate: -1}
	if s.secured {
		who.Tokens = []auth.Token{
			person("alice", chat.ScopeUser), person("bob", chat.ScopeUser), person("agent", chat.ScopeUser, chat.ScopeAgent), person("root", chat.ScopeAdmin),
		}
	}
	a, err := auth.New(who)
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{Listened: func(s string) bool { return w.bus == nil || w.bus.Listened(s) }, Sessions: w.sessions, Caller: a.Caller, Main: auth.Local, Signed: bus.Publisher, Dir: w.dir, ErasedSince: w.journal.ErasedSince, External: s.url != ""}
	opt.Cut = func(fits func(string) bool) error { return w.bus.Cut(fits) }
	if testing.Verbose() {
		opt.Logger = slog.New(slog.NewTextHandler(testLog{t}, nil))
	}
	if s.secured {
		opt.Token = a.Authenticate
		opt.Main.Actor = chat.Actor{Kind: chat.User, ID: "admin"}
	}
	if s.change != nil {
		s.change(&opt)
	}
	if w.dialect, err = New(opt); err != nil {
		t.Fatal(err)
	}
	w.sessions.Observe(session.Observer{Published: w.dialect.Published, Erased: w.dialect.Erased})
	srv, err := server.New(server.Options{Auth: a, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range w.dialect.Routes() {
		srv.Handle(r)
	}
	w.http = httptest.NewServer(srv.Handler())
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.journal.Run(ctx) })
	wg.Go(func() { _ = w.sessions.Run(ctx) })
	wg.Go(func() { _ = runner.Run(ctx) })
	w.stops = append(w.stops, func() {
		w.http.Client().CloseIdleConnections()
		w.http.Close()
		cancel()
		wg.Wait()
		h.Close(nil)
		if err := w.journal.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(w.close)
	if !s.notStarted {
		w.start()
	}
	return w
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// speak starts NATS and the dialect.
func (w *testServer) start() {
	w.t.Helper()
	var conn *nats.Conn
	var err error
	if w.options.url != "" {
		w.url = w.options.url
		conn, err = bus.Dial(w.url, "parley", nil)
	} else {
		layout := Subjects()
		pairs := func(list []Pair) (out []bus.Pair) {
			for _, p := range list {
				out = append(out, bus.Pair(p))
			}
			return out
		}
		w.bus, err = bus.Start(w.t.Context(), bus.Options{
			Addr: "127.0.0.1:0", Dir: w.dir + "/nats", Main: bus.Account{Mappings: pairs(layout.Main)},
			Accounts: []bus.Account{{Name: GuestAccount, Mappings: pairs(layout.GuestMappings), Services: pairs(layout.GuestServices), Streams: layout.GuestStreams}},
			Login: func(in bus.Login) bus.Grant {
				a := w.dialect.Login(context.Background(), in.User, in.Password, in.Token)
				return bus.Grant{OK: a.OK, Account: a.Account, Name: a.Name, Publish: a.Publish, Subscribe: a.Subscribe, NoPublish: a.NoPublish, Until: a.Until}
			},
		})
		if err != nil {
			w.t.Fatal(err)
		}
		w.url = w.bus.URL()
		w.dialect.Reachable(w.url, "")
		conn, err = w.bus.Connect("parley")
	}
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.dialect.Run(ctx, conn) }()
	w.stops = append(w.stops, func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			w.t.Error(err)
		}
		conn.Close()
		if w.bus != nil {
			w.bus.Close()
		}
	})
	// It listens once the archive is there and a question is answered.
	probe := w.root()
	w.until("the dialect listens", func() bool {
		_, err := probe.Request(Subject("nothing", History), nil, time.Second)
		return err == nil
	})
	probe.Close()
}

// close ends the testServer, in order.
func (w *testServer) close() {
	for i := len(w.stops) - 1; i >= 0; i-- {
		w.stops[i]()
	}
	w.stops = nil
}

// until waits for something that happens by itself.
func (w *testServer) until(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(testTimeout); !ok(); {
		if time.Now().After(end) {
			w.t.Fatalf("it did not happen in time: %s", what)
		}
		pause(w.t.Context(), 2*time.Millisecond)
	}
}

// call makes an HTTP request.
func (w *testServer) call(method, path, token string, body any, into any) int {
	w.t.Helper()
	var b bytes.Buffer
	if body != nil {
		_ = json.NewEncoder(&b).Encode(body)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.http.URL+path, &b)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := w.http.Client().Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(all, into); err != nil {
			w.t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, all)
		}
	}
	return res.StatusCode
}

func (w *testServer) credential(id chat.SessionID, token string, role Role) Credential {
	w.t.Helper()
	var cred Credential
	if code := w.call("POST", fmt.Sprintf("/parley/v1/sessions/%s/credentials", id), token, map[string]any{"role": role}, &cred); code != http.StatusCreated {
		w.t.Fatalf("no credential: %d", code)
	}
	return cred
}
