package grant

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/hub"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/server"
	"github.com/parley-hq/parley/internal/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a server with these routes alone; it can be started again.
type world struct {
	t        *testing.T
	dir      string
	sessions *session.Sessions
	files    *artifact.Local
	service  *Service
	http     *httptest.Server
	down     func()
}

func tokenOf(name string) string { return "token-of-" + name + "-0123456789abcdef" }

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir()}
	w.up()
	t.Cleanup(func() { w.down() })
	return w
}

func (w *world) up() {
	t := w.t
	t.Helper()
	j, err := journal.Open(w.dir+"/store", journal.Options{Sync: journal.SyncNever, MinFree: -1, MinFreePercent: -1})
	if err != nil {
		t.Fatal(err)
	}
	if w.files, err = artifact.Open(w.dir+"/artifacts", artifact.Options{}); err != nil {
		t.Fatal(err)
	}
	h := hub.New(j, hub.Options{})
	var service *Service
	w.sessions = session.New(j, h, session.Options{DefaultAgent: "none", Observers: []session.Observer{{Committed: func(evs []chat.Event) { service.Committed(evs) }}}})
	who := auth.Options{Rate: -1}
	for name, scopes := range map[string][]chat.Scope{"alice": {chat.ScopeUser}, "bob": {chat.ScopeUser}, "helper": {chat.ScopeAgent}, "root": {chat.ScopeAdmin}, "carol": {chat.ScopeUser}, "eve": {chat.ScopeUser}, "chief": {chat.ScopeUser, chat.ScopeAdmin}} {
		token := auth.Token{Token: auth.Secret(tokenOf(name)), Actor: chat.Actor{Kind: chat.User, ID: name}, Scopes: scopes}
		switch name {
		case "helper":
			token.Actor.Kind = chat.Agent
		case "eve", "chief": // an administrator elsewhere
			token.Workspace = "elsewhere"
		}
		who.Tokens = append(who.Tokens, token)
	}
	a, err := auth.New(who)
	if err != nil {
		t.Fatal(err)
	}
	service = New(Options{Sessions: w.sessions, Files: w.files, Caller: a.Caller})
	w.service = service
	srv, err := server.New(server.Options{Auth: a, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range service.Routes() {
		srv.Handle(r)
	}
	w.http = httptest.NewServer(srv.Handler())
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = j.Run(ctx) })
	wg.Go(func() { _ = w.sessions.Run(ctx) })
	wg.Go(func() { _ = service.Run(ctx) })
	w.down = func() {
		w.http.Client().CloseIdleConnections()
		w.http.Close()
		cancel()
		wg.Wait()
		h.Close(nil)
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
}

// call asks as somebody and returns status and answer.
func (w *world) call(who, method, path, body string) (int, map[string]any) {
	w.t.Helper()
	code, raw := w.raw(who, method, path, body)
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		w.t.Fatalf("%s %s: %d %s", method, path, code, raw)
	}
	return code, v
}

func (w *world) raw(who, method, path, body string) (int, []byte) {
	r, err := http.NewRequest(method, w.http.URL+path, bytes.NewBufferString(body))
	if err != nil {
		w.t.Error(err)
		return 0, nil
	}
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+tokenOf(who))
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := w.http.Client().Do(r)
	if err != nil {
		w.t.Error(err)
		return 0, nil
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Error(err)
	}
	return res.StatusCode, b
}

const grantsPath = "/api/workspaces/default/grants"

