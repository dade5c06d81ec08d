// Tests of foreign hosts and sites, malformed requests, signed URLs and logged tokens.

package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/freeport"
)

// sampleIDs has well-formed values for path parameters; they name the session s.
var sampleIDs = owned{
	"id": "s", "workflow": "s", "path": "a.txt", "seq": "1", "name": "UserInput", "query/name": "AgentPlan", "workstream": "w", "child": "s~w", "request_id": "p", "ask": "s~p",
	"agent": "agent-1", "conversation": "s", "message": "message-1", "run": "run-1", "step": "step-1", "label": "human", "interaction": "i", "slug": "default", "grant": "e-1", "share": "x", "link": "l", "agentname": "demo", "thread": "s",
}

// writingCalls returns a valid request for each route that changes something.
func writingCalls(t *testing.T) (list []call) {
	t.Helper()
	for _, r := range activeRoutes(t) {
		method, _, _ := strings.Cut(r.Pattern, " ")
		if method != "POST" && method != "PUT" && method != "PATCH" && method != "DELETE" {
			continue
		}
		if r.Public || strings.Contains(r.Pattern, "/{$}") {
			continue
		}
		var c call
		if !strings.Contains(r.Pattern, "{") || unowned[strings.Replace(r.Pattern, " /latest/", " /v1/", 1)] != "" {
			_, path, _ := strings.Cut(r.Pattern, " ")
			c = call{method: method, path: strings.NewReplacer("{path...}", "a.txt", "{name}", "demo", "{agent}", "a", "{message}", "m", "{slug}", "default").Replace(path)}
		} else {
			c = sampleIDs.fill(t, r.Pattern)
		}
		if c.body == "" && method != "DELETE" {
			c.body = "{}"
		}
		list = append(list, c)
	}
	return list
}

