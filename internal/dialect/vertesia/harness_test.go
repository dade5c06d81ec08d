package vertesia

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/servertest"
)

// tokens are the users of tests with authentication.
var tokens = []auth.Token{token("alice"), token("bob")}

func token(name string) auth.Token {
	return auth.Token{Token: auth.Secret(keyOf(name)), Actor: chat.Actor{Kind: chat.User, ID: name}, Scopes: []chat.Scope{chat.ScopeUser}}
}

func keyOf(name string) string { return "sk-" + name + "-0123456789abcdef" }

// testServer is a whole server in the process: the real store, rules and agents.
type testServer struct {
	*servertest.Server
	t       testing.TB
	dialect *Dialect
	setup   setup
}

// setup says what differs from an open server with the demo agent.
type setup struct {
	secured bool                   // people need keys
	dir     string                 // an existing data folder
	now     func() time.Time       // nil is the real clock
	cluster *servertest.Cluster    // nil is a single server
	agents  map[string]agent.Agent // beside the demo agent
	change  func(*Options)
}

func newServer(t testing.TB, s setup) *testServer {
	t.Helper()
	o := servertest.Options{Dir: s.dir, Now: s.now, Cluster: s.cluster, Agents: s.agents}
	if s.secured {
		o.Tokens = tokens
	}
	h := servertest.Open(t, o)
	w := &testServer{Server: h, t: t, setup: s}
	secret := []byte("a secret of the tests, 32 bytes!")
	h.Auth.Sign(secret)
	opt := Options{
		Sessions: h.Sessions, Files: h.Files, Caller: h.Auth.Caller, Check: h.Auth.Check, Bind: h.Auth.Context, Issue: h.Auth.Issue, Allow: func(chat.Caller, int) error { return nil }, Conns: h.Conns, Secret: secret,
		Agents: func(string) []string { return []string{"demo"} },
		Tools: func(_ context.Context, agent string) ([]Tool, bool) {
			return []Tool{{Name: "calc", Description: "adds"}, {Name: "draw"}, {Name: "crm__find", Server: "crm"}}, agent == "demo"
		},
	}
	if s.change != nil {
		s.change(&opt)
	}
	w.dialect = New(opt)
	h.Serve(w.dialect.Routes(), w.dialect.Run)
	return w
}

// restart ends the server and starts another on the same data.
func (w *testServer) restart() *testServer {
	w.Close()
	s := w.setup
	s.dir = w.Dir
	return newServer(w.t, s)
}

// ok makes a request that must succeed and decodes the answer into v, if any.
func (w *testServer) ok(method, path, body string, v any, header ...string) {
	w.t.Helper()
	code, got, _ := w.Call(method, path, body, header...)
	if code/100 != 2 {
		w.t.Fatalf("%s %s: %d %s", method, path, code, got)
	}
	if v != nil {
		if err := json.Unmarshal([]byte(got), v); err != nil {
			w.t.Fatalf("%s %s: %v in %s", method, path, err, got)
		}
	}
}

// start starts a run and returns its id.
func (w *testServer) start(task string, interactive bool, header ...string) string {
	w.t.Helper()
	text, _ := json.Marshal(task)
	var r struct{ ID string }
	w.ok("POST", "/api/v1/agents", fmt.Sprintf(`{"interaction":"demo","data":{"task":%s},"interactive":%v}`, text, interactive), &r, header...)
	return r.ID
}

func (w *testServer) signal(id, name, payload string, header ...string) {
	w.t.Helper()
	w.ok("POST", "/api/v1/agents/"+id+"/signal/"+name, payload, nil, header...)
}

// updates are the messages of a run after a time.
func (w *testServer) updates(id, query string, header ...string) []compactMessage {
	w.t.Helper()
	var body struct{ Messages []compactMessage }
	w.ok("GET", "/api/v1/agents/"+id+"/updates"+query, "", &body, header...)
	return body.Messages
}

