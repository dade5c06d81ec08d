package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/wire"
)

const (
	aliceToken = "alice-0123456789abcdef"
	adminToken = "admin-0123456789abcdef"
)

func withTokens(t *testing.T, change func(*auth.Options)) *auth.Auth {
	t.Helper()
	o := auth.Options{Tokens: []auth.Token{
		{Token: aliceToken, Actor: chat.Actor{Kind: chat.User, ID: "alice"}, Scopes: []chat.Scope{chat.ScopeUser}},
		{Token: adminToken, Actor: chat.Actor{Kind: chat.User, ID: "root"}, Scopes: []chat.Scope{chat.ScopeAdmin}, AllWorkspaces: true},
	}}
	if change != nil {
		change(&o)
	}
	a, err := auth.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func openAuth(t *testing.T) *auth.Auth {
	t.Helper()
	a, err := auth.New(auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newServer(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// callerHandler answers with the caller and the size of the body.
func callerHandler(a *auth.Auth) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := wire.ReadBody(r, 1<<30)
		if errors.Is(err, wire.ErrTooLarge) {
			WriteError(w, r, chat.Errorf(chat.TooLarge, "too large"))
			return
		}
		c, err := a.Caller(r)
		if err != nil {
			WriteError(w, r, err)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"who": c.Actor.ID, "bytes": len(body)})
	})
}

type answer struct {
	*http.Response
	body string
	code string
}

func do(t *testing.T, h http.Handler, r *http.Request) answer {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var e struct {
		Error struct {
			Code, Message string
			Details       map[string]any
		}
	}
	body := w.Body.String()
	json.Unmarshal([]byte(body), &e)
	if w.Code >= 400 && r.Method != "HEAD" && (e.Error.Code == "" || e.Error.Message == "" || e.Error.Details == nil) {
		t.Errorf("%s %s: the error is not in our form: %s", r.Method, r.URL, body)
	}
	return answer{w.Result(), body, e.Error.Code}
}

func req(method, target, body string, header ...string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// A client that sends a whole large body before it reads the answer gets the refusal, not a broken connection.
func TestLargeBodiesAreReadBeforeTheyAreRefused(t *testing.T) {
	s := newServer(t, Options{Auth: openAuth(t), MaxBody: 1000})
	s.Handle(Route{Pattern: "/plain", Dialect: "test", Handler: http.NotFoundHandler()})
	for expect, left := range map[string]int{"": 0, "100-continue": 2000} {
		body := strings.NewReader(strings.Repeat("x", 2000))
		r := req("POST", "http://localhost:8000/plain", "", "Content-Type", "application/json", "Expect", expect)
		r.Body, r.ContentLength = io.NopCloser(body), 2000
		if got := do(t, s.Handler(), r); got.StatusCode != 413 || body.Len() != left {
			t.Errorf("Expect %q: %s with %d bytes not read, want 413 and %d", expect, got.Status, body.Len(), left)
		}
	}
}

// A person who mistypes an address gets a page; a program gets the error.
// A caller who does not read answers gets no further large ones, and others are served.
func TestAnswersThatAreNotReadAreLimited(t *testing.T) {
	begun, large := make(chan struct{}, 1), make([]byte, clientMemory*3/4)
	addr, _ := start(t, Options{Auth: withTokens(t, nil)},
		Route{Pattern: "GET /large", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			edge.SendJSON(startWriter{w, begun}, r, http.StatusOK, large)
		})},
		Route{Pattern: "GET /small", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			edge.SendJSON(w, r, http.StatusOK, []byte("{}"))
		})},
	)
	get := func(path, token string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Accept-Encoding", "identity")
		res, err := client(t, true, false, false).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	first := get("/large", aliceToken)
	<-begun
	for path, status := range map[string]int{"/large": 429, "/small": 200} {
		if res := get(path, aliceToken); res.StatusCode != status || status == 429 && res.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %s %v", path, res.Status, res.Header)
		}
	}
	if res := get("/large", adminToken); res.StatusCode != 200 {
		t.Errorf("another caller: %s", res.Status)
	}
	if n, err := io.Copy(io.Discard, first.Body); n != int64(len(large)) || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// startWriter reports when an answer begins.
type startWriter struct {
	http.ResponseWriter
	begun chan<- struct{}
}

