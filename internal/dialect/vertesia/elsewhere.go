package vertesia

import (
	"net/http"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/wire"
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
// a person would call them. Each is refused whole, with all that lies below it
// and, unless it names one, whatever the method; what is offered there has a
// route of its own.
var unspoken = map[string][]string{
	"processes: a run here is an agent's, so follow it with its messages and end it with terminate": {
		"agents/{id}/context", "agents/{id}/history", "agents/{id}/advance", "agents/{id}/retry-node", "agents/{id}/answer-task",
		"processes", "process-test-runs", "tasks",
	},
	"analytics: what a run has used stands in its messages as token_usage, and what the server does under /metrics": {
		"analytics", "cost", "quota", "workflows/analytics",
		// One by one, because a run might be called analytics.
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

// refusals are the routes of what is not spoken.
func (d *Dialect) refusals() (routes []wire.Route) {
	for what, parts := range unspoken {
		for _, part := range parts {
			method, path, ok := strings.Cut(part, " ")
			if !ok {
				method, path = "", part
			}
			for _, below := range []string{"", "/{rest...}"} {
				routes = append(routes, wire.Route{Pattern: strings.TrimLeft(method+" /api/v1/"+path+below, " "), Dialect: via, Handler: d.handle(refuse(what)), Fail: d.fail, Refused: true})
			}
		}
	}
	return routes
}

// refuse says what is not spoken here.
func refuse(what string) handler {
	return func(http.ResponseWriter, *http.Request, chat.Caller) error {
		return chat.Errorf(chat.NotFound, "Parley has no %s", what)
	}
}
