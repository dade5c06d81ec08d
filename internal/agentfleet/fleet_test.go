package agentfleet

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/internal/agentconfig"
	"github.com/parley-hq/parley/internal/agentpool"
	"github.com/parley-hq/parley/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a fleet with a registry of its own.
type fixture struct {
	*Fleet
	t            *testing.T
	registry     *agentpool.Registry
	defaultAgent string
}

func newFixture(t *testing.T) *fixture {
	fx := &fixture{t: t, registry: agentpool.NewRegistry(agentpool.NewPool(agentpool.PoolOptions{}))}
	env := &agentconfig.Env{Logger: slog.New(slog.DiscardHandler)}
	fx.Fleet = New(Options{
		Registry: fx.registry, New: func(a *config.Agent) (agent.Agent, error) { return agentconfig.New(a, env) }, Load: config.Load,
		SetDefault: func(name string) { fx.defaultAgent = name }, Logger: env.Logger,
	})
	return fx
}

func (fx *fixture) start(text string) error {
	fx.t.Helper()
	file, err := config.Parse("parley.yaml", []byte(text))
	if err != nil {
		fx.t.Fatal(err)
	}
	return fx.Start(file)
}

// agent returns the agent of a name.
func (fx *fixture) agent(name string) (found agent.Agent) {
	fx.registry.Use(name, func(a agent.Agent) { found = a })
	return found
}

// agents lists the registered agents, the default one with a star.
func (fx *fixture) agents() string {
	var names []string
	for _, a := range fx.registry.List("default", nil) {
		if a.Name == fx.defaultAgent {
			a.Name += "*"
		}
		names = append(names, a.Name)
	}
	return strings.Join(names, " ")
}

func TestReloadAddsRemovesReplacesAndKeepsAgents(t *testing.T) {
	fx := newFixture(t)
	defer fx.registry.Close()
	check := func(text, want string) {
		t.Helper()
		if err := fx.start(text); err != nil || fx.agents() != want {
			t.Errorf("%q, %v; want %q", fx.agents(), err, want)
		}
	}
	const b = "{name: b, kind: model, model: m, endpoint: 'http://127.0.0.1:1'}"
	check("agents: [{name: a, kind: demo}, "+b+"]\ndemo: false", "a* b")
	kept := fx.agent("b")
	check("agents: ["+b+", {name: c, kind: demo}]\ndemo: true", "b* c demo")
	if fx.agent("b") != kept {
		t.Error("an agent whose settings did not change was replaced")
	}
	check("agents: [{name: b, kind: model, model: other, endpoint: 'http://127.0.0.1:1'}]\ndemo: false", "b*")
	if fx.agent("b") == kept {
		t.Error("an agent whose settings changed was kept")
	}
	if err := fx.start("agents: [{name: c, kind: demo}, {name: b, kind: robot}]"); err == nil || fx.agents() != "b*" || fx.agent("b") == nil {
		t.Errorf("a file with an error changed the agents to %q, %v", fx.agents(), err)
	}
	check("agents: []", "demo*")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fx.probe(ctx)
}

func TestFleetWithoutAFileHasTheDemoAgent(t *testing.T) {
	fx := newFixture(t)
	defer fx.registry.Close()
	if err := fx.Start(nil); err != nil || fx.agents() != "demo*" || fx.Configured() {
		t.Errorf("%q, %v", fx.agents(), err)
	}
	if err := fx.reload(); err == nil || !strings.Contains(err.Error(), "--config") {
		t.Errorf("reload without a file: %v", err)
	}
}

// blockedProbe is an agent whose health check does not return.
type blockedProbe struct{ agent.Agent }

func (blockedProbe) Health() error { return nil }

func (blockedProbe) Probe(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestReloadDoesNotWaitForAHealthCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "parley.yaml")
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		fx := newFixture(t)
		fx.opt.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		fx.file = &config.File{Path: path} // which does not exist
		fx.sources["blocked"] = ""
		fx.registry.Add(agent.Info{Name: "blocked"}, blockedProbe{})
		ctx, end := context.WithCancel(t.Context())
		reload, ended := make(chan struct{}, 1), make(chan struct{})
		go func() {
			defer close(ended)
			fx.Run(ctx, reload)
		}()
		synctest.Wait()
		reload <- struct{}{}
		synctest.Wait()
		if !strings.Contains(logged.String(), "the configuration was not loaded") {
			t.Errorf("the reload waits; logged: %q", logged.String())
		}
		end()
		<-ended
	})
}
