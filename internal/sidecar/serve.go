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
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// maxPost bounds what the agent may post.
const maxPost = 1 << 20

// serve answers the agent until ctx ends. There is no authentication: whoever can
// reach the address is the agent, so it belongs to the inside of a pod.
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
		_ = srv.Close() // what is under way was told that we end
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler lists what the agent can ask for.
func (s *Sidecar) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	mux.HandleFunc("POST /event", func(w http.ResponseWriter, r *http.Request) { s.serveEvent(w, r, "") })
	for route, typ := range map[string]string{
		"status": "agent.status", "artifact": "agent.artifact", "share": "agent.share", "permission": "agent.permission_request",
		"input-request": "agent.input_request", "error": "agent.error", "message-caller": "agent.message_to_caller",
	} {
		mux.Handle("POST /"+route, s.audited(func(w http.ResponseWriter, r *http.Request) { s.serveEvent(w, r, typ) }))
	}
	for _, domain := range Domains {
		mux.Handle("POST /"+domain+"/{op}", s.audited(func(w http.ResponseWriter, r *http.Request) { s.serveProvider(w, r, domain) }))
	}
	mux.Handle("GET /collections", s.audited(func(w http.ResponseWriter, r *http.Request) {
		list := s.opt.Collections
		if list == nil {
			list = []Collection{}
		}
		s.answer(w, r, http.StatusOK, map[string]any{"collections": list})
	}))
	s.orchestrate(mux)
	mux.Handle("/", s.audited(func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, chat.Errorf(chat.NotFound, "the sidecar has no %s %s", r.Method, clip(r.URL.Path)))
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" {
			// A web page in a browser on this machine is not the agent.
			s.fail(w, r, chat.Errorf(chat.Denied, "web pages have no business here"))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// audited notes a call when it has been answered.
func (s *Sidecar) audited(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := s.opt.Now()
		seen := &watched{ResponseWriter: w, status: http.StatusOK}
		h(seen, r)
		s.audit.note(record{Direction: "from_agent", Method: r.Method, Route: clip(r.URL.Path), Status: seen.status, Took: s.opt.Now().Sub(began)})
	})
}

// watched remembers the status of an answer.
type watched struct {
	http.ResponseWriter
	status int
}

func (w *watched) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// posted is what the agent's tools post.
type posted struct {
	Type     string          `json:"type"`
	Payload  json.RawMessage `json:"payload"`
	ClientID string          `json:"client_id"`
}

// serveEvent appends an event that the agent posted and answers when it is
// durable. With a type given, the body is the payload.
func (s *Sidecar) serveEvent(w http.ResponseWriter, r *http.Request, typ string) {
	b, err := wire.ReadBody(r, maxPost)
	if err == nil {
		err = wire.CheckJSON(b, 128)
	}
	p := posted{Type: typ, Payload: b}
	if err == nil && typ == "" {
		p = posted{}
		if json.Unmarshal(b, &p) != nil || p.Type == "" {
			err = chat.Errorf(chat.Invalid, "an event is {type, payload}")
		}
	}
	if err == nil && !strings.HasPrefix(p.Type, "agent.") && !strings.HasPrefix(p.Type, "session.") {
		err = chat.Errorf(chat.Invalid, "an agent posts events of types agent.… and session.…, not %q", clip(p.Type))
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if key := r.Header.Get("Idempotency-Key"); p.ClientID == "" {
		p.ClientID = key
	}
	if len(p.Payload) == 0 {
		p.Payload = json.RawMessage("{}")
	}
	answer, err := s.post1(r.Context(), &p)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.answer(w, r, http.StatusOK, answer)
}

// post1 appends one posted event.
func (s *Sidecar) post1(ctx context.Context, p *posted) (map[string]any, error) {
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
		// The same boot says something else of itself: that is an event of its own.
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
	w.Header().Set("Content-Type", "application/json")
	if err := wire.WriteBody(w, r, status, s.link.hide(b)); err != nil {
		s.log.Debug("an answer could not be sent to the agent", "err", err)
	}
}

var statusOf = map[chat.Code]int{
	chat.Invalid: http.StatusBadRequest, chat.Unauthenticated: http.StatusBadGateway, chat.Denied: http.StatusForbidden,
	chat.NotFound: http.StatusNotFound, chat.Conflict: http.StatusConflict, chat.Gone: http.StatusGone,
	chat.TooLarge: http.StatusRequestEntityTooLarge, chat.SlowDown: http.StatusTooManyRequests,
	chat.Unavailable: http.StatusServiceUnavailable, chat.Internal: http.StatusInternalServerError,
}

// fail sends an error in the form that x1's tools know.
func (s *Sidecar) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := chat.Public(err)
	if e.Code == chat.Internal {
		s.log.Error("a request of the agent failed", "path", clip(r.URL.Path), "err", err)
	}
	s.failWith(w, r, statusOf[e.Code], string(e.Code), e.Msg)
}

func (s *Sidecar) failWith(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	s.answer(w, r, status, map[string]any{"ok": false, "error": map[string]any{"code": code, "message": message}})
}

func clip(text string) string {
	if len(text) > 120 {
		return strings.ToValidUTF8(text[:120], "") + "…"
	}
	return text
}
