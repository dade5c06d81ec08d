// Tests of viewers and system sessions: no route changes what it must not.

package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/internal/freeport"
)

// viewerMayUse has the routes with other methods than GET that a viewer may use: they
// only read, or create something of the viewer's own.
var viewerMayUse = map[string]bool{
	"POST /parley/v1/sessions/{id}/fork":              true,
	"POST /parley/v1/sessions/{id}/accept":            true,
	"POST /api/v1/agents/{id}/fork":                   true,
	"POST /parley/v1/sessions/{id}/credentials":       true,
	"POST /v1/conversations/{conversation}/stream":    true,
	"POST /v1/conversations/{conversation}/fork":      true,
	"POST /v1/conversations/{conversation}/recompile": true,
	"POST /v1/agents/{agent}/recompile":               true,
	"POST /v1/runs/{run}/stream":                      true,
}

// TestViewerChangesNothing: a viewer cannot change a session on any route of any
// dialect.
func TestViewerChangesNothing(t *testing.T) {
	p := serveWithTokens(t, "--nats", freeport.Addr(t))
	hers := createOwned(t, p)
	carol := tokenOf("carol")
	for _, id := range []string{hers["agent"], hers["conversation"], "asked", "nemo-job-" + hers["job/id"]} {
		p.must(call{method: "PATCH", path: "/parley/v1/sessions/" + id, token: tokenOf("alice"), body: `{"members":[{"actor":{"kind":"user","id":"carol"},"role":"viewer"}]}`})
	}
	waitFor(t, func() bool {
		return strings.Contains(p.must(call{path: "/parley/v1/sessions/nemo-job-" + hers["job/id"] + "/events", token: carol}), "turn.completed")
	}, "the job did not end")
	before := p.stateOf(hers)
	for _, r := range activeRoutes(t) {
		known := strings.Replace(r.Pattern, " /latest/", " /v1/", 1)
		if !strings.Contains(r.Pattern, "{") || strings.HasPrefix(r.Pattern, "GET ") || strings.HasPrefix(r.Pattern, "HEAD ") || unowned[known] != "" || viewerMayUse[known] || !strings.Contains(r.Pattern, " ") {
			continue
		}
		if strings.HasSuffix(r.Pattern, "/{$}") && strings.Count(r.Pattern, "{") == 1 {
			continue
		}
		want := http.StatusForbidden
		if strings.Contains(r.Pattern, "/identities/{id}") || strings.Contains(r.Pattern, "/groups/{id}") {
			want = http.StatusNotFound // only their owner sees them
		}
		switch known {
		case stopThread:
			want = http.StatusOK // she has no thread of that name, so nothing is stopped
		case "POST /api/v1/agents/{id}/restart":
			want = http.StatusOK // the run has not ended, so nothing happens
		case "POST /v1/agents/{agent}/messages/cancel", "POST /v1/conversations/{conversation}/cancel":
			want = http.StatusConflict // nothing runs
		}
		c := hers.fill(t, r.Pattern)
		c.token = carol
		if code, body, _ := p.do(c); code != want {
			t.Errorf("%s: %d %s", r.Pattern, code, body)
		}
	}
	// Large attachments are stored before their message.
	big := base64.StdEncoding.EncodeToString(make([]byte, 64<<10))
	picture := fmt.Sprintf(`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"%s"}}]}]}`, big)
	if code, body, _ := p.do(call{method: "POST", path: "/v1/conversations/" + hers["conversation"] + "/messages", token: carol, body: picture}); code != 403 {
		t.Errorf("a picture: %d %s", code, body)
	}
	link := fmt.Sprintf(`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}]}]}`, big)
	p.must(call{method: "POST", path: "/parley/v1/sessions/" + hers["conversation"] + "/accept", token: carol})
	for _, path := range []string{"/v1/chat", "/v1/chat/completions"} {
		if code, body, _ := p.do(call{method: "POST", path: path, token: carol, body: link, header: map[string]string{"Conversation-Id": hers["conversation"]}}); code != 403 {
			t.Errorf("%s with an attachment: %d %s", path, code, body)
		}
	}
	if list := p.must(call{path: "/parley/v1/sessions/" + hers["conversation"] + "/artifacts", token: carol}); strings.Contains(list, `"path"`) {
		t.Errorf("a viewer stored a file: %s", list)
	}
	if after := p.stateOf(hers); after != before {
		t.Errorf("a viewer changed something:\n%s\n%s", before, after)
	}
}

