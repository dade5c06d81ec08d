package grant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	grantsPath = "/api/workspaces/default/grants"
	sharesPath = "/api/workspaces/default/sessions/s1/shares"
)

// fixture is a server with the routes of grants and shares. alice, bob and carol are users, helper is an agent, root is an
// administrator; eve is a user and chief an administrator of the workspace elsewhere.
type fixture struct {
	*servertest.Server
	t       *testing.T
	service *Service
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t}
	f.open("")
	return f
}

func (f *fixture) open(dir string) {
	token := func(name string, workspace string, scopes ...chat.Scope) auth.Token {
		tok := servertest.User(name)
		tok.Workspace, tok.Scopes = workspace, scopes
		return tok
	}
	helper := token("helper", "", chat.ScopeAgent)
	helper.Actor.Kind = chat.Agent
	f.Server = servertest.Open(f.t, servertest.Options{Dir: dir, Tokens: []auth.Token{
		servertest.User("alice"), servertest.User("bob"), servertest.User("carol"), helper, token("root", "", chat.ScopeAdmin),
		token("eve", "elsewhere", chat.ScopeUser), token("chief", "elsewhere", chat.ScopeUser, chat.ScopeAdmin),
	}})
	f.service = New(Options{Sessions: f.Sessions, Files: f.Files, Caller: f.Auth.Caller})
	f.Sessions.Observe(session.Observer{Committed: f.service.Committed})
	f.Serve(f.service.Routes(), f.service.Run)
}

// restart ends the server and starts another one on the same data.
func (f *fixture) restart() {
	f.Close()
	f.open(f.Dir)
}

// call makes a request and returns status and answer. No name is a request without a token.
func (f *fixture) call(name, method, path, body string) (int, map[string]any) {
	f.t.Helper()
	code, raw := f.raw(name, method, path, body)
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		f.t.Fatalf("%s %s: %d %s", method, path, code, raw)
	}
	return code, v
}

func (f *fixture) raw(name, method, path, body string) (int, []byte) {
	r, err := http.NewRequest(method, f.HTTP.URL+path, bytes.NewBufferString(body))
	if err != nil {
		f.t.Error(err)
		return 0, nil
	}
	if name != "" {
		r.Header.Set("Authorization", "Bearer "+servertest.TokenOf(name))
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := f.HTTP.Client().Do(r)
	if err != nil {
		f.t.Error(err)
		return 0, nil
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Error(err)
	}
	return res.StatusCode, b
}

var (
	alice  = chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "alice"}, Scopes: []chat.Scope{chat.ScopeUser}}
	bob    = chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "bob"}, Scopes: []chat.Scope{chat.ScopeUser}}
	helper = chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: "helper"}, Scopes: []chat.Scope{chat.ScopeAgent}}
)

// session creates a session of alice, in which bob may answer and helper is the agent.
func (f *fixture) session(id chat.SessionID) {
	f.t.Helper()
	_, _, err := f.Sessions.Create(f.t.Context(), alice, chat.NewSession{
		ID: id, Agent: "helper", Members: []chat.Member{{Actor: bob.Actor, Role: chat.Answerer}},
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// requestPermission appends a permission request of the agent.
func (f *fixture) requestPermission(id chat.SessionID, request string) {
	f.t.Helper()
	f.append(helper, id, chat.NewDraft(chat.AgentPermissionRequest{
		RequestID: request, Scopes: []string{"deploy"}, Justification: "to ship", Tool: "deploy", Params: json.RawMessage(`{"to":"prod"}`),
	}))
}

func (f *fixture) append(c chat.Caller, id chat.SessionID, drafts ...chat.Draft) {
	f.t.Helper()
	if _, err := f.Sessions.Append(f.t.Context(), c, id, drafts); err != nil {
		f.t.Fatal(err)
	}
}

// checkBody asks for the use of a grant: a call of the tool deploy.
func checkBody(id, call, args string) string {
	return fmt.Sprintf(`{"session_id":%q,"grant_type":"tool_scope","details":{"scopes":["deploy"]},"call_id":%q,"tool":"deploy","args":%s}`, id, call, args)
}