// session makes one of alice's, in which bob may answer and helper works.
func (w *world) session(id chat.SessionID) {
	w.t.Helper()
	alice := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "alice"}, Scopes: []chat.Scope{chat.ScopeUser}}
	_, _, err := w.sessions.Create(context.Background(), alice, chat.NewSession{
		ID: id, Agent: "helper", Members: []chat.Member{{Actor: chat.Actor{Kind: chat.User, ID: "bob"}, Role: chat.Answerer}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// ask lets the agent ask for a permission.
func (w *world) ask(id chat.SessionID, request string) {
	w.t.Helper()
	agent := chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: "helper"}, Scopes: []chat.Scope{chat.ScopeAgent}}
	_, err := w.sessions.Append(context.Background(), agent, id, []chat.Draft{chat.NewDraft(chat.AgentPermissionRequest{
		RequestID: request, Scopes: []string{"deploy"}, Justification: "to ship", Tool: "deploy", Params: json.RawMessage(`{"to":"prod"}`),
	})})
	if err != nil {
		w.t.Fatal(err)
	}
}

func use(id, call, args string) string {
	return fmt.Sprintf(`{"session_id":%q,"grant_type":"tool_scope","details":{"scopes":["deploy"]},"call_id":%q,"tool":"deploy","args":%s}`, id, call, args)
}

func TestGrants(t *testing.T) {
	w := newWorld(t)
	w.session("s1")
	w.session("s2")
	for name, c := range map[string]struct {
		who, body string
		code      int
	}{
		"agents may not":    {"helper", `{"agent_id":"helper","grant_type":"spawn","scope":"persistent"}`, 403},
		"nobody":            {"", `{}`, 401},
		"other workspaces":  {"eve", `{"agent_id":"helper","grant_type":"spawn","scope":"persistent"}`, 404},
		"both subjects":     {"alice", `{"agent_id":"helper","user_id":"bob","grant_type":"spawn","scope":"persistent"}`, 400},
		"no scope":          {"alice", `{"agent_id":"helper","grant_type":"spawn"}`, 400},
		"session, but none": {"alice", `{"agent_id":"helper","grant_type":"spawn","scope":"session"}`, 400},
		"nonsense":          {"alice", `[`, 400},
	} {
		if code, v := w.call(c.who, "POST", grantsPath, c.body); code != c.code {
			t.Errorf("%s: %d %v", name, code, v)
		}
	}
	if code, v := w.call("helper", "POST", grantsPath+"/check", use("s1", "c1", `{}`)); code != 403 {
		t.Fatal("nothing is granted yet", code, v)
	}
	code, g := w.call("alice", "POST", grantsPath, `{"agent_id":"helper","grant_type":"tool_scope","details":{"scopes":["deploy","test"]},"scope":"session","session_id":"s1"}`)
	if code != 201 || g["created_by"].(map[string]any)["id"] != "alice" {
		t.Fatal(code, g)
	}
	if code, v := w.call("helper", "POST", grantsPath+"/check", use("s1", "c1", `{}`)); code != 200 {
		t.Fatal(code, v)
	}
	if code, v := w.call("helper", "POST", grantsPath+"/check", use("s2", "c1", `{}`)); code != 403 {
		t.Fatal("it holds in one session", code, v)
	}
	if code, v := w.call("helper", "POST", grantsPath+"/check", strings.Replace(use("s1", "c1", `{}`), `"deploy"]`, `"deploy","erase"]`, 1)); code != 403 {
		t.Fatal("it holds for what it names", code, v)
	}
	// It outlives the server.
	w.down()
	w.up()
	if code, v := w.call("helper", "POST", grantsPath+"/check", use("s1", "c2", `{}`)); code != 200 {
		t.Fatal(code, v)
	}
	if code, v := w.call("bob", "DELETE", grantsPath+"/"+g["id"].(string), ""); code != 403 {
		t.Fatal(code, v)
	}
	if code, v := w.call("alice", "DELETE", grantsPath+"/"+g["id"].(string), ""); code != 200 || v["revoked_by"] == nil {
		t.Fatal(code, v)
	}
	if code, v := w.call("helper", "POST", grantsPath+"/check", use("s1", "c3", `{}`)); code != 403 {
		t.Fatal("it was revoked", code, v)
	}
	_, v := w.call("alice", "GET", grantsPath, "")
	_, all := w.call("alice", "GET", grantsPath+"?all=true", "")
	if len(v["grants"].([]any)) != 0 || len(all["grants"].([]any)) != 1 {
		t.Fatal(v, all)
	}
}

// Of many that ask at once for a grant of scope once, one gets it.
func TestOnceIsOnce(t *testing.T) {
	w := newWorld(t)
	w.session("s1")
	for range 3 {
		if code, v := w.call("alice", "POST", grantsPath, `{"agent_id":"helper","grant_type":"tool_scope","details":{"scopes":["deploy"]},"scope":"once"}`); code != 201 {
			t.Fatal(v)
		}
	}
	var mu sync.Mutex
	got := map[string]int{}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			code, raw := w.raw("helper", "POST", grantsPath+"/check", use("s1", fmt.Sprint("c", i), `{}`))
			var v struct{ Grant Grant }
			_ = json.Unmarshal(raw, &v)
			mu.Lock()
			defer mu.Unlock()
			if code == 200 {
				got[v.Grant.ID]++
			} else if code != 403 {
				t.Errorf("%d %s", code, raw)
			}
		})
	}
	wg.Wait()
	if len(got) != 3 {
		t.Fatal(got)
	}
	for id, n := range got {
		if n != 1 {
			t.Errorf("%s was used %d times", id, n)
		}
	}
}

