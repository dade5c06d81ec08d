// Tests of ids that a client chooses: an alias never leads to another user's session.

package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/freeport"
)

// occupyID creates a session of bob's under an id that another user's client will
// use, and adds that user as an owner.
func occupyID(p *process, id, victim string) {
	p.t.Helper()
	p.must(call{method: "POST", path: "/parley/v1/sessions", token: tokenOf("bob"),
		body: `{"id":"` + id + `","agent":"demo","members":[{"actor":{"kind":"user","id":"` + victim + `"},"role":"owner"}]}`})
}

// contents returns the log and the files of a session, as bob reads them.
func contents(p *process, id string) string {
	p.t.Helper()
	return p.must(call{path: "/parley/v1/sessions/" + id + "/events?limit=1000", token: tokenOf("bob")}) +
		p.must(call{path: "/parley/v1/sessions/" + id + "/artifacts", token: tokenOf("bob")})
}

// TestChosenIDNeverReachesAnotherUsersSession: a client chooses an id under which
// another user has created a session and added the client's user. The session receives
// nothing that the client sends. The same holds for an administrator, who needs no
// membership.
func TestChosenIDNeverReachesAnotherUsersSession(t *testing.T) {
	p := serveWithTokens(t)
	for _, who := range []string{"alice", "root"} {
		token := tokenOf(who)
		id := func(name string) string { return name + "-of-" + who }
		if who == "alice" {
			occupyID(p, "nemo-static", who)
		}
		occupyID(p, id("talk"), who)
		occupyID(p, id("socket"), who)
		occupyID(p, "nemo-job-"+id("job"), who)

		p.must(call{method: "PUT", path: "/static/notes.txt", token: token, body: "confidential"})
		if got := p.must(call{path: "/static/notes.txt", token: token}); got != "confidential" {
			t.Errorf("%s reads back %q", who, got)
		}
		talk := call{method: "POST", path: "/chat", token: token, header: map[string]string{"Conversation-Id": id("talk")}}
		for _, text := range []string{"confidential", "and again"} {
			talk.body = `{"messages":[{"role":"user","content":"` + text + `"}]}`
			if got := p.must(talk); !strings.Contains(got, "You said: "+text) {
				t.Errorf("%s: %s", who, got)
			}
		}
		p.must(call{method: "POST", path: "/v1/workflow/async", token: token, body: `{"input_message":"confidential","job_id":"` + id("job") + `","sync_timeout":30}`})
		sendNeMoMessage(t, p, token, id("socket"), "confidential")

		for _, id := range []string{"nemo-static", id("talk"), id("socket"), "nemo-job-" + id("job")} {
			if got := contents(p, id); strings.Contains(got, "confidential") || strings.Contains(got, "notes.txt") {
				t.Errorf("%s sent to %s: %s", who, id, got)
			}
		}
	}
	// After an accept the id means the shared session.
	occupyID(p, "shared", "carol")
	p.must(call{method: "POST", path: "/parley/v1/sessions/shared/accept", token: tokenOf("carol")})
	p.must(call{method: "POST", path: "/chat", token: tokenOf("carol"), body: `{"messages":[{"role":"user","content":"for both"}]}`, header: map[string]string{"Conversation-Id": "shared"}})
	if got := contents(p, "shared"); !strings.Contains(got, "for both") {
		t.Errorf("the accepted session has %s", got)
	}
}

