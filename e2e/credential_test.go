// Tests of reload of tokens, and the end of what a credential opened.

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/golang-jwt/jwt/v5"
	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/freeport"
)

// reload sends SIGHUP and waits for a text in the server's log.
func (p *process) reload(says string) {
	p.t.Helper()
	before := strings.Count(p.err.String(), says)
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		p.t.Fatal(err)
	}
	waitFor(p.t, func() bool { return strings.Count(p.err.String(), says) > before }, "the log does not contain: "+says)
}

func tokenFile(t *testing.T, path string, lines ...string) string {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "tokens")
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSIGHUPNeverEndsTheServer: SIGHUP reads the token file and the configuration
// again, or has no effect; an invalid file changes nothing.
func TestSIGHUPNeverEndsTheServer(t *testing.T) {
	p := serve(t, t.TempDir())
	p.reload("SIGHUP has no effect")
	p.get("/readyz")

	config := writeConfig(t, "agents: []\n")
	p = serve(t, t.TempDir(), "--config", config)
	p.reload("the configuration was read again")
	p.get("/readyz")

	file := tokenFile(t, "", tokenOf("alice")+" user alice", tokenOf("root")+" admin root *")
	p = serve(t, t.TempDir(), "--token-file", file, "--config", config)
	status := func(name string) int {
		code, _, _ := p.do(call{path: "/parley/v1/sessions", token: tokenOf(name)})
		return code
	}
	tokenFile(t, file, tokenOf("alice")+" user alice", tokenOf("bob")+" user bob")
	if status("bob") != 401 {
		t.Error("a token is accepted before the file was read again")
	}
	p.reload("the configuration was read again")
	if status("alice") != 200 || status("bob") != 200 || status("root") != 401 {
		t.Errorf("after SIGHUP: alice %d, bob %d, root %d", status("alice"), status("bob"), status("root"))
	}
	for wrong, says := range map[string]string{
		tokenOf("alice") + " king alice": `line 1: unknown scope \"king\"`,
		"# no token":                     "names no token",
		"short user alice":               "line 1: it is shorter than 16 characters",
	} {
		tokenFile(t, file, wrong)
		p.reload("the token file was not loaded")
		if !strings.Contains(p.err.String(), says) {
			t.Errorf("%s: the log has no reason", wrong)
		}
		if status("alice") != 200 || status("bob") != 200 {
			t.Errorf("%s: the tokens have changed", wrong)
		}
	}
	if strings.Contains(p.err.String(), "token-of-") {
		t.Error("a token is in the log")
	}
	if code := p.terminate(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	if code, _, stderr := command(t, "serve", "--addr", "127.0.0.1:0", "--data", t.TempDir(), "--token-file", tokenFile(t, "", "# no token")); code == 0 || !strings.Contains(stderr, "names no token") {
		t.Errorf("a token file without tokens: %d %s", code, stderr)
	}
}

// TestConnectionsEndWithTheirCredential: when a token is removed or a JWT expires, the
// credentials derived from it and the connections opened with it end, in every dialect.
func TestConnectionsEndWithTheirCredential(t *testing.T) {
	const secret = "a secret of the tests, 32 bytes!"
	var opening time.Duration // how long it takes here to open all connections
	for _, expires := range []bool{false, true} {
		name := map[bool]string{false: "removed", true: "expired"}[expires]
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			bus := freeport.Addr(t)
			root, eve, ops := tokenOf("root"), tokenOf("eve"), tokenOf("ops")
			file := tokenFile(t, "", root+" user,agent,admin root *", eve+" user,agent user:eve", ops+" admin ops *")
			p := serve(t, t.TempDir(), "--token-file", file, "--jwt-secret", secret, "--nats", bus)
			begun := time.Now()
			until := begun.Add(10*time.Second + 10*opening).Truncate(time.Second)
			if expires {
				signed := func(claims jwt.MapClaims) string {
					claims["exp"] = until.Unix()
					s, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
				eve, ops = signed(jwt.MapClaims{"sub": "eve", "scope": "user agent"}), signed(jwt.MapClaims{"sub": "ops", "scope": "admin", "workspace": "*"})
			}
			key := map[string]string{"X-API-Key": eve}
			p.must(call{method: "POST", path: "/parley/v1/sessions", token: root, body: `{"id":"room","agent":"none","members":[{"actor":{"kind":"user","id":"eve"},"role":"owner"}]}`})
			p.must(call{method: "POST", path: "/parley/v1/sessions", header: key, body: `{"id":"busy"}`})

			// Credentials derived from the credential, which is sent as an API key.
			var made struct{ Token, URL string }
			read := func(body string) {
				t.Helper()
				if err := json.Unmarshal([]byte(body), &made); err != nil {
					t.Fatal(err)
				}
			}
			read(p.must(call{method: "POST", path: "/token/issue", header: key}))
			issued := made.Token
			if code, body, _ := p.do(call{method: "POST", path: "/token/issue", header: map[string]string{"X-API-Key": issued}}); code != 403 {
				t.Errorf("an issued token is exchanged again: %d %s", code, body)
			}
			_, _, head := p.do(call{method: "POST", path: "/auth/session", header: key})
			cookie, _, _ := strings.Cut(head.Get("Set-Cookie"), ";")
			read(p.must(call{method: "PUT", path: "/api/v1/agents/room/artifacts/files/a.txt", header: key}))
			address := strings.TrimPrefix(made.URL, p.url)
			var cred x1.Credential
			if err := json.Unmarshal([]byte(p.must(call{method: "POST", path: "/parley/v1/sessions/room/credentials", header: key, body: `{"ttl":43200}`})), &cred); err != nil {
				t.Fatal(err)
			}
			if expires && cred.ExpiresAt.After(until) {
				t.Errorf("the x1 credential ends at %s, the JWT at %s", cred.ExpiresAt, until)
			}
			used := map[string]func() (int, string){
				"itself": func() (int, string) {
					code, b, _ := p.do(call{path: "/parley/v1/sessions", header: key})
					return code, b
				},
				"issued token": func() (int, string) {
					code, b, _ := p.do(call{path: "/parley/v1/sessions", token: issued})
					return code, b
				},
				"issued as key": func() (int, string) {
					code, b, _ := p.do(call{path: "/parley/v1/sessions", header: map[string]string{"X-API-Key": issued}})
					return code, b
				},
				"cookie": func() (int, string) {
					code, b, _ := p.do(call{path: "/parley/v1/sessions", header: map[string]string{"Cookie": cookie}})
					return code, b
				},
				"signed address": func() (int, string) {
					code, b, _ := p.do(call{method: "PUT", path: address, body: "x"})
					return code, b
				},
			}
			for name, use := range used {
				if code, body := use(); code != 200 {
					t.Errorf("%s: %d %s", name, code, body)
				}
			}

			// Connections.
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
			type ending struct {
				out  *output
				over chan struct{}
				code websocket.StatusCode
			}
			endings := map[string]*ending{}
			stream := func(name, method, path, body string) {
				t.Helper()
				r, err := http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/json")
				if strings.Contains(path, "access_token=") {
					r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "access_token=", "access_token="+eve, 1)
				} else {
					r.Header.Set("X-API-Key", eve)
				}
				res, err := client.Do(r)
				if err != nil || res.StatusCode != 200 {
					t.Fatalf("%s: %v %v", name, res, err)
				}
				e := &ending{out: newOutput(), over: make(chan struct{})}
				endings[name] = e
				go func() {
					defer close(e.over)
					defer res.Body.Close()
					_, _ = io.Copy(e.out, res.Body) // ends with the stream
				}()
			}
			sockets := map[string]*websocket.Conn{}
			socket := func(name, path, token string, frames ...string) {
				t.Helper()
				header := http.Header{}
				if token != "" {
					header.Set("X-API-Key", token)
				}
				conn, _, err := websocket.Dial(ctx, p.url+path, &websocket.DialOptions{HTTPClient: client, HTTPHeader: header})
				if err != nil {
					t.Fatal(name, err)
				}
				sockets[name] = conn
				t.Cleanup(func() { conn.CloseNow() })
				for _, f := range frames {
					if err := conn.Write(ctx, websocket.MessageText, []byte(f)); err != nil {
						t.Fatal(name, err)
					}
				}
				e := &ending{out: newOutput(), over: make(chan struct{})}
				endings[name] = e
				go func() {
					defer close(e.over)
					for {
						_, b, err := conn.Read(ctx)
						if err != nil {
							e.code = websocket.CloseStatus(err)
							return
						}
						_, _ = e.out.Write(b) // memory
					}
				}()
			}
			stream("native", "GET", "/parley/v1/sessions/room/stream?after=0", "")
			stream("native by query", "GET", "/parley/v1/sessions/room/stream?after=0&access_token=", "")
			stream("vertesia", "GET", "/api/v1/agents/room/stream?since=0", "")
			stream("vertesia details", "GET", "/api/v1/agents/room/details/stream", "")
			stream("letta", "POST", "/v1/conversations/busy/messages", `{"messages":[{"role":"user","content":"/sleep 600"}],"streaming":true,"background":true}`)
			stream("agui", "POST", "/ag-ui/default", `{"threadId":"busy-agui","runId":"r","messages":[{"id":"m","role":"user","content":"/sleep 600"}],"tools":[],"context":[]}`)
			stream("aisdk", "POST", "/api/chat", `{"id":"busy-aisdk","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"/sleep 600"}]}]}`)
			socket("aisdk socket", "/api/chat", eve, `{"type":"resume","requestId":"r","id":"busy-aisdk","headers":{},"body":{}}`)
			socket("aisdk by frame", "/api/chat", "", `{"type":"resume","requestId":"r","id":"busy-aisdk","headers":{"authorization":"Bearer `+eve+`"},"body":{}}`)
			stream("nemo", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"/sleep 600"}],"stream":true}`)
			socket("native socket", "/parley/v1/ws", eve, `{"op":"watch","id":1,"session_id":"room","after":"0"}`)
			socket("worker", "/parley/v1/agents/eve/work", eve, `{"op":"ready","slots":1}`)
			socket("vertesia socket", "/api/v1/workflows/runs/room/room/ws?since=0", eve)
			socket("nemo socket", "/websocket?conversation_id=room", eve)
			socket("nemo by message", "/websocket", "", `{"type":"auth_message","payload":{"method":"api_key","token":"`+eve+`"}}`)
			socket("kept", "/parley/v1/ws", root, `{"op":"watch","id":1,"session_id":"room","after":"0"}`)
			waitFor(t, func() bool { return strings.Contains(endings["nemo by message"].out.String(), `"success"`) }, "the message did not sign in")
			waitFor(t, func() bool { return strings.Contains(endings["aisdk by frame"].out.String(), `"start"`) }, "the frame did not sign in")
			busEnds := map[string]chan struct{}{}
			for name, opts := range map[string][]nats.Option{
				"nats credential": credentialOf(cred, make(chan error, 64)),
				"nats operator":   {nats.Token(ops)},
				"nats sidecar":    {nats.UserInfo("sidecar", ops)},
				"nats kept":       {nats.Token(root)},
			} {
				end := make(chan struct{})
				c, err := nats.Connect("nats://"+bus, append(opts, nats.Timeout(30*time.Second), nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(end) }))...)
				if err != nil {
					t.Fatal(name, err)
				}
				t.Cleanup(c.Close)
				busEnds[name] = end
			}
			opening = time.Since(begun)
			for name, e := range endings {
				select {
				case <-e.over:
					t.Fatalf("%s ended too early: %s", name, e.out)
				default:
				}
			}

			if !expires {
				tokenFile(t, file, root+" user,agent,admin root *")
				p.reload("the tokens were read again")
			}
			says := map[string]string{
				"native": `"unauthenticated"`, "native by query": `"unauthenticated"`, "native socket": `"unauthenticated"`, "worker": `"unauthenticated"`,
				"letta": "authentication_error", "nemo": "user_auth_error",
			}
			for name, e := range endings {
				if name == "kept" {
					continue
				}
				select {
				case <-e.over:
				case <-ctx.Done():
					t.Fatalf("%s is still open", name)
				}
				if sockets[name] != nil && e.code != 4401 {
					t.Errorf("%s is closed with %d", name, e.code)
				}
				if !strings.Contains(e.out.String(), says[name]) {
					t.Errorf("%s does not say %s: %s", name, says[name], e.out)
				}
			}
			for name, end := range busEnds {
				if name == "nats kept" {
					continue
				}
				select {
				case <-end:
				case <-ctx.Done():
					t.Fatalf("%s is still open", name)
				}
			}
			for name, use := range used {
				if code, body := use(); code != 401 && code != 403 {
					t.Errorf("%s still works: %d %s", name, code, body)
				}
			}
			for name, opts := range map[string][]nats.Option{"credential": credentialOf(cred, make(chan error, 64)), "token": {nats.Token(ops)}} {
				if c, err := nats.Connect("nats://"+bus, append(opts, nats.NoReconnect())...); err == nil {
					c.Close()
					t.Errorf("NATS accepts the %s", name)
				}
			}
			// Connections of other tokens stay open.
			p.must(call{method: "POST", path: "/parley/v1/sessions/room/events", token: root, body: `{"type":"user.message","payload":{"text":"for the others"}}`})
			waitFor(t, func() bool { return strings.Contains(endings["kept"].out.String(), "for the others") }, "the socket of another token receives nothing")
			select {
			case <-busEnds["nats kept"]:
				t.Error("another token's NATS connection has ended")
			default:
			}
		})
	}
}

// TestAppendsEndWithTheirCredential: nothing that a client sends is stored after the
// removal of its token was reported.
func TestAppendsEndWithTheirCredential(t *testing.T) {
	root, eve := tokenOf("root"), tokenOf("eve")
	file := tokenFile(t, "", root+" admin root *", eve+" user eve")
	p := serve(t, t.TempDir(), "--token-file", file)
	p.must(call{method: "POST", path: "/parley/v1/sessions", token: eve, body: `{"id":"hers","agent":"none"}`})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	conn, _, err := websocket.Dial(t.Context(), p.url+"/parley/v1/ws", &websocket.DialOptions{HTTPClient: client, HTTPHeader: http.Header{"X-API-Key": {eve}}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	sent, stop := make(chan struct{}), make(chan struct{})
	go func() { // until the connection is closed
		defer close(sent)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			frame := fmt.Sprintf(`{"op":"append","id":%d,"session_id":"hers","events":[{"type":"user.message","payload":{"text":"n%d"}}]}`, i, i)
			if conn.Write(t.Context(), websocket.MessageText, []byte(frame)) != nil {
				return
			}
		}
	}()
	if _, b, err := conn.Read(t.Context()); err != nil || !strings.Contains(string(b), `"ok"`) {
		t.Fatalf("%s %v", b, err)
	}
	tokenFile(t, file, root+" admin root *")
	p.reload("the tokens were read again")
	for {
		if _, _, err = conn.Read(t.Context()); err != nil {
			break
		}
	}
	stored := p.must(call{path: "/parley/v1/sessions/hers", token: root})
	_ = conn.Write(t.Context(), websocket.MessageText, []byte(`{"op":"append","id":1,"session_id":"hers","events":[{"type":"user.message","payload":{"text":"late"}}]}`)) // the connection may be closed already
	close(stop)
	conn.CloseNow()
	<-sent
	if now := p.must(call{path: "/parley/v1/sessions/hers", token: root}); now != stored {
		t.Errorf("stored after the end: %s, then %s", stored, now)
	}
}
