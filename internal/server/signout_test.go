package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/wire"
)

// TestSigningOutEndsConnections: a stream and a socket that were opened with a
// cookie end when the browser signs out; those of another browser stay open.
func TestSigningOutEndsConnections(t *testing.T) {
	a := withTokens(t, nil)
	conns := &wire.Conns{}
	addr, _ := start(t, Options{Auth: a, Conns: conns},
		Route{Pattern: "GET /stream", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = wire.ServeSSE(w, r, wire.SSEOptions{}, conns, func(ctx context.Context, s *wire.Stream) error {
				if err := s.Write(ctx, []byte("open\n")); err != nil {
					return err
				}
				<-ctx.Done()
				return s.Write(context.WithoutCancel(ctx), []byte("ended: "+string(chat.CodeOf(wire.Ended(ctx)))))
			})
		})},
		Route{Pattern: "GET /ws", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = wire.ServeWS(w, r, wire.WSOptions{}, conns, func(ctx context.Context, c *wire.Conn) error {
				for {
					msg, err := c.Read(ctx)
					if err != nil {
						return err
					}
					if err := c.WriteText(ctx, msg); err != nil {
						return err
					}
				}
			})
		})},
	)
	c := client(t, true, false, false)
	send := func(method, path string, header ...string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	type browser struct {
		cookie string
		stream *bufio.Reader
		socket *websocket.Conn
	}
	signIn := func() (b browser) {
		t.Helper()
		cookies := send("POST", auth.SessionPath, "Authorization", "Bearer "+aliceToken).Cookies()
		if len(cookies) != 1 {
			t.Fatalf("cookies: %v", cookies)
		}
		b.cookie = cookies[0].Name + "=" + cookies[0].Value
		b.stream = bufio.NewReader(send("GET", "/stream", "Cookie", b.cookie).Body)
		if line, err := b.stream.ReadString('\n'); err != nil || line != "open\n" {
			t.Fatalf("the stream began with %q, %v", line, err)
		}
		sock, _, err := websocket.Dial(t.Context(), "ws://"+addr+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Cookie": {b.cookie}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sock.CloseNow() })
		b.socket = sock
		return b
	}
	leaves, stays := signIn(), signIn()
	if res := send("DELETE", auth.SessionPath, "Cookie", leaves.cookie); res.StatusCode != http.StatusNoContent {
		t.Fatalf("signing out: %s", res.Status)
	}
	if rest, err := io.ReadAll(leaves.stream); string(rest) != "ended: unauthenticated" {
		t.Errorf("the stream: %q, %v", rest, err)
	}
	_, _, err := leaves.socket.Read(t.Context())
	if closed, ok := errors.AsType[websocket.CloseError](err); !ok || closed.Code != 4401 || closed.Reason != "sign in again" {
		t.Errorf("the socket: %v", err)
	}
	if res := send("GET", auth.SessionPath, "Cookie", leaves.cookie); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("the cookie after signing out: %s", res.Status)
	}
	if err := stays.socket.Write(t.Context(), websocket.MessageText, []byte("hi")); err != nil {
		t.Fatal(err)
	}
	if _, msg, err := stays.socket.Read(t.Context()); err != nil || string(msg) != "hi" {
		t.Errorf("the socket of another browser: %q, %v", msg, err)
	}
	if res := send("GET", auth.SessionPath, "Authorization", "Bearer "+aliceToken); res.StatusCode != http.StatusOK {
		t.Errorf("the token after signing out: %s", res.Status)
	}
}