// TestViewerCannotReplaceStaticFiles: a viewer of the session with NeMo's static files
// cannot replace or remove them.
func TestViewerCannotReplaceStaticFiles(t *testing.T) {
	p := serveWithTokens(t)
	alice, carol := tokenOf("alice"), tokenOf("carol")
	p.must(call{method: "PUT", path: "/static/a.txt", token: alice, body: "hers"})
	p.must(call{method: "PATCH", path: "/parley/v1/sessions/nemo-static", token: alice, body: `{"members":[{"actor":{"kind":"user","id":"carol"},"role":"viewer"}]}`})
	p.must(call{method: "POST", path: "/parley/v1/sessions/nemo-static/accept", token: carol})
	for _, method := range []string{"PUT", "DELETE"} {
		c := call{method: method, path: "/static/a.txt", token: carol}
		if method == "PUT" {
			c.body = "intruder"
		}
		if code, body, _ := p.do(c); code != 403 {
			t.Errorf("%s: %d %s", method, code, body)
		}
	}
	if got := p.must(call{path: "/static/a.txt", token: alice}); got != "hers" {
		t.Errorf("it is %q now", got)
	}
	if code, body, _ := p.do(call{path: "/static/a.txt", token: tokenOf("bob")}); code != 404 {
		t.Errorf("a stranger reads it: %d %s", code, body)
	}
}

// TestForkHasNoOtherMembers: a fork belongs to the user who made it; members of the
// source do not see it.
func TestForkHasNoOtherMembers(t *testing.T) {
	p := serveWithTokens(t)
	alice, bob, carol := tokenOf("alice"), tokenOf("bob"), tokenOf("carol")
	p.must(call{method: "PATCH", path: "/parley/v1/sessions/hers", token: alice, body: `{"members":[{"actor":{"kind":"user","id":"carol"},"role":"viewer"},{"actor":{"kind":"user","id":"bob"},"role":"owner"}]}`})
	var forks []string
	forks = append(forks, field(t, p.must(call{method: "POST", path: "/parley/v1/sessions/hers/fork", token: carol, body: `{"id":"own-fork"}`}), "session_id"))
	forks = append(forks, field(t, p.must(call{method: "POST", path: "/api/v1/agents/hers/fork", token: carol, body: `{}`}), "id"))
	for _, id := range forks {
		p.must(call{path: "/parley/v1/sessions/" + id, token: carol})
		for _, who := range []string{alice, bob} {
			if code, body, _ := p.do(call{path: "/parley/v1/sessions/" + id, token: who}); code != 404 {
				t.Errorf("%s: %d %s", id, code, body)
			}
			if list := p.must(call{path: "/parley/v1/sessions", token: who}); strings.Contains(list, id) {
				t.Errorf("a list names %s: %s", id, list)
			}
		}
	}
}

// TestSystemSessionsCannotBeChanged: an administrator can read system sessions, and on an
// open server every caller is an administrator. No route changes them.
func TestSystemSessionsCannotBeChanged(t *testing.T) {
	bus := freeport.Addr(t)
	p := serve(t, t.TempDir(), "--nats", bus)
	p.post("/v1/agents/", `{"name":"a"}`)
	const log = "/parley/v1/sessions/sys-letta-book/events"
	before := p.get(log)
	if !strings.Contains(before, "letta.entry") {
		t.Fatalf("there is no such session: %s", before)
	}
	system := owned{}
	for k, v := range sampleIDs {
		switch v {
		case "s", "agent-1":
			v = "sys-letta-book"
		}
		system[k] = strings.Replace(v, "s~", "sys-letta-book~", 1)
	}
	for _, r := range activeRoutes(t) {
		known := strings.Replace(r.Pattern, " /latest/", " /v1/", 1)
		if !strings.Contains(r.Pattern, "{") || strings.Contains(r.Pattern, "{$}") || strings.HasPrefix(r.Pattern, "GET ") || strings.HasPrefix(r.Pattern, "HEAD ") || !strings.Contains(r.Pattern, " ") || unowned[known] != "" {
			continue
		}
		switch known {
		case "POST /api/v1/agents/{id}/restart", "POST /parley/v1/sessions/{id}/credentials":
			continue // the first does nothing, the second only allows reading
		}
		if code, body, _ := p.do(system.fill(t, r.Pattern)); code < 400 || code >= 500 {
			t.Errorf("%s: %d %s", r.Pattern, code, body)
		}
	}
	chat := call{method: "POST", path: "/chat", body: `{"messages":[{"role":"user","content":"intruder"}]}`, header: map[string]string{"Conversation-Id": "sys-letta-book"}}
	if code, body, _ := p.do(chat); code < 400 || code >= 500 {
		t.Errorf("nemo: %d %s", code, body)
	}
	c := connectNATS(t, bus)
	for _, kind := range []string{"input", "events", "archive", "delta"} {
		m, err := c.Request("x1.session.sys-letta-book."+kind, []byte(`{"session_id":"sys-letta-book","type":"user.message","client_id":"c","payload":{"text":"intruder"}}`), 30*time.Second)
		if err != nil {
			t.Fatal(kind, err)
		}
		if !strings.Contains(string(m.Data), `"error"`) {
			t.Errorf("x1 accepts %s: %s", kind, m.Data)
		}
	}
	if after := p.get(log); after != before {
		t.Errorf("the session was changed:\n%s", after[len(before)-20:])
	}
}
