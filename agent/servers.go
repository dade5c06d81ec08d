package agent

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// ToolServer describes to people an MCP server that an agent uses.
type ToolServer struct {
	Agent     string
	Name      string
	Transport string     // stdio or streamable-http
	Problem   string     // why it cannot be used; "" when it can
	Tools     []ToolInfo // under the server's own names for them
}

// Servers lists the MCP servers of all agents, by agent and name. It connects to
// those that were not needed yet.
func (r *Registry) Servers(ctx context.Context) []ToolServer {
	r.mu.RLock()
	var mu sync.Mutex
	var all []ToolServer
	var wg sync.WaitGroup
	for name, a := range r.agents {
		if a, ok := a.(interface {
			Servers(ctx context.Context) []ToolServer
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
	slices.SortFunc(all, func(a, b ToolServer) int {
		if c := strings.Compare(a.Agent, b.Agent); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all
}
