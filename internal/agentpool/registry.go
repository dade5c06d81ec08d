package agentpool

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// The optional methods of an agent in the process.
type (
	// closer holds resources. Close is called when its last turn has ended.
	closer interface{ Close() }
	// healthy reports the result of its last health check.
	healthy interface{ Health() error }
	// modelLister has sessions that may select a model.
	modelLister interface{ Models() []string }
	// commander says which commands it understands; a worker may do so too.
	commander interface{ Commands() []chat.AgentCommand }
	// toolLister lists its tools; known is false if it cannot.
	toolLister interface {
		Tools(ctx context.Context) (tools []agent.ToolInfo, known bool)
	}
	// serverLister lists its MCP servers.
	serverLister interface {
		Servers(ctx context.Context) []agent.ToolServer
	}
)

// Registry has the agents in the process by name. Every other name belongs to workers. An agent that is replaced or removed
// answers its turns to their end, and is closed then.
type Registry struct {
	workers *Pool
	closing sync.WaitGroup // agents that are being closed

	mu     sync.RWMutex
	agents map[string]*builtin
}

// builtin is an agent in the process.
type builtin struct {
	agent.Agent
	info agent.Info
	uses sync.WaitGroup // turns and other calls; added to under Registry.mu while it is in the registry
}

// NewRegistry returns an empty registry.
func NewRegistry(workers *Pool) *Registry {
	return &Registry{agents: map[string]*builtin{}, workers: workers}
}

// Add adds an agent, in the place of the one that has the name. It gets the turns that wait for a worker of its name.
func (r *Registry) Add(info agent.Info, a agent.Agent) {
	r.replace(info.Name, &builtin{Agent: a, info: info})
	r.workers.wake(info.Name)
}

// Remove removes an agent; its name belongs to workers again.
func (r *Registry) Remove(name string) { r.replace(name, nil) }

func (r *Registry) replace(name string, b *builtin) {
	r.mu.Lock()
	old := r.agents[name]
	if r.agents[name] = b; b == nil {
		delete(r.agents, name)
	}
	r.mu.Unlock()
	if old != nil {
		r.retire(old)
	}
}

// Discard closes an agent that was not added.
func (r *Registry) Discard(a agent.Agent) { r.retire(&builtin{Agent: a}) }

// retire closes an agent that is not in the registry when its last turn has ended.
func (r *Registry) retire(b *builtin) {
	r.closing.Go(func() {
		b.uses.Wait()
		if c, ok := b.Agent.(closer); ok {
			c.Close()
		}
	})
}

// Close removes all agents and returns when they are closed.
func (r *Registry) Close() {
	for _, name := range r.names() {
		r.Remove(name)
	}
	r.closing.Wait()
}

func (r *Registry) names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Keys(r.agents))
}

// Use calls f with the agent of a name and reports whether there is one. The agent is not closed before f returns.
func (r *Registry) Use(name string, f func(agent.Agent)) bool {
	r.mu.RLock()
	b := r.agents[name]
	if b != nil {
		b.uses.Add(1)
		defer b.uses.Done()
	}
	r.mu.RUnlock()
	if b != nil {
		f(b.Agent)
	}
	return b != nil
}

// Builtin reports whether the name is answered in the process.
func (r *Registry) Builtin(name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.agents[name] != nil
}

// answer has a turn answered by the agent of a name, or by a worker. If no worker has the turn, an agent that is added
// meanwhile gets it.
func (r *Registry) answer(ctx context.Context, name string, t *turn, log *slog.Logger) error {
	for {
		var err error
		if r.Use(name, func(a agent.Agent) { err = agent.Run(ctx, a, t.forAgent(), log) }) {
			return err
		}
		err = r.workers.answer(ctx, groupKey{t.workspace, name}, t, func() bool { return r.Builtin(name) })
		if !errors.Is(err, errTaken) {
			return err
		}
	}
}

// List describes the agents that a workspace can use, by name.
func (r *Registry) List(workspace string, running map[string]int) []agent.Info {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []agent.Info
	for _, b := range r.agents {
		info := b.info
		info.Healthy = true
		if h, ok := b.Agent.(healthy); ok {
			if err := h.Health(); err != nil {
				info.Healthy, info.Problem = false, err.Error()
			}
		}
		if c, ok := b.Agent.(commander); ok && len(info.Commands) == 0 {
			info.Commands = c.Commands()
		}
		if m, ok := b.Agent.(modelLister); ok {
			info.Models = m.Models()
		}
		all = append(all, info)
	}
	for _, info := range r.workers.list(workspace) {
		if r.agents[info.Name] == nil || info.Workers > 0 { // a turn may wait from before the name was taken
			all = append(all, info)
		}
	}
	for i := range all {
		all[i].Running = running[all[i].Name]
	}
	slices.SortFunc(all, func(a, b agent.Info) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Tools lists the tools that an agent can use; known is false if the agent does not list them.
func (r *Registry) Tools(ctx context.Context, name string) (tools []agent.ToolInfo, known bool) {
	r.Use(name, func(a agent.Agent) {
		if l, ok := a.(toolLister); ok {
			tools, known = l.Tools(ctx)
		}
	})
	return tools, known
}

// Servers lists the MCP servers of all agents, by agent and name. It connects to those that were not used yet.
func (r *Registry) Servers(ctx context.Context) []agent.ToolServer {
	var mu sync.Mutex
	var all []agent.ToolServer
	var wg sync.WaitGroup
	for _, name := range r.names() {
		wg.Go(func() {
			var list []agent.ToolServer
			r.Use(name, func(a agent.Agent) {
				if l, ok := a.(serverLister); ok {
					list = l.Servers(ctx)
				}
			})
			mu.Lock()
			defer mu.Unlock()
			for _, s := range list {
				s.Agent = name
				all = append(all, s)
			}
		})
	}
	wg.Wait()
	slices.SortFunc(all, func(a, b agent.ToolServer) int {
		return cmp.Or(strings.Compare(a.Agent, b.Agent), strings.Compare(a.Name, b.Name))
	})
	return all
}
