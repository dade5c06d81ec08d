package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/internal/dialect/letta"
	"github.com/parley-hq/parley/internal/dialect/native"
	"github.com/parley-hq/parley/internal/dialect/nemo"
	"github.com/parley-hq/parley/internal/dialect/vertesia"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/grant"
	"github.com/parley-hq/parley/internal/wire"
)

// offered lists the routes of all dialects that do something.
func offered(t *testing.T) []wire.Route {
	t.Helper()
	return slices.DeleteFunc(everyDialect(t), func(r wire.Route) bool { return r.Refused })
}

// everyDialect lists the routes of all dialects, from the tables that the server
// itself mounts.
func everyDialect(t *testing.T) (routes []wire.Route) {
	t.Helper()
	bus, err := x1.New(x1.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]wire.Route{
		native.New(native.Options{}).Routes(), nemo.New(nemo.Options{}).Routes(), vertesia.New(vertesia.Options{}).Routes(), letta.New(letta.Options{}).Routes(), bus.Routes(), grant.New(grant.Options{}).Routes(),
	} {
		routes = append(routes, list...)
	}
	return routes
}

// free are the routes with something in their path that names nothing of
// anybody's. Every other route with a wildcard is tried by strangers.
var free = map[string]string{
	"GET /parley/v1/agents/{name}/work":           "an agent's name is the workspace's; needs the scope agent",
	"POST /static/{path...}":                      "the caller's own shelf",
	"PUT /static/{path...}":                       "the caller's own shelf",
	"GET /static/{path...}":                       "the caller's own shelf",
	"DELETE /static/{path...}":                    "the caller's own shelf",
	"POST /api/v1/workflows/execute/{name}":       "begins a run",
	"GET /api/v1/signed/{path...}":                "the address is signed; see TestSignedAddresses",
	"PUT /api/v1/signed/{path...}":                "the address is signed; see TestSignedAddresses",
	"PATCH /v1/agents/{agent}/messages/{message}": "refused for everybody",
	"GET /api/workspaces/{slug}/grants":           "lists what is the caller's business; see TestForeignNames",
	"POST /api/workspaces/{slug}/grants":          "begins something of the caller's own; see TestForeignNames",
	"POST /api/workspaces/{slug}/grants/check":    "names its session in the body; see TestForeignNames",
	"GET /api/shares/{slug}/{link}":               "for whoever of the workspace has the link; see TestForeignNames",
	"GET /api/shares/{slug}/{link}/{path...}":     "for whoever of the workspace has the link; see TestForeignNames",
}

