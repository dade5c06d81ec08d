package grant

import (
	"net/http"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// A grant is used in the name of the session's own agent and owner, and the agent's
// name is not what the metadata says: clients write that.
func TestGrantsOfOtherNames(t *testing.T) {
	w := newWorld(t)
	w.session("s1")
	for _, body := range []string{
		`{"agent_id":"deployer","grant_type":"tool_scope","details":{"scopes":["deploy"]},"scope":"persistent"}`,
		`{"user_id":"bob","grant_type":"tool_scope","details":{"scopes":["deploy"]},"scope":"persistent"}`,
	} {
		if code, v := w.call("root", "POST", grantsPath, body); code != http.StatusCreated {
			t.Fatal(code, v)
		}
	}
	for _, name := range []string{`"agent_id":"deployer"`, `"user_id":"bob"`, `"agent_id":"helper"`, `"user_id":"alice"`} {
		ask := `{"session_id":"s1",` + name + `,"grant_type":"tool_scope","details":{"scopes":["deploy"]},"call_id":"c1"}`
		if code, v := w.call("helper", "POST", grantsPath+"/check", ask); code != http.StatusForbidden {
			t.Error(name, code, v)
		}
	}
	// A session that says it has the sidecar of another agent.
	alice := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "alice"}, Scopes: []chat.Scope{chat.ScopeUser}}
	forged := chat.NewSession{ID: "s2", Agent: chat.NoAgent, Metadata: []byte(`{"x1":{"sidecar":true,"agent_id":"deployer"},"served_by":"deployer"}`)}
	if _, _, err := w.sessions.Create(t.Context(), alice, forged); err != nil {
		t.Fatal(err)
	}
	if code, v := w.call("alice", "POST", grantsPath+"/check", use("s2", "c1", `{}`)); code != http.StatusForbidden {
		t.Error("the metadata names the agent", code, v)
	}
	name := "deployer"
	if _, err := w.sessions.Update(t.Context(), chat.Trusted, "s2", chat.SessionUpdated{ServedBy: &name}); err != nil {
		t.Fatal(err)
	}
	if code, v := w.call("alice", "POST", grantsPath+"/check", use("s2", "c1", `{}`)); code != http.StatusOK {
		t.Error(code, v)
	}
}

// What was granted in a session is not granted in a fork of it.
func TestForksHaveNoGrants(t *testing.T) {
	w := newWorld(t)
	w.session("s1")
	w.ask("s1", "r1")
	if code, v := w.call("alice", "POST", grantsPath, `{"request_id":"r1","session_id":"s1","scope":"persistent"}`); code != http.StatusCreated {
		t.Fatal(code, v)
	}
	bob := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "bob"}, Scopes: []chat.Scope{chat.ScopeUser}}
	if _, err := w.sessions.Fork(t.Context(), bob, "s1", chat.Fork{ID: "f1"}); err != nil {
		t.Fatal(err)
	}
	if code, v := w.call("bob", "GET", grantsPath+"?session=f1", ""); code != http.StatusOK || len(v["grants"].([]any)) != 0 {
		t.Error(code, v)
	}
	ask := `{"session_id":"f1","grant_type":"tool_scope","details":{"scopes":["deploy"]},"call_id":"c1","tool":"deploy","args":{"to":"prod"}}`
	if code, v := w.call("bob", "POST", grantsPath+"/check", ask); code != http.StatusForbidden {
		t.Error("a fork has the grant", code, v)
	}
}
