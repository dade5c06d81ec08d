package vertesia

import (
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/wire"
)

// What programs ask of the rest of Vertesia. Where there is a true answer they
// get it; where there is none they are told why.

// interaction is an agent as something that can be run.
type interaction struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Endpoint string   `json:"endpoint"`
	Status   string   `json:"status"`
	Version  int      `json:"version"`
	Tags     []string `json:"tags"`
}

// listInteractions lists the agents that answer here.
func (d *Dialect) listInteractions(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	all := []interaction{}
	if d.opt.Agents != nil {
		for _, name := range d.opt.Agents(c.In()) {
			all = append(all, interaction{ID: name, Name: name, Endpoint: name, Status: "published", Version: 1, Tags: []string{"agent"}})
		}
	}
	d.send(w, r, http.StatusOK, all)
	return nil
}

// listNone answers where there could be something and is nothing, such as
// installed apps.
func (d *Dialect) listNone(w http.ResponseWriter, r *http.Request, _ chat.Caller) error {
	d.send(w, r, http.StatusOK, []struct{}{})
	return nil
}

// unspoken are the parts of the protocol that have no counterpart here, by what
// a person would call them.
var unspoken = map[string][]string{
	"processes: a run here is an agent's, so follow it with its messages and end it with terminate": {
		"/api/v1/agents/{id}/context", "/api/v1/agents/{id}/history", "/api/v1/agents/{id}/advance", "/api/v1/agents/{id}/retry-node", "/api/v1/agents/{id}/answer-task",
		"/api/v1/processes", "/api/v1/processes/{rest...}", "/api/v1/process-test-runs", "/api/v1/process-test-runs/{rest...}", "/api/v1/tasks", "/api/v1/tasks/{rest...}",
	},
	"analytics: what a run has used stands in its messages as token_usage, and what the server does under /metrics": {
		"/api/v1/workflows/analytics/{rest...}",
		// One by one, because a run might be called analytics.
		"/api/v1/agents/analytics/summary", "/api/v1/agents/analytics/tokens", "/api/v1/agents/analytics/latency/llm",
		"/api/v1/agents/analytics/latency/tools", "/api/v1/agents/analytics/latency/agents", "/api/v1/agents/analytics/errors",
		"/api/v1/agents/analytics/tools", "/api/v1/agents/analytics/tools/parameters", "/api/v1/agents/analytics/filter-options",
		"/api/v1/agents/analytics/prompt-size", "/api/v1/agents/analytics/top-principals", "/api/v1/agents/analytics/runs-by-agent",
		"/api/v1/agents/analytics/time-to-first-response", "/api/v1/agents/analytics/first-response-behavior",
	},
	"studio: agents, models and tools are set up in the configuration of the server, and who may do what by its tokens": {
		"/api/v1/account", "/api/v1/accounts", "/api/v1/projects", "/api/v1/environments", "/api/v1/tools", "/api/v1/prompts", "/api/v1/skills",
		"/api/v1/remote-mcp-connections/{rest...}",
	},
	"schedules: begin runs from a scheduler of your own": {"/api/v1/schedules", "/api/v1/schedules/{rest...}"},
	"workflow definitions and rules: an agent is named by the interaction of a run": {
		"/api/v1/workflows/activity-catalog", "/api/v1/workflows/rules", "/api/v1/workflows/rules/{rest...}",
		"/api/v1/workflows/definitions", "/api/v1/workflows/definitions/{rest...}",
	},
	"store of documents: files belong to runs, see /api/v1/agents/{id}/artifacts": {
		"/api/v1/objects", "/api/v1/objects/{rest...}", "/api/v1/collections", "/api/v1/collections/{rest...}", "/api/v1/types", "/api/v1/types/{rest...}",
		"/api/v1/files/bucket", "/api/v1/files/bucket/{rest...}",
	},
}

func unoffered(r *wire.Route) { r.Refused = true }

// refuse says what is not spoken here.
func refuse(what string) handler {
	return func(http.ResponseWriter, *http.Request, chat.Caller) error {
		return chat.Errorf(chat.NotFound, "Parley has no %s", what)
	}
}
