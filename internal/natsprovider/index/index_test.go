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
	"github.com/parley-hq/parley/internal/hub"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/natsprovider"
	"github.com/parley-hq/parley/internal/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a store that can be opened again.
type world struct {
	t        *testing.T
	dir      string
	sessions *session.Sessions
	ops      map[string]natsprovider.Op
	down     func()
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir()}
	w.up()
	t.Cleanup(func() { w.down() })
	return w
}

func (w *world) up() {
	j, err := journal.Open(w.dir, journal.Options{Sync: journal.SyncNever, MinFree: -1, MinFreePercent: -1})
	if err != nil {
		w.t.Fatal(err)
	}
	h := hub.New(j, hub.Options{})
	w.sessions = session.New(j, h, session.Options{DefaultAgent: "none"})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = j.Run(ctx) })
	w.ops = map[string]natsprovider.Op{}
	for _, p := range []natsprovider.Provider{Vector(w.sessions), Graph(w.sessions)} {
		for name, op := range p.Ops {
			w.ops[p.Domain+"."+name] = op
		}
	}
	w.down = func() {
		cancel()
		wg.Wait()
		h.Close(nil)
		if err := j.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// ask does an operation on behalf of a session; the answer is text, or the code of
// an error.
func (w *world) ask(id chat.SessionID, op, body string) string {
	got, err := w.ops[op](context.Background(), natsprovider.Call{Op: op, Session: id}, json.RawMessage(body))
	if err != nil {
		return string(chat.CodeOf(err)) + " " + err.Error()
	}
	b, err := json.Marshal(got)
	if err != nil {
		w.t.Error(err)
	}
	return string(b)
}

func (w *world) want(op, body, want string) {
	w.t.Helper()
	if got := w.ask("", op, body); !strings.Contains(got, want) {
		w.t.Fatalf("%s %s: %s", op, body, got)
	}
}

func TestVector(t *testing.T) {
	w := newWorld(t)
	w.want("vector.search", `{"namespace":"n","vector":[1,0]}`, `"matches":[]`)
	w.want("vector.upsert", `{"namespace":"n","id":"a","vector":[2,0],"metadata":{"lang":"en"}}`, `"ok":true`)
	w.want("vector.upsert", `{"namespace":"n","id":"b","vector":[0,5],"metadata":{"lang":"de"}}`, `"ok":true`)
	w.want("vector.upsert", `{"namespace":"n","id":"c","vector":[1,1],"metadata":{"lang":"de"}}`, `"ok":true`)
	w.want("vector.upsert", `{"namespace":"n","id":"d","vector":[1,1,1]}`, "conflict")
	w.want("vector.upsert", `{"namespace":"n","id":"","vector":[1]}`, "invalid")
	w.want("vector.upsert", `{"namespace":"","id":"x","vector":[1]}`, "invalid")
	w.want("vector.search", `{"namespace":"n","vector":[1]}`, "invalid")
	check := func() {
		t.Helper()
		w.want("vector.search", `{"namespace":"n","vector":[1,0.1],"top_k":2}`, `[{"id":"a"`)
		w.want("vector.search", `{"namespace":"n","vector":[1,0.1],"filter":{"lang":"de"},"top_k":1}`, `[{"id":"c"`)
		w.want("vector.search", `{"namespace":"other","vector":[1,0.1]}`, `"matches":[]`)
	}
	check()
	w.down()
	w.up()
	check()
	w.want("vector.delete", `{"namespace":"n","id":"a"}`, `"deleted":true`)
	w.want("vector.delete", `{"namespace":"n","id":"a"}`, `"deleted":false`)
	w.down()
	w.up()
	w.want("vector.search", `{"namespace":"n","vector":[1,0.1],"top_k":1}`, `[{"id":"c"`)
}

func TestGraph(t *testing.T) {
	w := newWorld(t)
	for _, r := range []string{`"person","data":{"id":"ada","name":"Ada","email":"ada@x.test"}`, `"person","data":{"id":"bob","name":"Bob"}`, `"city","data":{"id":"paris","country":"FR"}`} {
		w.want("graph.write", `{"handle":"g","record_type":`+r+`}`, `"ok":true`)
	}
	w.want("graph.write", `{"handle":"g","record_type":"person","data":{"id":"ada","age":36}}`, `"ok":true`)
	w.want("graph.relate", `{"handle":"g","from":"ada","edge":"lives_in","to":"paris"}`, `"ok":true`)
	w.want("graph.relate", `{"handle":"g","from":"ada","edge":"lives_in","to":"rome"}`, "not_found")
	w.want("graph.query", `{"handle":"g","query":""}`, "invalid")
	w.want("graph.query", `{"handle":"g","query":"person name=$x"}`, "invalid")
	for range 2 {
		w.want("graph.query", `{"handle":"g","query":"person name=$who age=36 ->lives_in","vars":{"who":"Ada"}}`, `"id":"paris"`)
		w.want("graph.query", `{"handle":"g","query":"city country=FR <-lives_in"}`, `"id":"ada"`)
		w.want("graph.query", `{"handle":"g","query":"person ->lives_in country=DE"}`, `"records":[]`)
		w.want("graph.resolve", `{"handle":"g","record_type":"person","name":" ADA "}`, `"id":"ada"`)
		w.want("graph.resolve", `{"handle":"g","record_type":"person","email":"nobody@x.test"}`, `"matches":[]`)
		w.want("graph.discover", `{"handle":"g"}`, `"record_types":{"city":1,"person":2}`)
		w.down()
		w.up()
	}
}

// Workspaces do not see each other's collections, and many may write at once.
func TestIndexIsApartAndShared(t *testing.T) {
	w := newWorld(t)
	for _, ws := range []string{"one", "two"} {
		c := chat.Trusted
		c.Workspace = ws
		if _, _, err := w.sessions.Create(t.Context(), c, chat.NewSession{ID: chat.SessionID("in-" + ws), Agent: chat.NoAgent}); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if got := w.ask("in-one", "vector.upsert", fmt.Sprintf(`{"namespace":"n","id":"v%d","vector":[1,%d]}`, i, i)); !strings.Contains(got, "ok") {
				t.Error(got)
			}
			w.ask("in-one", "vector.search", `{"namespace":"n","vector":[1,1]}`)
			w.ask("in-one", "graph.write", `{"handle":"n","record_type":"t","data":{"id":"same","n":1}}`)
			w.ask("in-one", "graph.query", `{"handle":"n","query":"*"}`)
		})
	}
	wg.Wait()
	if got := w.ask("in-one", "vector.search", `{"namespace":"n","vector":[1,1],"top_k":1000}`); strings.Count(got, `"id"`) != 40 {
		t.Error(got)
	}
	if got := w.ask("in-two", "vector.search", `{"namespace":"n","vector":[1,1]}`); !strings.Contains(got, `"matches":[]`) {
		t.Error(got)
	}
	if got := w.ask("no-such", "vector.search", `{"namespace":"n","vector":[1,1]}`); !strings.Contains(got, "not_found") {
		t.Error(got)
	}
}
