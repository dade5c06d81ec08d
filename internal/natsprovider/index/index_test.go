package index

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/natsprovider"
	"github.com/parley-hq/parley/internal/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is the provider on a store that can be opened again.
type fixture struct {
	t      *testing.T
	server *servertest.Server
	ops    map[string]natsprovider.Op
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t}
	f.open("")
	return f
}

func (f *fixture) open(dir string) {
	f.server = servertest.Open(f.t, servertest.Options{Dir: dir})
	f.server.Serve(nil)
	f.ops = map[string]natsprovider.Op{}
	for _, p := range []natsprovider.Provider{Vector(f.server.Sessions), Graph(f.server.Sessions)} {
		for name, op := range p.Ops {
			f.ops[p.Domain+"."+name] = op
		}
	}
}

func (f *fixture) restart() {
	f.server.Close()
	f.open(f.server.Dir)
}

// call does an operation for a session and returns the answer as JSON, or the code and text of an error.
func (f *fixture) call(id chat.SessionID, op, body string) string {
	got, err := f.ops[op](context.Background(), natsprovider.Call{Op: op, Session: id}, json.RawMessage(body))
	if err != nil {
		return string(chat.CodeOf(err)) + " " + err.Error()
	}
	b, err := json.Marshal(got)
	if err != nil {
		f.t.Error(err)
	}
	return string(b)
}

// want does an operation whose answer must contain a text.
func (f *fixture) want(op, body, want string) {
	f.t.Helper()
	if got := f.call("", op, body); !strings.Contains(got, want) {
		f.t.Fatalf("%s %s: %s", op, body, got)
	}
}

func TestVectorsAreSearchedByDirection(t *testing.T) {
	f := newFixture(t)
	f.want("vector.search", `{"namespace":"n","vector":[1,0]}`, `"matches":[]`)
	f.want("vector.upsert", `{"namespace":"n","id":"a","vector":[2,0],"metadata":{"lang":"en"}}`, `"ok":true`)
	f.want("vector.upsert", `{"namespace":"n","id":"b","vector":[0,5],"metadata":{"lang":"de"}}`, `"ok":true`)
	f.want("vector.upsert", `{"namespace":"n","id":"c","vector":[1,1],"metadata":{"lang":"de"}}`, `"ok":true`)
	f.want("vector.upsert", `{"namespace":"n","id":"d","vector":[1,1,1]}`, "conflict")
	f.want("vector.upsert", `{"namespace":"n","id":"","vector":[1]}`, "invalid")
	f.want("vector.upsert", `{"namespace":"","id":"x","vector":[1]}`, "invalid")
	f.want("vector.search", `{"namespace":"n","vector":[1]}`, "invalid")
	check := func() {
		t.Helper()
		f.want("vector.search", `{"namespace":"n","vector":[1,0.1],"top_k":2}`, `[{"id":"a"`)
		f.want("vector.search", `{"namespace":"n","vector":[1,0.1],"filter":{"lang":"de"},"top_k":1}`, `[{"id":"c"`)
		f.want("vector.search", `{"namespace":"other","vector":[1,0.1]}`, `"matches":[]`)
	}
	check()
	f.restart()
	check()
	f.want("vector.delete", `{"namespace":"n","id":"a"}`, `"deleted":true`)
	f.want("vector.delete", `{"namespace":"n","id":"a"}`, `"deleted":false`)
	f.restart()
	f.want("vector.search", `{"namespace":"n","vector":[1,0.1],"top_k":1}`, `[{"id":"c"`)
}

func TestGraphIsQueriedAlongEdges(t *testing.T) {
	f := newFixture(t)
	for _, r := range []string{`"person","data":{"id":"ada","name":"Ada","email":"ada@x.test"}`, `"person","data":{"id":"bob","name":"Bob"}`, `"city","data":{"id":"paris","country":"FR"}`} {
		f.want("graph.write", `{"handle":"g","record_type":`+r+`}`, `"ok":true`)
	}
	f.want("graph.write", `{"handle":"g","record_type":"person","data":{"id":"ada","age":36}}`, `"ok":true`)
	f.want("graph.relate", `{"handle":"g","from":"ada","edge":"lives_in","to":"paris"}`, `"ok":true`)
	f.want("graph.relate", `{"handle":"g","from":"ada","edge":"lives_in","to":"rome"}`, "not_found")
	f.want("graph.query", `{"handle":"g","query":""}`, "invalid")
	f.want("graph.query", `{"handle":"g","query":"person name=$x"}`, "invalid")
	for range 2 {
		f.want("graph.query", `{"handle":"g","query":"person name=$who age=36 ->lives_in","vars":{"who":"Ada"}}`, `"id":"paris"`)
		f.want("graph.query", `{"handle":"g","query":"city country=FR <-lives_in"}`, `"id":"ada"`)
		f.want("graph.query", `{"handle":"g","query":"person ->lives_in country=DE"}`, `"records":[]`)
		f.want("graph.resolve", `{"handle":"g","record_type":"person","name":" ADA "}`, `"id":"ada"`)
		f.want("graph.resolve", `{"handle":"g","record_type":"person","email":"nobody@x.test"}`, `"matches":[]`)
		f.want("graph.discover", `{"handle":"g"}`, `"record_types":{"city":1,"person":2}`)
		f.restart()
	}
}

// Each workspace has its own collections, and several sessions may write to one at once.
func TestCollectionsBelongToAWorkspace(t *testing.T) {
	f := newFixture(t)
	for _, ws := range []string{"one", "two"} {
		c := chat.Trusted
		c.Workspace = ws
		if _, _, err := f.server.Sessions.Create(t.Context(), c, chat.NewSession{ID: chat.SessionID("in-" + ws), Agent: chat.NoAgent}); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if got := f.call("in-one", "vector.upsert", fmt.Sprintf(`{"namespace":"n","id":"v%d","vector":[1,%d]}`, i, i)); !strings.Contains(got, "ok") {
				t.Error(got)
			}
			f.call("in-one", "vector.search", `{"namespace":"n","vector":[1,1]}`)
			f.call("in-one", "graph.write", `{"handle":"n","record_type":"t","data":{"id":"same","n":1}}`)
			f.call("in-one", "graph.query", `{"handle":"n","query":"*"}`)
		})
	}
	wg.Wait()
	if got := f.call("in-one", "vector.search", `{"namespace":"n","vector":[1,1],"top_k":1000}`); strings.Count(got, `"id"`) != 40 {
		t.Error(got)
	}
	if got := f.call("in-two", "vector.search", `{"namespace":"n","vector":[1,1]}`); !strings.Contains(got, `"matches":[]`) {
		t.Error(got)
	}
	if got := f.call("no-such", "vector.search", `{"namespace":"n","vector":[1,1]}`); !strings.Contains(got, "not_found") {
		t.Error(got)
	}
}
