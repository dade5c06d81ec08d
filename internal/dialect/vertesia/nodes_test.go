package vertesia

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/servertest"
)

// A client creates a run, or a workstream, at another node and goes on here. This node is a little behind.
func TestNodeFindsRunsThatAnotherNodeHasJustCreated(t *testing.T) {
	t.Parallel()
	cluster := servertest.NewCluster()
	w := newServer(t, setup{cluster: cluster})
	cluster.SetDelay(50 * time.Millisecond)
	create := func() string {
		t.Helper()
		sess, _, err := w.Owner.Create(t.Context(), chat.Trusted, chat.NewSession{Agent: "demo"})
		if err != nil {
			t.Fatal(err)
		}
		return string(sess.ID)
	}
	for n := range 10 {
		w.ok("GET", "/api/v1/agents/"+create(), "", nil)
		w.ok("GET", "/api/v1/agents/"+create()+"/updates", "", nil)
		id := create()
		w.signal(id, "UserInput", fmt.Sprintf(`{"message":"hello","client_message_id":"m%d"}`, n))
		if _, err := w.Owner.Launch(t.Context(), chat.Trusted, chat.SessionID(id), chat.Launch{ID: "side", Instruction: "/stream 10 100"}); err != nil {
			t.Fatal(err)
		}
		w.ok("GET", "/api/v1/agents/"+id+"~side", "", nil)
	}
}

// A node that does not catch up says that it is behind, not that there is no such run.
func TestNodeThatCannotCatchUpDoesNotDenyRuns(t *testing.T) {
	t.Parallel()
	cluster := servertest.NewCluster()
	w := newServer(t, setup{cluster: cluster})
	cluster.CutLog(true)
	defer cluster.CutLog(false)
	sess, _, err := w.Owner.Create(t.Context(), chat.Trusted, chat.NewSession{Agent: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	for method, path := range map[string]string{"GET": "", "POST": "/signal/Stop"} {
		code, body, header := w.Call(method, "/api/v1/agents/"+string(sess.ID)+path, "")
		if code != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s, Retry-After: %q", method, code, body, header.Get("Retry-After"))
		}
	}
}

// An agent outside of this server posts a chunk and then a message with another text. This node has not heard of the chunk yet.
func TestNodeKnowsTheChunksThatItHasAccepted(t *testing.T) {
	t.Parallel()
	cluster := servertest.NewCluster()
	hold := make(chan struct{})
	cluster.Hold = func() { <-hold }
	w := newServer(t, setup{cluster: cluster})
	defer close(hold)
	var run struct{ ID string }
	w.ok("POST", "/api/v1/agents/record", `{"interaction":"outside"}`, &run)
	w.ok("POST", "/api/v1/agents/"+run.ID+"/updates", `{"type":12,"message":"Some thing","details":{"activity_id":"a2"}}`, nil)
	w.ok("POST", "/api/v1/agents/"+run.ID+"/updates", `{"type":7,"message":"Something else","details":{"activity_id":"a2"}}`, nil)
	texts := ""
	for _, m := range w.updates(run.ID, "") {
		if m.T == Answer {
			texts += m.M + "|"
		}
	}
	if want := "Some thing|Something else|"; texts != want {
		t.Errorf("the messages are %q, want %q", texts, want)
	}
}
