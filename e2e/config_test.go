// Tests of errors in the configuration file.

package e2e

import (
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/modeltest"
)

// TestInvalidConfigurationIsReported: with an error in the configuration the server does
// not start, and the message names the place.
func TestInvalidConfigurationIsReported(t *testing.T) {
	config := writeConfig(t, "agents:\n  - name: helper\n    kind: model\n    modell: x\n  - name: other\n    kind: ag-ui\n")
	code, out, stderr := command(t, "serve", "--addr", "127.0.0.1:0", "--data", t.TempDir(), "--config", config)
	lines := strings.Split(stderr, "\n")
	if code != 1 || out != "" || len(lines) != 3 || !strings.HasSuffix(lines[0], "parley.yaml:4: agents[0].modell: there is no such field") || !strings.Contains(lines[1], "parley.yaml:5: agents[1].url: ") {
		t.Errorf("%d\n%s%s", code, out, stderr)
	}
	code, _, stderr = command(t, "serve", "--addr", "127.0.0.1:0", "--data", t.TempDir(), "--config", config+".not")
	if code != 1 || !strings.Contains(stderr, "the configuration cannot be read") {
		t.Errorf("%d\n%s", code, stderr)
	}
}

// TestMissingKeyDisablesOneAgent: when an agent's key is missing, the list of agents and
// the turns of that agent say so, and other agents work.
func TestMissingKeyDisablesOneAgent(t *testing.T) {
	_, model := startModel(t, func(modeltest.Request) modeltest.Reply { return modeltest.Reply{Text: "I need no key."} })
	config := writeConfig(t, `agents:
  - name: locked
    kind: model
    endpoint: `+model+`
    model: scripted
    key_env: PARLEY_TEST_NO_SUCH_KEY
  - {name: open, kind: model, endpoint: "`+model+`", model: scripted}
`)
	p := serve(t, t.TempDir(), "--config", config)
	p.post("/parley/v1/sessions", `{"id":"one"}`)
	p.post("/parley/v1/sessions", `{"id":"two","agent":"open"}`)
	one, ctx := follow(t, p, "one")
	two, _ := follow(t, p, "two")
	for _, id := range []string{"one", "two"} {
		p.post("/parley/v1/sessions/"+id+"/events", `{"type":"user.message","payload":{"text":"hello"}}`)
	}
	e, err := one.until(ctx, ofType("agent.error"))
	if err != nil {
		t.Fatal(err)
	}
	if b := e.Body.(chat.AgentError); b.Code != "no_key" || !strings.Contains(b.Message, "parley.yaml:6: agents[0].key_env: the environment variable PARLEY_TEST_NO_SUCH_KEY") {
		t.Errorf("%s", e.Payload)
	}
	if e, err := one.until(ctx, ofType("turn.completed")); err != nil || e.Body.(chat.TurnCompleted).Outcome != chat.Failed {
		t.Errorf("%v: %s", err, e.Payload)
	}
	if e, err := two.until(ctx, ofType("turn.completed")); err != nil || e.Body.(chat.TurnCompleted).Outcome != chat.Done {
		t.Errorf("%v: %s", err, e.Payload)
	}
	agents, err := p.connect("").Agents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range agents { // the first agent of the file is the default
		if a.Default != (a.Name == "locked") {
			t.Errorf("%s: default is %v", a.Name, a.Default)
		}
	}
	code, out, stderr := command(t, "agents", "--url", p.url)
	if code != 0 || !strings.Contains(out, "unhealthy: the model's key is missing") {
		t.Errorf("%d\n%s%s", code, out, stderr)
	}
}