// Two viewers race: one decides, the other is told who did. The decision is a fact
// by that person, bound to the exact call.
func TestTwoViewersRace(t *testing.T) {
	w := newWorld(t)
	for i := range 10 {
		id := chat.SessionID(fmt.Sprint("race", i))
		w.session(id)
		w.ask(id, "r1")
		var mu sync.Mutex
		codes := map[int]string{}
		var wg sync.WaitGroup
		for _, who := range []string{"alice", "bob"} {
			wg.Go(func() {
				code, raw := w.raw(who, "POST", grantsPath, fmt.Sprintf(`{"request_id":"r1","session_id":%q,"scope":"once"}`, id))
				mu.Lock()
				defer mu.Unlock()
				if codes[code] = who; code != 201 && !strings.Contains(string(raw), "answered") {
					t.Errorf("%d %s", code, raw)
				}
			})
		}
		wg.Wait()
		if len(codes) != 2 || codes[201] == "" || codes[409] == "" {
			t.Fatal(codes)
		}
		facts, _, err := w.sessions.Read(t.Context(), chat.Trusted, id, chat.Range{Types: []string{"user.permission_response"}})
		if err != nil || len(facts) != 1 {
			t.Fatal(len(facts), err)
		}
		if e, err := facts[0].Event(); err != nil || e.Actor.ID != codes[201] {
			t.Fatal(e.Actor, codes, err)
		}
		if code, v := w.call("helper", "POST", grantsPath+"/check", use(string(id), "c1", `{"to":"test"}`)); code != 403 {
			t.Fatal("it was granted for another call", v)
		}
		for range 2 { // the same call may ask again
			if code, v := w.call("helper", "POST", grantsPath+"/check", use(string(id), "c1", `{"to":"prod"}`)); code != 200 {
				t.Fatal(v)
			}
		}
		if code, v := w.call("helper", "POST", grantsPath+"/check", use(string(id), "c2", `{"to":"prod"}`)); code != 403 {
			t.Fatal("it is used up", v)
		}
	}
}

// A decision that came by another dialect is a grant, too, also when the server
// ended before it could be written down.
func TestDecidedElsewhere(t *testing.T) {
	w := newWorld(t)
	w.session("s1")
	w.ask("s1", "r1")
	granted := []string{"deploy"}
	bob := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "bob"}, Scopes: []chat.Scope{chat.ScopeUser}}
	if _, err := w.sessions.Answer(t.Context(), bob, "s1", "r1", chat.Answer{Granted: &granted, Duration: "always"}); err != nil {
		t.Fatal(err)
	}
	w.down()
	w.up()
	_, v := w.call("alice", "GET", grantsPath+"?session=s1", "")
	list := v["grants"].([]any)
	if len(list) != 1 || list[0].(map[string]any)["scope"] != "persistent" || list[0].(map[string]any)["created_by"].(map[string]any)["id"] != "bob" {
		t.Fatal(v)
	}
	if code, v := w.call("helper", "POST", grantsPath+"/check", use("s1", "c1", `{}`)); code != 200 {
		t.Fatal(v)
	}
}