func (w startWriter) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	select {
	case w.begun <- struct{}{}:
	default:
	}
}

func TestBrowsersGetAPageForAnUnknownAddress(t *testing.T) {
	s := newServer(t, Options{Auth: openAuth(t)})
	s.NotFound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusOK)
		io.WriteString(w, "<h1>"+r.URL.Path+"</h1>")
	}))
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, req("GET", "http://localhost:8000/inboxx", "", "Accept", "text/html,*/*;q=0.8"))
	if w.Code != 404 || w.Body.String() != "<h1>/</h1>" || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("a browser got %d %q: %s", w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	for _, r := range []*http.Request{req("GET", "http://localhost:8000/inboxx", "", "Accept", "*/*"), req("POST", "http://localhost:8000/inboxx", "{}", "Accept", "text/html", "Content-Type", "application/json")} {
		if got := do(t, s.Handler(), r); got.StatusCode != 404 || got.code != "not_found" {
			t.Errorf("%s: %d %s", r.Method, got.StatusCode, got.code)
		}
	}
}

func TestHostileRequestsAreRefused(t *testing.T) {
	a := withTokens(t, nil)
	reg := prometheus.NewRegistry()
	s := newServer(t, Options{Auth: a, MaxBody: 1000, Registry: reg})
	for _, r := range []Route{
		{Pattern: "/plain"}, {Pattern: "/query", QueryToken: true}, {Pattern: "POST /upload", Upload: true}, {Pattern: "/public", Public: true}, {Pattern: "/long", LongBody: true},
	} {
		r.Handler, r.Dialect = callerHandler(a), "test"
		s.Handle(r)
	}
	h := s.Handler()
	bearer := "Bearer " + aliceToken
	big := strings.Repeat("x", 2000)
	const base = "http://localhost:8000"
	for _, c := range []struct {
		name   string
		r      *http.Request
		status int
		code   string
	}{
		{"a good request", req("POST", base+"/plain", "{}", "Authorization", bearer, "Content-Type", "application/json"), 200, ""},
		{"no token", req("GET", base+"/plain", ""), 401, "unauthenticated"},
		{"wrong token", req("GET", base+"/plain", "", "Authorization", "Bearer x"), 401, "unauthenticated"},
		{"rebinding host", req("GET", base+"/plain", "", "Host", "evil.com", "Authorization", bearer), 421, "denied"},
		{"rebinding host, unknown route", req("GET", base+"/nothing", "", "Host", "evil.com:8000"), 421, "denied"},
		{"rebinding host, metrics", req("GET", base+"/metrics", "", "Host", "evil.com", "Authorization", "Bearer "+adminToken), 421, "denied"},
		{"health by the address of a pod", req("GET", base+"/healthz", "", "Host", "10.0.0.1:8000"), 200, ""},
		{"ready by the address of a pod", req("GET", base+"/readyz", "", "Host", "10.0.0.1:8000"), 200, ""},
		{"health for a page of another site", req("GET", base+"/healthz", "", "Host", "10.0.0.1:8000", "Origin", "https://evil.com"), 403, "denied"},
		{"form text/plain", req("POST", base+"/plain", "{}", "Authorization", bearer, "Content-Type", "text/plain"), 415, "invalid"},
		{"form urlencoded", req("POST", base+"/plain", "a=b", "Authorization", bearer, "Content-Type", "application/x-www-form-urlencoded"), 415, "invalid"},
		{"form multipart", req("POST", base+"/plain", "", "Authorization", bearer, "Content-Type", "multipart/form-data; boundary=a"), 415, "invalid"},
		{"multipart on an upload route", req("POST", base+"/upload", "x", "Authorization", bearer, "Content-Type", "multipart/form-data; boundary=a"), 200, ""},
		{"cross-site upload", req("POST", base+"/upload", "x", "Origin", "https://evil.com", "Content-Type", "multipart/form-data; boundary=a", "Authorization", bearer), 403, "denied"},
		{"cross-origin fetch", req("GET", base+"/plain", "", "Origin", "https://evil.com", "Authorization", bearer), 403, "denied"},
		{"cross-site POST", req("POST", base+"/plain", "{}", "Sec-Fetch-Site", "cross-site", "Authorization", bearer, "Content-Type", "application/json"), 403, "denied"},
		{"preflight of a stranger", req("OPTIONS", base+"/plain", "", "Origin", "https://evil.com", "Access-Control-Request-Method", "PUT"), 403, "denied"},
		{"cross-site WebSocket", req("GET", base+"/plain", "", "Origin", "https://evil.com", "Connection", "Upgrade", "Upgrade", "websocket", "Authorization", bearer), 403, "denied"},
		{"query token where it is not taken", req("GET", base+"/plain?access_token="+aliceToken, ""), 401, "unauthenticated"},
		{"query token where it is taken", req("GET", base+"/query?access_token="+aliceToken, ""), 200, ""},
		{"oversize body", req("POST", base+"/plain", big, "Authorization", bearer), 413, "too_large"},
		{"oversize body of unknown length", unsized(req("POST", base+"/plain", big, "Authorization", bearer)), 413, "too_large"},
		{"large upload", req("POST", base+"/upload", big, "Authorization", bearer), 200, ""},
		{"long body", req("POST", base+"/long", big, "Authorization", bearer), 200, ""},
		{"public without token", req("GET", base+"/public", ""), 401, "unauthenticated"}, // by the handler itself
		{"public with token", req("GET", base+"/public", "", "Authorization", bearer), 200, ""},
		{"metrics without token", req("GET", base+"/metrics", ""), 401, "unauthenticated"},
		{"metrics of a user", req("GET", base+"/metrics", "", "Authorization", bearer), 403, "denied"},
		{"metrics of an admin", req("GET", base+"/metrics", "", "Authorization", "Bearer "+adminToken), 200, ""},
		{"profiles when not asked for", req("GET", base+"/debug/pprof/", "", "Authorization", "Bearer "+adminToken), 404, "not_found"},
		{"no such route", req("GET", base+"/nothing", ""), 404, "not_found"},
		{"wrong method", req("GET", base+"/upload", ""), 405, "invalid"},
		{"climbing path", req("GET", base+"/plain/../public", "", "Authorization", bearer), 400, "invalid"},
		{"dot in the path", req("GET", base+"/./public", "", "Authorization", bearer), 400, "invalid"},
		{"health", req("GET", base+"/healthz", ""), 200, ""},
		{"ready", req("GET", base+"/readyz", ""), 200, ""},
	} {
		got := do(t, h, c.r)
		if got.StatusCode != c.status || got.code != c.code {
			t.Errorf("%s: %s %s, want %d %s", c.name, got.Status, got.body, c.status, c.code)
		}
		if c.status == 401 && got.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no WWW-Authenticate", c.name)
		}
		if c.status == 405 && got.Header.Get("Allow") != "POST" {
			t.Errorf("%s: Allow is %q", c.name, got.Header.Get("Allow"))
		}
	}
	metrics := do(t, h, req("GET", base+"/metrics", "", "Authorization", "Bearer "+adminToken)).body
	for _, line := range []string{
		`parley_http_requests_total{code="2xx",dialect="test",method="POST"}`, `parley_http_refused_total{rule="host"} 3`, `parley_streams_open 0`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
	if families, err := reg.Gather(); err != nil || len(families) != 5 {
		t.Errorf("%d metrics, %v", len(families), err)
	}
}

