package grant

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/parley-hq/parley/chat"
)

func TestAGrantHoldsWhereAndForWhatItSays(t *testing.T) {
	f := newFixture(t)
	f.session("s1")
	f.session("s2")
	for name, c := range map[string]struct {
		caller, body string
		code         int
	}{
		"agents may not":    {"helper", `{"agent_id":"helper","grant_type":"spawn","scope":"persistent"}`, 403},
		"no token":          {"", `{}`, 401},
		"other workspaces":  {"eve", `{"agent_id":"helper","grant_type":"spawn","scope":"persistent"}`, 404},
		"both subjects":     {"alice", `{"agent_id":"helper","user_id":"bob","grant_type":"spawn","scope":"persistent"}`, 400},
		"no scope":          {"alice", `{"agent_id":"helper","grant_type":"spawn"}`, 400},
		"session, but none": {"alice", `{"agent_id":"helper","grant_type":"spawn","scope":"session"}`, 400},
		"nonsense":          {"alice", `[`, 400},
	} {
		if code, v := f.call(c.caller, "POST", grantsPath, c.body); code != c.code {
			t.Errorf("%s: %d %v", name, code, v)
		}
	}
	if code, v := f.call("helper", "POST", grantsPath+"/check", checkBody("s1", "c1", `{}`)); code != 403 {
		t.Fatal("nothing is granted yet", code, v)
	}
	code, g := f.call("alice", "POST", grantsPath, `{"agent_id":"helper","grant_type":"tool_scope","details":{"scopes":["deploy","test"]},"scope":"session","session_id":"s1"}`)
	if code != 201 || g["created_by"].(map[string]any)["id"] != "alice" {
		t.Fatal(code, g)
	}
	if code, v := f.call("helper", "POST", grantsPath+"/check", checkBody("s1", "c1", `{}`)); code != 200 {
		t.Fatal(code, v)
	}
	if code, v := f.call("helper", "POST", grantsPath+"/check", checkBody("s2", "c1", `{}`)); code != 403 {
		t.Fatal("it holds in one session", code, v)
	}
	if code, v := f.call("helper", "POST", grantsPath+"/check", strings.Replace(checkBody("s1", "c1", `{}`), `"deploy"]`, `"deploy","erase"]`, 1)); code != 403 {
		t.Fatal("it holds for what it names", code, v)
	}
	// It holds after a restart.
	f.restart()
	if code, v := f.call("helper", "POST", grantsPath+"/check", checkBody("s1", "c2", `{}`)); code != 200 {
		t.Fatal(code, v)
	}
	if code, v := f.call("bob", "DELETE", grantsPath+"/"+g["id"].(string), ""); code != 403 {
		t.Fatal(code, v)
	}
	if code, v := f.call("alice", "DELETE", grantsPath+"/"+g["id"].(string), ""); code != 200 || v["revoked_by"] == nil {
		t.Fatal(code, v)
	}
	if code, v := f.call("helper", "POST", grantsPath+"/check", checkBody("s1", "c3", `{}`)); code != 403 {
		t.Fatal("it was revoked", code, v)
	}
	_, v := f.call("alice", "GET", grantsPath, "")
	_, all := f.call("alice", "GET", grantsPath+"?all=true", "")
	if len(v["grants"].([]any)) != 0 || len(all["grants"].([]any)) != 1 {
		t.Fatal(v, all)
	}
}