// rests waits until a run is idle, without a request to this dialect.
func (w *testServer) rests(id string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Minute)
	defer cancel()
	for b, err := range w.Sessions.Watch(ctx, chat.Trusted, chat.SessionID(id), core.Start{}, nil) {
		if err != nil {
			w.t.Fatal(err)
		}
		st, err := w.Sessions.State(ctx, chat.Trusted, chat.SessionID(id))
		if err != nil {
			w.t.Fatal(err)
		}
		if b.Live && !st.Busy() {
			return
		}
	}
	w.t.Fatal("it never rests")
}

// stream is one reader over SSE.
type stream struct {
	t    testing.TB
	body io.ReadCloser
	in   *bufio.Reader
	seen []compactMessage
	raw  strings.Builder
}

func (w *testServer) stream(id, query string, header ...string) *stream {
	w.t.Helper()
	return w.follow("/api/v1/agents/"+id+"/stream"+query, header...)
}

func (w *testServer) follow(path string, header ...string) *stream {
	w.t.Helper()
	ctx, cancel := context.WithTimeoutCause(w.t.Context(), 3*time.Minute, errors.New("nothing came in time"))
	w.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", w.HTTP.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "identity")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := w.HTTP.Client().Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("stream: %d %v", res.StatusCode, res.Header)
	}
	s := &stream{t: w.t, body: res.Body, in: bufio.NewReader(res.Body)}
	w.t.Cleanup(s.close)
	return s
}

func (s *stream) close() { s.body.Close() }

// next reads one message.
func (s *stream) next() (compactMessage, error) {
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return compactMessage{}, err
		}
		s.raw.WriteString(line)
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		checkSchema(s.t, []byte(data))
		m, _, err := parseMessage([]byte(data))
		if err != nil {
			return m, fmt.Errorf("%s: %w", data, err)
		}
		s.seen = append(s.seen, m)
		return m, nil
	}
}

// until reads until a message satisfies fits.
func (s *stream) until(fits func(compactMessage) bool) compactMessage {
	s.t.Helper()
	for {
		m, err := s.next()
		if err != nil {
			s.t.Fatalf("%v; seen:\n%s", err, s.raw.String())
		}
		if fits(m) {
			return m
		}
	}
}

func is(t Type) func(compactMessage) bool {
	return func(m compactMessage) bool { return m.T == t && m.W == "" }
}

func isChunk(m compactMessage) bool { return m.T == StreamingChunk }

// chunkText is the text of the chunks.
func chunkText(list []compactMessage) string {
	var b strings.Builder
	for _, m := range list {
		if isChunk(m) {
			b.WriteString(m.M)
		}
	}
	return b.String()
}

// stored are the messages that are not chunks.
func stored(list []compactMessage) (out []compactMessage) {
	for _, m := range list {
		if !isChunk(m) {
			out = append(out, m)
		}
	}
	return out
}

func texts(list []compactMessage, t Type) (out []string) {
	for _, m := range list {
		if m.T == t {
			out = append(out, m.M)
		}
	}
	return out
}

// rising checks that timestamps rise strictly.
func rising(t testing.TB, list []compactMessage) {
	t.Helper()
	last := 0.0
	for _, m := range list {
		if m.TS <= last {
			t.Errorf("timestamp %v after %v", m.TS, last)
		}
		last = m.TS
	}
}

// after is the query of a reader that continues after a message.
func after(m compactMessage) string {
	return "?skipHistory=true&since=" + strconv.FormatFloat(m.TS, 'f', -1, 64)
}

// equal reports whether two lists have the same JSON.
func equal(a, b []compactMessage) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// words1toN is the answer to /stream N.
func words1toN(n int) string {
	var s []string
	for i := 1; i <= n; i++ {
		s = append(s, fmt.Sprintf("tok%d", i))
	}
	return strings.Join(s, " ")
}
