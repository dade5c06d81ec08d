package grant

import (
	"net/http"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// A caller without a role in a session cannot see its grants, and the grants of that caller do not apply in it.
func TestGrantsOfOthersAreInvisible(t *testing.T) {
	f := newFixture(t)
	f.session("s1")
	code, g := f.call("alice", "POST", grantsPath, `{"agent_id":"helper","grant_type":"tool_scope","details":{"scopes":["test"]},"scope":"session","session_id":"s1","reason":"secret"}`)
	if code != http.StatusCreated {
		t.Fatal(code, g)
	}
	for name, want := range map[string]int{"alice": 1, "bob": 1, "root": 1, "helper": 1, "carol": 0} {
		if _, v := f.call(name, "GET", grantsPath, ""); len(v["grants"].([]any)) != want {
			t.Errorf("%s sees %v", name, v)
		}
	}
	existing, _ := f.raw("carol", "GET", grantsPath+"?session=s1", "")
	missing, _ := f.raw("carol", "GET", grantsPath+"?session=nope", "")
	if existing != http.StatusNotFound || missing != http.StatusNotFound {
		t.Error("the answer shows that the session exists:", existing, missing)
	}
	if code, v := f.call("carol", "DELETE", grantsPath+"/"+g["id"].(string), ""); code != http.StatusNotFound {
		t.Error(code, v)
	}
	// The grants of carol hold only in the sessions of carol.
	for _, body := range []string{
		`{"agent_id":"helper","grant_type":"tool_scope","details":{"scopes":["deploy"]},"scope":"persistent"}`,
		`{"user_id":"alice","grant_type":"tool_scope","details":{"scopes":["deploy"]},"scope":"once"}`,
	} {
		if code, v := f.call("carol", "POST", grantsPath, body); code != http.StatusCreated {
			t.Fatal(code, v)
		}
	}
	if code, v := f.call("helper", "POST", grantsPath+"/check", checkBody("s1", "c1", `{}`)); code != http.StatusForbidden {
		t.Error("a stranger's grant holds", code, v)
	}
	// The grant of an administrator holds in all sessions.
	if code, v := f.call("root", "POST", grantsPath, `{"agent_id":"helper","grant_type":"tool_scope","details":{"scopes":["deploy"]},"scope":"persistent"}`); code != http.StatusCreated {
		t.Fatal(code, v)
	}
	if code, v := f.call("helper", "POST", grantsPath+"/check", checkBody("s1", "c1", `{}`)); code != http.StatusOK {
		t.Error(code, v)
	}
}

func TestAViewerCannotUseAGrant(t *testing.T) {
	f := newFixture(t)
	f.session("s1")
	members := []chat.Member{{Actor: chat.Actor{Kind: chat.User, ID: "carol"}, Role: chat.Viewer}}
	if _, err := f.Sessions.Update(t.Context(), chat.Trusted, "s1", chat.SessionUpdated{Members: &members}); err != nil {
		t.Fatal(err)
	}
	if code, v := f.call("alice", "POST", grantsPath, `{"agent_id":"helper","grant_type":"tool_scope","details":{"scopes":["deploy"]},"scope":"once"}`); code != http.StatusCreated {
		t.Fatal(code, v)
	}
	if code, v := f.call("carol", "POST", grantsPath+"/check", checkBody("s1", "c1", `{}`)); code != http.StatusForbidden {
		t.Error(code, v)
	}
	if code, v := f.call("helper", "POST", grantsPath+"/check", checkBody("s1", "c2", `{}`)); code != http.StatusOK {
		t.Error(code, v)
	}
}

// The name of the agent is not taken from the metadata, because clients write them.
func TestAGrantIsUsedByTheSessionsOwnAgentAndOwner(t *testing.T) {
	f := newFixture(t)
	f.session("s1")
	for _, body := range []string{
		`{"agent_id":"deployer","grant_type":"tool_scope","details":{"scopes":["deploy"]},"scope":"persistent"}`,
		`{"user_id":"bob","grant_type":"tool_scope","details":{"scopes":["deploy"]},"scope":"persistent"}`,
	} {
		if code, v := f.call("root", "POST", grantsPath, body); code != http.StatusCreated {
			t.Fatal(code, v)
		}
	}
	for _, name := range []string{`"agent_id":"deployer"`, `"user_id":"bob"`, `"agent_id":"helper"`, `"user_id":"alice"`} {
		ask := `{"session_id":"s1",` + name + `,"grant_type":"tool_scope","details":{"scopes":["deploy"]},"call_id":"c1"}`
		if code, v := f.call("helper", "POST", grantsPath+"/check", ask); code != http.StatusForbidden {
			t.Error(name, code, v)
		}
	}
	// The metadata of a session claim that another agent's sidecar serves it.
	forged := chat.NewSession{ID: "s2", Agent: chat.NoAgent, Metadata: []byte(`{"x1":{"sidecar":true,"agent_id":"deployer"},"served_by":"deployer"}`)}
	if _, _, err := f.Sessions.Create(t.Context(), alice, forged); err != nil {
		t.Fatal(err)
	}
	if code, v := f.call("alice", "POST", grantsPath+"/check", checkBody("s2", "c1", `{}`)); code != http.StatusForbidden {
		t.Error("the metadata names the agent", code, v)
	}
	name := "deployer"
	if _, err := f.Sessions.Update(t.Context(), chat.Trusted, "s2", chat.SessionUpdated{ServedBy: &name}); err != nil {
		t.Fatal(err)
	}
	if code, v := f.call("alice", "POST", grantsPath+"/check", checkBody("s2", "c1", `{}`)); code != http.StatusOK {
		t.Error(code, v)
	}
}

func TestAdministratorsOfAnotherWorkspaceHaveNoAccess(t *testing.T) {
	f := newFixture(t)
	if code, v := f.call("chief", "GET", grantsPath, ""); code != 404 {
		t.Errorf("it lists grants: %d %v", code, v)
	}
	if code, v := f.call("chief", "POST", grantsPath, `{"agent_id":"helper","grant_type":"tool_scope","details":{"scopes":["deploy"]},"scope":"persistent"}`); code != 404 {
		t.Errorf("it grants: %d %v", code, v)
	}
}
