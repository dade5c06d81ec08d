package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/wire"
)

// outer applies the rules for all requests, also those without a route.
func (s *Server) outer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		s.enter()
		defer s.leave()
		begun := time.Now()
		w := &recorder{ResponseWriter: rw, request: r, dialect: "server", notFound: s.notFound}
		if s.opt.Node != "" {
			w.Header().Set("Parley-Node", s.opt.Node)
		}
		if s.opt.AsOf != nil {
			if at := s.opt.AsOf(); !at.IsZero() {
				w.Header().Set("Parley-As-Of", at.UTC().Format(time.RFC3339Nano))
			}
		}
		defer func() {
			v := recover()
			if v != nil && v != http.ErrAbortHandler {
				s.opt.Logger.ErrorContext(r.Context(), "a handler panicked", "panic", fmt.Sprint(v), "path", r.URL.Path, "stack", string(debug.Stack()))
				if !w.begun() {
					WriteError(w, r, chat.Errorf(chat.Internal, "something went wrong on the server; the log of the server has the cause"))
					v = nil
				} else {
					v = http.ErrAbortHandler // an incomplete answer must not look complete
				}
			}
			took := time.Since(begun)
			s.metrics.observe(w.dialect, r.Method, w.code(), took)
			s.log(r, w, took)
			if v != nil {
				wire.BreakOff(rw, r)
				panic(v)
			}
		}()
		if !s.refuse(w, r, nil, "host", s.checkHost(r)) &&
			!s.refuse(w, r, nil, "origin", s.opt.Auth.CheckOrigin(r)) &&
			!s.refuse(w, r, nil, "path", checkPath(r)) &&
			!s.refuse(w, r, nil, "start", s.checkServes(r)) &&
			!s.opt.Auth.CORS(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// checkHost refuses hosts that are not served, except for the probes: load balancers and Kubernetes ask for the address of a
// machine or a pod, and the answer has nothing that a page of another name must not read.
func (s *Server) checkHost(r *http.Request) error {
	if r.URL.Path == healthPath || r.URL.Path == readyPath {
		return nil
	}
	return s.opt.Auth.CheckHost(r)
}

// checkServes refuses requests that the server cannot answer yet.
func (s *Server) checkServes(r *http.Request) error {
	if s.opt.Serves == nil || r.URL.Path == healthPath || r.URL.Path == readyPath {
		return nil
	}
	return s.opt.Serves(r)
}

// checkPath refuses . and .. as names in the path. Clients resolve them before they
// send a request; net/http would redirect a request that contains them.
func checkPath(r *http.Request) error {
	for name := range strings.SplitSeq(r.URL.EscapedPath(), "/") {
		if name == "." || name == ".." {
			return chat.Errorf(chat.Invalid, "the address has . or .. as a name: write out the path that is meant")
		}
	}
	return nil
}

// refuse answers when err is not nil.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, fail func(http.ResponseWriter, *http.Request, error), rule string, err error) bool {
	if err == nil {
		return false
	}
	s.metrics.refused.WithLabelValues(rule).Inc()
	if fail == nil {
		fail = WriteError
	} else {
		edge.SetErrorHeaders(w.Header(), chat.Public(err))
	}
	fail(w, r, err)
	return true
}

// isPlainText reports whether a request has the content type text/plain. Where a route allows it, the check of the origin,
// which every request has passed, keeps out the pages of other sites.
func isPlainText(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "text/plain" && len(r.Header["Content-Type"]) == 1
}

// guard applies the rules for one route.
func (s *Server) guard(route Route) http.Handler {
	a := s.opt.Auth
	if route.Dialect == "" {
		route.Dialect = "server"
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rec, ok := w.(*recorder); ok {
			rec.dialect = route.Dialect
		}
		if !route.Upload && !(route.PlainText && isPlainText(r)) && s.refuse(w, r, route.Fail, "content_type", a.CheckContentType(r)) {
			return
		}
		ctx, caller, err := a.Identify(r, route.QueryToken)
		if err != nil && !route.Public {
			s.refuse(w, r, route.Fail, "auth", err)
			return
		}
		if err == nil {
			if s.refuse(w, r, route.Fail, "rate", a.Allow(caller)) {
				return
			}
			if route.Deliberate && s.refuse(w, r, route.Fail, "deliberate", a.CheckDeliberate(r)) {
				return
			}
		}
		bound := err == nil && !a.Open()
		if bound {
			// The request and a stream that it opens end with the credential.
			ctx = wire.Bind(ctx, func(ctx context.Context) (context.Context, context.CancelFunc) { return a.Context(ctx, caller) })
			var release context.CancelFunc
			ctx, release = a.Context(ctx, caller)
			defer release()
		}
		if !a.Open() {
			client := "address " + auth.ClientAddressOf(ctx)
			if err == nil {
				client = edge.ClientOf(caller)
			}
			var done func()
			ctx, done = s.budget.Charge(ctx, client)
			defer done()
		}
		r = r.WithContext(ctx) // a copy: net/http uses the body of the original
		if bound {
			defer wire.BindBody(w, r)()
		}
		timed := func(piece time.Duration) *timedBody {
			return &timedBody{ReadCloser: r.Body, w: http.NewResponseController(w), piece: piece}
		}
		switch {
		case r.Body == nil || r.Body == http.NoBody || route.LongBody:
		case route.Upload: // its handler has a limit of its own
			r.Body = timed(2 * s.opt.BodyTimeout)
		default:
			if r.ContentLength > s.opt.MaxBody {
				drain(w, r)
				s.refuse(w, r, route.Fail, "body", tooLarge(s.opt.MaxBody))
				return
			}
			r.Body = http.MaxBytesReader(w, timed(s.opt.BodyTimeout), s.opt.MaxBody)
		}
		route.Handler.ServeHTTP(w, r)
	})
}

// Most clients send a complete body before they read the answer. They would get a
// broken connection instead of the reason, so more than the limit is read.
const (
	swallowed = 64 << 20
	drainTime = 5 * time.Second
)

// drain discards a body that is refused. A client that sends Expect waits for the
// answer before it sends the body.
func drain(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Expect") != "" || r.ContentLength > swallowed {
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(drainTime)) // writers in tests may have no deadlines
	_, _ = io.Copy(io.Discard, r.Body)
	_ = control.SetReadDeadline(time.Time{})
}

func tooLarge(limit int64) error {
	return chat.Errorf(chat.TooLarge, "the body is larger than %d bytes: send it in parts, or upload large content as artifacts", limit).With("limit", limit)
}

// timedBody sets a deadline for each piece of a body, so that a client cannot occupy a
// handler by sending a byte an hour. The deadline is removed with the last piece:
// after that, net/http reads to notice a disconnect, which must not fail.
type timedBody struct {
	io.ReadCloser
	w     *http.ResponseController
	piece time.Duration
}

func (b *timedBody) Read(p []byte) (int, error) {
	_ = b.w.SetReadDeadline(time.Now().Add(b.piece)) // writers in tests may have no deadlines
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.w.SetReadDeadline(time.Time{})
	}
	return n, err
}

// log writes one line per request at debug, without secrets.
func (s *Server) log(r *http.Request, w *recorder, took time.Duration) {
	ctx := context.WithoutCancel(r.Context())
	if !s.opt.Logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	s.opt.Logger.DebugContext(ctx, "request", "method", methodLabel(r.Method), "url", redactURL(r.URL), "dialect", w.dialect,
		"status", w.code(), "took", took, "remote", r.RemoteAddr)
}
