// Package servertest starts a whole server in the process, for tests: the real
// store, session rules, agents, authentication and HTTP server. Only the fsync is
// left out, for speed. Requests to it and what it has stored are in client.go.
//
// A [Server] may be used by any number of goroutines once [Server.Serve] has
// returned.
package servertest

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agentpool"
	"github.com/parley-hq/parley/internal/agents/demo"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/hub"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/server"
	"github.com/parley-hq/parley/internal/session"
	"github.com/parley-hq/parley/internal/wire"
)

// Options configures a server; the zero value is an open server with the demo agent.
type Options struct {
	Dir    string                 // an existing data folder; a new one when empty
	Tokens []auth.Token           // requests need one of them
	Now    func() time.Time       // the clock; nil means the real one
	Agents map[string]agent.Agent // beside the demo agent

	DefaultAgent string // of sessions that name none
	Addr         string // the HTTP address; a free port of loopback when empty
}

// Server is a server in the process.
type Server struct {
	Dir      string
	Files    Files
	Sessions *session.Sessions
	Pool     *agentpool.Pool
	Registry *agentpool.Registry
	Runner   *agentpool.Runner
	Auth     *auth.Auth
	Conns    *wire.Conns
	HTTP     *httptest.Server     // after Serve
	Erased   func(chat.SessionID) // called with erased sessions; set it before Serve

	t       testing.TB
	addr    string
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

// User returns the token of a user.
func User(name string) auth.Token {
	return auth.Token{Token: auth.Secret(TokenOf(name)), Actor: chat.Actor{Kind: chat.User, ID: name}, Scopes: []chat.Scope{chat.ScopeUser}}
}

// TokenOf is the token of a [User].
func TokenOf(name string) string { return "token-of-" + name + "-0123456789abcdef" }

// Open creates and connects all parts except the dialect. Nothing runs yet.
func Open(t testing.TB, opt Options) *Server {
	t.Helper()
	s := &Server{t: t, addr: opt.Addr, Dir: opt.Dir, Conns: &wire.Conns{}}
	if s.Dir == "" {
		s.Dir = t.TempDir()
	}
	var now func() chat.At
	if opt.Now != nil {
		now = func() chat.At { return chat.AtOf(opt.Now()) }
	}
	var err error
	s.journal, err = journal.Open(filepath.Join(s.Dir, "store"), journal.Options{Sync: journal.SyncNever, MinFree: -1, MinFreePercent: -1, Now: opt.Now})
	if err != nil {
		t.Fatal(err)
	}
	if s.Files.Local, err = artifact.Open(filepath.Join(s.Dir, "files"), artifact.Options{Now: now}); err != nil {
		t.Fatal(err)
	}
	s.hub = hub.New(s.journal, hub.Options{})
	for id, blocks := range s.journal.OpenBlocks() {
		s.hub.Restore(id, blocks)
	}
	s.Pool = agentpool.NewPool(agentpool.PoolOptions{})
	s.Registry = agentpool.NewRegistry(s.Pool)
	s.Registry.Add(demo.Info, demo.Agent{})
	for name, a := range opt.Agents {
		s.Registry.Add(agent.Info{Name: name}, a)
	}
	store := func(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, commit func(int64) error) error {
		_, err := s.Files.Local.Put(ctx, id, path, mediaType, body, artifact.PutOptions{Commit: func(info chat.FileInfo) error { return commit(info.Size) }})
		return err
	}
	s.Runner = agentpool.NewRunner(s.Registry, agentpool.Options{Grace: time.Millisecond, Clean: true, Store: store})
	s.Sessions = session.New(s.journal, s.hub, session.Options{Artifacts: s.Files.Local, Store: store, Now: opt.Now, DefaultAgent: opt.DefaultAgent,
		Observers: []session.Observer{{Committed: s.Runner.Committed, Erased: s.erased}},
	})
	s.Runner.Attach(s.Sessions)
	if s.Auth, err = auth.New(auth.Options{Tokens: opt.Tokens, Rate: -1}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Server) erased(id chat.SessionID) {
	s.Runner.Erased(id)
	if s.Erased != nil {
		s.Erased(id)
	}
}

// Serve starts the server with the dialect's routes, and what else it runs. It
// ends with the test, or with Close.
func (s *Server) Serve(routes []wire.Route, run ...func(context.Context) error) {
	s.t.Helper()
	srv, err := server.New(server.Options{Auth: s.Auth, Conns: s.Conns, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range routes {
		srv.Handle(r)
	}
	s.HTTP = httptest.NewUnstartedServer(srv.Handler())
	if s.addr != "" {
		s.HTTP.Listener.Close()
		if s.HTTP.Listener, err = net.Listen("tcp", s.addr); err != nil {
			s.t.Fatal(err)
		}
	}
	s.HTTP.Config.Protocols = new(http.Protocols)
	s.HTTP.Config.Protocols.SetHTTP1(true)
	s.HTTP.Config.Protocols.SetUnencryptedHTTP2(true)
	s.HTTP.Start()
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	for _, f := range append(run, s.journal.Run, s.Sessions.Run, s.Runner.Run) {
		s.running.Go(func() { _ = f(ctx) })
	}
	s.t.Cleanup(s.Close)
}

// Close ends everything in order. It may be called again.
func (s *Server) Close() {
	s.closing.Do(func() {
		stop, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		if err := s.Conns.Shutdown(stop); err != nil {
			s.t.Error(err)
		}
		s.HTTP.Client().CloseIdleConnections()
		s.HTTP.Close()
		s.cancel()
		s.running.Wait()
		s.hub.Close(nil)
		if err := s.journal.Close(); err != nil {
			s.t.Error(err)
		}
	})
}
