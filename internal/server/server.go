package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/parley-hq/parley/internal/wire"
)

// Server is made by [New], given routes by [Server.Handle] and run once.
type Server struct {
	opt      Options
	mux      *http.ServeMux
	metrics  *metrics
	stopping atomic.Bool
	budget   *wire.Budget // of requests and answers in memory, for each caller
	routes   []Route
	notFound http.Handler // the page for browsers; may be nil

	mu     sync.Mutex
	active int           // handlers under way
	none   chan struct{} // closed when the last one has ended; made by wait

	notReady string // the reason that the last probe got, "" when it got none
}

// clientMemory is how many bytes of requests and answers of one caller may be in memory.
const clientMemory = 64 << 20

// New checks the options and sets up the server's own routes: /healthz, /readyz,
// /metrics, sign-in, and /debug/pprof/ when it is asked for.
func New(opt Options) (*Server, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	opt.defaults()
	s := &Server{opt: opt, mux: http.NewServeMux(), budget: wire.NewBudget(max(clientMemory, 2*opt.MaxBody))}
	var err error
	if s.metrics, err = newMetrics(opt.Registry, opt.Conns, opt.Auth); err != nil {
		return nil, err
	}
	if opt.Conns.Panicked == nil {
		opt.Conns.Panicked = func(v any, stack []byte) {
			opt.Logger.Error("a stream panicked", "panic", fmt.Sprint(v), "stack", string(stack))
		}
	}
	s.addOwnRoutes()
	return s, nil
}

// Conns are the streams of this server, for the dialects.
func (s *Server) Conns() *wire.Conns { return s.opt.Conns }

// Handle adds a route. Like http.ServeMux it panics when the pattern is wrong or
// there already. Call it before Run.
func (s *Server) Handle(r Route) {
	s.mux.Handle(r.Pattern, s.guard(r))
	s.routes = append(s.routes, r)
}

// NotFound sets the page that browsers get for an address without a route, with the status 404. Call it before Run.
func (s *Server) NotFound(page http.Handler) { s.notFound = page }

// Routes lists the routes that were added, the server's own first.
func (s *Server) Routes() []Route { return slices.Clone(s.routes) }

// Handler returns the complete handler, for tests and for embedding in another server.
func (s *Server) Handler() http.Handler { return s.outer(s.mux) }

// Run listens and serves until ctx ends. Then it stops accepting, ends the contexts of
// open streams with the cause wire.ErrShutdown, lets handlers finish within the grace
// time, closes the rest, and returns. The error is nil when everything ended in time.
func (s *Server) Run(ctx context.Context) error {
	l, err := s.listen(ctx)
	if err != nil {
		return err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{
		Handler:           s.Handler(),
		Protocols:         protocols,
		ReadHeaderTimeout: s.opt.ReadHeaderTimeout,
		IdleTimeout:       s.opt.IdleTimeout,
		MaxHeaderBytes:    s.opt.MaxHeader,
		ErrorLog:          slog.NewLogLogger(s.opt.Logger.Handler(), slog.LevelDebug),
	}
	serve := func() error { return srv.Serve(l) }
	if s.opt.CertFile != "" {
		config, err := s.tls()
		if err != nil {
			return errors.Join(err, l.Close())
		}
		srv.TLSConfig = config
		serve = func() error { return srv.ServeTLS(l, "", "") }
	}
	served := make(chan error, 1)
	go func() { served <- serve() }()
	if s.opt.Started != nil {
		s.opt.Started(l.Addr())
	}

	select {
	case err := <-served: // the listener broke
		return errors.Join(fmt.Errorf("serve %s: %w", l.Addr(), err), s.stop(srv))
	case <-ctx.Done():
	}
	err = s.stop(srv)
	<-served
	return err
}

// stop ends everything within the grace time.
func (s *Server) stop(srv *http.Server) error {
	s.stopping.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), s.opt.Grace) // the caller's has ended already
	defer cancel()
	streams := make(chan error, 1)
	go func() { streams <- s.opt.Conns.Shutdown(ctx) }()
	err := srv.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("some requests were closed: they had not ended %s after the stop", s.opt.Grace)
		_ = srv.Close() // ends the contexts of the handlers
	}
	return errors.Join(err, <-streams, s.wait())
}

// lateHandlers is how long handlers may run after their requests were closed.
const lateHandlers = 2 * time.Second

// enter and leave count handlers: net/http does not wait for those it has closed.
func (s *Server) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active++
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active--; s.active == 0 && s.none != nil {
		close(s.none)
		s.none = nil
	}
}

func (s *Server) wait() error {
	s.mu.Lock()
	if s.active == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.none == nil {
		s.none = make(chan struct{})
	}
	none := s.none
	s.mu.Unlock()
	late := time.NewTimer(lateHandlers)
	defer late.Stop()
	select {
	case <-none:
		return nil
	case <-late.C:
		return errors.New("some requests still run after they were closed")
	}
}

func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	if s.opt.Listener != nil {
		return s.opt.Listener, nil
	}
	return Listen(ctx, s.opt.Addr)
}

// Listen listens on an address. Its errors say what to do.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use by another program, perhaps another parley: stop that one, or choose another address with --addr (port 0 takes a free one): %w", addr, err)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("listening on %s is not permitted: ports below 1024 need special rights, so choose a higher one with --addr: %w", addr, err)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return l, nil
}
