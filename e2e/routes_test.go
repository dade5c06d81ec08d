// Test support: all routes with valid parameters and bodies.

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/internal/dialect/agui"
	"github.com/parley-hq/parley/internal/dialect/aisdk"
	"github.com/parley-hq/parley/internal/dialect/letta"
	"github.com/parley-hq/parley/internal/dialect/native"
	"github.com/parley-hq/parley/internal/dialect/nemo"
	"github.com/parley-hq/parley/internal/dialect/vertesia"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/grant"
	"github.com/parley-hq/parley/internal/wire"
)

// activeRoutes lists the routes of all dialects without those that only refuse.
func activeRoutes(t *testing.T) []wire.Route {
	t.Helper()
	return slices.DeleteFunc(dialectRoutes(t), func(r wire.Route) bool { return r.Refused })
}

// dialectRoutes lists the routes of all dialects, from the tables that the server
// mounts.
func dialectRoutes(t *testing.T) (routes []wire.Route) {
	t.Helper()
	bus, err := x1.New(x1.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]wire.Route{
		native.New(native.Options{}).Routes(), nemo.New(nemo.Options{}).Routes(), vertesia.New(vertesia.Options{}).Routes(), letta.New(letta.Options{}).Routes(), agui.New(agui.Options{}).Routes(), aisdk.New(aisdk.Options{}).Routes(), bus.Routes(), grant.New(grant.Options{}).Routes(),
	} {
		routes = append(routes, list...)
	}
	return routes
}

// unowned has the routes whose path parameters name nothing that a user owns, with
// the reason. Every other route with a parameter is tested as a stranger.
var unowned = map[string]string{
	"POST /api/copilotkit/agent/{agentname}/run":     "an agent's name belongs to the workspace; the thread is in the body",
	"POST /api/copilotkit/agent/{agentname}/connect": "an agent's name belongs to the workspace; the thread is in the body",
	"GET /parley/v1/agents/{name}/work":              "an agent's name belongs to the workspace; needs the scope agent",
	"POST /ag-ui/{agentname}":                        "an agent's name belongs to the workspace; the thread is in the body",
	"GET /ag-ui/{agentname}":                         "an agent's name belongs to the workspace; the thread is in the query",
	"POST /static/{path...}":                         "the caller's own files",
	"PUT /static/{path...}":                          "the caller's own files",
	"GET /static/{path...}":                          "the caller's own files",
	"DELETE /static/{path...}":                       "the caller's own files",
	"POST /api/v1/workflows/execute/{name}":          "starts a run",
	"GET /api/v1/signed/{path...}":                   "the address is signed; see TestSignedURLIsLimited",
	"PUT /api/v1/signed/{path...}":                   "the address is signed; see TestSignedURLIsLimited",
	"PATCH /v1/agents/{agent}/messages/{message}":    "refused for every caller",
	"GET /api/workspaces/{slug}/grants":              "lists only the caller's; see TestForeignIDsInQueryHeaderAndBody",
	"POST /api/workspaces/{slug}/grants":             "creates one of the caller's own; see TestForeignIDsInQueryHeaderAndBody",
	"POST /api/workspaces/{slug}/grants/check":       "names its session in the body; see TestForeignIDsInQueryHeaderAndBody",
	"GET /api/shares/{slug}/{link}":                  "for users of the workspace with the link; see TestForeignIDsInQueryHeaderAndBody",
	"GET /api/shares/{slug}/{link}/{path...}":        "for users of the workspace with the link; see TestForeignIDsInQueryHeaderAndBody",
	"POST /api/chat/{id}":                            "the caller's own chats",
	"GET /api/chat/{id}/stream":                      "the caller's own chats; runs of others are tested in internal/dialect/aisdk",
	"GET /api/chat/{id}/{run}/stream":                "the caller's own chats; runs of others are tested in internal/dialect/aisdk",
	"POST /api/chat/{id}/stop":                       "the caller's own chats",
	"GET /api/chat/{id}/messages":                    "the caller's own chats",
}

// bodies has a valid body for each route that needs one, by pattern.
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

	"POST /api/copilotkit/agent/{agentname}/stop/{thread}": `{}`,

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

// bodiless has the routes that change something and need no body.
var bodiless = map[string]bool{
	"POST /parley/v1/sessions/{id}/accept": true, "DELETE /parley/v1/sessions/{id}": true, "DELETE /parley/v1/sessions/{id}/artifacts/{path...}": true, "DELETE /api/v1/agents/{id}": true, "DELETE /api/v1/files/{path...}": true,
	"DELETE /v1/agents/{agent}": true, "DELETE /v1/conversations/{conversation}": true, "DELETE /v1/identities/{id}": true, "DELETE /v1/groups/{id}": true,
	"DELETE /api/workspaces/{slug}/grants/{grant}": true, "DELETE /api/workspaces/{slug}/sessions/{id}/shares/{share}": true,
}

// owned maps the name of a path parameter to the id that a user owns.
type owned map[string]string

// fill returns a request to a route with the ids in its path.
func (o owned) fill(t *testing.T, pattern string) call {
	t.Helper()
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		t.Fatalf("the route %q takes every method", pattern)
	}
	c := call{method: method}
	known := strings.Replace(pattern, " /latest/", " /v1/", 1)
	if c.body, ok = bodies[known]; !ok && method != "GET" && method != "HEAD" && !bodiless[known] {
		t.Errorf("no body for %s: add it to bodies, or to unowned if its parameters name nothing that a user owns", pattern)
	}
	folder := ""
	for word := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if !strings.HasPrefix(word, "{") {
			folder, c.path = word, c.path+"/"+word
			continue
		}
		name := strings.Trim(word, "{}.")
		value, ok := o[folder+"/"+name] // some names mean different things in different routes
		if !ok {
			value, ok = o[name]
		}
		if !ok {
			t.Errorf("no value for {%s} of %s: add it to owned, so that it is tested as a stranger", name, pattern)
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