func unsized(r *http.Request) *http.Request {
	r.ContentLength = -1
	return r
}

func TestRefusalsHaveTheFormOfTheDialect(t *testing.T) {
	a := withTokens(t, func(o *auth.Options) { o.Rate, o.Burst = 1, 1 })
	s := newServer(t, Options{Auth: a})
	s.Handle(Route{Pattern: "/x", Handler: callerHandler(a), Fail: func(w http.ResponseWriter, _ *http.Request, err error) {
		w.WriteHeader(statusOf(err))
		io.WriteString(w, `{"error":{"code":"mine","message":"detail: `+string(chat.CodeOf(err))+`","details":{}}}`)
	}})
	got := do(t, s.Handler(), req("GET", "http://localhost/x", ""))
	if got.StatusCode != 401 || !strings.Contains(got.body, "detail: unauthenticated") || got.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("%s %s", got.Status, got.body)
	}
	for _, want := range []int{200, 429} {
		got = do(t, s.Handler(), req("GET", "http://localhost/x", "", "Authorization", "Bearer "+aliceToken))
		if got.StatusCode != want || want == 429 && got.Header.Get("Retry-After") != "1" {
			t.Errorf("%s %s %q", got.Status, got.body, got.Header.Get("Retry-After"))
		}
	}
}