// TestEveryRouteRefusesForeignHostsAndSites: every route of every dialect refuses a
// foreign host name and the pages of other sites.
func TestEveryRouteRefusesForeignHostsAndSites(t *testing.T) {
	p := serve(t, t.TempDir(), "--nats", freeport.Addr(t))
	p.post("/parley/v1/sessions", `{"id":"s","agent":"none"}`)
	before := p.get("/parley/v1/sessions/s/events") + p.get("/parley/v1/sessions") + p.get("/v1/agents/")
	for _, r := range dialectRoutes(t) {
		method, path, ok := strings.Cut(r.Pattern, " ")
		if !ok {
			method, path = "GET", r.Pattern
		}
		path = strings.NewReplacer("{$}", "", "{id}", "s", "{path...}", "a.txt").Replace(path)
		if code, body, _ := p.do(call{method: method, path: path, host: "evil.example"}); code != http.StatusMisdirectedRequest {
			t.Errorf("%s for another host: %d %s", r.Pattern, code, body)
		}
	}
	for _, c := range writingCalls(t) {
		for name, header := range map[string]map[string]string{
			"another origin": {"Origin": "https://evil.example"}, "no origin": {"Origin": "null"}, "another site": {"Sec-Fetch-Site": "cross-site"},
		} {
			c.header = header
			if code, body, _ := p.do(c); code != 403 {
				t.Errorf("%s %s from %s: %d %s", c.method, c.path, name, code, body)
			}
		}
		// Uploads accept forms; those routes check the origin.
		if c.body == "" || strings.Contains(c.path, "/artifacts/") || strings.HasPrefix(c.path, "/static/") || strings.HasSuffix(c.path, "/import") {
			continue
		}
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
			if kind == "text/plain" && (c.path == "/api/chat" || strings.HasPrefix(c.path, "/api/chat/") && !strings.HasSuffix(c.path, "/stop")) {
				continue // WorkflowChatTransport sends its JSON so; the origin is checked
			}
			c.header = map[string]string{"Content-Type": kind}
			if code, body, _ := p.do(c); code < 400 || !strings.Contains(body, "any web page could send it") {
				t.Errorf("%s %s as %s: %d %s", c.method, c.path, kind, code, body)
			}
		}
	}
	if after := p.get("/parley/v1/sessions/s/events") + p.get("/parley/v1/sessions") + p.get("/v1/agents/"); after != before {
		t.Errorf("a cross-site page changed something: %s", after)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, path := range []string{"/websocket", "/websocket?conversation_id=s", "/api/v1/workflows/runs/s/s/ws"} {
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
}

// TestMalformedRequestsAreRefused: every route refuses malformed names, bodies, cursors
// and limits; the server does not fail and stores nothing.
func TestMalformedRequestsAreRefused(t *testing.T) {
	p := serve(t, t.TempDir(), "--nats", freeport.Addr(t))
	p.post("/parley/v1/sessions", `{"id":"s","agent":"none"}`)
	p.must(call{method: "PUT", path: "/parley/v1/sessions/s/artifacts/a.txt", body: "x"})
	names := map[string]string{
		"huge": strings.Repeat("a", 5000), "traversal": "..%2f..%2f..%2fetc%2fpasswd", "dots": "%2e%2e", "backslash": "..%5c..%5cx", "nul": "a%00b", "not UTF-8": "%ff%fe", "newline": "a%0d%0ab",
		"spaces": "%20", "system": "sys-letta", "wildcard": "*", "all": "%3e", "tilde": "~", "tildes": "s~~w",
	}
	deep := strings.Repeat(`[`, 20000) + strings.Repeat(`]`, 20000)
	bad := map[string]string{
		"deep": deep, "deep inside": `{"messages":` + deep + `,"payload":` + deep + `,"data":` + deep + `,"metadata":` + deep + `}`, "not UTF-8": "{\"message\":\"\xff\",\"text\":\"\xff\"}", "no JSON": `{"a":`,
		"a number": `1e999999`, "null": `null`, "a list": `[]`, "a text": `"x"`, "other types": `{"messages":1,"message":[],"type":{},"payload":1,"events":{},"agent_id":[],"metadata":"x","data":1}`,
	}
	queries := []string{
		"?limit=-1", "?limit=99999999999999999999", "?limit=x", "?after=-1&before=-1", "?after=%ff&before=%00", "?since=-1", "?since=1e400", "?since=NaN", "?since=99999999999999999999", "?cursor=%ff", "?order=sideways",
		"?after=99999999999999999999999&starting_after=-1", "?page_size=-5&offset=-1&next_page_token=%ff", "?limit=1&limit=2&after=..%2f..",
	}
	// On a kept connection a handler can answer before it has read the whole body.
	client := &http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	try := func(what string, c call) {
		c.client = client
		code, body, _ := p.do(c)
		if code >= 500 || code < 200 {
			t.Errorf("%s: %s %s: %d %s", what, c.method, clip(c.path), code, clip(body))
		}
		if strings.Contains(body, "goroutine ") || strings.Contains(body, "root:") {
			t.Errorf("%s: %s %s shows %s", what, c.method, clip(c.path), clip(body))
		}
	}
	for _, r := range dialectRoutes(t) {
		method, path, ok := strings.Cut(r.Pattern, " ")
		if !ok || method == "DELETE" && strings.HasSuffix(path, "/{id}") || strings.HasSuffix(path, "/restore") || strings.HasSuffix(path, "/backup") {
			continue
		}
		path = strings.ReplaceAll(path, "{$}", "")
		live := strings.HasSuffix(path, "/stream") || strings.HasSuffix(path, "/export") || strings.HasSuffix(path, "/verify")
		if strings.Contains(path, "{") {
			for what, name := range names {
				filled := path
				for key := range sampleIDs {
					key = key[strings.IndexByte(key, '/')+1:]
					filled = strings.NewReplacer("{"+key+"}", name, "{"+key+"...}", name).Replace(filled)
				}
				c := call{method: method, path: filled}
				if method != "GET" && method != "HEAD" {
					c.body = bodies[strings.Replace(r.Pattern, " /latest/", " /v1/", 1)]
				}
				try(what, c)
			}
		}
		known := sampleIDs
		filled := path
		for key, value := range known {
			key = key[strings.IndexByte(key, '/')+1:]
			filled = strings.NewReplacer("{"+key+"}", value, "{"+key+"...}", value).Replace(filled)
		}
		if method == "GET" && !live {
			for _, q := range queries {
				try("a query", call{path: filled + q})
			}
		}
		if method != "GET" && method != "HEAD" && method != "DELETE" {
			for what, body := range bad {
				try(what, call{method: method, path: filled, body: body})
			}
		}
	}
	// Streams refuse an impossible cursor at once, instead of a stream that waits
	// for it.
	for _, path := range []string{
		"/parley/v1/sessions/s/stream?after=-1", "/parley/v1/sessions/s/stream?after=999999", "/api/v1/agents/s/stream?since=x", "/api/v1/workflows/runs/s/s/stream?since=NaN",
	} {
		if code, body, _ := p.do(call{path: path}); code != 400 && code != 410 {
			t.Errorf("%s: %d %s", path, code, clip(body))
		}
	}
	if list := p.get("/parley/v1/sessions/s/artifacts"); strings.Contains(list, "passwd") || strings.Contains(list, "..") {
		t.Errorf("a file was stored: %s", list)
	}
	if code := p.terminate(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	if log := p.err.String(); strings.Contains(log, "panic") || strings.Contains(log, "a connection failed") || strings.Contains(log, "level=ERROR") {
		t.Errorf("the log: %s", tail(log))
	}
}

// TestSignedURLIsLimited: a signed URL works for its file and method only, and as long
// as the user who requested it may see the session.
func TestSignedURLIsLimited(t *testing.T) {
	p := serveWithTokens(t)
	alice := tokenOf("alice")
	p.must(call{method: "PUT", path: "/parley/v1/sessions/hers/artifacts/b.txt", token: alice, body: "other"})
	var target struct{ URL string }
	take := func(method, path string) *url.URL {
		c := call{method: method, path: path, token: alice}
		if err := json.Unmarshal([]byte(p.must(c)), &target); err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(target.URL)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	get := take("GET", "/api/v1/agents/hers/artifacts/a.txt?url=1")
	put := take("PUT", "/api/v1/agents/hers/artifacts/c.txt")
	if got := p.get(get.RequestURI()); got != "secret" {
		t.Errorf("the URL gives %q", got)
	}
	altered := func(u *url.URL, change func(*url.URL, url.Values)) string {
		v, q := *u, u.Query()
		change(&v, q)
		v.RawQuery = q.Encode()
		return v.RequestURI()
	}
	flip := func(at int) func(*url.URL, url.Values) {
		return func(_ *url.URL, q url.Values) {
			b := []byte(q.Get("access_token"))
			if at < 0 {
				at += len(b)
			}
			if b[at]++; b[at] == 'z'+1 {
				b[at] = 'b'
			}
			q.Set("access_token", string(b))
		}
	}
	for name, c := range map[string]call{
		"another file": {path: altered(get, func(u *url.URL, _ url.Values) { u.Path = strings.Replace(u.Path, "a.txt", "b.txt", 1) })},
		"above": {path: altered(get, func(u *url.URL, _ url.Values) {
			u.RawPath, u.Path = "/api/v1/signed/..%2fa.txt", "/api/v1/signed/../a.txt"
		})},
		"changed claims":      {path: altered(get, flip(5))},
		"a changed signature": {path: altered(get, flip(-3))},
		"no seal": {path: altered(get, func(_ *url.URL, q url.Values) {
			q.Set("access_token", strings.Split(q.Get("access_token"), ".")[0]+".")
		})},
		"no token":          {path: get.Path},
		"a token of a user": {path: get.Path + "?access_token=" + alice},
		"written, not read": {method: "PUT", path: get.RequestURI(), body: "intruder"},
		"read, not written": {path: put.RequestURI()},
		"the signature of another URL": {path: altered(get, func(_ *url.URL, q url.Values) {
			q.Set("access_token", strings.Split(q.Get("access_token"), ".")[0]+"."+strings.Split(put.Query().Get("access_token"), ".")[1])
		})},
	} {
		code, body, _ := p.do(c)
		if code != 403 && code != 404 && code != 400 || strings.Contains(body, "secret") || strings.Contains(body, "other") {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	if got := p.must(call{path: "/parley/v1/sessions/hers/artifacts/a.txt", token: alice}); got != "secret" {
		t.Errorf("the file is %q now", got)
	}
	// The URL ends with the membership of the user who requested it.
	var lent struct{ URL string }
	if err := json.Unmarshal([]byte(p.must(call{path: "/api/v1/agents/hers/artifacts/a.txt?url=1", token: tokenOf("carol")})), &lent); err != nil {
		t.Fatal(err)
	}
	p.must(call{method: "PATCH", path: "/parley/v1/sessions/hers", token: alice, body: `{"members":[]}`})
	u, err := url.Parse(lent.URL)
	if err != nil {
		t.Fatal(err)
	}
	if code, body, _ := p.do(call{path: u.RequestURI()}); code != 404 {
		t.Errorf("after the share ended: %d %s", code, body)
	}
	// The URL of a file of an erased session.
	p.must(call{method: "DELETE", path: "/parley/v1/sessions/hers", token: alice})
	for _, u := range []*url.URL{get, put} {
		c := call{path: u.RequestURI()}
		if u == put {
			c.method, c.body = "PUT", "intruder"
		}
		if code, body, _ := p.do(c); code != 410 {
			t.Errorf("after erasing: %d %s", code, body)
		}
	}
}

// TestTokensAreNotLoggedByAnyDialect: tokens in URLs of the dialects are not logged.
func TestTokensAreNotLoggedByAnyDialect(t *testing.T) {
	p := serveWithTokens(t, "--log-level", "debug")
	alice := tokenOf("alice")
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, path := range []string{"/websocket?conversation_id=hers&access_token=", "/api/v1/workflows/runs/hers/hers/ws?access_token=", "/parley/v1/ws?access_token="} {
		conn, _, err := websocket.Dial(ctx, p.url+path+alice, &websocket.DialOptions{HTTPClient: client})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		conn.CloseNow()
	}
	for _, c := range []call{
		{method: "HEAD", path: "/api/v1/agents/hers/stream?access_token=" + alice}, {path: "/api/v1/agents/hers?access_token=" + alice}, {path: "/v1/agents/?access_token=" + alice},
		{path: "/auth/redirect?state=x&code=" + alice}, {path: "/api/v1/signed/a.txt?access_token=" + alice}, {path: "/websocket?session=" + alice}, {path: "/nothing?token=" + alice + "&api_key=" + alice},
		{path: "/v1/agents/", header: map[string]string{"X-API-Key": alice}}, {method: "POST", path: "/token/issue", body: `{}`, token: alice},
	} {
		p.do(c)
	}
	if code := p.terminate(); code != 0 {
		t.Error(code)
	}
	if log := p.err.String() + p.out.String(); strings.Contains(log, alice) || !strings.Contains(log, "/websocket") {
		at := max(0, strings.Index(log, alice)-300)
		t.Errorf("the log: %s", log[at:min(len(log), at+600)])
	}
}

// TestNATSCredentialIsLimitedToItsSession: a credential for one session can neither
// publish to nor subscribe to another one, with or without wildcards.
func TestNATSCredentialIsLimitedToItsSession(t *testing.T) {
	bus := freeport.Addr(t)
	p := serveWithTokens(t, "--nats", bus)
	bob := tokenOf("bob")
	p.must(call{method: "POST", path: "/parley/v1/sessions", token: bob, body: `{"id":"his"}`})
	// An id that another user has means a session of the caller's own.
	p.must(call{method: "POST", path: "/parley/v1/sessions", token: bob, body: `{"id":"hers"}`})
	for _, id := range []string{"his", "hers"} {
		var cred x1.Credential
		if err := json.Unmarshal([]byte(p.must(call{method: "POST", path: "/parley/v1/sessions/" + id + "/credentials", token: bob, body: `{}`})), &cred); err != nil {
			t.Fatal(err)
		}
		if cred.Session == "hers" || slices.ContainsFunc(append(cred.Publish, cred.Subscribe...), func(s string) bool { return strings.Contains(s, ".hers.") }) {
			t.Fatalf("a credential for another user's session: %+v", cred)
		}
		refused := make(chan error, 64)
		c := connectNATS(t, bus, credentialOf(cred, refused)...)
		for _, subject := range []string{
			"x1.session.hers.events", "x1.session.*.events", "x1.>", ">", "parley.>", "parley.in.>", "$JS.API.>", "x1.session.hers.input", "x1.audit.>", "_INBOX.>",
		} {
			sub, err := c.SubscribeSync(subject)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := denied(refused); err == nil {
				t.Errorf("%s can be subscribed to", subject)
			}
			_ = sub.Unsubscribe() // the server refused it
		}
		for _, subject := range []string{
			"x1.session.hers.input", "x1.session.hers.events", "x1.session.hers.history", "x1.session.hers.presence", "parley.in.raw.hers.input", "parley.in.guest.hers.input", "parley.up.hers.input",
			"parley.out.hers.events", "$JS.API.STREAM.PURGE.X1_ARCHIVE", "x1.session.his.events",
		} {
			if err := c.Publish(subject, []byte(`{"session_id":"hers","type":"user.message","payload":{"text":"intruder"}}`)); err != nil {
				t.Fatal(err)
			}
			if err := c.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := denied(refused); err == nil {
				t.Errorf("%s accepts messages of a guest", subject)
			}
		}
	}
	if log := p.must(call{path: "/parley/v1/sessions/hers/events", token: tokenOf("alice")}); strings.Contains(log, "intruder") {
		t.Errorf("a guest stored something: %s", log)
	}
	if log := p.must(call{path: "/parley/v1/sessions/his/events", token: bob}); strings.Contains(log, "intruder") {
		t.Errorf("a participant sent an agent's event: %s", log)
	}
}
