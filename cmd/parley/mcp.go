package main

import (
	"context"

	"github.com/parley-hq/parley/internal/dialect/nemo"
)

// mcpClients lists the MCP servers of all agents as NeMo words them: the group is
// the agent that uses the server.
func (p *parley) mcpClients(ctx context.Context) []nemo.MCPClient {
	var all []nemo.MCPClient
	for _, s := range p.agents.Servers(ctx) {
		one := nemo.MCPClient{
			Group: s.Agent + "/" + s.Name, Server: s.Name, Transport: s.Transport, Healthy: s.Problem == "",
			Tools: []nemo.MCPTool{}, Total: len(s.Tools), Available: len(s.Tools),
		}
		for _, t := range s.Tools {
			one.Tools = append(one.Tools, nemo.MCPTool{Name: t.Name, Description: t.Description, Server: s.Name, Available: true})
		}
		all = append(all, one)
	}
	return all
}