func TestAllowedPageOfAnotherOrigin(t *testing.T) {
	a := openAuth(t)
	s := newServer(t, Options{Auth: a})
	s.Handle(Route{Pattern: "PUT /x", Handler: callerHandler(a)})
	ui := "http://localhost:3000"
	got := do(t, s.Handler(), req("OPTIONS", "http://127.0.0.1:8000/x", "", "Origin", ui, "Access-Control-Request-Method", "PUT"))
	if got.StatusCode != 204 || got.Header.Get("Access-Control-Allow-Origin") != ui {
		t.Errorf("preflight: %s %v", got.Status, got.Header)
	}
	got = do(t, s.Handler(), req("PUT", "http://127.0.0.1:8000/x", "{}", "Origin", ui, "Sec-Fetch-Site", "cross-site", "Content-Type", "application/json"))
	if got.StatusCode != 200 || got.Header.Get("Access-Control-Allow-Origin") != ui || !strings.Contains(got.body, "local") {
		t.Errorf("%s %s", got.Status, got.body)
	}
}

func TestPanicIsAnsweredAndLogged(t *testing.T) {
	var log bytes.Buffer
	s := newServer(t, Options{Auth: openAuth(t), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.Handle(Route{Pattern: "/boom", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret detail") })})
	s.Handle(Route{Pattern: "/half", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "half")
		panic("late")
	})})
	got := do(t, s.Handler(), req("GET", "http://localhost/boom", ""))
	if got.StatusCode != 500 || got.code != "internal" || strings.Contains(got.body, "secret") {
		t.Errorf("%s %s", got.Status, got.body)
	}
	if !strings.Contains(log.String(), "secret detail") || !strings.Contains(log.String(), "rules_test.go") {
		t.Errorf("the log lacks the cause: %s", log.String())
	}
	defer func() {
		if v := recover(); v != http.ErrAbortHandler {
			t.Errorf("half an answer ended with %v", v)
		}
	}()
	do(t, s.Handler(), req("GET", "http://localhost/half", ""))
}

// A client of HTTP/1.0 knows only from an error of the connection that an answer is not complete.
func TestOldClientNoticesHalfAnAnswer(t *testing.T) {
	s := newServer(t, Options{Auth: openAuth(t), Logger: slog.New(slog.DiscardHandler)})
	s.Handle(Route{Pattern: "GET /half", Public: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	})})
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET /half HTTP/1.0\r\nHost: localhost\r\n\r\n")
	if all, err := io.ReadAll(c); err == nil {
		t.Errorf("a proper end after %q", all)
	}
}

func TestConsoleAtTheRoot(t *testing.T) {
	for _, pattern := range []string{"GET /", "/"} {
		s := newServer(t, Options{Auth: openAuth(t), Pprof: true})
		s.Handle(Route{Pattern: pattern, Public: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "console") })})
		if got := do(t, s.Handler(), req("GET", "http://localhost/any", "")); got.body != "console" {
			t.Errorf("%s: %s", pattern, got.body)
		}
		if got := do(t, s.Handler(), req("GET", "http://localhost/auth/session", "")); !strings.Contains(got.body, "local") {
			t.Errorf("%s: %s", pattern, got.body)
		}
	}
}

// A server that does not have its data yet answers probes only. One whose data is old says from when it is.
func TestServerSaysThatItsDataIsOld(t *testing.T) {
	why := error(chat.Errorf(chat.Unavailable, "try again"))
	at := time.Time{}
	s := newServer(t, Options{Auth: openAuth(t), Serves: func(*http.Request) error { return why }, AsOf: func() time.Time { return at }})
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 503, "/nothing": 503} {
		if got := do(t, s.Handler(), req("GET", "http://localhost"+path, "")); got.StatusCode != want {
			t.Errorf("%s: %s", path, got.Status)
		}
	}
	why = nil
	if got := do(t, s.Handler(), req("GET", "http://localhost/metrics", "")); got.StatusCode != 200 || got.Header.Get("Parley-As-Of") != "" {
		t.Error(got.Status, got.Header)
	}
	at = time.Date(2026, 11, 19, 4, 30, 0, 5000, time.FixedZone("", 3600))
	if got := do(t, s.Handler(), req("GET", "http://localhost/metrics", "")); got.Header.Get("Parley-As-Of") != "2026-11-19T03:30:00.000005Z" {
		t.Error(got.Header)
	}
}

