package sidecar

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/wire"
)

// maxPost bounds what the agent may post.
const maxPost = 1 << 20

// serve answers the agent until ctx ends. There is no authentication: every client that
// reaches the address counts as the agent, so it must be reachable inside the pod only.
func (s *Sidecar) serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	<-ctx.Done()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if srv.Shutdown(end) != nil {
		_ = srv.Close() // their contexts have ended
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler returns the routes for the agent.
func (s *Sidecar) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	mux.Handle("POST /event", s.answering(func(w http.ResponseWriter, r *http.Request) error { return s.serveEvent(w, r, "") }))
	for route, typ := range map[string]string{
		"status": "agent.status", "artifact": "agent.artifact", "share": "agent.share", "permission": "agent.permission_request",
		"input-request": "agent.input_request", "error": "agent.error", "message-caller": "agent.message_to_caller",
	} {
		mux.Handle("POST /"+route, s.recorded(func(w http.ResponseWriter, r *http.Request) error { return s.serveEvent(w, r, typ) }))
	}
	for _, domain := range domains {
		mux.Handle("POST /"+domain+"/{op}", s.recorded(func(w http.ResponseWriter, r *http.Request) error { return s.serveProvider(w, r, domain) }))
	}
	mux.Handle("GET /collections", s.recorded(func(w http.ResponseWriter, r *http.Request) error {
		s.answer(w, r, http.StatusOK, map[string]any{"collections": append([]Collection{}, s.opt.Collections...)})
		return nil
	}))
	s.childRoutes(mux)
	mux.Handle("/", s.recorded(func(_ http.ResponseWriter, r *http.Request) error {
		return chat.Errorf(chat.NotFound, "the sidecar has no %s %s", r.Method, text.Clip(r.URL.Path, 120))
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" {
			// A web page in a browser on this machine is not the agent.
			s.fail(w, r, chat.Errorf(chat.Denied, "web pages may not call the sidecar"))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// handler answers a request of the agent. The error that it returns becomes the answer.
type handler func(w http.ResponseWriter, r *http.Request) error

func (s *Sidecar) answering(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.fail(w, r, err)
		}
	}
}

// recorded adds a traffic record for each call.
func (s *Sidecar) recorded(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		s.answering(h)(seen, r)
		s.traffic.add(record{Direction: "from_agent", Method: r.Method, Route: text.Clip(r.URL.Path, 120), Status: seen.status, Took: time.Since(began)})
	})
}

// statusWriter keeps the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// postedEvent is the body of POST /event.
type postedEvent struct {
	Type     string          `json:"type"`
	Payload  json.RawMessage `json:"payload"`
	ClientID string          `json:"client_id"`
}

// serveEvent appends an event that the agent posted and answers when it is
// durable. With a type given, the body is the payload.
func (s *Sidecar) serveEvent(w http.ResponseWriter, r *http.Request, typ string) error {
	b, err := wire.ReadBody(r, maxPost)
	if err == nil {
		err = wire.CheckJSON(b, 128)
	}
	p := postedEvent{Type: typ, Payload: b}
	if err == nil && typ == "" {
		p = postedEvent{}
		if json.Unmarshal(b, &p) != nil || p.Type == "" {
			err = chat.Errorf(chat.Invalid, "an event is {type, payload}")
		}
	}
	if err == nil && !strings.HasPrefix(p.Type, "agent.") && !strings.HasPrefix(p.Type, "session.") {
		err = chat.Errorf(chat.Invalid, "an agent posts events of types agent.… and session.…, not %q", text.Clip(p.Type, 120))
	}
	if err != nil {
		return err
	}
	if key := r.Header.Get("Idempotency-Key"); p.ClientID == "" {
		p.ClientID = key
	}
	if len(p.Payload) == 0 {
		p.Payload = json.RawMessage("{}")
	}
	answer, err := s.appendPosted(r.Context(), &p)
	if err == nil {
		s.answer(w, r, http.StatusOK, answer)
	}
	return err
}

// appendPosted appends one posted event.
func (s *Sidecar) appendPosted(ctx context.Context, p *postedEvent) (map[string]any, error) {
	d := draft{typ: p.Type, payload: p.Payload, key: "p:" + p.ClientID}
	if p.ClientID == "" {
		d.key = "p:" + rand.Text()
	}
	answer := map[string]any{"ok": true}
	switch p.Type {
	case "session.started":
		boot, err := s.stream.boot(ctx, p.ClientID)
		if err != nil {
			return nil, err
		}
		d.key = bootKey(boot, p.ClientID)
	case "agent.permission_request":
		payload, request, err := permission(p.Payload, d.key)
		if err != nil {
			return nil, err
		}
		d.payload = payload
		answer["request_id"] = request
	}
	reply, err := s.write.send(ctx, d)
	if p.Type == "session.started" && chat.CodeOf(err) == chat.Conflict {
		// The same process posts another start: that is an event of its own.
		d.key = "p:" + rand.Text()
		reply, err = s.write.send(ctx, d)
	}
	if err != nil {
		return nil, err
	}
	answer["sequence"], answer["id"] = reply.Sequence, reply.ID
	if reply.Dropped != "" {
		answer["dropped"] = reply.Dropped
	}
	return answer, nil
}

// answer sends JSON.
func (s *Sidecar) answer(w http.ResponseWriter, r *http.Request, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	edge.SendJSON(w, r, status, s.conn.removeSecrets(b))
}

// fail sends an error in the form that x1's tools read.
func (s *Sidecar) fail(w http.ResponseWriter, r *http.Request, err error) {
	var e *relayError
	if !errors.As(err, &e) {
		public := chat.Public(err)
		e = &relayError{edge.Status(public.Code), string(public.Code), public.Msg}
		switch public.Code {
		case chat.Internal:
			s.log.Error("a request of the agent failed", "path", text.Clip(r.URL.Path, 120), "err", err)
		case chat.Unauthenticated:
			e.status = http.StatusBadGateway // the sidecar's login, not the agent's
		}
	}
	s.answer(w, r, e.status, map[string]any{"ok": false, "error": map[string]any{"code": e.code, "message": e.message}})
}
