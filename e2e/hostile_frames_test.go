// Tests of frames of pages that are wrong, forged, large or many.

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// pageSocket is a WebSocket of the AI SDK.
type pageSocket struct {
	*websocket.Conn
	t   testing.TB
	ctx context.Context
}

// socketReply is what the server sends on it.
type socketReply struct {
	Type, RequestID, ErrorText string
}

func (p *process) dialPage(t testing.TB, token string) *pageSocket {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	conn, _, err := websocket.Dial(ctx, p.url+"/api/chat", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(1 << 20)
	t.Cleanup(func() { conn.CloseNow(); cancel() })
	return &pageSocket{conn, t, ctx}
}

func (s *pageSocket) send(frame string) {
	s.t.Helper()
	if err := s.Write(s.ctx, websocket.MessageText, []byte(frame)); err != nil {
		s.t.Fatal(err)
	}
}

// closedBy sends a frame that the server answers with the end of the socket. The write may fail, too.
func (s *pageSocket) closedBy(kind websocket.MessageType, frame string) websocket.StatusCode {
	_ = s.Write(s.ctx, kind, []byte(frame))
	for {
		if _, _, err := s.Conn.Read(s.ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// end returns the frame that ends the response to a request.
func (s *pageSocket) end(request string) socketReply {
	s.t.Helper()
	for {
		_, b, err := s.Conn.Read(s.ctx)
		if err != nil {
			s.t.Fatalf("%s: %v", request, err)
		}
		var f socketReply
		if err := json.Unmarshal(b, &f); err != nil {
			s.t.Fatalf("%s: %v", b, err)
		}
		if (f.RequestID == request || request == "") && f.Type != "start" && f.Type != "chunk" {
			return f
		}
	}
}

func sendFrame(request, chatID, text string) string {
	return fmt.Sprintf(`{"type":"send","requestId":%q,"headers":{},"body":{},%s`, request, aisdkSend(chatID, text)[1:])
}

// TestHostileFramesOfPages: wrong frames end with one plain sentence or close their own socket; nothing is stored and other
// sockets are not concerned.
func TestHostileFramesOfPages(t *testing.T) {
	t.Parallel()
	known := tokenOf("root")
	p := serve(t, t.TempDir(), "--token", known, "--rate=-1")
	calm := p.dialPage(t, known)
	calm.send(sendFrame("sleep", "calm", "/sleep 600"))
	stored := func() string {
		return p.must(call{path: "/parley/v1/sessions?limit=200", token: known})
	}
	before := ""
	waitFor(t, func() bool { // the turn has begun, and nothing more is stored of it
		last := before
		if before = stored(); before != last || !strings.Contains(before, `"running"`) {
			return false
		}
		log := p.must(call{path: "/parley/v1/sessions/" + field(t, before, "sessions.0.session_id") + "/events", token: known})
		return strings.Contains(log, `"turn.started"`) && stored() == before
	}, "the turn has not begun")

	for what, frame := range map[string]string{
		"no JSON":             `{`,
		"nothing":             ``,
		"a list":              `[]`,
		"a number":            `42`,
		"two values":          `{} {}`,
		"deep JSON":           strings.Repeat("[", 100_000),
		"deep messages":       `{"type":"send","requestId":"r","messages":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`,
		"half a character":    `{"type":"send","requestId":"\ud800"}`,
		"no request":          `{"type":"send","id":"c"}`,
		"a request of a list": `{"type":"send","requestId":["r"]}`,
		"a long request":      `{"type":"send","requestId":"` + strings.Repeat("r", 201) + `"}`,
		"headers of a text":   `{"type":"send","requestId":"r","headers":"authorization"}`,
	} {
		for _, token := range []string{known, ""} {
			if code := p.dialPage(t, token).closedBy(websocket.MessageText, frame); code != websocket.StatusPolicyViolation {
				t.Errorf("%s: the socket is closed with %d", what, code)
			}
		}
	}
	if code := p.dialPage(t, known).closedBy(websocket.MessageBinary, `{"type":"resume"}`); code != websocket.StatusUnsupportedData {
		t.Errorf("a binary frame: the socket is closed with %d", code)
	}
	for _, token := range []string{known, ""} {
		if code := p.dialPage(t, token).closedBy(websocket.MessageText, strings.Repeat(" ", 9<<20)); code != websocket.StatusMessageTooBig && code != -1 {
			t.Errorf("a frame of 9 MiB: the socket is closed with %d", code)
		}
	}

	s := p.dialPage(t, known)
	for what, frame := range map[string]string{
		"no type":         `{"requestId":"r","id":"calm"}`,
		"an unknown type": `{"type":"delete","requestId":"r","id":"calm"}`,
		"a server's type": `{"type":"chunk","requestId":"r","sequence":0,"chunk":{"type":"finish"}}`,
		"no messages":     `{"type":"send","requestId":"r","id":"new","messages":[]}`,
		"no chat":         `{"type":"resume","requestId":"r"}`,
		"a long chat":     `{"type":"resume","requestId":"r","id":"` + strings.Repeat("x", 2000) + `"}`,
		"a wrong token":   `{"type":"resume","requestId":"r","id":"calm","headers":{"authorization":"Bearer wrong"}}`,
		"another scheme":  `{"type":"resume","requestId":"r","id":"calm","headers":{"authorization":"Negotiate x"}}`,
	} {
		s.send(frame)
		if f := s.end("r"); f.Type != "error" || len(f.ErrorText) < 10 || len(f.ErrorText) > 300 || strings.Contains(f.ErrorText, "\n") {
			t.Errorf("%s: %+v", what, f)
		}
	}

	// Each of thousands of requests has exactly one end.
	const n = 3000
	go func() {
		for i := range n {
			frame := fmt.Sprintf(`{"type":"resume","requestId":"q%d","id":"none %d","headers":{},"body":{}}`, i, i)
			if s.Write(s.ctx, websocket.MessageText, []byte(frame)) != nil {
				return // the reader reports it
			}
			if i%7 == 0 {
				_ = s.Write(s.ctx, websocket.MessageText, fmt.Appendf(nil, `{"type":"abort","requestId":"other %d"}`, i))
			}
		}
	}()
	ends := map[string]int{}
	for range n {
		f := s.end("")
		if ends[f.RequestID]++; f.Type != "no-active" && f.Type != "error" || ends[f.RequestID] > 1 {
			t.Fatalf("%+v", f)
		}
	}

	// The responses that are open at once are bounded, and a request id is used once at a time.
	for i := range 100 {
		s.send(fmt.Sprintf(`{"type":"resume","requestId":"open%d","id":"calm","headers":{},"body":{}}`, i))
	}
	for range 36 {
		if f := s.end(""); f.Type != "error" || !strings.Contains(f.ErrorText, "at most 64") {
			t.Fatalf("%+v", f)
		}
	}
	s.send(`{"type":"abort","requestId":"open0"}`)
	s.send(`{"type":"resume","requestId":"open1","id":"calm","headers":{},"body":{}}`)
	if f := s.end("open1"); f.Type != "error" || !strings.Contains(f.ErrorText, "its own requestId") {
		t.Errorf("a request id that is in use: %+v", f)
	}
	for range 3 {
		s.send(`{"type":"resume","requestId":"again","id":"none","headers":{},"body":{}}`)
		if f := s.end("again"); f.Type != "no-active" {
			t.Errorf("a request id that is free again: %+v", f)
		}
	}

	if after := stored(); after != before {
		t.Errorf("something was stored:\n%s\nbefore:\n%s", after, before)
	}
	p.must(call{method: "POST", path: "/api/chat/calm/stop", token: known, body: `{}`})
	if f := calm.end("sleep"); f.Type != "end" {
		t.Errorf("the other socket: %+v", f)
	}
	if log := p.err.String(); strings.Contains(log, "panic") || strings.Contains(log, "level=ERROR") {
		t.Errorf("the log: %s", tail(log))
	}
}
