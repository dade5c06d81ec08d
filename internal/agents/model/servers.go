package model

import (
	"context"
	"strings"

	"github.com/parley-hq/parley/agent"
)

// Servers lists the agent's MCP servers with their tools.
func (a *Agent) Servers(ctx context.Context) []agent.ToolServer {
	lists, errs := a.listTools(ctx, nil)
	var all []agent.ToolServer
	for i, s := range a.opt.Servers {
		one := agent.ToolServer{Name: s.Name(), Transport: s.Transport()}
		if errs[i] != nil {
			one.Problem = errs[i].Error()
		}
		for _, t := range lists[i] {
			one.Tools = append(one.Tools, agent.ToolInfo{Name: strings.TrimPrefix(t.Name, s.Prefix()), Description: t.Description, Server: s.Name()})
		}
		all = append(all, one)
	}
	return all
}