func TestShares(t *testing.T) {
	w := newWorld(t)
	w.session("s1")
	if _, err := w.files.Put(t.Context(), "s1", "report.txt", "text/plain", strings.NewReader("the report"), artifact.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.files.Put(t.Context(), "s1", "private.txt", "text/plain", strings.NewReader("not shared"), artifact.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	shares := "/api/workspaces/default/sessions/s1/shares"
	code, s := w.call("helper", "POST", shares, `{"share_id":"rep","title":"Report","share_type":"text","path":"report.txt"}`)
	if code != 201 || s["version"] != 1.0 {
		t.Fatal(code, s)
	}
	link := s["link"].(string)
	if code, v := w.call("helper", "POST", shares, `{}`); code != 400 {
		t.Fatal(code, v)
	}
	for _, address := range []string{"javascript:alert(1)", "data:text/html,x", "//elsewhere", "https:"} {
		if code, v := w.call("alice", "POST", shares, fmt.Sprintf(`{"title":"x","url":%q}`, address)); code != 400 {
			t.Error(address, code, v)
		}
	}
	if code, v := w.call("eve", "GET", shares, ""); code != 404 {
		t.Fatal("the border is the workspace", code, v)
	}
	if code, _ := w.raw("", "GET", link, ""); code != 404 {
		t.Fatal("it is not public", code)
	}
	if code, b := w.raw("bob", "GET", link+"/content", ""); code != 200 || string(b) != "the report" {
		t.Fatal(code, string(b))
	}
	code, s = w.call("helper", "PUT", shares+"/rep", `{"title":"Report 2","path":"report.txt","public":true}`)
	if code != 200 || s["version"] != 2.0 || s["link"] != link || s["title"] != "Report 2" {
		t.Fatal(code, s)
	}
	w.down()
	w.up()
	if code, b := w.raw("", "GET", link+"/content", ""); code != 200 || string(b) != "the report" {
		t.Fatal(code, string(b))
	}
	if code, b := w.raw("", "GET", link+"/private.txt", ""); code != 404 {
		t.Fatal("it is not part of the share", code, string(b))
	}
	if code, v := w.call("", "GET", link, ""); code != 200 || v["title"] != "Report 2" || v["session_id"] != nil {
		t.Fatal(code, v)
	}
	// What an agent says in the log is a share, too.
	agent := chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: "helper"}, Scopes: []chat.Scope{chat.ScopeAgent}}
	if _, err := w.sessions.Append(t.Context(), agent, "s1", []chat.Draft{{Type: "agent.share", Payload: json.RawMessage(`{"share_id":"two","title":"Second","path":"report.txt","url":"javascript:alert(1)"}`)}}); err != nil {
		t.Fatal(err)
	}
	if _, v := w.call("bob", "GET", shares, ""); len(v["shares"].([]any)) != 2 || strings.Contains(fmt.Sprint(v), "alert") {
		t.Fatal(v)
	}
	if code, v := w.call("alice", "DELETE", shares+"/rep", ""); code != 200 {
		t.Fatal(v)
	}
	if code, _ := w.raw("", "GET", link+"/content", ""); code != 410 {
		t.Fatal("it was revoked", code)
	}
	if _, v := w.call("bob", "GET", shares, ""); len(v["shares"].([]any)) != 1 {
		t.Fatal(v)
	}
	facts, _, err := w.sessions.Read(t.Context(), chat.Trusted, "s1", chat.Range{Types: []string{"agent.share"}})
	if err != nil || len(facts) != 3 {
		t.Fatal("each is a fact of the session", len(facts), err)
	}
}
