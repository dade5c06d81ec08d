// Tests of access to the routes of a session.

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func tokenOf(name string) string { return "token-of-" + name + "-0123456789abcdef" }

// serveWithTokens starts a server with tokens of an owner (alice), a viewer (carol), a
// stranger (bob), a user of another workspace (far), an agent and an administrator.
func serveWithTokens(t *testing.T, args ...string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	lines := []string{"# a comment"}
	for name, scopes := range map[string]string{"alice": "user", "bob": "user", "carol": "user", "robot": "agent", "root": "user,agent,admin"} {
		line := tokenOf(name) + " " + scopes + " " + name
		if name == "root" {
			line += " *"
		}
		lines = append(lines, line)
	}
	lines = append(lines, tokenOf("far")+" user,agent far elsewhere")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, t.TempDir(), append([]string{"--token-file", file}, args...)...)
	createAliceSession(p)
	return p
}

// createAliceSession creates alice's session "hers" with a prompt and a file; carol is a
// viewer.
func createAliceSession(p *process) {
	p.t.Helper()
	p.must(call{method: "POST", path: "/parley/v1/sessions", token: tokenOf("alice"),
		body: `{"id":"hers","members":[{"actor":{"kind":"user","id":"carol"},"role":"viewer"}]}`})
	p.must(call{method: "POST", path: "/parley/v1/sessions/hers/events", token: tokenOf("alice"),
		body: `{"type":"user.message","payload":{"text":"/ask text"}}`})
	p.must(call{method: "PUT", path: "/parley/v1/sessions/hers/artifacts/a.txt", token: tokenOf("alice"), body: "secret"})
}

