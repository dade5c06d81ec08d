// Tests of access of every kind of caller to every route.

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/parley-hq/parley/internal/freeport"
	"github.com/parley-hq/parley/internal/wire"
)

// class is the relation of a caller to alice, whose data is requested.
type class int

const (
	unknown  class = iota // has no valid credential
	stranger              // has one, and no role in alice's sessions
	viewer                // may read alice's sessions
	member                // may answer in them
)

// testCaller is a row of the matrix.
type testCaller struct {
	name, token string
	class       class
	revoked     bool // its token was removed from the server's file
}

const matrixSecret = "a-secret-for-tokens-of-the-matrix-0123456789"

// testCallers returns all rows. The expired and the revoked credential are alice's.
func testCallers(t *testing.T) []testCaller {
	t.Helper()
	return []testCaller{
		{name: "none", class: unknown},
		{name: "expired JWT", token: signed(t, "alice", -time.Hour), class: unknown},
		{name: "other member", token: tokenOf("bob"), class: stranger},
		{name: "agent of another name", token: tokenOf("robot"), class: stranger},
		{name: "other workspace", token: tokenOf("far"), class: stranger},
		{name: "admin of another workspace", token: tokenOf("chief"), class: stranger},
		{name: "viewer", token: tokenOf("carol"), class: viewer},
		{name: "revoked", token: tokenOf("old-alice"), class: unknown, revoked: true},
		{name: "member", token: tokenOf("dave"), class: member},
	}
}

// signed returns a JWT of a person with the scope user.
func signed(t *testing.T, name string, ttl time.Duration) string {
	t.Helper()
	claims := jwt.MapClaims{"sub": name, "scope": "user", "iat": time.Now().Add(-2 * time.Hour).Unix(), "exp": time.Now().Add(ttl).Unix()}
	s, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(matrixSecret))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// matrixServer starts a server with the tokens of all callers and alice's data. It
// removes the token of a revoked caller from the server's file.
func matrixServer(t *testing.T, v *testCaller, args ...string) (p *process, hers owned) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	lines := []string{
		tokenOf("old-alice") + " user alice", tokenOf("alice") + " user alice", tokenOf("bob") + " user bob", tokenOf("carol") + " user carol", tokenOf("dave") + " user dave",
		tokenOf("robot") + " agent robot agents=other", tokenOf("far") + " user,agent far elsewhere", tokenOf("chief") + " user,agent,admin chief elsewhere",
	}
	write := func(lines []string) {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(lines)
	p = serve(t, t.TempDir(), append([]string{"--token-file", file, "--jwt-secret", matrixSecret, "--rate=-1", "--trusted-proxy"}, args...)...)
	createAliceSession(p)
	hers = createOwned(t, p)
	hers["session"] = "hers"
	for _, id := range sessionsOf(hers) {
		p.must(call{method: "PATCH", path: "/parley/v1/sessions/" + id, token: tokenOf("alice"),
			body: `{"members":[{"actor":{"kind":"user","id":"carol"},"role":"viewer"},{"actor":{"kind":"user","id":"dave"},"role":"answerer"}]}`})
	}
	waitFor(t, func() bool {
		return strings.Contains(p.must(call{path: "/parley/v1/sessions/nemo-job-her-job/events", token: tokenOf("alice")}), "turn.completed")
	}, "the job did not end")
	if !v.revoked {
		return p, hers
	}
	p.must(call{path: "/parley/v1/sessions/hers", token: v.token})
	write(lines[1:])
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		code, _, _ := p.do(call{path: "/parley/v1/sessions/hers", token: v.token})
		return code == http.StatusUnauthorized
	}, "the removed token is accepted")
	return p, hers
}

// sessionsOf returns the ids of alice's sessions.
func sessionsOf(o owned) []string {
	return []string{"hers", o["agent"], o["conversation"], "asked", "nemo-job-" + o["job/id"]}
}

// sessionRecords returns the records of alice's sessions: owners, members and number of
// events.
func (p *process) sessionRecords(o owned) string {
	p.t.Helper()
	var all []string
	for _, id := range sessionsOf(o) {
		all = append(all, p.must(call{path: "/parley/v1/sessions/" + id, token: tokenOf("alice")}))
	}
	return strings.Join(all, "\n")
}

