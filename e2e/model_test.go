// Tests of agents with a model: kills, configuration, reload and permissions.

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/freeport"
	"github.com/parley-hq/parley/internal/modeltest"
)

// toolServer is an MCP server that counts the calls of its tools.
type toolServer struct {
	first func(tool string) // called when a tool runs for the first time; may be nil

	mu   sync.Mutex
	runs map[string]int
}

type countArgs struct {
	N int `json:"n"`
}

func (b *toolServer) serve(t *testing.T) string {
	b.runs = map[string]int{}
	s := mcp.NewServer(&mcp.Implementation{Name: "toolbox", Version: "1"}, nil)
	for _, name := range []string{"once", "often"} {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: "Counts."}, func(_ context.Context, _ *mcp.CallToolRequest, in countArgs) (*mcp.CallToolResult, any, error) {
			key := fmt.Sprint(name, " ", in.N)
			b.mu.Lock()
			b.runs[key]++
			runs := b.runs[key]
			b.mu.Unlock()
			if runs == 1 && b.first != nil {
				b.first(key)
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint("counted ", in.N)}}}, nil, nil
		})
	}
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		for session := range s.Sessions() { // of clients that were killed
			_ = session.Close()
		}
	})
	return server.URL
}

// startModel starts a model server that answers by a script.
func startModel(t *testing.T, script modeltest.Script) (*modeltest.Server, string) {
	m := &modeltest.Server{Script: script}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	return m, server.URL + "/v1"
}

// writeConfig writes a configuration and returns its path.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const toolSteps = 10

// killRequests lets the model and the tools request a kill of the server.
type killRequests struct{ asked chan chan struct{} }

// kill returns when the server was killed.
func (r *killRequests) kill() {
	dead := make(chan struct{})
	r.asked <- dead
	<-dead
}

// tenSteps calls a tool in each of ten steps, then answers. In each step the server is
// killed when it requests an answer, and again in the middle of the model's answer.
func (r *killRequests) tenSteps() modeltest.Script {
	var mu sync.Mutex
	asked := map[int]int{}
	return func(q modeltest.Request) modeltest.Reply {
		n := len(q.Results())
		mu.Lock()
		asked[n]++
		try := asked[n]
		mu.Unlock()
		reply := modeltest.Reply{Text: "All ten steps are done.", Input: 3, Output: 2}
		if n < toolSteps {
			name := [...]string{"kit__once", "kit__often"}[n%2]
			reply = modeltest.Reply{Thinking: fmt.Sprintf("Number %d now.", n), Text: fmt.Sprintf("Step %d is next.", n), Input: 3, Output: 2,
				Calls: []modeltest.Call{{ID: "call_0", Name: name, Args: fmt.Sprintf(`{"n":%d}`, n)}}}
		}
		switch try {
		case 1:
			reply.Hang, reply.Hung = true, r.kill
		case 2:
			reply.HangAt, reply.Hung = 2, r.kill
		}
		return reply
	}
}

