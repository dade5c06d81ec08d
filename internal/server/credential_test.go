package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/golang-jwt/jwt/v5"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/wire"
)

const jwtSecret = "a secret of the tests, 32 bytes!"

// Streams on every protocol, sockets, waiting requests and bodies that are being sent end when the token is removed or the
// JWT expires.
func TestConnectionsEndWithTheirCredential(t *testing.T) {
	var opening time.Duration // how long it takes here to open all connections
	for _, expires := range []bool{false, true} {
		name := map[bool]string{false: "removed", true: "expired"}[expires]
		t.Run(name, func(t *testing.T) {
			a := withTokens(t, func(o *auth.Options) { o.JWT.Secret = jwtSecret })
			conns := &wire.Conns{}
			ended := func(ctx context.Context) string {
				<-ctx.Done()
				return "ended: " + string(chat.CodeOf(wire.Ended(ctx)))
			}
			addr, _ := start(t, Options{Auth: a, Conns: conns},
				Route{Pattern: "GET /stream", QueryToken: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_ = wire.ServeSSE(w, r, wire.SSEOptions{}, conns, func(ctx context.Context, s *wire.Stream) error {
						if err := s.Write(ctx, []byte("open\n")); err != nil {
							return err
						}
						return s.Write(context.WithoutCancel(ctx), []byte(ended(ctx)))
					})
				})},
				Route{Pattern: "GET /ws", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_ = wire.ServeWS(w, r, wire.WSOptions{}, conns, func(ctx context.Context, c *wire.Conn) error {
						_, err := c.Read(ctx)
						return err
					})
				})},
				Route{Pattern: "GET /wait", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, "open\n")
					_ = http.NewResponseController(w).Flush()
					_, _ = io.WriteString(w, ended(r.Context()))
				})},
				Route{Pattern: "POST /body", LongBody: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					control := http.NewResponseController(w)
					_ = control.EnableFullDuplex()
					_, _ = io.WriteString(w, "open\n")
					_ = control.Flush()
					_, err := io.ReadAll(r.Body)
					_, _ = io.WriteString(w, "ended: "+string(chat.CodeOf(err)))
				})},
			)
			secret, begun := aliceToken, time.Now()
			if expires {
				until := begun.Add(3*time.Second + 10*opening)
				var err error
				secret, err = jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "alice", "exp": until.Unix()}).SignedString([]byte(jwtSecret))
				if err != nil {
					t.Fatal(err)
				}
			}
			open := func(c *http.Client, method, path string, header ...string) *bufio.Reader {
				t.Helper()
				body, more := io.Pipe() // never ends by itself
				t.Cleanup(func() { _ = more.Close() })
				var sent io.Reader
				if method == "POST" {
					sent = body
				}
				r, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, sent)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/x-ndjson")
				for i := 0; i < len(header); i += 2 {
					r.Header.Set(header[i], header[i+1])
				}
				res, err := c.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = res.Body.Close() })
				in := bufio.NewReader(res.Body)
				if line, err := in.ReadString('\n'); err != nil || line != "open\n" {
					t.Fatalf("%s %s: %s %q %v", method, path, res.Status, line, err)
				}
				return in
			}
			one, two := client(t, true, false, false), client(t, false, false, true)
			waiting := map[string]*bufio.Reader{
				"SSE, HTTP/1.1": open(one, "GET", "/stream", "Authorization", "Bearer "+secret),
				"SSE, HTTP/2":   open(two, "GET", "/stream", auth.KeyHeader, secret),
				"SSE by query":  open(one, "GET", "/stream?access_token="+secret),
				"a request":     open(one, "GET", "/wait", auth.KeyHeader, secret),
				"a body":        open(one, "POST", "/body", auth.KeyHeader, secret),
			}
			sock, _, err := websocket.Dial(t.Context(), "ws://"+addr+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{auth.KeyHeader: {secret}}})
			if err != nil {
				t.Fatal(err)
			}
			defer sock.CloseNow()
			other := open(one, "GET", "/stream", "Authorization", "Bearer "+adminToken)
			opening = time.Since(begun)

			if !expires {
				if err := a.SetTokens([]auth.Token{{Token: adminToken, Actor: chat.Actor{Kind: chat.User, ID: "root"}, Scopes: []chat.Scope{chat.ScopeAdmin}}}); err != nil {
					t.Fatal(err)
				}
			}
			for name, in := range waiting {
				if rest, err := io.ReadAll(in); string(rest) != "ended: unauthenticated" {
					t.Errorf("%s: %q, %v", name, rest, err)
				}
			}
			_, _, err = sock.Read(t.Context())
			if closed, ok := errors.AsType[websocket.CloseError](err); !ok || closed.Code != 4401 || closed.Reason != "sign in again" {
				t.Errorf("the socket: %v", err)
			}
			if other.Buffered() > 0 {
				t.Error("the stream of another token has ended")
			}
			r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/wait", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set(auth.KeyHeader, secret)
			res, err := one.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != 401 {
				t.Errorf("a new request: %s", res.Status)
			}
		})
	}
}

func TestWrongTokensAreRateLimited(t *testing.T) {
	a := withTokens(t, nil)
	h := newServer(t, Options{Auth: a}).Handler()
	var last answer
	for range 25 {
		last = do(t, h, req("GET", "http://127.0.0.1/metrics", "", auth.KeyHeader, "nope"))
	}
	if last.StatusCode != 429 || last.Header.Get("Retry-After") != "1" || !strings.Contains(last.body, `"slow_down"`) {
		t.Errorf("%s, Retry-After %q: %s", last.Status, last.Header.Get("Retry-After"), last.body)
	}
	right := do(t, h, req("GET", "http://127.0.0.1/metrics", "", auth.KeyHeader, adminToken))
	if right.StatusCode != 200 || !strings.Contains(right.body, `parley_sign_ins_refused_total{carrier="api_key"} 25`) {
		t.Errorf("a right token: %s", right.Status)
	}
}
