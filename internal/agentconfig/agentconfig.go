// Package agentconfig constructs agents from the entries of a configuration file (parley.yaml). Errors name the line and
// the field.
//
// A new kind of agent is a file with its fields and its constructor, and one line in kinds.
package agentconfig

import (
	_ "embed"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/internal/agents/demo"
	"github.com/parley-hq/parley/internal/agents/httpagent"
	"github.com/parley-hq/parley/internal/agents/model"
	"github.com/parley-hq/parley/internal/config"
)

// Example is a commented configuration file to start from.
//
//go:embed example.yaml
var Example []byte

// Env is what agents use of the server.
type Env struct {
	Files   model.FileFunc // reads the files of sessions
	Grants  model.Grants   // persistent grants of people
	Version string         // of the server; MCP servers receive it
	Logger  *slog.Logger
}

// kinds maps the kinds of agents to their constructors.
var kinds = map[string]func(*config.Agent, *Env) (agent.Agent, error){
	"demo":           newDemo,
	"model":          newModel,
	httpagent.OpenAI: newHTTPAgent,
	httpagent.NDJSON: newHTTPAgent,
	httpagent.NeMo:   newHTTPAgent,
	httpagent.AGUI:   newHTTPAgent,
}

// New constructs the agent of an entry. Depending on the kind, the agent has more methods than [agent.Agent]; package
// agentpool lists them.
func New(a *config.Agent, env *Env) (agent.Agent, error) {
	construct, ok := kinds[a.Kind]
	if !ok {
		return nil, a.Errorf("kind", "%q is not one of %s", a.Kind, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	return construct(a, env)
}

// newDemo constructs the demo agent under the name of the entry.
func newDemo(a *config.Agent, _ *Env) (agent.Agent, error) {
	return demo.Agent{}, a.Decode(&struct{}{})
}
