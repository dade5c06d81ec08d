// Package dialecttest is a whole server in the process, for the tests of
// dialects: the real store, rules, agents, authentication and HTTP server. Only
// the fsync is left out, for speed.
//
// A [House] may be used by any number of goroutines once [House.Serve] has
// returned.
package dialecttest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/demo"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/hub"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/server"
	"github.com/parley-hq/parley/internal/session"
	"github.com/parley-hq/parley/internal/wire"
)

// Options say what differs from an open server with the demo agent.
type Options struct {
	Dir    string                 // an existing data folder; a new one when empty
	Tokens []auth.Token           // people need tokens
	Now    func() time.Time       // the clock of everything; nil means the real one
	Agents map[string]agent.Agent // beside the demo agent
}

// House is the server.
type House struct {
	Dir      string
	Files    Files
	Sessions *session.Sessions
	Pool     *agent.Pool
	Registry *agent.Registry
	Runner   *agent.Runner
	Auth     *auth.Auth
	Conns    *wire.Conns
	HTTP     *httptest.Server     // after Serve
	Erased   func(chat.SessionID) // told of erased sessions; to be set before Serve

	t       testing.TB
	journal *journal.Journal
	hub     *hub.Hub
	cancel  context.CancelFunc
	running sync.WaitGroup
	closing sync.Once
}

// Files is the artifact store as dialects see it.
type Files struct{ *artifact.Local }

// Put stores a file of at most limit bytes.
func (f Files) Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, limit int64) (chat.FileInfo, error) {
	return f.Local.Put(ctx, id, path, mediaType, body, artifact.PutOptions{Max: limit})
}

// User is somebody with a token.
func User(name string) auth.Token {
	return auth.Token{Token: auth.Secret(TokenOf(name)), Actor: chat.Actor{Kind: chat.User, ID: name}, Scopes: []chat.Scope{chat.ScopeUser}}
}

// TokenOf is the token of a [User].
func TokenOf(name string) string { return "token-of-" + name + "-0123456789abcdef" }

// Open plugs everything together up to the dialect. Nothing runs yet.
func Open(t testing.TB, opt Options) *House {
	t.Helper()
	h := &House{t: t, Dir: opt.Dir, Conns: &wire.Conns{}}
	if h.Dir == "" {
		h.Dir = t.TempDir()
	}
	var now func() chat.At
	if opt.Now != nil {
		now = func() chat.At { return chat.AtOf(opt.Now()) }
	}
	var err error
	h.journal, err = journal.Open(filepath.Join(h.Dir, "store"), journal.Options{Sync: journal.SyncNever, MinFree: -1, MinFreePercent: -1, Now: opt.Now})
	if err != nil {
		t.Fatal(err)
	}
	if h.Files.Local, err = artifact.Open(filepath.Join(h.Dir, "files"), artifact.Options{Now: now}); err != nil {
		t.Fatal(err)
	}
	h.hub = hub.New(h.journal, hub.Options{})
	for id, blocks := range h.journal.OpenBlocks() {
		h.hub.Restore(id, blocks)
	}
	h.Pool = agent.NewPool(agent.PoolOptions{})
	h.Registry = agent.NewRegistry(h.Pool)
	h.Registry.Add(demo.Info, demo.Agent{})
	for name, a := range opt.Agents {
		h.Registry.Add(agent.Info{Name: name}, a)
	}
	store := func(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, commit func(int64) error) error {
		_, err := h.Files.Local.Put(ctx, id, path, mediaType, body, artifact.PutOptions{Commit: func(info chat.FileInfo) error { return commit(info.Size) }})
		return err
	}
	h.Runner = agent.NewRunner(h.Registry, agent.Options{Grace: time.Millisecond, Clean: true, Store: store})
	h.Sessions = session.New(h.journal, h.hub, session.Options{Artifacts: h.Files.Local, Store: store, Committed: h.Runner.Committed, Erased: h.erased, Now: opt.Now})
	h.Runner.Attach(h.Sessions)
	if h.Auth, err = auth.New(auth.Options{Tokens: opt.Tokens, Rate: -1}); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *House) erased(id chat.SessionID) {
	h.Runner.Erased(id)
	if h.Erased != nil {
		h.Erased(id)
	}
}

// Serve starts the server with the dialect's routes, and what else it runs. It
// ends with the test, or with Close.
func (h *House) Serve(routes []wire.Route, run ...func(context.Context) error) {
	h.t.Helper()
	srv, err := server.New(server.Options{Auth: h.Auth, Conns: h.Conns, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range routes {
		srv.Handle(r)
	}
	h.HTTP = httptest.NewUnstartedServer(srv.Handler())
	h.HTTP.Config.Protocols = new(http.Protocols)
	h.HTTP.Config.Protocols.SetHTTP1(true)
	h.HTTP.Config.Protocols.SetUnencryptedHTTP2(true)
	h.HTTP.Start()
	var ctx context.Context
	ctx, h.cancel = context.WithCancel(context.Background())
	for _, f := range append(run, h.journal.Run, h.Sessions.Run, h.Runner.Run) {
		h.running.Go(func() { _ = f(ctx) })
	}
	h.t.Cleanup(h.Close)
}

// Close ends everything in order. It may be called again.
func (h *House) Close() {
	h.closing.Do(func() {
		stop, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		if err := h.Conns.Shutdown(stop); err != nil {
			h.t.Error(err)
		}
		h.HTTP.Client().CloseIdleConnections()
		h.HTTP.Close()
		h.cancel()
		h.running.Wait()
		h.hub.Close(nil)
		if err := h.journal.Close(); err != nil {
			h.t.Error(err)
		}
	})
}
