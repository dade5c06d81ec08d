// Proves: ids of another user answer like ids that do not exist.

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/internal/freeport"
	"github.com/parley-hq/parley/internal/sleep"
)

// field reads a value out of JSON by a path such as messages.0.id.
func field(t testing.TB, body, path string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v in %s", err, clip(body))
	}
	for key := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[key]
		case []any:
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i >= len(at) {
				t.Fatalf("no %s in %s", path, body)
			}
			v = at[i]
		default:
			t.Fatalf("no %s in %s", path, body)
		}
	}
	s, ok := v.(string)
	if !ok {
		t.Fatalf("%s is %v in %s", path, v, body)
	}
	return s
}

// createOwned creates one of everything that a route can name, owned by alice. All of
// it contains the word secret.
func createOwned(t *testing.T, p *process) owned {
	t.Helper()
	alice := tokenOf("alice")
	post := func(path, body string) string {
		return p.must(call{method: "POST", path: path, body: body, token: alice})
	}
	o := owned{"workflow": "hers", "id": "hers", "path": "a.txt", "seq": "1", "name": "UserInput", "query/name": "PendingQuestions", "agentname": "demo", "thread": "hers"}
	post("/parley/v1/sessions/hers/workstreams", `{"id":"w1","instruction":"/sleep 600","deadline":1800}`)
	o["workstream"], o["child"] = "w1", "hers~w1"
	waitFor(t, func() bool {
		return strings.Contains(p.must(call{path: "/parley/v1/sessions/hers/snapshot", token: alice}), `"request_id"`)
	}, "the question was not asked")
	prompt := p.must(call{path: "/parley/v1/sessions/hers/events?types=agent.input_request", token: alice})
	o["request_id"] = field(t, prompt, "events.0.payload.request_id")
	o["ask"] = "hers~" + o["request_id"]

	agent := post("/v1/agents/", `{"name":"secret agent","model":"parley/demo","memory_blocks":[{"label":"human","value":"secret"}]}`)
	o["agent"] = field(t, agent, "id")
	conversation := post("/v1/conversations/?agent_id="+o["agent"], `{"summary":"secret talk"}`)
	o["conversation"] = field(t, conversation, "id")
	answer := post("/v1/conversations/"+o["conversation"]+"/messages", `{"messages":[{"role":"user","content":"secret"}],"streaming":false}`)
	o["message"], o["run"] = field(t, answer, "messages.0.id"), field(t, answer, "messages.0.run_id")
	o["step"], o["label"] = field(t, answer, "messages.0.step_id"), "human"
	o["identities/id"] = field(t, post("/v1/identities/", `{"identifier_key":"secret","name":"secret","identity_type":"user"}`), "id")
	o["attach/id"], o["detach/id"] = o["identities/id"], o["identities/id"]
	o["groups/id"] = field(t, post("/v1/groups/", `{"agent_ids":[],"description":"secret"}`), "id")

	asked := p.must(call{method: "POST", path: "/v1/workflow", token: alice, body: `{"input_message":"/ask text"}`, header: map[string]string{"Conversation-Id": "asked"}})
	o["executions/id"], o["interaction"] = field(t, asked, "execution_id"), field(t, asked, "interaction_id")
	o["job/id"] = field(t, post("/v1/workflow/async", `{"input_message":"secret","job_id":"her-job"}`), "job_id")

	o["files/path"] = "agents/hers/a.txt"
	o["slug"] = "default"
	o["grant"] = field(t, post("/api/workspaces/default/grants", `{"agent_id":"demo","grant_type":"tool_scope","details":{"scopes":["secret"]},"scope":"once","session_id":"hers","reason":"secret"}`), "id")
	o["share"] = field(t, post("/api/workspaces/default/sessions/hers/shares", `{"share_id":"her-share","title":"secret","path":"a.txt"}`), "share_id")
	return o
}

// waitFor waits until ok returns true, and fails with the message after a minute.
func waitFor(t testing.TB, ok func() bool, otherwise string) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !ok(); sleep.For(t.Context(), 10*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(otherwise)
		}
	}
}

// unused returns the same parameters with ids that do not exist.
func (o owned) unused() owned {
	none := owned{}
	for k, v := range o {
		none[k] = v
	}
	for k := range none {
		switch k {
		case "path", "name", "query/name", "seq", "workstream", "slug", "label", "agentname":
		case "files/path":
			none[k] = "agents/nope/a.txt"
		case "child":
			none[k] = "nope~w1"
		case "ask":
			none[k] = "nope~" + o["request_id"]
		case "id", "workflow":
			none[k] = "nope"
		default: // the same form, other digits
			none[k] = strings.NewReplacer("1", "2", "2", "3", "3", "4", "4", "5", "5", "6", "6", "7", "7", "8", "8", "9", "9", "1", "her-job", "other-job", "her-share", "no-share").Replace(o[k])
		}
	}
	return none
}

