package grant

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/artifact"
)

// A person of the workspace who has no part in a session sees nothing of what was
// granted there, and what that person grants does not hold there.
func TestStrangersOfTheWorkspace(t *testing.T) {
	w := newWorld(t)
	w.session("s1")
	code, g := w.call("alice", "POST", grantsPath, `{"agent_id":"helper","grant_type":"tool_scope","details":{"scopes":["test"]},"scope":"session","session_id":"s1","reason":"secret"}`)
	if code != http.StatusCreated {
		t.Fatal(code, g)
	}
	for who, want := range map[string]int{"alice": 1, "bob": 1, "root": 1, "helper": 1, "carol": 0} {
		if _, v := w.call(who, "GET", grantsPath, ""); len(v["grants"].([]any)) != want {
			t.Errorf("%s sees %v", who, v)
		}
	}
	hers, _ := w.raw("carol", "GET", grantsPath+"?session=s1", "")
	nobodys, _ := w.raw("carol", "GET", grantsPath+"?session=nope", "")
	if hers != http.StatusNotFound || nobodys != http.StatusNotFound {
		t.Error("the list tells that there is a session:", hers, nobodys)
	}
	if code, v := w.call("carol", "DELETE", grantsPath+"/"+g["id"].(string), ""); code != http.StatusNotFound {
		t.Error(code, v)
	}
	// What carol gives, to whomever, is good in sessions of hers only.
	for _, body := range []string{
		`{"agent_id":"helper","grant_type":"tool_scope","details":{"scopes":["deploy"]},"scope":"persistent"}`,
		`{"user_id":"alice","grant_type":"tool_scope","details":{"scopes":["deploy"]},"scope":"once"}`,
	} {
		if code, v := w.call("carol", "POST", grantsPath, body); code != http.StatusCreated {
			t.Fatal(code, v)
		}
	}
	if code, v := w.call("helper", "POST", grantsPath+"/check", use("s1", "c1", `{}`)); code != http.StatusForbidden {
		t.Error("a stranger's grant holds", code, v)
	}
	// An administrator's holds everywhere.
	if code, v := w.call("root", "POST", grantsPath, `{"agent_id":"helper","grant_type":"tool_scope","details":{"scopes":["deploy"]},"scope":"persistent"}`); code != http.StatusCreated {
		t.Fatal(code, v)
	}
	if code, v := w.call("helper", "POST", grantsPath+"/check", use("s1", "c1", `{}`)); code != http.StatusOK {
		t.Error(code, v)
	}
}

// Who may only look at a session cannot use up what was granted in it.
func TestViewersUseNothing(t *testing.T) {
	w := newWorld(t)
	w.session("s1")
	members := []chat.Member{{Actor: chat.Actor{Kind: chat.User, ID: "carol"}, Role: chat.Viewer}}
	if _, err := w.sessions.Update(t.Context(), chat.Trusted, "s1", chat.SessionUpdated{Members: &members}); err != nil {
		t.Fatal(err)
	}
	if code, v := w.call("alice", "POST", grantsPath, `{"agent_id":"helper","grant_type":"tool_scope","details":{"scopes":["deploy"]},"scope":"once"}`); code != http.StatusCreated {
		t.Fatal(code, v)
	}
	if code, v := w.call("carol", "POST", grantsPath+"/check", use("s1", "c1", `{}`)); code != http.StatusForbidden {
		t.Error(code, v)
	}
	if code, v := w.call("helper", "POST", grantsPath+"/check", use("s1", "c2", `{}`)); code != http.StatusOK {
		t.Error(code, v)
	}
}

// A link ends with its session.
func TestSharesOfAnErasedSession(t *testing.T) {
	w := newWorld(t)
	w.session("s1")
	if _, err := w.files.Put(t.Context(), "s1", "report.txt", "text/plain", strings.NewReader("the report"), artifact.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	_, s := w.call("helper", "POST", "/api/workspaces/default/sessions/s1/shares", `{"title":"Report","path":"report.txt","public":true}`)
	link := s["link"].(string)
	if code, _ := w.raw("", "GET", link, ""); code != http.StatusOK {
		t.Fatal(code)
	}
	if _, err := w.sessions.Erase(t.Context(), chat.Trusted, "s1"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, link + "/content"} {
		if code, b := w.raw("", "GET", path, ""); code != http.StatusGone {
			t.Error(path, code, string(b))
		}
	}
}
