package agentpool

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/parley-hq/parley/agent"
)

// Registry has the agents in the process by name. Every other name belongs to workers.
type Registry struct {
	mu      sync.RWMutex
	agents  map[string]agent.Agent
	infos   map[string]agent.Info
	workers *Pool
}

// NewRegistry returns an empty registry.
func NewRegistry(workers *Pool) *Registry {
	return &Registry{agents: map[string]agent.Agent{}, infos: map[string]agent.Info{}, workers: workers}
}

// Add adds an agent. It gets the turns that wait for a worker of its name.
func (r *Registry) Add(info agent.Info, a agent.Agent) {
	r.mu.Lock()
	r.agents[info.Name], r.infos[info.Name] = a, info
	r.mu.Unlock()
	r.workers.wake(info.Name)
}

// Remove removes an agent; its name belongs to workers again. Its running turns continue.
func (r *Registry) Remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.agents, name)
	delete(r.infos, name)
}

func (r *Registry) agent(name string) agent.Agent {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.agents[name]
}

// Builtin reports whether the name is answered in the process.
func (r *Registry) Builtin(name string) bool { return r.agent(name) != nil }

// answer has a turn answered by the agent of a name, or by a worker. If no worker has the turn, an agent that is added
// meanwhile gets it.
func (r *Registry) answer(ctx context.Context, name string, t *turn, log *slog.Logger) error {
	for {
		if a := r.agent(name); a != nil {
			return agent.Run(ctx, a, agent.NewTurn(t.current(), t.in.Inbox, t), log)
		}
		err := r.workers.answer(ctx, groupKey{t.workspace, name}, t, func() bool { return r.Builtin(name) })
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
	for name, info := range r.infos {
		info.Healthy = true
		if h, ok := r.agents[name].(interface{ Health() error }); ok {
			if err := h.Health(); err != nil {
				info.Healthy, info.Problem = false, err.Error()
			}
		}
		if d, ok := r.agents[name].(commander); ok && len(info.Commands) == 0 {
			info.Commands = d.Commands()
		}
		if m, ok := r.agents[name].(interface{ Models() []string }); ok {
			info.Models = m.Models()
		}
		all = append(all, info)
	}
	for _, info := range r.workers.list(workspace) {
		if _, taken := r.infos[info.Name]; !taken || info.Workers > 0 { // a turn may wait from before the name was taken
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
	if a, ok := r.agent(name).(interface {
		Tools(ctx context.Context) (tools []agent.ToolInfo, known bool)
	}); ok {
		return a.Tools(ctx)
	}
	return nil, false
}

// Servers lists the MCP servers of all agents, by agent and name. It connects to those that were not used yet.
func (r *Registry) Servers(ctx context.Context) []agent.ToolServer {
	var mu sync.Mutex
	var all []agent.ToolServer
	var wg sync.WaitGroup
	r.mu.RLock()
	for name, a := range r.agents {
		if a, ok := a.(interface {
			Servers(ctx context.Context) []agent.ToolServer
		}); ok {
			wg.Go(func() {
				list := a.Servers(ctx)
				mu.Lock()
				defer mu.Unlock()
				for _, s := range list {
					s.Agent = name
					all = append(all, s)
				}
			})
		}
	}
	r.mu.RUnlock()
	wg.Wait()
	slices.SortFunc(all, func(a, b agent.ToolServer) int {
		return cmp.Or(strings.Compare(a.Agent, b.Agent), strings.Compare(a.Name, b.Name))
	})
	return all
}
