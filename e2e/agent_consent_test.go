// Proves: agents cannot approve their own requests.

package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/freeport"
)

// TestAgentCannotAnswerItsOwnPrompt: an agent's token tries to answer the agent's own
// approval and permission prompts, in every dialect and on every route that answers.
// The prompt stays open until a person answers.
func TestAgentCannotAnswerItsOwnPrompt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	agent, person := tokenOf("demo"), tokenOf("alice")
	if err := os.WriteFile(file, []byte(person+" user user:alice\n"+agent+" agent agent:demo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, t.TempDir(), "--token-file", file, "--nats", freeport.Addr(t))
	id, session := "", "" // one per kind of prompt
	post := func(path, body string) {
		t.Helper()
		if code, got, _ := p.do(call{method: "POST", path: path, token: agent, body: body}); code < 400 {
			t.Errorf("POST %s %s: %d %s", path, body, code, got)
		}
	}
	socket := func(frame string) {
		t.Helper()
		if got := p.ask(agent, "/parley/v1/ws", frame); !strings.Contains(got, `"denied"`) {
			t.Errorf("%s: %s", frame, got)
		}
	}
	published := func(role x1.Role, kind x1.Kind, typ, payload string) {
		t.Helper()
		var cred x1.Credential
		got := p.must(call{method: "POST", path: session + "/credentials", token: agent, body: `{"role":"` + string(role) + `"}`})
		if err := json.Unmarshal([]byte(got), &cred); err != nil {
			t.Fatal(err)
		}
		conn, err := nats.Connect(cred.URL, credentialOf(cred, make(chan error, 10))...)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		m, err := conn.Request(x1.Subject(chat.SessionID(id), kind), []byte(`{"session_id":"`+id+`","type":"`+typ+`","client_id":"`+typ+`","turn_id":"","payload":`+payload+`}`), 30*time.Second)
		var r x1.Reply
		if err == nil {
			err = json.Unmarshal(m.Data, &r)
		}
		if err != nil || r.Error == nil || r.Error.Reason != chat.Denied {
			t.Errorf("x1 %s %s %s: %v %+v", role, kind, typ, err, r)
		}
	}
	for _, kind := range []struct{ ask, prompt, word, response, answer, payload string }{
		{`/approve deploy {}`, "agent.approval_request", "continue", "user.approval_response",
			`"decisions":[{"call_id":"CALL","approve":true,"remember":"session"}]`, ""},
		{`/permission spawn`, "agent.permission_request", "continue", "user.permission_response", `"granted":["spawn"],"duration":"always"`, ""},
	} {
		id = "ask-" + kind.prompt
		session = "/parley/v1/sessions/" + id
		p.must(call{method: "POST", path: "/parley/v1/sessions", token: person, body: `{"id":"` + id + `","agent":"demo"}`})
		p.must(call{method: "POST", path: session + "/events", token: person, body: `{"type":"user.message","payload":{"text":` + quoted(kind.ask) + `}}`})
		var asked chat.Event
		waitFor(t, func() bool {
			for _, e := range events(t, p, person, id) {
				if e.Type == kind.prompt {
					asked = e
				}
			}
			return asked.Type != ""
		}, "not in time: it asks")
		request, callID := field(t, string(asked.Payload), "request_id"), ""
		if kind.prompt == "agent.approval_request" {
			callID = field(t, string(asked.Payload), "calls.0.call_id")
		}
		answer := strings.ReplaceAll(kind.answer, "CALL", callID)
		response := `{"request_id":` + quoted(request) + `,` + answer + `}`

		post(session+"/prompts/"+request+"/answer", `{`+answer+`}`)
		post(session+"/events", `{"type":"`+kind.response+`","payload":`+response+`}`)
		socket(`{"op":"answer","id":1,"session_id":"` + id + `","request_id":` + quoted(request) + `,` + answer + `}`)
		socket(`{"op":"append","id":1,"session_id":"` + id + `","events":[{"type":"` + kind.response + `","payload":` + response + `}]}`)
		post("/api/v1/agents/"+id+"/signal/UserInput", `{"message":"allow_once","metadata":{"request_input_response":{"request_id":`+quoted(request)+`}}}`)
		post("/api/v1/agents/"+id+"/signal/UserInput", `{"message":"allow_once","metadata":{"tool_approval_response":{"decision":"allow_once","approval_key":`+quoted(request)+`}}}`)
		letta := `{"role":"user","content":"yes"}`
		if callID != "" {
			letta = `{"type":"approval","approvals":[{"type":"approval","tool_call_id":` + quoted(callID) + `,"approve":true}]}`
		}
		post("/v1/conversations/"+id+"/messages", `{"messages":[`+letta+`],"streaming":false}`)
		post("/api/workspaces/default/grants", `{"session_id":"`+id+`","scope":"session","request_id":`+quoted(request)+`}`)
		post("/api/workspaces/default/grants", `{"session_id":"`+id+`","scope":"session","agent_id":"demo","grant_type":"spawn","details":{"agent":"*"}}`)
		published(x1.Participant, x1.Input, "user.input_response", `{"request_id":`+quoted(request)+`,"text":"yes"}`)
		published(x1.Participant, x1.Input, kind.response, response)
		// NeMo comes last: an unknown id creates a session, and the id may mean that one afterwards.
		p.do(call{method: "POST", path: "/v1/chat/completions", token: agent, body: `{"messages":[{"role":"user","content":"` + kind.word + `"}]}`, header: map[string]string{"Conversation-Id": id}})

		for _, e := range events(t, p, person, id) {
			if chat.AnswerOf(e.Body) == request {
				t.Fatalf("%s was answered: %+v", kind.prompt, e)
			}
		}
		p.must(call{method: "POST", path: session + "/prompts/" + request + "/answer", token: person, body: `{` + answer + `}`})
		waitFor(t, func() bool {
			return strings.Contains(p.must(call{path: session, token: person}), `"status":"idle"`)
		}, "not in time: the turn ends")
	}
	// The grant of the person is stored; the agent has stored none.
	if code, got, _ := p.do(call{path: "/api/workspaces/default/grants?session=" + id + "&all=true", token: person}); code != http.StatusOK || strings.Count(got, `"grant_type"`) != 1 || !strings.Contains(got, `"id":"alice"`) {
		t.Error(code, got)
	}
	// The agent cannot approve in a session of its own either.
	post("/parley/v1/sessions", `{"agent":"demo","settings":{"approvals":"all"}}`)
}

// events reads the log of a session with a token.
func events(t *testing.T, p *process, token, id string) (list []chat.Event) {
	t.Helper()
	var page struct {
		Events []json.RawMessage `json:"events"`
	}
	if err := json.Unmarshal([]byte(p.must(call{path: "/parley/v1/sessions/" + id + "/events?limit=1000", token: token})), &page); err != nil {
		t.Fatal(err)
	}
	for _, raw := range page.Events {
		e, err := chat.ParseEvent(raw)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}
