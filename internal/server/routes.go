package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
)

// readyTimeout is the time limit of Options.Ready.
const readyTimeout = 5 * time.Second

// The paths of probes, which are served for every Host.
const (
	healthPath = "/healthz"
	readyPath  = "/readyz"
)

// addOwnRoutes adds the routes of the server itself.
func (s *Server) addOwnRoutes() {
	s.Handle(Route{Pattern: "GET " + healthPath, Public: true, Handler: http.HandlerFunc(health)})
	s.Handle(Route{Pattern: "GET " + readyPath, Public: true, Handler: http.HandlerFunc(s.ready)})
	s.Handle(Route{Pattern: "GET /metrics", Handler: admin(promhttp.HandlerFor(s.opt.Registry, promhttp.HandlerOpts{}))})
	// The sign-in routes authenticate by themselves.
	signIn := s.opt.Auth.Handler(WriteError)
	// Patterns name their methods: without, they would conflict with a console at "GET /".
	s.Handle(Route{Pattern: "GET " + auth.LinkPath, Public: true, Handler: signIn})
	for _, method := range []string{"GET ", "POST ", "DELETE "} {
		s.Handle(Route{Pattern: method + auth.SessionPath, Public: true, Handler: signIn})
	}
	if s.opt.Pprof {
		s.Handle(Route{Pattern: "GET /debug/pprof/", Handler: admin(http.HandlerFunc(pprof.Index))})
		s.Handle(Route{Pattern: "GET /debug/pprof/cmdline", Handler: admin(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			WriteError(w, r, chat.Errorf(chat.NotFound, "the command line is not shown: it may hold tokens and secrets"))
		}))})
		s.Handle(Route{Pattern: "GET /debug/pprof/profile", Handler: admin(notByPage(pprof.Profile))})
		s.Handle(Route{Pattern: "GET /debug/pprof/symbol", Handler: admin(http.HandlerFunc(pprof.Symbol))})
		s.Handle(Route{Pattern: "GET /debug/pprof/trace", Handler: admin(notByPage(pprof.Trace))})
	}
}

// notByPage refuses requests that a web page makes a browser send. Requests from the
// address bar and from programs are served.
func notByPage(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "none" {
			WriteError(w, r, chat.Errorf(chat.Denied, "a web page may not start a profile: open its address in the browser, or use `go tool pprof`"))
			return
		}
		next(w, r)
	})
}

// health answers as long as the process runs.
func health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, "ok\n")
}

// NotReady is an error of Options.Ready whose text everyone may read.
type NotReady string

func (e NotReady) Error() string { return string(e) }

// ready answers whether the server accepts requests; with ?reads, whether it can read, also if it cannot write. The reason is only
// logged, because this route is public, unless it is a NotReady.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if s.stopping.Load() {
		WriteError(w, r, chat.Errorf(chat.Unavailable, "the server is shutting down: try again in a moment"))
		return
	}
	ready, reads := s.opt.Ready, s.opt.Reads != nil && r.URL.Query().Has("reads")
	if reads {
		ready = s.opt.Reads
	}
	if ready != nil {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		err := ready(ctx)
		if !reads {
			s.logReady(ctx, err)
		}
		if err != nil {
			if why, ok := errors.AsType[NotReady](err); ok {
				WriteError(w, r, chat.Errorf(chat.Unavailable, "%s", string(why)))
				return
			}
			WriteError(w, r, chat.Errorf(chat.Unavailable, "the server is not ready: its log says why").Because(err))
			return
		}
	}
	health(w, r)
}

// logReady logs each change of readiness once: anyone may ask this route, as often as they like.
func (s *Server) logReady(ctx context.Context, err error) {
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	s.mu.Lock()
	changed := reason != s.notReady
	s.notReady = reason
	s.mu.Unlock()
	switch {
	case !changed:
	case err != nil:
		s.opt.Logger.WarnContext(ctx, "not ready", "err", err)
	default:
		s.opt.Logger.InfoContext(ctx, "ready again")
	}
}

func admin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := auth.From(r.Context()); !ok || !c.AdministersAll() {
			WriteError(w, r, chat.Errorf(chat.Denied, "this needs the scope admin for all workspaces: use a token that has it"))
			return
		}
		next.ServeHTTP(w, r)
	})
}
