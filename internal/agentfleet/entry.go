package agentfleet

import (
	"context"
	"errors"
	"sync"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// The optional methods of an agent.
type (
	// closer is an agent that holds resources. Close is called when its last turn has ended.
	closer interface{ Close() }
	// healthy is an agent that reports the result of its last health check.
	healthy interface{ Health() error }
	// modelLister is an agent whose sessions may select a model.
	modelLister interface{ Models() []string }
	// commander is an agent that says which commands it understands.
	commander interface{ Commands() []chat.AgentCommand }
	// prober is an agent that can check its health.
	prober interface {
		Probe(ctx context.Context) error
	}
	// toolLister is an agent that lists its tools.
	toolLister interface {
		Tools(ctx context.Context) (tools []agent.ToolInfo, known bool)
	}
	// serverLister is an agent that lists its MCP servers.
	serverLister interface {
		Servers(ctx context.Context) []agent.ToolServer
	}
)

// entry is a name in the registry. The agent behind it may be replaced.
type entry struct {
	source string // the settings of the agent, as they are written in the configuration; guarded by Fleet.mu

	mu      sync.Mutex
	current *instance // nil when the fleet is closed
}

// instance is an agent and the turns that it answers.
type instance struct {
	agent.Agent
	turns sync.WaitGroup
}

// replace sets the agent of the entry and returns the instance before it.
func (e *entry) replace(a agent.Agent) *instance {
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.current
	e.current = nil
	if a != nil {
		e.current = &instance{Agent: a}
	}
	return old
}

// as calls f with the current agent if there is one and it has the methods of T. The agent is not closed before f returns.
func as[T any](e *entry, f func(a T)) {
	e.mu.Lock()
	i := e.current
	if i == nil {
		e.mu.Unlock()
		return
	}
	i.turns.Add(1)
	defer i.turns.Done()
	e.mu.Unlock()
	if a, ok := i.Agent.(T); ok {
		f(a)
	}
}

// Answer lets the current agent answer the turn. A replaced agent answers its turns to their end.
func (e *entry) Answer(ctx context.Context, turn *agent.Turn) error {
	err := errors.New("the server is ending")
	as(e, func(a agent.Agent) { err = a.Answer(ctx, turn) })
	return err
}

// Tools lists the tools of the current agent; known is false when it does not list them.
func (e *entry) Tools(ctx context.Context) (tools []agent.ToolInfo, known bool) {
	as(e, func(a toolLister) { tools, known = a.Tools(ctx) })
	return tools, known
}

// Servers lists the MCP servers of the current agent.
func (e *entry) Servers(ctx context.Context) (all []agent.ToolServer) {
	as(e, func(a serverLister) { all = a.Servers(ctx) })
	return all
}

// Health is the result of the current agent's last health check.
func (e *entry) Health() (err error) {
	as(e, func(a healthy) { err = a.Health() })
	return err
}

// Models lists the models of the current agent that a session may select.
func (e *entry) Models() (list []string) {
	as(e, func(a modelLister) { list = a.Models() })
	return list
}

// Commands lists the commands of the current agent.
func (e *entry) Commands() (list []chat.AgentCommand) {
	as(e, func(a commander) { list = a.Commands() })
	return list
}

// probe checks the health of the current agent.
func (e *entry) probe(ctx context.Context) (err error) {
	as(e, func(a prober) { err = a.Probe(ctx) })
	return err
}
