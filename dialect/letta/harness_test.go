package letta

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/agent/demo"
	"github.com/parley-hq/parley/artifact"
	"github.com/parley-hq/parley/auth"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/hub"
	"github.com/parley-hq/parley/journal"
	"github.com/parley-hq/parley/server"
	"github.com/parley-hq/parley/session"
	"github.com/parley-hq/parley/wire"
)

func token(name string) auth.Token {
	return auth.Token{Token: auth.Secret(tokenOf(name)), Actor: chat.Actor{Kind: chat.User, ID: name}, Scopes: []chat.Scope{chat.ScopeUser}}
}

func tokenOf(name string) string { return "token-of-" + name + "-0123456789abcdef" }

// world is a whole server in the process: the real store, rules and agents.
type world struct {
	t        testing.TB
	dir      string
	sessions *session.Sessions
	dialect  *Dialect
	server   *httptest.Server
	closed   atomic.Bool
	close    func()
	setup    setup
	as       string // whose token requests carry
}

// setup says what differs from an open server with the demo agent.
type setup struct {
	secured bool
	dir     string
	agents  map[string]agent.Agent
	change  func(*Options)
}

type testFiles struct{ *artifact.Local }

func (f testFiles) Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, limit int64) (chat.FileInfo, error) {
	return f.Local.Put(ctx, id, path, mediaType, body, artifact.PutOptions{Max: limit})
}