// withoutIDs removes the ids of the request from an answer.
func (o owned) withoutIDs(body string) string {
	var names []string
	for k, v := range o {
		if k != "seq" && k != "path" && k != "name" && k != "query/name" && k != "slug" && k != "label" {
			names = append(names, v, url.QueryEscape(v))
		}
	}
	// Longer ids first: some begin with others.
	slices.SortFunc(names, func(x, y string) int { return len(y) - len(x) })
	for _, name := range names {
		body = strings.ReplaceAll(body, name, "·")
	}
	return body
}

// TestForeignIDsAnswerLikeUnusedIDs: every route of every dialect answers a request
// for another user's id exactly as one for an id that does not exist.
func TestForeignIDsAnswerLikeUnusedIDs(t *testing.T) {
	bus := freeport.Addr(t)
	p := serveWithTokens(t, "--nats", bus)
	hers := createOwned(t, p)
	none := hers.unused()
	before := p.stateOf(hers)
	tried := 0
	for _, r := range activeRoutes(t) {
		if !strings.Contains(r.Pattern, "{") || strings.HasSuffix(r.Pattern, "/{$}") && strings.Count(r.Pattern, "{") == 1 {
			continue
		}
		if _, ok := unowned[strings.Replace(r.Pattern, " /latest/", " /v1/", 1)]; ok {
			continue
		}
		tried++
		for _, who := range []string{"bob", "far", "robot", ""} {
			c, other := hers.fill(t, r.Pattern), none.fill(t, r.Pattern)
			if who != "" {
				c.token, other.token = tokenOf(who), tokenOf(who)
			}
			code, body, _ := p.do(c)
			want := http.StatusNotFound
			switch {
			case who == "":
				want = http.StatusUnauthorized
			case strings.HasSuffix(c.path, "/previews") && who == "bob":
				want = http.StatusForbidden // it needs the scope agent for every session
			case r.Pattern == stopThread:
				want = http.StatusOK // nothing is stopped
			}
			if code != want {
				t.Errorf("%s as %q: %d %s", r.Pattern, who, code, body)
			}
			if strings.Contains(body, "secret") || strings.Contains(body, "alice") {
				t.Errorf("%s shows %q: %s", r.Pattern, who, body)
			}
			unusedCode, unusedBody, _ := p.do(other)
			if unusedCode != code || hers.withoutIDs(body) != none.withoutIDs(unusedBody) {
				t.Errorf("%s as %q answers differently for alice's id and an unused one:\n%d %s\n%d %s", r.Pattern, who, code, body, unusedCode, unusedBody)
			}
		}
	}
	if tried < 120 {
		t.Errorf("only %d routes were tried", tried)
	}
	if after := p.stateOf(hers); after != before {
		t.Errorf("a stranger changed something:\n%s\n%s", before, after)
	}
}

// stateOf returns everything that alice owns, as text.
func (p *process) stateOf(o owned) string {
	p.t.Helper()
	var all []string
	for _, path := range []string{
		"/parley/v1/sessions/hers/events?limit=1000", "/parley/v1/sessions/hers/artifacts", "/parley/v1/sessions/hers/artifacts/a.txt", "/v1/agents/" + o["agent"],
		"/v1/conversations/" + o["conversation"], "/v1/conversations/" + o["conversation"] + "/messages", "/v1/identities/", "/v1/groups/", "/parley/v1/sessions/asked/events",
		"/api/workspaces/default/grants?all=true", "/api/workspaces/default/sessions/hers/shares?all=true",
	} {
		all = append(all, p.must(call{path: path, token: tokenOf("alice")}))
	}
	return strings.Join(all, "\n")
}