// TestEveryRouteChecksItsCaller: every kind of caller requests alice's data on every
// route. The routes come from the tables that the server mounts, so a new one is tested
// automatically; the test fails when a table lacks its example.
func TestEveryRouteChecksItsCaller(t *testing.T) {
	routes := allRoutes(t)
	for _, v := range testCallers(t) {
		t.Run(v.name, func(t *testing.T) {
			p, hers := matrixServer(t, &v, "--nats", freeport.Addr(t))
			before := p.stateOf(hers) + p.sessionRecords(hers)
			for i, r := range routes {
				ex := exampleOf(t, hers, r)
				ex.token = v.token
				// Failed sign-ins are limited per address.
				ex.header = maps.Clone(ex.header)
				if ex.header == nil {
					ex.header = map[string]string{}
				}
				ex.header["X-Forwarded-For"] = fmt.Sprintf("192.0.2.%d", i%250+1)
				code, body := p.outcome(ex.call)
				if wrong := v.problem(&r, &ex, code, body); wrong != "" {
					t.Errorf("%s: %s: %d %s", r.Pattern, wrong, code, clip(body))
				}
			}
			if v.class != member {
				if after := p.stateOf(hers) + p.sessionRecords(hers); after != before {
					t.Errorf("alice's data has changed:\n%s\n%s", before, after)
				}
				return
			}
			// A member may write, and cannot change owner, members or title.
			for _, id := range sessionsOf(hers) {
				record := p.must(call{path: "/parley/v1/sessions/" + id, token: tokenOf("alice")})
				if field(t, record, "owner.id") != "alice" || field(t, record, "members.1.actor.id") != "dave" || strings.Contains(record, "mine now") {
					t.Errorf("a member has changed the record of %s: %s", id, record)
				}
			}
		})
	}
}

// outcome sends a call and returns the status and the body, without the body of a
// stream.
func (p *process) outcome(c call) (int, string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	res := p.send(ctx, c)
	defer res.Body.Close()
	if res.StatusCode == http.StatusSwitchingProtocols || res.StatusCode < 300 && strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return res.StatusCode, ""
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatalf("%s %s: %v", c.method, c.path, err)
	}
	return res.StatusCode, string(b)
}

// stopThread stops the run of a thread. A thread that the caller does not have has none.
const stopThread = "POST /api/copilotkit/agent/{agentname}/stop/{thread}"

// problem returns what is wrong with an answer, or "".
func (v *testCaller) problem(r *wire.Route, ex *example, code int, body string) string {
	known := tablePattern(r.Pattern)
	method := ex.method
	reading := method == "GET" || method == "HEAD"
	switch {
	case code >= 500 && code != http.StatusNotImplemented:
		return "the server failed"
	case v.class <= stranger && (strings.Contains(strings.ReplaceAll(body, `"secrets"`, ""), "secret") || strings.Contains(body, `"alice"`)) && known != "GET /auth/session":
		return "it shows alice's data"
	case r.Public:
		return ""
	case v.class == unknown && code != http.StatusUnauthorized:
		return "it needs a credential"
	case v.class == stranger && known == stopThread && strings.TrimSpace(body) == `{"stopped":false}`:
		return "" // like a thread that does not exist
	case v.class == stranger && ex.named && code != http.StatusNotFound && code != http.StatusForbidden:
		return "the caller has no role"
	case v.class == stranger && serverWide[known] && code != http.StatusForbidden:
		return "it concerns all workspaces"
	case v.class == viewer && ex.named && !reading && !viewerMayUse[known] && code < 400 && known != "POST /api/v1/agents/{id}/restart":
		return "a viewer writes" // a restart of a running agent does nothing
	case v.class == member && ex.named && (code == http.StatusBadRequest && !strings.Contains(body, "No active runs") || code == http.StatusUnprocessableEntity):
		return "the example is not well formed, so it proves nothing: correct it in bodies"
	case v.class == member && ownerOnly[known] && code != http.StatusForbidden && code != http.StatusNotFound:
		return "only the owner may do that"
	}
	if refused := v.class == unknown || v.class == stranger && ex.named; !refused || method == "HEAD" {
		return ""
	}
	return errorProblem(r.Dialect, body)
}

