package aisdk

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/pages"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/wire"
)

// testSocket is a WebSocket of a page.
type testSocket struct {
	t    testing.TB
	conn *websocket.Conn
}

// gotFrame is a frame of the server.
type gotFrame struct {
	Type      string
	RequestID string
	ErrorText string
	Sequence  int
	Chunk     map[string]any
}

func (s *testServer) dialSocket(query string) (*testSocket, *http.Response, error) {
	conn, res, err := websocket.Dial(s.t.Context(), "ws"+strings.TrimPrefix(s.HTTP.URL, "http")+"/api/chat"+query, nil)
	if err != nil {
		return nil, res, err
	}
	conn.SetReadLimit(1 << 20)
	s.t.Cleanup(func() { conn.CloseNow() })
	return &testSocket{s.t, conn}, res, nil
}

// connect opens a socket; user "" sends no credential with the handshake.
func (s *testServer) connect(user string) *testSocket {
	s.t.Helper()
	query := ""
	if user != "" {
		query = "?access_token=" + servertest.TokenOf(user)
	}
	c, _, err := s.dialSocket(query)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (c *testSocket) write(frame string) {
	c.t.Helper()
	if err := c.conn.Write(c.t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		c.t.Fatal(err)
	}
}

// bearer is the headers of a frame; user "" has none.
func bearer(user string) string {
	if user == "" {
		return `{}`
	}
	return fmt.Sprintf(`{"authorization":"Bearer %s"}`, servertest.TokenOf(user))
}

// send sends a message in a frame.
func (c *testSocket) send(request, user, chatID, message, text string) {
	c.t.Helper()
	c.write(fmt.Sprintf(`{"type":"send","requestId":%q,"headers":%s,"body":{},%s`, request, bearer(user), userMessage(chatID, message, text)[1:]))
}

func (c *testSocket) resume(request, user, chatID string) {
	c.t.Helper()
	c.write(fmt.Sprintf(`{"type":"resume","requestId":%q,"id":%q,"headers":%s,"body":{}}`, request, chatID, bearer(user)))
}

func (c *testSocket) read() (f gotFrame, err error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	_, b, err := c.conn.Read(ctx)
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	return f, err
}

// until reads to the first frame of a request that is not a start or a chunk, and returns it with the text before it.
func (c *testSocket) until(request string) (words string, last gotFrame) {
	c.t.Helper()
	for {
		f, err := c.read()
		if err != nil {
			c.t.Fatalf("%s: %v", request, err)
		}
		switch {
		case f.RequestID != request || f.Type == frameStart:
		case f.Type != "chunk":
			return words, f
		case f.Chunk["type"] == chunkTextDelta:
			words += f.Chunk["delta"].(string)
		}
	}
}

// closed reads until the server has closed the socket.
func (c *testSocket) closed() websocket.StatusCode {
	for {
		if _, err := c.read(); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// The transport puts what a page adds to its requests into body.
func TestAFrameBringsTheToolsOfThePage(t *testing.T) {
	s := newTestServer(t, nil, "alice")
	c := s.connect("alice")
	message := userMessage("c1", "m1", "/echo hello")[1:]
	c.write(`{"type":"send","requestId":"r1","body":{"system":"be brief","tools":{"clip":{"description":"Reads"}}},` + message)
	if words, last := c.until("r1"); words != "hello" || last.Type != frameEnd {
		t.Fatal(words, last)
	}
	for _, e := range s.Events("c1", chat.UserMessage{}.Type()) {
		if context := string(e.Body.(chat.UserMessage).Context); !strings.Contains(context, `"name":"clip"`) || !strings.Contains(context, `"be brief"`) {
			t.Errorf("the message has the context %s", context)
		}
	}
	c.write(`{"type":"send","requestId":"r2","body":{"tools":{"":{}}},` + userMessage("c1", "m2", "hello")[1:])
	if _, last := c.until("r2"); last.Type != frameError {
		t.Error(last)
	}
}

func TestAFrameWithAnUnknownReplayIsRefused(t *testing.T) {
	s := newTestServer(t, nil)
	c := s.connect("")
	c.write(`{"type":"resume","requestId":"r","id":"c1","headers":{},"body":{"replay":"all"}}`)
	if _, last := c.until("r"); last.Type != frameError || !strings.Contains(last.ErrorText, replayFinished) {
		t.Errorf("%+v", last)
	}
}

func TestAFrameBringsItsCredential(t *testing.T) {
	s := newTestServer(t, nil, "alice", "bob")
	for _, handshake := range []string{"", "alice"} {
		c := s.connect(handshake)
		for _, user := range []string{"bob", "alice"} {
			c.send("r-"+user, user, "c-"+handshake, "m", "/echo for "+user)
			if words, last := c.until("r-" + user); words != "for "+user || last.Type != frameEnd {
				t.Fatalf("%s: %q %+v", user, words, last)
			}
		}
		c.send("r", "", "c-"+handshake, "m", "/echo for alice")
		words, last := c.until("r")
		if handshake == "" && (last.Type != frameError || last.ErrorText == "") || handshake != "" && words != "for alice" {
			t.Errorf("a frame without a credential: %q %+v", words, last)
		}
	}
}

func TestStrangersReadNothing(t *testing.T) {
	s := newTestServer(t, nil, "alice", "bob")
	s.say("c1", "m1", "/approve deploy {}") // its turn waits, so it can be resumed
	before := len(s.Events("c1"))
	c := s.connect("")
	for i, headers := range []string{`{}`, `{"authorization":"Bearer wrong"}`, `{"authorization":"Bearer "}`, `{"authorization":"token"}`, `{"cookie":"x"}`} {
		for _, frame := range []string{`{"type":"resume","id":"c1",`, `{"type":"send",` + strings.TrimSuffix(userMessage("c1", "m2", "hello")[1:], "}") + `,`} {
			request := fmt.Sprintf("r%d", i)
			c.write(fmt.Sprintf(`%s"requestId":%q,"headers":%s,"body":{}}`, frame, request, headers))
			if _, last := c.until(request); last.Type != frameError || last.ErrorText == "" {
				t.Errorf("%s: %+v", headers, last)
			}
		}
	}
	c = s.connect("")
	c.resume("bob", "bob", "c1")
	if _, last := c.until("bob"); last.Type != frameNoActive {
		t.Errorf("bob: %+v", last)
	}
	c.resume("alice", "alice", "c1")
	if _, last := c.until("alice"); last.Type != frameEnd {
		t.Errorf("alice: %+v", last)
	}
	if n := len(s.Events("c1")); n != before {
		t.Errorf("%d events were stored", n-before)
	}
	if code, body, _ := s.Call("GET", "/api/chat", ""); code != http.StatusUnauthorized {
		t.Errorf("a request that is no WebSocket: %d %s", code, body)
	}
}

func TestFramesBeforeAuthenticationAreBounded(t *testing.T) {
	s := newTestServer(t, nil, "alice")
	long := strings.Repeat("x", maxUnauthenticatedFrame)
	c := s.connect("")
	c.send("r", "", "c1", "m1", long)
	if code := c.closed(); code != websocket.StatusMessageTooBig {
		t.Errorf("a large frame without a token: %d", code)
	}
	c = s.connect("")
	c.resume("r1", "alice", "c1")
	c.until("r1")
	c.write(fmt.Sprintf(`{"type":"send","requestId":"r2","headers":%s,"body":{"page":%q},%s`, bearer("alice"), long, userMessage("c1", "m1", "/echo hello")[1:]))
	if words, last := c.until("r2"); words != "hello" {
		t.Errorf("a large frame behind a token: %q %+v", words, last)
	}
}

func TestUnauthenticatedSocketsAreBounded(t *testing.T) {
	s := newTestServer(t, nil, "alice")
	var open []*testSocket
	for range wire.MaxUnauthenticated {
		open = append(open, s.connect(""))
	}
	if _, res, err := s.dialSocket(""); err == nil || res == nil || res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
		t.Errorf("one socket too many: %v %v", res, err)
	}
	s.connect("alice") // a socket with a credential is not counted
	open[0].resume("r", "alice", "c1")
	open[0].until("r")
	s.connect("") // an authenticated socket makes room
}

func TestAuthenticationHasADeadline(t *testing.T) {
	s := newTestServer(t, nil, "alice")
	s.dialect.unauthenticated.Timeout = 3 * time.Second
	known, silent := s.connect(""), s.connect("")
	known.resume("r1", "alice", "c1")
	known.until("r1")
	if code := silent.closed(); code != websocket.StatusPolicyViolation {
		t.Errorf("a silent socket: %d", code)
	}
	known.send("r2", "alice", "c1", "m1", "/echo hello") // its time would have been over before
	if words, last := known.until("r2"); words != "hello" {
		t.Errorf("%q %+v", words, last)
	}
}

func TestARevokedTokenEndsWhatItsFramesBegan(t *testing.T) {
	s := newTestServer(t, nil, "alice", "bob")
	shared, own := s.connect("alice"), s.connect("")
	shared.send("bob", "bob", "c1", "m1", "/sleep 600")
	shared.send("alice", "", "c2", "m1", "/approve deploy {}")
	shared.until("alice")
	own.send("bob", "bob", "c3", "m1", "/sleep 600")
	own.resume("again", "bob", "c4")
	own.until("again")
	if err := s.Auth.SetTokens([]auth.Token{servertest.User("alice")}); err != nil {
		t.Fatal(err)
	}
	if _, last := shared.until("bob"); last.Type != frameError || last.ErrorText == "" {
		t.Errorf("bob's response on alice's socket ends with %+v", last)
	}
	shared.send("more", "", "c2", "m2", "hello")
	if _, last := shared.until("more"); last.Type != frameError { // the approval is open
		t.Errorf("alice's socket: %+v", last)
	}
	if code := own.closed(); code != 4401 {
		t.Errorf("bob's socket is closed with %d", code)
	}
}

// panicking is a session layer that panics when a chat is looked up.
type panicking struct{ pages.Sessions }

func (panicking) Aliased(context.Context, chat.Caller, string) (chat.Session, error) {
	panic("this chat cannot be looked up")
}

// A response that panics ends with an error, and nothing else ends.
func TestAPanicEndsOneResponse(t *testing.T) {
	s := newTestServer(t, nil)
	panics := make(chan any, 1)
	s.Conns.Panicked = func(v any, _ []byte) { panics <- v }
	s.dialect.Sessions = panicking{s.dialect.Sessions}
	c := s.connect("")
	c.resume("r1", "", "chat")
	if _, last := c.until("r1"); last.Type != frameError || strings.Contains(last.ErrorText, "looked up") {
		t.Errorf("%+v", last)
	}
	<-panics
	c.resume("r2", "", "chat") // the socket goes on
	c.until("r2")
}

// Messages count for who authenticated on the socket: one person does not use up what others at the same address may send.
func TestMessagesCountForTheCallerOfTheSocket(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, nil, "ann", "bob")
	long := strings.Repeat("x", 100<<10)
	for range 8 { // each of them counts as the largest message; together they are the limit of one client
		c := s.connect("")
		c.resume("r", "ann", "none")
		c.until("r")
		unfinished, err := c.conn.Writer(t.Context(), websocket.MessageText)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(unfinished, long); err != nil {
			t.Fatal(err)
		}
	}
	c := s.connect("")
	c.resume("r", "bob", "none")
	c.until("r")
	c.send("m", "bob", "c1", "m1", "/echo "+long)
	if _, last := c.until("m"); last.Type != frameEnd {
		t.Errorf("%+v", last)
	}
}