// TestForeignIDsInQueryHeaderAndBody: the same for ids in a query, a header or a body.
func TestForeignIDsInQueryHeaderAndBody(t *testing.T) {
	p := serveWithTokens(t, "--nats", freeport.Addr(t))
	hers := createOwned(t, p)
	none := hers.unused()
	before := p.stateOf(hers)
	type try struct{ method, path, body string }
	tries := []try{
		{"POST", "/v1/conversations/?agent_id={agent}", `{}`},
		{"GET", "/v1/conversations/default?agent_id={agent}", ""},
		{"GET", "/v1/conversations/default/messages?agent_id={agent}", ""},
		{"POST", "/v1/conversations/default/messages", `{"agent_id":"{agent}","messages":[{"role":"user","content":"intruder"}]}`},
		{"GET", "/v1/runs/?agent_id={agent}", ""},
		{"GET", "/v1/runs/?conversation_id={conversation}", ""},
		{"GET", "/v1/runs/?after={run}", ""},
		{"GET", "/v1/conversations/?agent_id={agent}", ""},
		{"POST", "/feedback", `{"observability_trace_id":"{executions/id}","reaction_type":"intruder"}`},
		{"POST", "/api/v1/pending-asks", `{"runId":"{id}","questions":["intruder"]}`},
		{"GET", "/api/v1/files/list?prefix=agents/{id}/", ""},
		{"POST", "/api/v1/files/download-url", `{"file":"agents/{id}/a.txt"}`},
		{"GET", "/api/v1/files/metadata?file=agents/{id}/a.txt", ""},
		{"POST", "/api/v1/files/upload-url", `{"id":"agents/{id}/a.txt"}`},
		{"POST", "/api/v1/files/bulk-upload-urls", `{"files":[{"id":"agents/{id}/a.txt"}]}`},
		{"POST", "/api/v1/files/copy", `{"source":"agents/{id}/a.txt","dest":"agents/{id}/b.txt"}`},
		{"GET", "/parley/v1/x1/audit?session={id}", ""},
		{"GET", "/api/workspaces/default/grants?session={id}", ""},
		{"POST", "/api/workspaces/default/grants", `{"agent_id":"demo","grant_type":"spawn","scope":"session","session_id":"{id}"}`},
		{"POST", "/api/workspaces/default/grants", `{"request_id":"{request_id}","session_id":"{id}","scope":"once"}`},
		{"POST", "/api/workspaces/default/grants/check", `{"session_id":"{id}","grant_type":"tool_scope","details":{"scopes":["secret"]}}`},
	}
	fill := func(o owned, s string) string {
		for k, v := range o {
			s = strings.ReplaceAll(s, "{"+k+"}", v)
		}
		return s
	}
	for _, tr := range tries {
		for _, who := range []string{"bob", "far"} {
			send := func(o owned) (int, string) {
				code, body, _ := p.do(call{method: tr.method, path: fill(o, tr.path), body: fill(o, tr.body), token: tokenOf(who)})
				return code, o.withoutIDs(body)
			}
			code, body := send(hers)
			unusedCode, unusedBody := send(none)
			if code < 400 && body != "[]" || strings.Contains(body, "secret") || strings.Contains(body, "alice") {
				t.Errorf("%s %s as %s: %d %s", tr.method, tr.path, who, code, body)
			}
			if code != unusedCode || body != unusedBody {
				t.Errorf("%s %s as %s answers differently for alice's id and an unused one:\n%d %s\n%d %s", tr.method, tr.path, who, code, body, unusedCode, unusedBody)
			}
		}
	}
	workspace := map[string]string{"bob": "default", "far": "elsewhere"}
	for _, who := range []string{"bob", "far"} {
		for _, list := range []try{
			{"GET", "/v1/agents/", ""}, {"GET", "/v1/conversations/", ""}, {"GET", "/v1/runs/", ""}, {"GET", "/v1/identities/", ""}, {"GET", "/v1/groups/", ""},
			{"GET", "/v1/identities/?identifier_key=secret", ""}, {"GET", "/v1/agents/?name=secret+agent", ""},
			{"GET", "/api/v1/agents", ""}, {"GET", "/api/v1/agents/search?query=secret", ""}, {"POST", "/api/v1/workflows/runs", `{}`},
			{"POST", "/api/v1/workflows/conversations", `{}`}, {"GET", "/api/v1/pending-asks", ""}, {"GET", "/parley/v1/sessions?limit=1000", ""},
			{"GET", "/api/workspaces/" + workspace[who] + "/grants?all=true", ""},
		} {
			code, body, _ := p.do(call{method: list.method, path: list.path, body: list.body, token: tokenOf(who)})
			if code != 200 || strings.Contains(body, "secret") || strings.Contains(body, "hers") || strings.Contains(body, "alice") || strings.Contains(body, hers["agent"]) {
				t.Errorf("%s %s as %s: %d %s", list.method, list.path, who, code, body)
			}
		}
		// In every dialect in which a message starts a conversation, an id that
		// another user has can be used too.
		head := map[string]string{"Conversation-Id": "hers"}
		for _, path := range []string{"/v1/chat/completions", "/chat", "/generate"} {
			body := `{"messages":[{"role":"user","content":"intruder"}]}`
			if path == "/generate" {
				body = `{"input_message":"intruder"}`
			}
			code, got, _ := p.do(call{method: "POST", path: path, body: body, header: head, token: tokenOf(who)})
			if code != 200 || !strings.Contains(got, "You said: intruder") || strings.Contains(got, "secret") {
				t.Errorf("%s as %s: %d %s", path, who, code, got)
			}
		}
	}
	// A link works for users of its workspace; a guessed one does not.
	link := field(t, p.must(call{path: "/api/workspaces/default/sessions/hers/shares/her-share", token: tokenOf("alice")}), "link")
	for _, who := range []string{"far", ""} {
		for _, path := range []string{link, link + "/content", "/api/shares/default/nope", "/api/shares/elsewhere/" + link[strings.LastIndexByte(link, '/')+1:]} {
			c := call{path: path}
			if who != "" {
				c.token = tokenOf(who)
			}
			if code, body, _ := p.do(c); code != 404 || strings.Contains(body, "secret") {
				t.Errorf("%s as %q: %d %s", path, who, code, body)
			}
		}
	}
	if code, body, _ := p.do(call{path: link + "/content", token: tokenOf("bob")}); code != 200 || body != "secret" {
		t.Errorf("%d %s", code, body)
	}
	if after := p.stateOf(hers); after != before {
		t.Errorf("a stranger changed something:\n%s\n%s", before, after)
	}
}