// errorProblem returns how an error differs from the format of a dialect, or "".
func errorProblem(dialect, body string) string {
	if dialect == "aisdk" { // pages show the body to people
		if body == "" || strings.HasPrefix(body, "{") {
			return "the error is not a sentence"
		}
		return ""
	}
	var e struct {
		Error   json.RawMessage `json:"error"`
		Detail  json.RawMessage `json:"detail"`
		Message string          `json:"message"`
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return "the error is not JSON"
	}
	var ok bool
	switch dialect {
	case "native", "x1", "":
		var in struct{ Code, Message string }
		ok = json.Unmarshal(e.Error, &in) == nil && in.Code != "" && in.Message != ""
	case "letta":
		ok = len(e.Detail) > 0
	case "vertesia", "agui":
		ok = e.Message != "" && len(e.Error) > 0
	case "nemo": // clients of OpenAI read error
		ok = len(e.Detail) > 0 || len(e.Error) > 0
	default:
		return fmt.Sprintf("the error format of the dialect %q is unknown: add it to errorProblem", dialect)
	}
	if !ok {
		return "the error does not have the format of the dialect " + dialect
	}
	return ""
}

// tablePattern returns the pattern that the tables have for a route.
func tablePattern(pattern string) string {
	return strings.TrimSuffix(strings.Replace(pattern, " /latest/", " /v1/", 1), "/{$}")
}

// example is a request to a route.
type example struct {
	call
	named bool // the path has an id of alice's
}

// exampleOf returns a request for alice's data.
func exampleOf(t *testing.T, hers owned, r wire.Route) example {
	t.Helper()
	known := tablePattern(r.Pattern)
	method, path, hasMethod := strings.Cut(strings.TrimSuffix(r.Pattern, "{$}"), " ")
	fills := strings.NewReplacer("{path...}", "a.txt", "{rest...}", "x", "{file}", "x", "{name}", "other", "{agent}", hers["agent"], "{message}", hers["message"],
		"{agentname}", "demo", "{slug}", "default", "{link}", "guessed", "{session}", "hers", "{id}", "hers")
	switch {
	case r.Refused, !hasMethod:
		if !hasMethod {
			method, path = "GET", r.Pattern
		}
		return example{call: call{method: method, path: fills.Replace(path)}}
	case r.Public:
		if public[known] == "" {
			t.Errorf("%s needs no credential: add it to public with a reason", r.Pattern)
		}
		return example{call: call{method: method, path: fills.Replace(path)}}
	case strings.Contains(path, "{") && unowned[known] == "":
		return example{call: hers.fill(t, r.Pattern), named: true}
	}
	s, ok := sent[known]
	if !ok && method != "GET" && method != "HEAD" && method != "DELETE" {
		t.Errorf("no request for %s: add a request for alice's data to sent", r.Pattern)
	}
	for k, v := range hers {
		s.query, s.body = strings.ReplaceAll(s.query, "{"+k+"}", v), strings.ReplaceAll(s.body, "{"+k+"}", v)
	}
	return example{call: call{method: method, path: fills.Replace(path) + s.query, body: s.body, header: s.header}}
}

// allRoutes lists all routes in the order of the test.
func allRoutes(t *testing.T) []wire.Route {
	t.Helper()
	routes := append(dialectRoutes(t), serverRoutes(t)...)
	slices.SortStableFunc(routes, func(a, b wire.Route) int { return routeOrder(a) - routeOrder(b) })
	return routes
}

// routeOrder returns the position of a route. Routes that remove something come after
// the others, because a member may use them. Routes without an id in the path come
// last: they create sessions of the caller's own under alice's ids.
func routeOrder(r wire.Route) int {
	switch {
	case r.Public || r.Refused || !strings.Contains(r.Pattern, "{") || unowned[tablePattern(r.Pattern)] != "":
		return 2
	case strings.HasPrefix(r.Pattern, "DELETE ") || strings.Contains(r.Pattern, "/terminate") || strings.HasSuffix(r.Pattern, "/stop"):
		return 1
	}
	return 0
}
