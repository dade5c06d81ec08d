package nemo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

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

// people of the tests that need authentication.
var tokens = []auth.Token{token("alice"), token("bob")}

func token(name string) auth.Token {
	return auth.Token{Token: auth.Secret(tokenOf(name)), Actor: chat.Actor{Kind: chat.User, ID: name}, Scopes: []chat.Scope{chat.ScopeUser}}
}

func tokenOf(name string) string { return "token-of-" + name + "-0123456789abcdef" }

// world is a whole server in the process: the real store, rules and agents.
type world struct {
	t        testing.TB
	dir      string
	files    *artifact.Local
	sessions *session.Sessions
	dialect  *Dialect
	server   *httptest.Server
	closed   atomic.Bool
	close    func()
	setup    setup
}

// setup says what differs from an open server with the demo agent.
type setup struct {
	secured bool                   // people need tokens
	dir     string                 // an existing data folder
	now     func() time.Time       // of the dialect and the rules
	agents  map[string]agent.Agent // beside the demo agent
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
	w.files, err = artifact.Open(w.dir+"/files", artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := hub.New(j, hub.Options{})
	for id, blocks := range j.OpenBlocks() {
		h.Restore(id, blocks)
	}
	registry := agent.NewRegistry(agent.NewPool(agent.PoolOptions{}))
	registry.Add(demo.Info, demo.Agent{})
	for name, a := range s.agents {
		registry.Add(agent.Info{Name: name}, a)
	}
	runner := agent.NewRunner(registry, agent.Options{Grace: time.Millisecond, Clean: true})
	w.sessions = session.New(j, h, session.Options{Artifacts: w.files, Committed: runner.Committed, Erased: runner.Erased, Now: s.now})
	runner.Attach(w.sessions)
	who := auth.Options{Rate: -1}
	if s.secured {
		who.Tokens = tokens
	}
	a, err := auth.New(who)
	if err != nil {
		t.Fatal(err)
	}
	conns := &wire.Conns{}
	var ids atomic.Int64
	opt := Options{
		Sessions: w.sessions, Files: testFiles{w.files}, Caller: a.Caller, Authenticate: a.Authenticate, Conns: conns, Dir: w.dir, Now: s.now,
		NewID: func() string { return fmt.Sprintf("00000000-0000-4000-9000-%012d", ids.Add(1)) },
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
	w.close = func() {
		if w.closed.Swap(true) {
			return
		}
		stop, done := context.WithTimeout(context.Background(), 5*time.Second)
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
	return newWorld(w.t, s)
}

// client is one WebSocket connection.
type client struct {
	t    testing.TB
	conn *websocket.Conn
	seen []frame

	schema string // how it is spoken to
}

// frame is what a client sees.
type frame struct {
	raw  string
	Type string `json:"type"`
	ID   string `json:"id"`

	Thread       string `json:"thread_id"`
	Parent       string `json:"parent_id"`
	Conversation string `json:"conversation_id"`
	Status       string `json:"status"`
	Version      string `json:"schema_version"`
	UserID       string `json:"user_id"`
	Payload      *errorContent
	Content      struct {
		Text      *string         `json:"text"`
		Name      string          `json:"name"`
		Payload   string          `json:"payload"`
		Code      string          `json:"code"`
		Message   string          `json:"message"`
		Details   string          `json:"details"`
		InputType string          `json:"input_type"`
		Options   json.RawMessage `json:"options"`
		Timeout   *int            `json:"timeout"`
		Trace     string          `json:"observability_trace_id"`
	} `json:"content"`
}

func (w *world) dial(query string, header ...string) *client {
	w.t.Helper()
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	conn, res, err := websocket.Dial(w.t.Context(), "ws"+strings.TrimPrefix(w.server.URL, "http")+"/websocket"+query, &websocket.DialOptions{HTTPHeader: h})
	if err != nil {
		w.t.Fatal(err)
	}
	if res != nil && res.Body != nil {
		res.Body.Close()
	}
	conn.SetReadLimit(16 << 20)
	c := &client{t: w.t, conn: conn}
	if q, err := url.ParseQuery(strings.TrimPrefix(query, "?")); err == nil {
		c.schema = q.Get("schema")
	}
	w.t.Cleanup(func() { conn.CloseNow() })
	return c
}

func (c *client) send(s string) {
	c.t.Helper()
	if err := c.conn.Write(c.t.Context(), websocket.MessageText, []byte(s)); err != nil {
		c.t.Fatal(err)
	}
}

// say sends a user message.
func (c *client) say(conversation, id, text string) {
	c.t.Helper()
	c.send(userMessage(conversation, id, "chat_stream", text))
}

func userMessage(conversation, id, schema, text string) string {
	t, _ := json.Marshal(text)
	return fmt.Sprintf(`{"type":"user_message","schema_type":%q,"id":%q,"conversation_id":%q,"content":{"messages":[{"role":"user","content":[{"type":"text","text":%s}]}]},"timestamp":"2026-11-15T10:00:00Z"}`, schema, id, conversation, t)
}

// answer answers the prompt as the UI does.
func (c *client) answer(conversation, id, parent, text string) {
	c.t.Helper()
	t, _ := json.Marshal(text)
	c.send(fmt.Sprintf(`{"type":"user_interaction_message","id":%q,"conversation_id":%q,"thread_id":"default","parent_id":%q,"content":{"messages":[{"role":"user","content":[{"type":"text","text":%s}]}]}}`, id, conversation, parent, t))
}

// next reads one frame.
func (c *client) next() frame {
	c.t.Helper()
	f, err := c.tryNext(30 * time.Second)
	if err != nil {
		c.t.Fatalf("no frame: %v; seen:\n%s", err, c.log())
	}
	return f
}

func (c *client) tryNext(d time.Duration) (frame, error) {
	ctx, cancel := context.WithTimeoutCause(c.t.Context(), d, errors.New("nothing came in time"))
	defer cancel()
	_, b, err := c.conn.Read(ctx)
	if err != nil {
		return frame{}, err
	}
	var f frame
	if err := json.Unmarshal(b, &f); err != nil {
		c.t.Fatalf("%s: %v", b, err)
	}
	f.raw = string(b)
	checkFrame(c.t, c.schema, b)
	c.seen = append(c.seen, f)
	return f, nil
}

func (c *client) log() string {
	var s strings.Builder
	for _, f := range c.seen {
		s.WriteString(f.raw + "\n")
	}
	return s.String()
}

// until reads until a frame fits and returns all that were read.
func (c *client) until(fits func(frame) bool) []frame {
	c.t.Helper()
	var all []frame
	for {
		f := c.next()
		all = append(all, f)
		if fits(f) {
			return all
		}
	}
}

func isEnd(f frame) bool    { return f.Type == typeResponse && f.Status != "in_progress" }
func isPrompt(f frame) bool { return f.Type == typePrompt }
func isError(f frame) bool  { return f.Type == typeError }
func isTrace(f frame) bool  { return f.Type == typeTrace }

// turn reads one whole answer, with what follows its end.
func (c *client) turn() []frame {
	c.t.Helper()
	return c.until(isTrace)
}

// some reads n frames, or all there are: a slow client gets many pieces in one.
func (c *client) some(n int) []frame {
	c.t.Helper()
	var all []frame
	for len(all) < n && !over(all) {
		all = append(all, c.next())
	}
	return all
}

// over reports whether the frames hold the end of an answer.
func over(frames []frame) bool { return len(frames) > 0 && isTrace(frames[len(frames)-1]) }

// rest reads what is missing of an answer.
func (c *client) rest(got []frame) []frame {
	c.t.Helper()
	if over(got) {
		return got
	}
	return append(got, c.turn()...)
}

// text is what a UI would show of the frames.
func text(frames []frame) string {
	var s strings.Builder
	for _, f := range frames {
		if f.Type == typeResponse && f.Status == "in_progress" && f.Content.Text != nil {
			s.WriteString(*f.Content.Text)
		}
	}
	return s.String()
}

// prompt reads until a prompt comes.
func (c *client) prompt() frame {
	c.t.Helper()
	all := c.until(isPrompt)
	return all[len(all)-1]
}

// drop cuts the connection without a word.
func (c *client) drop() { c.conn.CloseNow() }

// words is the answer to /stream N.
func words1toN(n int) string {
	var s []string
	for i := 1; i <= n; i++ {
		s = append(s, fmt.Sprintf("tok%d", i))
	}
	return strings.Join(s, " ")
}

// post sends a JSON request.
func (w *world) post(method, path, body string, header ...string) (int, string, http.Header) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := w.server.Client().Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header
}