// sendNeMoMessage sends a message over NeMo's socket and waits for the answer.
func sendNeMoMessage(t *testing.T, p *process, token, conversation, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	conn, _, err := websocket.Dial(ctx, p.url+"/websocket?conversation_id="+conversation, &websocket.DialOptions{HTTPClient: client, HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	frame := `{"type":"user_message","schema_type":"chat","id":"m1","conversation_id":"` + conversation + `","content":{"messages":[{"role":"user","content":[{"type":"text","text":"` + text + `"}]}]}}`
	if err := conn.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
		t.Fatal(err)
	}
	for received := ""; ; {
		_, b, err := conn.Read(ctx)
		if err != nil {
			t.Fatalf("no answer: %v after %s", err, received)
		}
		if received += string(b); strings.Contains(received, `"status":"complete"`) {
			return
		}
	}
}

// TestAliasComesBeforeForeignSession: a caller's alias means the caller's session in
// every dialect, also after the caller was added to the session that has the id.
func TestAliasComesBeforeForeignSession(t *testing.T) {
	bus := freeport.Addr(t)
	p := serveWithTokens(t, "--nats", bus)
	alice := tokenOf("alice")
	p.must(call{method: "POST", path: "/parley/v1/sessions", token: tokenOf("bob"), body: `{"id":"plan","agent":"demo"}`})
	own := field(t, p.must(call{method: "POST", path: "/parley/v1/sessions", token: alice, body: `{"id":"plan","agent":"demo","title":"hers"}`}), "session_id")
	if own == "plan" {
		t.Fatal("alice got bob's session")
	}
	p.must(call{method: "PATCH", path: "/parley/v1/sessions/plan", token: tokenOf("bob"), body: `{"members":[{"actor":{"kind":"user","id":"alice"},"role":"owner"}]}`})

	p.must(call{method: "POST", path: "/parley/v1/sessions/plan/events", token: alice, body: `{"type":"user.message","payload":{"text":"confidential native"}}`})
	p.must(call{method: "PUT", path: "/parley/v1/sessions/plan/artifacts/confidential.txt", token: alice, body: "x"})
	if got := p.ask(alice, "/parley/v1/ws", `{"op":"append","id":1,"session_id":"plan","events":[{"type":"user.message","payload":{"text":"confidential socket"}}]}`); !strings.Contains(got, `"ok"`) {
		t.Errorf("append: %s", got)
	}
	if got := p.ask(alice, "/parley/v1/ws", `{"op":"watch","id":1,"session_id":"plan","after":"0"}`); !strings.Contains(got, own) {
		t.Errorf("watch: %s", got)
	}
	p.must(call{method: "POST", path: "/chat", token: alice, body: `{"messages":[{"role":"user","content":"confidential nemo"}]}`, header: map[string]string{"Conversation-Id": "plan"}})
	p.must(call{method: "POST", path: "/api/v1/agents/plan/signal/UserInput", token: alice, body: `{"message":"confidential vertesia"}`})
	p.must(call{method: "PUT", path: "/api/v1/agents/plan/artifacts/confidential-2.txt", token: alice, body: "x"})
	p.must(call{method: "POST", path: "/v1/conversations/plan/messages", token: alice, body: `{"messages":[{"role":"user","content":"confidential letta"}],"streaming":false}`})
	p.must(call{method: "POST", path: "/ag-ui/demo", token: alice, body: `{"threadId":"plan","runId":"r","messages":[{"id":"m","role":"user","content":"confidential agui"}],"tools":[],"context":[]}`})
	p.must(call{method: "POST", path: "/api/chat", token: alice, body: `{"id":"plan","messages":[{"id":"m2","role":"user","parts":[{"type":"text","text":"confidential aisdk"}]}]}`})
	var cred x1.Credential
	if err := json.Unmarshal([]byte(p.must(call{method: "POST", path: "/parley/v1/sessions/plan/credentials", token: alice, body: `{}`})), &cred); err != nil || string(cred.Session) != own {
		t.Errorf("the credential is for %q: %v", cred.Session, err)
	}
	p.must(call{method: "POST", path: "/api/workspaces/default/sessions/plan/shares", token: alice, body: `{"share_id":"s","title":"confidential share","path":"confidential.txt"}`})
	p.must(call{method: "POST", path: "/api/workspaces/default/grants", token: alice, body: `{"agent_id":"demo","grant_type":"tool_scope","details":{"scopes":["x"]},"scope":"session","session_id":"plan","reason":"confidential grant"}`})

	if got := contents(p, "plan"); strings.Contains(got, "confidential") {
		t.Errorf("bob's session got %s", got)
	}
	if got := p.must(call{path: "/api/workspaces/default/grants?all=true&session=plan", token: tokenOf("bob")}); strings.Contains(got, "confidential") {
		t.Errorf("a grant for bob's session: %s", got)
	}
	log := p.must(call{path: "/parley/v1/sessions/" + own + "/events?limit=1000", token: alice})
	for _, text := range []string{"native", "socket", "nemo", "vertesia", "letta", "agui", "aisdk", "share"} {
		if !strings.Contains(log, "confidential "+text) {
			t.Errorf("her session has nothing of %s", text)
		}
	}
	if list := p.must(call{path: "/parley/v1/sessions", token: alice}); strings.Contains(list, `"session_id":"plan"`) {
		t.Errorf("the list has an id that means another session: %s", list)
	}
	// An erasure by that id erases her session; then the id answers with 410.
	p.must(call{method: "DELETE", path: "/parley/v1/sessions/plan", token: alice})
	if code, body, _ := p.do(call{path: "/parley/v1/sessions/plan", token: alice}); code != http.StatusGone {
		t.Errorf("%d %s", code, body)
	}
	contents(p, "plan") // bob's session still exists
}

// TestAliasGivesNoAccessToForeignSession: an alias with the text of another user's
// session id gives no access to that session's data.
func TestAliasGivesNoAccessToForeignSession(t *testing.T) {
	bus := freeport.Addr(t)
	p := serveWithTokens(t, "--nats", bus)
	hers := createOwned(t, p)
	alice, bob, carol := tokenOf("alice"), tokenOf("bob"), tokenOf("carol")

	// The credential and the URL that carol got as a viewer end with her membership.
	var cred x1.Credential
	if err := json.Unmarshal([]byte(p.must(call{method: "POST", path: "/parley/v1/sessions/hers/credentials", token: carol, body: `{}`})), &cred); err != nil {
		t.Fatal(err)
	}
	link := field(t, p.must(call{method: "POST", path: "/api/v1/files/download-url", token: carol, body: `{"file":"agents/hers/a.txt"}`}), "url")
	link = link[strings.Index(link, "/api/"):]
	if got := p.must(call{path: link}); got != "secret" {
		t.Fatalf("the signed address gives %q", got)
	}
	p.must(call{method: "PATCH", path: "/parley/v1/sessions/hers", token: alice, body: `{"members":[]}`})

	before := p.stateOf(hers)
	for _, token := range []string{bob, carol} {
		for _, id := range []string{"hers", hers["agent"], hers["conversation"]} {
			p.must(call{method: "POST", path: "/parley/v1/sessions", token: token, body: `{"id":"` + id + `","agent":"none"}`})
		}
	}
	if code, body, _ := p.do(call{path: link}); code < 400 || strings.Contains(body, "secret") {
		t.Errorf("the signed address: %d %s", code, body)
	}
	if c, err := nats.Connect("nats://"+bus, append(credentialOf(cred, make(chan error, 64)), nats.NoReconnect())...); err == nil {
		c.Close()
		t.Error("the credential is accepted")
	}
	for _, c := range []call{
		{path: "/v1/agents/" + hers["agent"]},
		{path: "/v1/agents/" + hers["agent"] + "/core-memory/blocks"},
		{method: "PATCH", path: "/v1/agents/" + hers["agent"], body: `{"description":"intruder"}`},
		{method: "DELETE", path: "/v1/agents/" + hers["agent"]},
		{path: "/api/workspaces/default/sessions/hers/shares/her-share"},
		{method: "DELETE", path: "/api/workspaces/default/sessions/hers/shares/her-share"},
	} {
		c.token = bob
		if code, body, _ := p.do(c); code != http.StatusNotFound || strings.Contains(body, "secret") {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, body)
		}
	}
	for _, path := range []string{"/v1/agents/", "/v1/tags/", "/api/workspaces/default/sessions/hers/shares?all=true", "/api/workspaces/default/grants?session=hers&all=true", "/v1/conversations/?agent_id=" + hers["agent"]} {
		if code, body, _ := p.do(call{path: path, token: bob}); code >= 500 || strings.Contains(body, "secret") || strings.Contains(body, "alice") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	// A grant with that id is for bob's own session.
	if code, body, _ := p.do(call{method: "POST", path: "/api/workspaces/default/grants", token: bob, body: `{"agent_id":"demo","grant_type":"spawn","scope":"session","session_id":"hers"}`}); code < 300 && strings.Contains(body, `"session_id":"hers"`) {
		t.Errorf("bob granted something in alice's session: %s", body)
	}
	if after := p.stateOf(hers); after != before {
		t.Errorf("something changed:\n%s\n%s", before, after)
	}
}