func newWorld(t testing.TB, s setup) *world {
	t.Helper()
	w := &world{t: t, dir: s.dir, setup: s}
	if w.dir == "" {
		w.dir = t.TempDir()
	}
	j, err := journal.Open(w.dir+"/store", journal.Options{Sync: journal.SyncNever, MinFree: -1, MinFreePercent: -1})
	if err != nil {
		t.Fatal(err)
	}
	files, err := artifact.Open(w.dir+"/files", artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := hub.New(j, hub.Options{})
	for id, blocks := range j.OpenBlocks() {
		h.Restore(id, blocks)
	}
	registry := agent.NewRegistry(agent.NewPool(agent.PoolOptions{}))
	registry.Add(demo.Info, demo.Agent{})
	names := []string{demo.Name}
	for name, a := range s.agents {
		registry.Add(agent.Info{Name: name}, a)
		names = append(names, name)
	}
	runner := agent.NewRunner(registry, agent.Options{Grace: time.Millisecond, Clean: true})
	w.sessions = session.New(j, h, session.Options{Artifacts: files, Committed: runner.Committed, Erased: runner.Erased})
	runner.Attach(w.sessions)
	who := auth.Options{Rate: -1}
	if s.secured {
		who.Tokens = []auth.Token{token("alice"), token("bob")}
	}
	a, err := auth.New(who)
	if err != nil {
		t.Fatal(err)
	}
	conns := &wire.Conns{}
	opt := Options{
		Sessions: w.sessions, Files: testFiles{files}, Caller: a.Caller, Conns: conns, Agents: func(string) []string { return names }, Version: "test",
	}
	if s.change != nil {
		s.change(&opt)
	}
	w.dialect = New(opt)
	srv, err := server.New(server.Options{Auth: a, Conns: conns, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range w.dialect.Routes() {
		srv.Handle(r)
	}
	w.server = httptest.NewServer(srv.Handler())
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = j.Run(ctx) })
	wg.Go(func() { _ = w.sessions.Run(ctx) })
	wg.Go(func() { _ = runner.Run(ctx) })
	wg.Go(func() { _ = w.dialect.Run(ctx) })
	w.close = func() {
		if w.closed.Swap(true) {
			return
		}
		stop, done := context.WithTimeout(context.Background(), 30*time.Second)
		defer done()
		if err := conns.Shutdown(stop); err != nil {
			t.Error(err)
		}
		w.server.Client().CloseIdleConnections()
		w.server.Close()
		cancel()
		wg.Wait()
		h.Close(nil)
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(w.close)
	return w
}

// restart ends the server and starts another on the same data.
func (w *world) restart() *world {
	w.close()
	s := w.setup
	s.dir = w.dir
	next := newWorld(w.t, s)
	next.as = w.as
	return next
}

// call makes a request; body is JSON, or "".
func (w *world) call(method, path, body string, header ...string) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if w.as != "" {
		r.Header.Set("Authorization", "Bearer "+tokenOf(w.as))
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := w.server.Client().Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

// do makes a request and reads its answer.
func (w *world) do(method, path, body string, header ...string) (int, string) {
	w.t.Helper()
	res := w.call(method, path, body, header...)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// get makes a request that must succeed and decodes its answer.
func get[T any](w *world, method, path, body string) (v T) {
	w.t.Helper()
	code, b := w.do(method, path, body)
	if code != http.StatusOK {
		w.t.Fatalf("%s %s: %d %s", method, path, code, b)
	}
	if err := json.Unmarshal([]byte(b), &v); err != nil {
		w.t.Fatalf("%s %s: %v: %s", method, path, err, b)
	}
	return v
}

type object = map[string]any

// agent makes an agent and returns its id.
func (w *world) agent(body string) string {
	w.t.Helper()
	if body == "" {
		body = `{"name":"ann","model":"parley/demo"}`
	}
	return get[object](w, "POST", "/v1/agents/", body)["id"].(string)
}

// message is a body that sends one message.
func message(text, more string) string {
	b, _ := json.Marshal(text)
	return `{"messages":[{"role":"user","content":` + string(b) + `}]` + more + `}`
}

// say sends a message and returns the answer.
func (w *world) say(agentID, text string) answer {
	w.t.Helper()
	return get[answer](w, "POST", "/v1/agents/"+agentID+"/messages", message(text, ""))
}

// answer is what comes of a message.
type answer struct {
	Messages []shownMessage
	Stop     struct {
		Reason string `json:"stop_reason"`
	} `json:"stop_reason"`
}

// shownMessage is a message as a client sees it.
type shownMessage struct {
	ID, OTID string
	Type     string `json:"message_type"`
	Step     string `json:"step_id"`
	Run      string `json:"run_id"`
	Seq      int64  `json:"seq_id"`
	Content  any
	Thought  string `json:"reasoning"`
	Stop     string `json:"stop_reason"`
	Status   string
	Return   string `json:"tool_return"`
	Call     struct {
		Name string
		Args string `json:"arguments"`
		ID   string `json:"tool_call_id"`
	} `json:"tool_call"`
	Err   string `json:"error_type"`
	event string
}

// text is what the agent said.
func (a answer) text() string { return textOf(a.Messages) }

func textOf(list []shownMessage) string {
	var s strings.Builder
	for _, m := range list {
		if m.Type == kindAssistant {
			s.WriteString(m.Content.(string))
		}
	}
	return s.String()
}

// reader reads a stream.
type reader struct {
	t     testing.TB
	res   *http.Response
	lines *bufio.Scanner
	done  bool // [DONE] came
}

func (w *world) open(path, body string) *reader {
	w.t.Helper()
	res := w.call("POST", path, body)
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		w.t.Fatalf("%s: %d %s", path, res.StatusCode, b)
	}
	r := &reader{t: w.t, res: res, lines: bufio.NewScanner(res.Body)}
	r.lines.Buffer(nil, 1<<20)
	w.t.Cleanup(r.drop)
	return r
}

func (r *reader) drop() { r.res.Body.Close() }

// next reads one frame; ok is false at the end.
func (r *reader) next() (m shownMessage, ok bool) {
	r.t.Helper()
	event := ""
	for r.lines.Scan() {
		line := r.lines.Text()
		if name, found := strings.CutPrefix(line, "event: "); found {
			event = name
		}
		data, found := strings.CutPrefix(line, "data: ")
		if !found {
			continue
		}
		if data == "[DONE]" {
			r.done = true
			return m, false
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			r.t.Fatalf("%s: %v", data, err)
		}
		m.event = event
		return m, true
	}
	return m, false
}

// rest reads the frames up to the end, without pings.
func (r *reader) rest() (out []shownMessage) {
	r.t.Helper()
	defer r.drop()
	for {
		m, ok := r.next()
		if !ok {
			return out
		}
		if m.Type != kindPing {
			out = append(out, m)
		}
	}
}

// readAll lists the types of a session's events.
func readAll(w *world, id string) (types []string, err error) {
	facts, _, err := w.sessions.Read(w.t.Context(), owner, chat.SessionID(id), chat.Range{Limit: 1000})
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			return nil, err
		}
		line := e.Type
		if e.ClientID != "" && e.Actor.Kind == chat.User {
			line += " client_id=" + e.ClientID
		}
		if e.Via != "" {
			line += " via=" + e.Via
		}
		types = append(types, line)
	}
	return types, err
}
