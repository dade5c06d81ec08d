package vertesia

import (
	"net/http"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/wire"
)

// interaction is an agent in the list of interactions.
type interaction struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Endpoint string   `json:"endpoint"`
	Status   string   `json:"status"`
	Version  int      `json:"version"`
	Tags     []string `json:"tags"`
}

// listInteractions lists the agents of this server.
func (d *Dialect) listInteractions(_ *http.Request, c chat.Caller) (any, error) {
	all := []interaction{}
	for _, name := range d.opt.Agents(c.In()) {
		all = append(all, interaction{ID: name, Name: name, Endpoint: name, Status: "published", Version: 1, Tags: []string{"agent"}})
	}
	return all, nil
}

// listNone is an empty list, such as that of installed apps.
func listNone(*http.Request, chat.Caller) (any, error) { return []struct{}{}, nil }

// refused are the parts of Vertesia that this server does not have, by the text of
// the error. Each is refused with everything below it and, unless it names one,
// for every method. The more exact routes of this dialect take precedence.
var refused = map[string][]string{
	"processes: a run here is an agent's, so follow it with its messages and end it with terminate": {
		"agents/{id}/context", "agents/{id}/history", "agents/{id}/advance", "agents/{id}/retry-node", "agents/{id}/answer-task",
		"processes", "process-test-runs", "tasks",
	},
	"analytics: what a run has used stands in its messages as token_usage, and what the server does under /metrics": {
		"analytics", "cost", "quota", "workflows/analytics",
		// Each by itself, because a run may have the id analytics.
		"agents/analytics/summary", "agents/analytics/tokens", "agents/analytics/latency/llm",
		"agents/analytics/latency/tools", "agents/analytics/latency/agents", "agents/analytics/errors",
		"agents/analytics/tools", "agents/analytics/tools/parameters", "agents/analytics/filter-options",
		"agents/analytics/prompt-size", "agents/analytics/top-principals", "agents/analytics/runs-by-agent",
		"agents/analytics/time-to-first-response", "agents/analytics/first-response-behavior",
	},
	"studio: agents, models and tools are set up in the configuration of the server, and who may do what by its tokens": {
		"account", "accounts", "apikeys", "apps", "audit-trail", "commands", "environments", "iam", "oauth-clients", "oauth-grants", "oauth-providers", "projects",
		"prompts", "refs", "remote-mcp-connections", "secrets", "skills", "tools", "training", "users",
	},
	"interactions that are executed by themselves: begin a run of the agent with POST /api/v1/agents and interactive false, and read its answer": {
		"interactions", "runs",
	},
	"schedules: begin runs from a scheduler of your own": {"schedules"},
	"workflow definitions and rules: an agent is named by the interaction of a run": {
		"workflows/activity-catalog", "workflows/rules", "workflows/definitions",
	},
	"store of documents: files belong to runs, see /api/v1/agents/{id}/artifacts": {
		"objects", "collections", "types", "data", "email", "embeddings", "events", "indexing", "query", "rendering", "views", "view-executions",
		"GET files/bucket", "POST files/bucket",
	},
	"metadata of files but their size, type and checksum": {
		"PUT files/metadata",
	},
}

// refusedRoutes are the routes of what is refused.
func (d *Dialect) refusedRoutes() (routes []wire.Route) {
	for what, parts := range refused {
		refuse := func(http.ResponseWriter, *http.Request, chat.Caller) error {
			return chat.Errorf(chat.NotFound, "Parley has no %s", what)
		}
		for _, part := range parts {
			method, path, ok := strings.Cut(part, " ")
			if !ok {
				method, path = "", part
			}
			for _, below := range []string{"", "/{rest...}"} {
				route := d.http.Route(strings.TrimLeft(method+" /api/v1/"+path+below, " "), refuse)
				route.Refused = true
				routes = append(routes, route)
			}
		}
	}
	return routes
}