func TestReadyReportsErrorsAndShutdown(t *testing.T) {
	var why error
	var log bytes.Buffer
	s := newServer(t, Options{Auth: openAuth(t), Ready: func(context.Context) error { return why }, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if got := do(t, s.Handler(), req("GET", "http://localhost/readyz", "")); got.StatusCode != 200 {
		t.Error(got.Status)
	}
	why = errors.New("disk full at /secret/path")
	got := do(t, s.Handler(), req("GET", "http://localhost/readyz", ""))
	if got.StatusCode != 503 || strings.Contains(got.body, "secret") || got.Header.Get("Retry-After") == "" {
		t.Errorf("%s %s", got.Status, got.body)
	}
	for range 10 {
		do(t, s.Handler(), req("GET", "http://localhost/readyz", ""))
	}
	if n := strings.Count(log.String(), "disk full"); n != 1 {
		t.Errorf("eleven probes wrote the reason %d times to the log", n)
	}
	s.opt.Reads = func(context.Context) error { return nil }
	if got := do(t, s.Handler(), req("GET", "http://localhost/readyz?reads", "")); got.StatusCode != 200 {
		t.Errorf("a server that can only read: %s", got.Status)
	}
	why = nil
	s.stopping.Store(true)
	if got := do(t, s.Handler(), req("GET", "http://localhost/readyz", "")); got.StatusCode != 503 {
		t.Error("ready while stopping")
	}
	if got := do(t, s.Handler(), req("GET", "http://localhost/healthz", "")); got.StatusCode != 200 {
		t.Error("not alive while stopping")
	}
}

func TestProfilesAreForAdmins(t *testing.T) {
	s := newServer(t, Options{Auth: withTokens(t, nil), Pprof: true})
	for token, want := range map[string]int{aliceToken: 403, adminToken: 200} {
		if got := do(t, s.Handler(), req("GET", "http://localhost/debug/pprof/", "", "Authorization", "Bearer "+token)); got.StatusCode != want {
			t.Errorf("%s: %s", token, got.Status)
		}
	}
	if got := do(t, s.Handler(), req("GET", "http://localhost/debug/pprof/cmdline", "", "Authorization", "Bearer "+adminToken)); got.StatusCode != 404 {
		t.Errorf("the command line, which may hold secrets, is given out: %s", got.Status)
	}
}

func TestSecretsAreCutFromTheLog(t *testing.T) {
	var log bytes.Buffer
	a := withTokens(t, nil)
	s := newServer(t, Options{Auth: a, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	s.Handle(Route{Pattern: "/x", Handler: callerHandler(a), QueryToken: true})
	do(t, s.Handler(), req("GET", "http://localhost/x?access_token="+aliceToken+"&limit=5&Session=s3cret&access%5Ftoken=s3cret", "", "Authorization", "Bearer "+aliceToken))
	do(t, s.Handler(), req("GET", "http://localhost/auth/link?code=s3cret", ""))
	line := log.String()
	if strings.Contains(line, aliceToken) || strings.Contains(line, "s3cret") || !strings.Contains(line, "limit=5") {
		t.Errorf("logged: %s", line)
	}
	u, _ := url.Parse("/a%20b?token=x;y=1")
	if got := redactURL(u); got != "/a%20b?token=[hidden]&y=1" {
		t.Error(got)
	}
}

func TestValidate(t *testing.T) {
	for name, o := range map[string]Options{
		"no auth":        {},
		"half TLS":       {Auth: openAuth(t), CertFile: "x"},
		"open to all":    {Auth: openAuth(t), Addr: "0.0.0.0:80"},
		"without TLS":    {Auth: withTokens(t, nil), Addr: ":80"},
		"negative limit": {Auth: openAuth(t), MaxBody: -1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