// bodies are what routes need to be sent to be taken seriously, by pattern
// without the base that dialects have several of.
var bodies = map[string]string{
	"PATCH /parley/v1/sessions/{id}":                                   `{"title":"mine now"}`,
	"POST /parley/v1/sessions/{id}/events":                             `{"type":"user.message","payload":{"text":"intruder"}}`,
	"POST /parley/v1/sessions/{id}/previews":                           `{"block":"b","offset":0,"text":"intruder"}`,
	"POST /parley/v1/sessions/{id}/prompts/{request_id}/answer":        `{"text":"intruder"}`,
	"POST /parley/v1/sessions/{id}/stop":                               `{}`,
	"POST /parley/v1/sessions/{id}/fork":                               `{"after":1}`,
	"POST /parley/v1/sessions/{id}/workstreams":                        `{"id":"intruder","instruction":"x"}`,
	"POST /parley/v1/sessions/{id}/workstreams/{workstream}/message":   `{"message":"intruder"}`,
	"POST /parley/v1/sessions/{id}/workstreams/{workstream}/steer":     `{"command":"add_instruction","text":"intruder"}`,
	"POST /parley/v1/sessions/{id}/workstreams/{workstream}/terminate": `{}`,
	"PUT /parley/v1/sessions/{id}/artifacts/{path...}":                 "intruder",
	"POST /parley/v1/sessions/{id}/credentials":                        `{"role":"viewer"}`,

	"POST /api/workspaces/{slug}/sessions/{id}/shares":        `{"title":"intruder","path":"a.txt"}`,
	"PUT /api/workspaces/{slug}/sessions/{id}/shares/{share}": `{"title":"intruder","path":"a.txt"}`,

	"POST /executions/{id}/interactions/{interaction}/response": `{"response":{"type":"text","text":"intruder"}}`,

	"POST /api/v1/agents/{id}/restart":                              `{}`,
	"POST /api/v1/agents/{id}/fork":                                 `{}`,
	"POST /api/v1/agents/{id}/status":                               `{"status":"completed"}`,
	"POST /api/v1/agents/{id}/workflow":                             `{"workflow_id":"w","first_workflow_run_id":"r"}`,
	"POST /api/v1/agents/{id}/updates":                              `{"t":7,"m":"intruder"}`,
	"PUT /api/v1/agents/{id}/artifacts/{path...}":                   "intruder",
	"PUT /api/v1/agents/{id}/artifact-content/{path...}":            `{"content":"intruder","generation":"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"}`,
	"POST /api/v1/agents/{id}/signal/{name}":                        `{"message":"intruder"}`,
	"POST /api/v1/agents/{id}/events":                               `{"events":[{"intruder":1}]}`,
	"POST /api/v1/workflows/runs/{id}/updates":                      `{"t":7,"m":"intruder"}`,
	"POST /api/v1/workflows/runs/{workflow}/{id}/signal/{name}":     `{"message":"intruder"}`,
	"POST /api/v1/workflows/runs/{workflow}/{id}/events":            `{"events":[{"intruder":1}]}`,
	"POST /api/v1/workflows/runs/{workflow}/{id}/actions/terminate": `{"reason":"intruder"}`,
	"POST /api/v1/workflows/runs/{workflow}/{id}/actions/cancel":    `{"reason":"intruder"}`,
	"POST /api/v1/pending-asks/{ask}/resolve":                       `{"response":"intruder"}`,

	"PATCH /v1/agents/{agent}":                            `{"description":"intruder"}`,
	"POST /v1/agents/{agent}/recompile":                   `{}`,
	"PATCH /v1/agents/{agent}/core-memory/blocks/{label}": `{"value":"intruder"}`,
	"PATCH /v1/agents/{agent}/identities/attach/{id}":     `{}`,
	"PATCH /v1/agents/{agent}/identities/detach/{id}":     `{}`,
	"POST /v1/agents/{agent}/messages":                    `{"messages":[{"role":"user","content":"intruder"}]}`,
	"POST /v1/agents/{agent}/messages/stream":             `{"messages":[{"role":"user","content":"intruder"}]}`,
	"POST /v1/agents/{agent}/messages/async":              `{"messages":[{"role":"user","content":"intruder"}]}`,
	"POST /v1/agents/{agent}/messages/cancel":             `{}`,
	"PATCH /v1/conversations/{conversation}":              `{"summary":"intruder"}`,
	"POST /v1/conversations/{conversation}/messages":      `{"messages":[{"role":"user","content":"intruder"}]}`,
	"POST /v1/conversations/{conversation}/stream":        `{}`,
	"POST /v1/conversations/{conversation}/cancel":        `{}`,
	"POST /v1/conversations/{conversation}/fork":          `{}`,
	"POST /v1/conversations/{conversation}/recompile":     `{}`,
	"POST /v1/runs/{run}/stream":                          `{"starting_after":0}`,
	"PATCH /v1/identities/{id}":                           `{"name":"intruder"}`,
	"PATCH /v1/groups/{id}":                               `{"description":"intruder"}`,
}

// bodiless are routes that change something and need no body.
var bodiless = map[string]bool{
	"POST /parley/v1/sessions/{id}/accept": true, "DELETE /parley/v1/sessions/{id}": true, "DELETE /parley/v1/sessions/{id}/artifacts/{path...}": true, "DELETE /api/v1/agents/{id}": true, "DELETE /api/v1/files/{path...}": true,
	"DELETE /v1/agents/{agent}": true, "DELETE /v1/conversations/{conversation}": true, "DELETE /v1/identities/{id}": true, "DELETE /v1/groups/{id}": true,
	"DELETE /api/workspaces/{slug}/grants/{grant}": true, "DELETE /api/workspaces/{slug}/sessions/{id}/shares/{share}": true,
}

// owned is what somebody has, by the names that paths have for it.
type owned map[string]string

// fill makes a request of a route with somebody's things in its path.
func (o owned) fill(t *testing.T, pattern string) call {
	t.Helper()
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		t.Fatalf("the route %q takes every method", pattern)
	}
	c := call{method: method}
	known := strings.Replace(pattern, " /latest/", " /v1/", 1)
	if c.body, ok = bodies[known]; !ok && method != "GET" && method != "HEAD" && !bodiless[known] {
		t.Errorf("nobody has said what %s is sent: add it to bodies, or to free if it names nothing of anybody's", pattern)
	}
	folder := ""
	for word := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if !strings.HasPrefix(word, "{") {
			folder, c.path = word, c.path+"/"+word
			continue
		}
		name := strings.Trim(word, "{}.")
		value, ok := o[folder+"/"+name] // the same name means different things in some places
		if !ok {
			value, ok = o[name]
		}
		if !ok {
			t.Errorf("nobody has said what {%s} of %s is: add it to owned, so that strangers try it", name, pattern)
		}
		c.path += "/" + value
	}
	if strings.HasSuffix(c.path, "/search") {
		c.path += "?q=secret"
	}
	if strings.HasSuffix(c.path, "/ws") {
		c.header = map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg=="}
	}
	return c
}
