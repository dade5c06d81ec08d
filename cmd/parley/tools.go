package main

import (
	"context"

	"github.com/parley-hq/parley/internal/dialect/nemo"
	"github.com/parley-hq/parley/internal/dialect/vertesia"
)

// mcpClients lists the MCP servers of all agents for NeMo clients. Each server is a group with the name of its agent.
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

// vertesiaTools lists the tools of an agent for Vertesia clients.
func (p *parley) vertesiaTools(ctx context.Context, name string) ([]vertesia.Tool, bool) {
	list, known := p.agents.Tools(ctx, name)
	tools := make([]vertesia.Tool, len(list))
	for i, t := range list {
		tools[i] = vertesia.Tool(t)
	}
	return tools, known
}
