package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/internal/agentpool"
	"github.com/parley-hq/parley/internal/config"
)

func bare() *parley {
	log := slog.New(slog.DiscardHandler)
	p := &parley{cfg: &ServeCmd{Config: config.Name}, log: log, agents: agentpool.NewRegistry(agentpool.NewPool(agentpool.PoolOptions{}))}
	p.fleet = &fleet{p: p, log: log, seats: map[string]*seat{}}
	return p
}

func applied(t *testing.T, p *parley, text string) error {
	t.Helper()
	file, err := config.Parse("parley.yaml", []byte(text))
	if err != nil {
		return err
	}
	return p.fleet.apply(file)
}

// What init writes can be served, and so can every line of it that is commented
// out.
func TestTheExampleWorks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "parley.yaml")
	if code := run(t.Context(), []string{"init", path}, strings.NewReader(""), io.Discard, io.Discard); code != exitOK {
		t.Fatal(code)
	}
	if code := run(t.Context(), []string{"init", path}, strings.NewReader(""), io.Discard, io.Discard); code != exitError {
		t.Error("it replaces a file that is there")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SEARCH_TOKEN", "x")
	settings := strings.NewReplacer("\n    # ", "\n    ", "\n# demo", "\ndemo").Replace(string(b))
	settings = strings.Replace(settings, "    Built-in tools;", "    # Built-in tools;", 1)
	settings = strings.Replace(settings, "    workstreams, for", "    # workstreams, for", 1)
	settings = strings.Replace(settings, "    Tools of MCP", "    # Tools of MCP", 1)
	settings = strings.Replace(settings, "    How single", "    # How single", 1)
	for name, text := range map[string]string{"as it is": string(b), "everything": settings} {
		p := bare()
		if err := applied(t, p, text); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		if all := p.agents.List("default", nil); len(all) != 1 || all[0].Name != "helper" || len(all[0].Starters) != 1 {
			t.Errorf("%s: %+v", name, all)
		}
		p.fleet.close()
	}
	b, err = os.ReadFile("../../examples/parley.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p := bare()
	if err := applied(t, p, string(b)); err != nil {
		t.Error(err)
	}
	p.fleet.close()
}

func TestMistakesNameLineAndField(t *testing.T) {
	head := "agents:\n  - name: a\n    kind: model\n    model: m\n"
	for _, c := range []struct{ text, want string }{
		{"agents:\n  - name: a\n    kind: robot", `parley.yaml:3: agents[0].kind: "robot" is not one of `},
		{"agents:\n  - name: a\n    kind: model", "parley.yaml:2: agents[0].model: it is missing"},
		{head + "    provider: closedai", `parley.yaml:5: agents[0].provider: "closedai" is not one of openai`},
		{head + "    endpoint: localhost:11434", "parley.yaml:5: agents[0].endpoint: "},
		{head + "    key: sk-123", "parley.yaml:5: agents[0].key: there is no such field"},
		{head + "    key_env: A\n    key_file: b", "parley.yaml:6: agents[0].key_file: give key_env or key_file, not both"},
		{head + "    effort: huge", "parley.yaml:5: agents[0].effort: "},
		{head + "    window: -1", "parley.yaml:5: agents[0].window: it cannot be negative"},
		{head + "    silence: long", "parley.yaml:5: agents[0].silence: it should be a duration"},
		{head + "    headers: {X-Key: \"${PARLEY_TEST_NOT_SET}\"}", "parley.yaml:5: agents[0].headers.X-Key: the environment variable PARLEY_TEST_NOT_SET is not set"},
		{head + "    builtin: [ask_user, fly]", `parley.yaml:5: agents[0].builtin: "fly" is no built-in tool`},
		{head + "    mcp:\n      - name: a b\n        command: [x]", "parley.yaml:6: agents[0].mcp[0].name: "},
		{head + "    mcp:\n      - name: files", "parley.yaml:6: agents[0].mcp[0].command: give command (program and arguments) or url"},
		{head + "    mcp:\n      - name: files\n        command: [x]\n        url: http://x", "parley.yaml:8: agents[0].mcp[0].url: give command or url, not both"},
		{head + "    mcp:\n      - name: files\n        url: x", "parley.yaml:7: agents[0].mcp[0].url: "},
		{head + "    mcp:\n      - {name: f, command: [x]}\n      - {name: f, command: [y]}", `parley.yaml:7: agents[0].mcp[1].name: "f" is taken`},
		{head + "    mcp:\n      - name: files\n        command: [x]\n        approval: often", "parley.yaml:8: agents[0].mcp[0].approval: "},
		{head + "    tools:\n      - match: x\n        aproval: ask", "parley.yaml:7: agents[0].tools[0].aproval: there is no such field"},
		{head + "    tools:\n      - approval: ask", "parley.yaml:6: agents[0].tools[0].match: it is missing"},
		{head + "    tools:\n      - match: x\n        approval: ask\n        when:\n          - args: {path: x}\n            approval: seldom", "parley.yaml:10: agents[0].tools[0].when[0].approval: \"seldom\" is not one of"},
		{head + "    retries: -1", "parley.yaml:5: agents[0].retries: it cannot be negative"},
		{head + "    tool_timeout: -1s", "parley.yaml:5: agents[0].tool_timeout: it cannot be negative"},
		{head + "    approval_timeout: 1m\n    tool_timeout: 1x", "parley.yaml:6: agents[0].tool_timeout: it should be a duration"},
		{"agents:\n  - {name: a, kind: demo, model: x}", "parley.yaml:2: agents[0].model: there is no such field"},
	} {
		p := bare()
		if err := applied(t, p, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n  gives %v\n  not   %s", c.text, err, c.want)
		}
		if len(p.agents.List("default", nil)) != 0 {
			t.Errorf("%s\n  leaves agents behind", c.text)
		}
		p.fleet.close()
	}
}

// A file can be replaced: agents come, go, change and stay.
func TestApplyAgain(t *testing.T) {
	p := bare()
	defer p.fleet.close()
	agents := func(text string) string {
		t.Helper()
		if err := applied(t, p, text); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, a := range p.agents.List("default", nil) {
			names = append(names, a.Name)
		}
		return strings.Join(names, " ")
	}
	if got := agents("agents: [{name: a, kind: demo}, {name: b, kind: model, model: m, endpoint: 'http://127.0.0.1:1'}]"); got != "a b" {
		t.Error(got)
	}
	kept := p.fleet.seats["b"].who
	if got := agents("agents: [{name: b, kind: model, model: m, endpoint: 'http://127.0.0.1:1'}, {name: c, kind: demo}]"); got != "b c" {
		t.Error(got)
	}
	if p.fleet.seats["b"].who != kept {
		t.Error("an agent that is the same was made anew")
	}
	if got := agents("agents: [{name: b, kind: model, model: other, endpoint: 'http://127.0.0.1:1'}]"); got != "b" || p.fleet.seats["b"].who == kept {
		t.Error("an agent that changed was kept")
	}
	if err := applied(t, p, "agents: [{name: b, kind: robot}]"); err == nil || p.fleet.seats["b"].who == nil {
		t.Error("a mistake takes agents away")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.fleet.probe(ctx)
}

// mute is an agent that does not say how it is.
type mute struct{ agent.Agent }

func (mute) Probe(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// A reload does not wait until an agent that hangs has been given up.
func TestAReloadDoesNotWaitForAProbe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "parley.yaml")
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		p := bare()
		p.fleet.log = slog.New(slog.NewTextHandler(&said, nil))
		p.fleet.file = &config.File{Path: path} // which is not there
		p.fleet.seats["mute"] = &seat{who: &occupant{Agent: mute{}}}
		ctx, end := context.WithCancel(t.Context())
		reload, ended := make(chan struct{}, 1), make(chan struct{})
		go func() {
			defer close(ended)
			p.fleet.watch(ctx, reload)
		}()
		synctest.Wait()
		reload <- struct{}{}
		synctest.Wait()
		if !strings.Contains(said.String(), "the configuration was not taken") {
			t.Errorf("it waits, and has said %q", said.String())
		}
		end()
		<-ended
	})
}
