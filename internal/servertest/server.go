// Package servertest starts a whole server in the process, for tests: the real
// store, session rules, agents, authentication and HTTP server. Only the fsync is
// left out, for speed. Requests to it and what it has stored are in client.go.
//
// A [Server] may be used by any number of goroutines once [Server.Serve] has
// returned.
package servertest

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agentpool"
	"github.com/parley-hq/parley/internal/auth"
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

	// Cluster makes the server a node that owns no partition; another node with the same agents owns them all.
	Cluster *Cluster
}

// Server is a server in the process.
type Server struct {
	Dir      string
	Files    Files
	Sessions *session.Sessions
	Owner    *session.Sessions // those of the node that owns all partitions; on a single server the same as Sessions
	Pool     *agentpool.Pool
	Registry *agentpool.Registry
	Runner   *agentpool.Runner
	Auth     *auth.Auth
	Conns    *wire.Conns
	HTTP     *httptest.Server     // after Serve
	Erased   func(chat.SessionID) // called with erased sessions; set it before Serve

	t       testing.TB
	addr    string
	members []*member // the first one serves HTTP
	cancel  context.CancelFunc
	running sync.WaitGroup
	closing sync.Once
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
	if opt.Cluster == nil {
		s.members = []*member{newMember(t, s.Dir, &opt, s.erased, nil)}
	} else {
		s.members = openCluster(t, s.Dir, &opt, s.erased)
	}
	m := s.members[0]
	s.Files, s.Sessions, s.Pool, s.Registry, s.Runner = m.files, m.sessions, m.pool, m.registry, m.runner
	s.Owner = s.members[len(s.members)-1].sessions
	var err error
	if s.Auth, err = auth.New(auth.Options{Tokens: opt.Tokens, Rate: -1}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Server) erased(id chat.SessionID) {
	if s.Erased != nil {
		s.Erased(id)
	}
}

// Serve starts the server with the dialect's routes, and what else it runs. It
// ends with the test, or with Close.
func (s *Server) Serve(routes []wire.Route, run ...func(context.Context) error) {
	s.t.Helper()
	opt := server.Options{Auth: s.Auth, Conns: s.Conns, Logger: slog.New(slog.DiscardHandler)}
	if n := s.members[0].node; n != nil {
		opt.Node = n.Name()
	}
	srv, err := server.New(opt)
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
	for _, m := range s.members {
		m.start()
	}
	if len(s.members) > 1 {
		waitForOwner(s.t, s.members)
	}
	s.HTTP.Start()
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	for _, f := range run {
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
		closeMembers(s.members)
	})
}
