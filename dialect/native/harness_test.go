package native

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/agent/demo"
	"github.com/parley-hq/parley/artifact"
	"github.com/parley-hq/parley/auth"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/hub"
	"github.com/parley-hq/parley/journal"
	"github.com/parley-hq/parley/server"
	"github.com/parley-hq/parley/session"
	"github.com/parley-hq/parley/wire"
)

// tokens of the people and programs in the tests, by name.
var tokens = []auth.Token{
	token("alice", chat.User, "", chat.ScopeUser),
	token("bob", chat.User, "", chat.ScopeUser),
	token("carol", chat.User, "", chat.ScopeUser),
	token("helper", chat.Agent, "", chat.ScopeAgent),
	token("root", chat.User, "", chat.ScopeUser, chat.ScopeAgent, chat.ScopeAdmin),
}

func token(name string, kind chat.ActorKind, workspace string, scopes ...chat.Scope) auth.Token {
	return auth.Token{Token: auth.Secret(tokenOf(name)), Actor: chat.Actor{Kind: kind, ID: name}, Workspace: workspace, Scopes: scopes}
}

func tokenOf(name string) string { return "token-of-" + name + "-0123456789abcdef" }

// world is a whole server in the process: the real store, rules and agents.
type world struct {
	t        testing.TB
	dialect  *Dialect
	sessions *session.Sessions
	files    *artifact.Local
	pool     *agent.Pool
	conns    *wire.Conns
	server   *httptest.Server

	prompt, turn, main string // the last ones named in a transcript
}

// clock is fixed, so that what is stored is the same in every run.
func clock() time.Time { return time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC) }

type testFiles struct{ *artifact.Local }

func (f testFiles) Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, limit int64) (chat.FileInfo, error) {
	return f.Local.Put(ctx, id, path, mediaType, body, artifact.PutOptions{Max: limit})
}

// newWorld starts a server; change may adjust the dialect's options.
func newWorld(t testing.TB, change func(*Options)) *world {
	t.Helper()
	j, err := journal.Open(t.TempDir(), journal.Options{Sync: journal.SyncNever, MinFree: -1, MinFreePercent: -1, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, conns: &wire.Conns{}}
	w.files, err = artifact.Open(t.TempDir(), artifact.Options{Now: func() chat.At { return chat.AtOf(clock()) }})
	if err != nil {
		t.Fatal(err)
	}
	h := hub.New(j, hub.Options{})
	w.pool = agent.NewPool(agent.PoolOptions{})
	registry := agent.NewRegistry(w.pool)
	registry.Add(demo.Info, demo.Agent{})
	runner := agent.NewRunner(registry, agent.Options{Grace: time.Millisecond, Store: func(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader) (int64, error) {
		info, err := w.files.Put(ctx, id, path, mediaType, body, artifact.PutOptions{})
		return info.Size, err
	}})
	w.sessions = session.New(j, h, session.Options{Artifacts: w.files, Committed: runner.Committed, Erased: runner.Erased, Now: clock})
	runner.Attach(w.sessions)

	a, err := auth.New(auth.Options{Tokens: tokens, Rate: -1})
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{
		Sessions: w.sessions, Files: testFiles{w.files}, Workers: w.pool, Caller: a.Caller, Conns: w.conns,
		Agents: func(ws string) any { return registry.List(ws, runner.Running()) }, Builtin: registry.Builtin, Version: "test", Now: clock,
		Backup: func(_ context.Context, out io.Writer) error { _, err := io.WriteString(out, "a tar"); return err },
		Verify: func(_ context.Context, line func(any) error) error {
			return line(map[string]any{"sessions": 1, "events": 2, "done": true})
		},
		Messages: func(ctx context.Context, c chat.Caller, id chat.SessionID, q MessageQuery) (any, error) {
			if _, err := w.sessions.Get(ctx, c, id); err != nil {
				return nil, err
			}
			return map[string]any{"messages": []any{map[string]any{"asked": q}}, "more": false}, nil
		},
		As: map[string]func(context.Context, chat.Fact) (any, error){
			"shout": func(_ context.Context, f chat.Fact) (any, error) {
				return map[string]any{"shouted": f.Seq}, nil
			},
		},
	}
	if change != nil {
		change(&opt)
	}
	w.dialect = New(opt)
	srv, err := server.New(server.Options{Auth: a, Conns: w.conns, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range w.dialect.Routes() {
		srv.Handle(r)
	}
	w.server = httptest.NewUnstartedServer(srv.Handler())
	w.server.Config.Protocols = new(http.Protocols)
	w.server.Config.Protocols.SetHTTP1(true)
	w.server.Config.Protocols.SetUnencryptedHTTP2(true)
	w.server.Start()

	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = j.Run(ctx) })
	wg.Go(func() { _ = w.sessions.Run(ctx) })
	wg.Go(func() { _ = runner.Run(ctx) })
	t.Cleanup(func() {
		stop, done := context.WithTimeout(context.Background(), 5*time.Second)
		defer done()
		if err := w.conns.Shutdown(stop); err != nil {
			t.Error(err)
		}
		w.server.Client().CloseIdleConnections()
		w.server.Close()
		h.Close(nil)
		cancel()
		wg.Wait()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// request makes a request as somebody; "" is nobody.
func (w *world) request(as, method, path string, body io.Reader) *http.Request {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	if as != "" {
		r.Header.Set("Authorization", "Bearer "+tokenOf(as))
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// do sends a request and returns the status and the whole body.
func (w *world) do(as, method, path, body string) (int, string) {
	w.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	res, err := w.server.Client().Do(w.request(as, method, path, reader))
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// must is do for a request that succeeds.
func (w *world) must(as, method, path, body string) string {
	w.t.Helper()
	code, got := w.do(as, method, path, body)
	if code >= 300 {
		w.t.Fatalf("%s %s: %d %s", method, path, code, got)
	}
	return got
}

// until waits until a session has n events of a type.
func (w *world) until(id chat.SessionID, typ string, n int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeoutCause(w.t.Context(), 10*time.Second, errors.New("it did not happen in time"))
	defer cancel()
	for batch, err := range w.sessions.Watch(ctx, chat.Trusted, id, chat.Start{Cursor: &chat.Cursor{}}, nil) {
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range batch.Entries {
			if e.Label.Type == typ {
				n--
			}
		}
		if n <= 0 {
			return
		}
	}
	w.t.Fatalf("%s: no %s: %v", id, typ, context.Cause(ctx))
}

func compactBody(b []byte) string { return string(bytes.TrimRight(b, "\n")) }
