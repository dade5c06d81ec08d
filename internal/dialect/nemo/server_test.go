package nemo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/wire"
)

// testServer is a whole server in the process, with a NeMo dialect.
type testServer struct {
	*servertest.Server
	t       testing.TB
	dialect *Dialect
	setup   setup
}

// setup is what differs from an open server with the demo agent.
type setup struct {
	secured bool                   // users need tokens
	dir     string                 // an existing data folder
	now     func() time.Time       // of the dialect and the rules
	agents  map[string]agent.Agent // beside the demo agent
	cluster *servertest.Cluster    // nil is a single server
	change  func(*Options)
	routes  func() []wire.Route // beside those of the dialect
}

func newServer(t testing.TB, s setup) *testServer {
	t.Helper()
	o := servertest.Options{Dir: s.dir, Now: s.now, Agents: s.agents, Cluster: s.cluster}
	if s.secured {
		o.Tokens = []auth.Token{servertest.User("alice"), servertest.User("bob")}
	}
	h := servertest.Open(t, o)
	w := &testServer{Server: h, t: t, setup: s}
	var ids atomic.Int64
	opt := Options{
		Sessions: h.Sessions, Files: h.Files, Caller: h.Auth.Caller, Authenticate: h.Auth.Authenticate, Conns: h.Conns, Dir: h.Dir, Now: s.now,
		Bind:  func(ctx context.Context, _ chat.Caller) (context.Context, context.CancelFunc) { return ctx, func() {} },
		Allow: func(chat.Caller, int) error { return nil }, ClientAddress: remoteHost, Agent: func() string { return "demo" },
		Tools: func(context.Context) []MCPClient { return nil }, MaxArtifact: 1 << 30,
		NewID: func() string { return fmt.Sprintf("00000000-0000-4000-9000-%012d", ids.Add(1)) },
	}
	if s.change != nil {
		s.change(&opt)
	}
	w.dialect = New(opt)
	routes := w.dialect.Routes()
	if s.routes != nil {
		routes = append(routes, s.routes()...)
	}
	h.Serve(routes)
	return w
}

func remoteHost(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}

// restart ends the server and starts another on the same data.
func (w *testServer) restart() *testServer {
	w.Close()
	return w.reopen()
}

// kill ends the server and restores the resume points as they were before, as after a kill.
func (w *testServer) kill() *testServer {
	w.t.Helper()
	file := filepath.Join(w.Dir, "nemo-resume-points")
	noted, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Close()
	if err := os.WriteFile(file, noted, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return w.reopen()
}

func (w *testServer) reopen() *testServer {
	s := w.setup
	s.dir = w.Dir
	return newServer(w.t, s)
}

// client is one WebSocket connection.
type client struct {
	t    testing.TB
	conn *websocket.Conn
	seen []frame

	schema      string      // of the frames
	ignorePings atomic.Bool // it does not answer pings
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

func (w *testServer) dial(query string, header ...string) *client {
	w.t.Helper()
	return w.dialAt("/websocket"+query, header...)
}

// dialAt connects to an address of the server.
func (w *testServer) dialAt(address string, header ...string) *client {
	w.t.Helper()
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	c := &client{t: w.t}
	conn, res, err := websocket.Dial(w.t.Context(), "ws"+strings.TrimPrefix(w.HTTP.URL, "http")+address, &websocket.DialOptions{
		HTTPHeader: h, OnPingReceived: func(context.Context, []byte) bool { return !c.ignorePings.Load() },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if res != nil && res.Body != nil {
		res.Body.Close()
	}
	conn.SetReadLimit(16 << 20)
	c.conn = conn
	if u, err := url.Parse(address); err == nil {
		c.schema = u.Query().Get("schema")
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

// until reads until a frame fits and returns all frames that it read.
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

// readTurn reads one whole answer, with what follows its end.
func (c *client) readTurn() []frame {
	c.t.Helper()
	return c.until(isTrace)
}

// readSome reads n frames, or all there are: a slow client gets many pieces in one.
func (c *client) readSome(n int) []frame {
	c.t.Helper()
	var all []frame
	for len(all) < n && !answerEnded(all) {
		all = append(all, c.next())
	}
	return all
}

// answerEnded reports whether the frames hold the end of an answer.
func answerEnded(frames []frame) bool { return len(frames) > 0 && isTrace(frames[len(frames)-1]) }

// readWords reads until it has so many words of the answer, or all there are.
func (c *client) readWords(n int) []frame {
	c.t.Helper()
	var all []frame
	for len(strings.Fields(textOf(all))) < n && !answerEnded(all) {
		all = append(all, c.next())
	}
	return all
}

// sync waits until the server has read all that the client sent, also the pongs of all frames that it got, and returns
// the frames that came meanwhile. The first round trip makes the client answer the last ping, the second follows its pong.
func (c *client) sync() []frame {
	c.t.Helper()
	var all []frame
	for range 2 {
		c.send(`{"type":"nonsense","conversation_id":"nowhere"}`)
		all = append(all, c.until(func(f frame) bool { return isError(f) && f.Conversation == "nowhere" })...)
		all = all[:len(all)-1]
	}
	return all
}

// readRest reads the rest of an answer.
func (c *client) readRest(got []frame) []frame {
	c.t.Helper()
	if answerEnded(got) {
		return got
	}
	return append(got, c.readTurn()...)
}

// textOf is the text that a UI would show.
func textOf(frames []frame) string {
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

// readUntilClosed reads until the connection ends, so that pings are answered.
func (c *client) readUntilClosed() {
	for _, err := c.tryNext(30 * time.Second); err == nil; _, err = c.tryNext(30 * time.Second) {
	}
}

// drop breaks the connection.
func (c *client) drop() { c.conn.CloseNow() }

// words1toN is the answer to /stream N.
func words1toN(n int) string {
	var s []string
	for i := 1; i <= n; i++ {
		s = append(s, fmt.Sprintf("tok%d", i))
	}
	return strings.Join(s, " ")
}
