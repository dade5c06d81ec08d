package letta

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/internal/servertest"
)

// owningNode is the dialect at the node that owns all sessions.
type owningNode struct {
	t   *testing.T
	mux *http.ServeMux
}

func newNodes(t *testing.T) (*testServer, *owningNode, *servertest.Cluster) {
	t.Helper()
	cluster := servertest.NewCluster()
	w := newTestServer(t, setup{cluster: cluster})
	opt := w.dialect.opt
	opt.Sessions = w.Owner
	o := &owningNode{t, http.NewServeMux()}
	for _, r := range New(opt).Routes() {
		o.mux.Handle(r.Pattern, r.Handler)
	}
	return w, o, cluster
}

// do makes a request that must succeed, and returns the id in the answer.
func (o *owningNode) do(method, path, body string) string {
	o.t.Helper()
	rec := httptest.NewRecorder()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	o.mux.ServeHTTP(rec, req)
	var out struct{ ID string }
	if err := json.Unmarshal(rec.Body.Bytes(), &out); rec.Code != http.StatusOK || err != nil {
		o.t.Fatalf("%s %s: %d %s", method, path, rec.Code, rec.Body)
	}
	return out.ID
}

// A client creates an agent at another node and goes on here. This node is a little behind.
func TestNodeFindsAgentsThatAnotherNodeHasJustCreated(t *testing.T) {
	t.Parallel()
	w, other, cluster := newNodes(t)
	cluster.SetDelay(50 * time.Millisecond)
	for range 20 {
		id := other.do("POST", "/v1/agents/", `{"name":"ann","model":"parley/demo"}`)
		if code, body := w.do("GET", "/v1/agents/"+id, ""); code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
		conversation := other.do("POST", "/v1/conversations/?agent_id="+id, `{}`)
		got := get[object](w, "GET", "/v1/conversations/"+conversation, "")
		if got["agent_id"] != id {
			t.Fatalf("the conversation %s is of %v, want %s", conversation, got["agent_id"], id)
		}
	}
}

// A change of an agent at another node is seen here.
func TestNodeSeesChangesOfAgentsAtAnotherNode(t *testing.T) {
	t.Parallel()
	w, other, _ := newNodes(t)
	id := other.do("POST", "/v1/agents/", `{"name":"ann","model":"parley/demo"}`)
	if got := get[object](w, "GET", "/v1/agents/"+id, ""); got["name"] != "ann" {
		t.Fatal(got["name"])
	}
	other.do("PATCH", "/v1/agents/"+id, `{"name":"bea"}`)
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		got := get[object](w, "GET", "/v1/agents/"+id, "")
		if got["name"] == "bea" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the agent is called %v after a minute", got["name"])
		}
	}
}

// A client sends a message at another node and cancels its run here. This node is a little behind.
func TestNodeCancelsARunThatAnotherNodeHasJustBegun(t *testing.T) {
	t.Parallel()
	w, other, cluster := newNodes(t)
	id := other.do("POST", "/v1/agents/", `{"name":"ann","model":"parley/demo"}`)
	cluster.SetDelay(50 * time.Millisecond)
	for range 10 {
		other.do("POST", "/v1/agents/"+id+"/messages/async", `{"messages":[{"role":"user","content":"/stream 100000 100"}]}`)
		if code, body := w.do("POST", "/v1/agents/"+id+"/messages/cancel", "{}"); code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
	}
}
