package model_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/internal/agentpool"
	"github.com/parley-hq/parley/internal/agents/model"
	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/modeltest"
)

// The list of an agent's MCP servers includes those that cannot be reached, and has
// the tools under the servers' own names.
func TestServers(t *testing.T) {
	known := transports(t)
	local, remote := known["stdio"], known["http"]
	local.Name, remote.Name = "local", "remote"
	w := newServer(t, model.Options{Servers: []*tool.Server{
		tool.NewServer(remote), tool.NewServer(local),
		tool.NewServer(tool.ServerOptions{Name: "ghost", URL: "http://127.0.0.1:1/mcp", Connect: 2 * time.Second}),
	}}, func(modeltest.Request) modeltest.Reply { return modeltest.Reply{Text: "hi"} })
	r := agentpool.NewRegistry(agentpool.NewPool(agentpool.PoolOptions{}))
	r.Add(agent.Info{Name: "helper"}, w.agent)
	list := r.Servers(t.Context())
	if len(list) != 3 {
		t.Fatalf("%+v", list)
	}
	for i, want := range []agent.ToolServer{
		{Agent: "helper", Name: "ghost", Transport: "streamable-http", Problem: "cannot"}, {Agent: "helper", Name: "local", Transport: "stdio"}, {Agent: "helper", Name: "remote", Transport: "streamable-http"},
	} {
		got := list[i]
		if got.Agent != want.Agent || got.Name != want.Name || got.Transport != want.Transport || !strings.Contains(got.Problem, want.Problem) || (want.Problem == "") != (got.Problem == "") {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if has := slices.Contains(got.Tools, agent.ToolInfo{Name: "add", Description: "Adds.", Server: got.Name}); has != (want.Problem == "") {
			t.Errorf("the tools of %s: %+v", got.Name, got.Tools)
		}
	}
}