// TestModelTurnSurvivesKillsAtEveryStep kills the server three times in each step of a
// turn with ten tool calls: at the request to the model, during the answer, and while the
// tool runs. Each tool runs once, repeatable ones twice, and each text is stored once.
func TestModelTurnSurvivesKillsAtEveryStep(t *testing.T) {
	r := &killRequests{asked: make(chan chan struct{})}
	box := toolServer{first: func(string) { r.kill() }}
	kit := box.serve(t)
	_, model := startModel(t, r.tenSteps())
	config := writeConfig(t, `
agents:
  - name: helper
    kind: model
    endpoint: `+model+`
    model: scripted
    mcp: [{name: kit, url: "`+kit+`", approval: never}]
    tools: [{match: kit__often, repeatable: true}]
`)
	data, addr := t.TempDir(), freeport.Addr(t)
	p := serveAt(t, addr, data, "--config", config)
	c := p.connect("")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Minute, errors.New("the whole test took too long"))
	defer cancel()
	p.post("/parley/v1/sessions", `{"id":"loop"}`)
	reader := newReader("loop")
	var watching sync.WaitGroup
	watch, leave := context.WithCancel(ctx)
	watching.Go(func() { _ = reader.watchClient(watch, c, "loop") })
	defer watching.Wait()
	defer leave()
	if _, err := c.Say(ctx, "loop", "go"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	watching.Go(func() {
		_, err := reader.until(ctx, ofType("turn.completed"))
		ended <- err
	})
	kills := 0
	for over := false; !over; {
		select {
		case dead := <-r.asked:
			p.kill()
			close(dead)
			kills++
			p = serveAt(t, addr, data, "--config", config)
		case err := <-ended:
			if over = true; err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := 3*toolSteps + 2; kills != want {
		t.Errorf("%d kills, not %d", kills, want)
	}
	reader.mu.Lock()
	defer reader.mu.Unlock()
	texts, thoughts, unknown := map[string]int{}, map[string]int{}, 0
	for _, e := range reader.events {
		switch b := e.Body.(type) {
		case chat.AgentText:
			texts[b.Text]++
		case chat.AgentThinking:
			thoughts[b.Text]++
		case chat.AgentToolError:
			if unknown++; b.Code != chat.UnknownOutcome || b.Tool != "kit__once" {
				t.Errorf("%s: %s: %s", b.Tool, b.Code, b.Error)
			}
		case chat.TurnCompleted:
			if b.Outcome != chat.Done {
				t.Errorf("the turn ended as %s: %s", b.Outcome, b.Error)
			}
		}
	}
	box.mu.Lock()
	defer box.mu.Unlock()
	for n := range toolSteps {
		if texts[fmt.Sprintf("Step %d is next.", n)] != 1 || thoughts[fmt.Sprintf("Number %d now.", n)] != 1 {
			t.Errorf("step %d is not stored once", n)
		}
		if once := box.runs[fmt.Sprint("once ", n)]; n%2 == 0 && once != 1 {
			t.Errorf("tool %d, which may not be repeated, ran %d times", n, once)
		}
		if often := box.runs[fmt.Sprint("often ", n)]; n%2 == 1 && often != 2 {
			t.Errorf("tool %d, which may be repeated and was killed once, ran %d times", n, often)
		}
	}
	if texts["All ten steps are done."] != 1 || len(texts) != toolSteps+1 || unknown != toolSteps/2 {
		t.Errorf("it said %v, with %d unknown outcomes", texts, unknown)
	}
	for _, f := range reader.faults {
		t.Error(f)
	}
}

// startModelWithTool starts a tool server and a model that calls the tool once and answers with its result.
func startModelWithTool(t *testing.T) (box *toolServer, kit, model string) {
	t.Helper()
	box = &toolServer{}
	_, model = startModel(t, func(r modeltest.Request) modeltest.Reply {
		if len(r.Results()) > 0 {
			return modeltest.Reply{Text: "It says: " + r.Results()[0].Text}
		}
		return modeltest.Reply{Calls: []modeltest.Call{{ID: "c", Name: "kit__once", Args: `{"n":5}`}}}
	})
	return box, box.serve(t), model
}

// TestShortConfigurationOfAModel: eight lines of YAML configure a model with tools and
// approvals.
func TestShortConfigurationOfAModel(t *testing.T) {
	_, kit, model := startModelWithTool(t)
	config := writeConfig(t, `agents:
  - name: helper
    kind: model
    endpoint: `+model+`
    model: scripted
    mcp:
      - name: kit
        url: `+kit+`
`)
	p := serve(t, t.TempDir(), "--config", config)
	p.post("/parley/v1/sessions", `{"id":"talk"}`)
	r, ctx := follow(t, p, "talk")
	p.post("/parley/v1/sessions/talk/events", `{"type":"user.message","payload":{"text":"count"}}`)
	e, err := r.until(ctx, ofType("agent.approval_request"))
	if err != nil {
		t.Fatal(err)
	}
	q := e.Body.(chat.AgentApprovalRequest)
	p.post("/parley/v1/sessions/talk/prompts/"+q.RequestID+"/answer", `{"decisions":[{"call_id":"`+q.Calls[0].CallID+`","approve":true}]}`)
	if _, err := r.until(ctx, ofType("turn.completed")); err != nil {
		t.Fatal(err)
	}
	text, err := r.until(ctx, func(e chat.Event) bool { b, ok := e.Body.(chat.AgentText); return ok && b.Final })
	if err != nil || !strings.Contains(text.Body.(chat.AgentText).Text, "counted 5") {
		t.Errorf("it said %s", text.Payload)
	}
	code, out, stderr := command(t, "agents", "--url", p.url)
	if code != 0 || !strings.Contains(out, "helper") || !strings.Contains(out, "model") || !strings.Contains(out, " healthy") {
		t.Errorf("agents: %d\n%s%s", code, out, stderr)
	}
}

// TestReloadKeepsRunningTurns: SIGHUP replaces the agents while a running turn continues
// with the old one; an invalid file changes nothing.
func TestReloadKeepsRunningTurns(t *testing.T) {
	first, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	_, model := startModel(t, func(r modeltest.Request) modeltest.Reply {
		if r.Model == "old" {
			return modeltest.Reply{Text: "The old one answers.", Wait: func() { once.Do(func() { close(first) }); <-release }}
		}
		return modeltest.Reply{Text: "The " + r.Model + " one answers."}
	})
	text := func(name string) string {
		return "agents:\n  - name: helper\n    kind: model\n    endpoint: " + model + "\n    model: " + name + "\n"
	}
	config := writeConfig(t, text("old"))
	p := serve(t, t.TempDir(), "--config", config)
	p.post("/parley/v1/sessions", `{"id":"one"}`)
	r, ctx := follow(t, p, "one")
	p.post("/parley/v1/sessions/one/events", `{"type":"user.message","payload":{"text":"hello"}}`)
	<-first
	hup := func(content, says string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for late := time.After(30 * time.Second); !strings.Contains(p.err.String(), says); {
			select {
			case <-p.err.changed:
			case <-late:
				t.Fatalf("the log does not contain %q", says)
			}
		}
	}
	hup(text("new")+"    colour: blue\n", "parley.yaml:6: agents[0].colour: there is no such field")
	hup(text("new"), "was read again")
	p.post("/parley/v1/sessions", `{"id":"two"}`)
	other, _ := follow(t, p, "two")
	p.post("/parley/v1/sessions/two/events", `{"type":"user.message","payload":{"text":"hello"}}`)
	if e, err := other.until(ctx, ofType("agent.text")); err != nil || e.Body.(chat.AgentText).Text != "The new one answers." {
		t.Errorf("%v: %s", err, e.Payload)
	}
	// The default agent changes too, and the demo agent can be removed.
	hup("demo: false\n"+text("new")+"  - {name: other, kind: model, endpoint: "+model+", model: third, default: true}\n", "default=other")
	p.post("/parley/v1/sessions", `{"id":"three"}`)
	third, _ := follow(t, p, "three")
	p.post("/parley/v1/sessions/three/events", `{"type":"user.message","payload":{"text":"hello"}}`)
	if e, err := third.until(ctx, ofType("agent.text")); err != nil || e.Body.(chat.AgentText).Text != "The third one answers." {
		t.Errorf("%v: %s", err, e.Payload)
	}
	if agents := p.get("/parley/v1/agents"); strings.Contains(agents, `"demo"`) || !strings.Contains(agents, `"other"`) {
		t.Error(agents)
	}
	close(release)
	if e, err := r.until(ctx, ofType("agent.text")); err != nil || e.Body.(chat.AgentText).Text != "The old one answers." {
		t.Errorf("%v: %s", err, e.Payload)
	}
	if e, err := r.until(ctx, ofType("turn.completed")); err != nil || e.Body.(chat.TurnCompleted).Outcome != chat.Done {
		t.Errorf("%v: %s", err, e.Payload)
	}
	if code := p.terminate(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
}

// TestLastingPermissionSurvivesRestart: a permission with duration always holds in the
// person's next session, after a restart.
func TestLastingPermissionSurvivesRestart(t *testing.T) {
	box, kit, model := startModelWithTool(t)
	config := writeConfig(t, `agents:
  - name: helper
    kind: model
    endpoint: `+model+`
    model: scripted
    mcp: [{name: kit, url: "`+kit+`", approval: never}]
    tools: [{match: "kit__*", permission: [kit.count]}]
`)
	data := t.TempDir()
	for i, id := range []chat.SessionID{"first", "second"} {
		p := serve(t, data, "--config", config)
		p.post("/parley/v1/sessions", `{"id":"`+string(id)+`"}`)
		r, ctx := follow(t, p, id)
		p.post("/parley/v1/sessions/"+string(id)+"/events", `{"type":"user.message","payload":{"text":"count"}}`)
		if i == 0 {
			e, err := r.until(ctx, ofType("agent.permission_request"))
			if err != nil {
				t.Fatal(err)
			}
			q := e.Body.(chat.AgentPermissionRequest)
			if len(q.Scopes) != 1 || q.Scopes[0] != "kit.count" || q.Tool != "kit__once" {
				t.Errorf("asked for %s", e.Payload)
			}
			p.post("/parley/v1/sessions/first/prompts/"+q.RequestID+"/answer", `{"granted":["kit.count"],"duration":"always"}`)
		}
		if _, err := r.until(ctx, ofType("turn.completed")); err != nil {
			t.Fatal(err)
		}
		r.mu.Lock()
		asked := 0
		for _, e := range r.events {
			if e.Type == "agent.permission_request" {
				asked++
			}
		}
		r.mu.Unlock()
		if asked != 1-i {
			t.Errorf("%s: asked %d times", id, asked)
		}
		if code := p.terminate(); code != 0 {
			t.Errorf("it ended with %d", code)
		}
	}
	if box.runs["once 5"] != 2 {
		t.Errorf("ran %v", box.runs)
	}
}