// TestForeignHostIsRefused: a request with a foreign host name is refused, also when
// the name resolves to loopback (DNS rebinding).
func TestForeignHostIsRefused(t *testing.T) {
	p := serve(t, t.TempDir())
	for _, host := range []string{"evil.example", "evil.example:8000", "127.0.0.1.evil.example", "169.254.169.254"} {
		for _, path := range []string{"/", "/metrics", "/parley/v1/sessions", "/parley/v1/openapi.json", "/nothing"} {
			if code, body, _ := p.do(call{path: path, host: host}); code != http.StatusMisdirectedRequest {
				t.Errorf("Host %s %s: %d %s", host, path, code, body)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} { // probes use the address of a pod
		if code, body, _ := p.do(call{path: path, host: "10.1.2.3:8000"}); code != 200 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	for _, host := range []string{"localhost", "127.0.0.1:1", "[::1]:80"} {
		if code, body, _ := p.do(call{path: "/parley/v1/sessions", host: host}); code != 200 {
			t.Errorf("Host %s: %d %s", host, code, body)
		}
	}
}

// TestCrossSitePagesAreRefused: a page of another site can neither write nor open a
// socket.
func TestCrossSitePagesAreRefused(t *testing.T) {
	p := serve(t, t.TempDir())
	for name, c := range map[string]call{
		"origin":        {header: map[string]string{"Origin": "https://evil.example"}},
		"null origin":   {header: map[string]string{"Origin": "null"}},
		"fetch site":    {header: map[string]string{"Sec-Fetch-Site": "cross-site"}},
		"a plain form":  {header: map[string]string{"Content-Type": "text/plain"}},
		"a form":        {header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}},
		"a file upload": {header: map[string]string{"Content-Type": "multipart/form-data; boundary=x"}},
	} {
		c.method, c.path, c.body = "POST", "/parley/v1/sessions", `{"id":"evil"}`
		if code, body, _ := p.do(c); code != 403 && code != 415 {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	if code, _, _ := p.do(call{path: "/parley/v1/sessions/evil"}); code != 404 {
		t.Error("a cross-site page has created a session")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, path := range []string{"/parley/v1/ws", "/parley/v1/agents/x/work"} {
		for origin, want := range map[string]int{"https://evil.example": 403, "null": 403, p.url: 101} {
			conn, res, err := websocket.Dial(ctx, p.url+path, &websocket.DialOptions{HTTPClient: client, HTTPHeader: http.Header{"Origin": {origin}}})
			if err == nil {
				conn.CloseNow()
			}
			if res == nil || res.StatusCode != want {
				t.Errorf("%s from %s: %+v %v", path, origin, res, err)
			}
		}
	}
	if _, _, h := p.do(call{path: "/parley/v1/sessions", header: map[string]string{"Origin": "https://evil.example"}}); h.Get("Access-Control-Allow-Origin") != "" {
		t.Error("a cross-site page may read")
	}
}

// sessionRoutes lists the routes of a session from the server's OpenAPI document, so
// that new ones are tested too.
func sessionRoutes(t *testing.T, p *process) (routes []call) {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(p.get("/parley/v1/openapi.json")), &doc); err != nil {
		t.Fatal(err)
	}
	bodies := map[string]string{
		"/events": `{"type":"user.message","payload":{"text":"hi"}}`, "/previews": `{"block":"b","offset":0,"text":"x"}`,
		"/answer": `{"text":"x"}`, "/stop": `{}`, "/workstreams": `{"id":"w9","instruction":"x"}`,
		"/message": `{"message":"x"}`, "/steer": `{"command":"add_instruction","text":"x"}`, "": `{"title":"mine now"}`, "/a.txt": "x",
	}
	for path, methods := range doc.Paths {
		if !strings.HasPrefix(path, "/parley/v1/sessions/{id}") {
			continue
		}
		for method := range methods {
			c := call{method: strings.ToUpper(method), path: strings.NewReplacer("{id}", "hers", "{seq}", "1", "{path}", "a.txt", "{request_id}", "p-1", "{workstream}", "w1").Replace(path)}
			if c.method != "GET" && c.method != "HEAD" && c.method != "DELETE" {
				for suffix, body := range bodies {
					if strings.HasSuffix(c.path, suffix) && c.body == "" || suffix != "" && strings.HasSuffix(c.path, suffix) {
						c.body = body
					}
				}
			}
			if strings.HasSuffix(path, "/search") {
				c.path += "?q=ask"
			}
			routes = append(routes, c)
		}
	}
	if len(routes) < 15 {
		t.Fatalf("only %d routes", len(routes))
	}
	return routes
}

// TestOtherUsersGetNotFound: for users that are not members, of the same workspace or of another,
// every route of a session gives the answer for a session that does not exist.
func TestOtherUsersGetNotFound(t *testing.T) {
	p := serveWithTokens(t)
	for _, c := range sessionRoutes(t, p) {
		for _, who := range []string{"bob", "far", ""} {
			want := 404
			if who == "" {
				want = 401
			} else if strings.HasSuffix(c.path, "/previews") && who == "bob" {
				want = 403 // it needs the scope agent for every session
			}
			if c.token = ""; who != "" {
				c.token = tokenOf(who)
			}
			code, body, _ := p.do(c)
			if code != want {
				t.Errorf("%s %s as %q: %d %s", c.method, c.path, who, code, body)
			}
			if strings.Contains(body, "alice") || strings.Contains(body, "secret") {
				t.Errorf("%s %s shows %q: %s", c.method, c.path, who, body)
			}
		}
	}
	for _, who := range []string{"bob", "far"} {
		for _, frame := range []string{
			`{"op":"watch","id":1,"session_id":"hers","after":"0"}`,
			`{"op":"append","id":1,"session_id":"hers","events":[{"type":"user.message","payload":{"text":"x"}}]}`,
			`{"op":"answer","id":1,"session_id":"hers","request_id":"p-1","answer":{"text":"x"}}`,
			`{"op":"stop","id":1,"session_id":"hers"}`,
			`{"op":"preview","id":1,"session_id":"hers","preview":{"block":"b","offset":0,"text":"x"}}`,
		} {
			got := p.ask(tokenOf(who), "/parley/v1/ws", frame)
			if !strings.Contains(got, `"not_found"`) && !(who == "bob" && strings.Contains(frame, "preview") && strings.Contains(got, `"denied"`)) {
				t.Errorf("%s sends %s and gets %s", who, frame, got)
			}
		}
	}
	for _, path := range []string{"/parley/v1/sessions", "/parley/v1/sessions?q=ask"} {
		if got := p.must(call{path: path, token: tokenOf("bob")}); strings.Contains(got, "hers") {
			t.Errorf("a list shows a stranger: %s", got)
		}
	}
	// A stranger can use the id: the answer must not show that it is taken.
	got := p.must(call{method: "POST", path: "/parley/v1/sessions", token: tokenOf("bob"), body: `{"id":"hers"}`})
	if strings.Contains(got, "alice") {
		t.Error(got)
	}
	for _, path := range []string{"/parley/v1/backup", "/parley/v1/verify", "/metrics"} {
		if code, body, _ := p.do(call{path: path, token: tokenOf("alice")}); code != 403 {
			t.Errorf("%s for a person: %d %s", path, code, tail(body))
		}
	}
	for who, want := range map[string]int{"bob": 403, "": 401} {
		c := call{path: "/parley/v1/agents/demo2/work"}
		if who != "" {
			c.token = tokenOf(who)
		}
		if code, body, _ := p.do(c); code != want {
			t.Errorf("work as %q: %d %s", who, code, body)
		}
	}
	if code, _, _ := p.do(call{method: "POST", path: "/parley/v1/import", token: tokenOf("alice"), body: "{}"}); code != 403 {
		t.Errorf("import for a person: %d", code)
	}
	if code, _, _ := p.do(call{path: "/parley/v1/agents"}); code != 401 {
		t.Errorf("agents without a token: %d", code)
	}
	p.must(call{path: "/parley/v1/agents", token: tokenOf("bob")})
	if got := p.must(call{path: "/parley/v1/sessions/hers/events", token: tokenOf("alice")}); strings.Contains(got, `"bob"`) || strings.Contains(got, "mine now") {
		t.Errorf("a stranger changed something: %s", got)
	}
}

// ask sends one frame on a new socket and returns the answer.
func (p *process) ask(token, path, frame string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 60*time.Second)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	conn, _, err := websocket.Dial(ctx, p.url+path, &websocket.DialOptions{HTTPClient: client, HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}})
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.CloseNow()
	if err := conn.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
		p.t.Fatal(err)
	}
	_, got, err := conn.Read(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(got)
}

// TestViewerReadsEverything: a viewer may use every reading route and no writing frame.
// Writing routes are in TestViewerChangesNothing.
func TestViewerReadsEverything(t *testing.T) {
	p := serveWithTokens(t)
	carol := tokenOf("carol")
	p.must(call{method: "POST", path: "/parley/v1/sessions/hers/workstreams", token: tokenOf("alice"), body: `{"id":"w1","instruction":"/sleep 600"}`})
	for _, c := range sessionRoutes(t, p) {
		if c.method != "GET" && c.method != "HEAD" {
			continue
		}
		if c.token = carol; strings.HasSuffix(c.path, "/stream") {
			c.method = "HEAD"
		}
		if code, body, _ := p.do(c); code != 200 {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, body)
		}
	}
	for _, op := range []string{
		`{"op":"append","id":1,"session_id":"hers","events":[{"type":"user.message","payload":{"text":"x"}}]}`,
		`{"op":"answer","id":1,"session_id":"hers","request_id":"p-1","answer":{"text":"x"}}`, `{"op":"stop","id":1,"session_id":"hers"}`,
	} {
		if got := p.ask(carol, "/parley/v1/ws", op); !strings.Contains(got, `"denied"`) {
			t.Errorf("%s: %s", op, got)
		}
	}
	if got := p.must(call{path: "/parley/v1/sessions/hers/artifacts", token: carol}); strings.Count(got, `"path"`) != 1 {
		t.Error(got)
	}
}

// TestTokenInURLIsNotLogged: a token in the query is accepted for streams only, and is
// not written to the log.
func TestTokenInURLIsNotLogged(t *testing.T) {
	p := serveWithTokens(t, "--log-level", "debug")
	query := "?access_token=" + tokenOf("alice")
	if code, body, _ := p.do(call{method: "HEAD", path: "/parley/v1/sessions/hers/stream" + query}); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	if code, _, _ := p.do(call{path: "/parley/v1/sessions/hers" + query}); code != 401 {
		t.Errorf("a token in the URL is accepted outside of streams: %d", code)
	}
	if code := p.terminate(); code != 0 {
		t.Error(code)
	}
	log := p.err.String()
	if !strings.Contains(log, "/stream?access_token=") || strings.Contains(log, tokenOf("alice")) {
		t.Errorf("the log: %s", tail(log))
	}
	if text := fmt.Sprint(p.out); strings.Contains(text, "token-of") {
		t.Error(text)
	}
}