// Of many requests at once for a grant of scope once, one gets it.
func TestAGrantOfScopeOnceIsUsedOnce(t *testing.T) {
	f := newFixture(t)
	f.session("s1")
	for range 3 {
		if code, v := f.call("alice", "POST", grantsPath, `{"agent_id":"helper","grant_type":"tool_scope","details":{"scopes":["deploy"]},"scope":"once"}`); code != 201 {
			t.Fatal(v)
		}
	}
	var mu sync.Mutex
	got := map[string]int{}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			code, raw := f.raw("helper", "POST", grantsPath+"/check", checkBody("s1", fmt.Sprint("c", i), `{}`))
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

// Two people answer a permission request at once: one decides, the other gets a conflict. The answer is an event by that
// person, and the grant is bound to the exact call.
func TestTheFirstAnswerBecomesTheGrant(t *testing.T) {
	f := newFixture(t)
	for i := range 10 {
		id := chat.SessionID(fmt.Sprint("race", i))
		f.session(id)
		f.requestPermission(id, "r1")
		var mu sync.Mutex
		codes := map[int]string{}
		var wg sync.WaitGroup
		for _, who := range []string{"alice", "bob"} {
			wg.Go(func() {
				code, raw := f.raw(who, "POST", grantsPath, fmt.Sprintf(`{"request_id":"r1","session_id":%q,"scope":"once"}`, id))
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
		facts, _, err := f.Sessions.Read(t.Context(), chat.Trusted, id, chat.Range{Types: []string{"user.permission_response"}})
		if err != nil || len(facts) != 1 {
			t.Fatal(len(facts), err)
		}
		if e, err := facts[0].Event(); err != nil || e.Actor.ID != codes[201] {
			t.Fatal(e.Actor, codes, err)
		}
		if code, v := f.call("helper", "POST", grantsPath+"/check", checkBody(string(id), "c1", `{"to":"test"}`)); code != 403 {
			t.Fatal("it was granted for another call", v)
		}
		for range 2 { // the same call may ask again
			if code, v := f.call("helper", "POST", grantsPath+"/check", checkBody(string(id), "c1", `{"to":"prod"}`)); code != 200 {
				t.Fatal(v)
			}
		}
		if code, v := f.call("helper", "POST", grantsPath+"/check", checkBody(string(id), "c2", `{"to":"prod"}`)); code != 403 {
			t.Fatal("it is used up", v)
		}
	}
}

// It does so also when the server ended before the grant was stored.
func TestAnAnswerByAnotherDialectBecomesAGrant(t *testing.T) {
	f := newFixture(t)
	f.session("s1")
	f.requestPermission("s1", "r1")
	granted := []string{"deploy"}
	if _, err := f.Sessions.Answer(t.Context(), bob, "s1", "r1", chat.Answer{Granted: &granted, Duration: "always"}); err != nil {
		t.Fatal(err)
	}
	f.restart()
	_, v := f.call("alice", "GET", grantsPath+"?session=s1", "")
	list := v["grants"].([]any)
	if len(list) != 1 || list[0].(map[string]any)["scope"] != "persistent" || list[0].(map[string]any)["created_by"].(map[string]any)["id"] != "bob" {
		t.Fatal(v)
	}
	if code, v := f.call("helper", "POST", grantsPath+"/check", checkBody("s1", "c1", `{}`)); code != 200 {
		t.Fatal(v)
	}
}

func TestAForkHasNoGrants(t *testing.T) {
	f := newFixture(t)
	f.session("s1")
	f.requestPermission("s1", "r1")
	if code, v := f.call("alice", "POST", grantsPath, `{"request_id":"r1","session_id":"s1","scope":"persistent"}`); code != http.StatusCreated {
		t.Fatal(code, v)
	}
	if _, err := f.Sessions.Fork(t.Context(), bob, "s1", chat.Fork{ID: "f1"}); err != nil {
		t.Fatal(err)
	}
	if code, v := f.call("bob", "GET", grantsPath+"?session=f1", ""); code != http.StatusOK || len(v["grants"].([]any)) != 0 {
		t.Error(code, v)
	}
	ask := `{"session_id":"f1","grant_type":"tool_scope","details":{"scopes":["deploy"]},"call_id":"c1","tool":"deploy","args":{"to":"prod"}}`
	if code, v := f.call("bob", "POST", grantsPath+"/check", ask); code != http.StatusForbidden {
		t.Error("a fork has the grant", code, v)
	}
}

// Two nodes have the same log, but no lock in common: a grant of scope once is used once, also by the same call.
func TestAGrantOfScopeOnceIsUsedOnceByTwoNodes(t *testing.T) {
	f := newFixture(t)
	f.session("s1")
	nodes := []*Service{f.service, New(Options{Sessions: f.Sessions, Files: f.Files, Caller: f.Auth.Caller})}
	for round := range 10 {
		for range 2 {
			if code, v := f.call("alice", "POST", grantsPath, `{"agent_id":"helper","grant_type":"tool_scope","details":{"scopes":["deploy"]},"scope":"once"}`); code != 201 {
				t.Fatal(v)
			}
		}
		var mu sync.Mutex
		got := map[string]int{}
		var wg sync.WaitGroup
		for _, node := range nodes {
			for range 4 {
				wg.Go(func() {
					g, err := node.UseGrant(t.Context(), helper, chat.DefaultWorkspace, Ask{Agent: "helper", Type: "tool_scope", Session: "s1", Details: json.RawMessage(`{"scopes":["deploy"]}`)})
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						got[g.ID]++
					} else if chat.CodeOf(err) != chat.Denied {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		n := 0
		for _, uses := range got {
			n += uses
		}
		if n != 2 || len(got) != 2 {
			t.Fatalf("round %d: %v", round, got)
		}
	}
}
