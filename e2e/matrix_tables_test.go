// Test support: the example requests of the access matrix.

package e2e

import (
	"testing"

	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/proxy"
	"github.com/parley-hq/parley/internal/server"
	"github.com/parley-hq/parley/internal/wire"
	"github.com/parley-hq/parley/web"
)

// serverRoutes returns the routes that belong to no dialect.
func serverRoutes(t *testing.T) []wire.Route {
	t.Helper()
	a, err := auth.New(auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Options{Auth: a, Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	routes := s.Routes()
	for _, pattern := range web.Patterns {
		routes = append(routes, wire.Route{Pattern: pattern, Public: true})
	}
	return append(routes, wire.Route{Pattern: web.PagePattern}, wire.Route{Pattern: proxy.Pattern})
}

// public has the routes that need no credential, with the reason.
var public = map[string]string{
	"GET /healthz":                            "for balancers",
	"GET /readyz":                             "for balancers",
	"GET /health":                             "for balancers",
	"GET /v1/health":                          "for balancers",
	"GET /parley/v1/openapi.json":             "describes the server",
	"GET /websocket":                          "the first frame may carry the credential; see TestEveryFrameChecksItsCaller",
	"GET /api/chat":                           "a WebSocket whose frames may carry the credential; see TestEveryFrameChecksItsCaller",
	"GET /auth/redirect":                      "the state in the address is the credential",
	"GET /api/v1/signed/{path...}":            "the address is signed; see TestSignedURLIsLimited",
	"PUT /api/v1/signed/{path...}":            "the address is signed; see TestSignedURLIsLimited",
	"GET /api/shares/{slug}/{link}":           "the link is the credential of public shares",
	"GET /api/shares/{slug}/{link}/{path...}": "the link is the credential of public shares",
	"GET " + auth.LinkPath:                    "signing in",
	"GET " + auth.SessionPath:                 "signing in",
	"POST " + auth.SessionPath:                "signing in",
	"DELETE " + auth.SessionPath:              "signing out",
	"GET ":                                    "the console's page",
	"GET /inbox":                              "the console's page, the same for everybody",
	"GET /s/{session}":                        "the console's page, the same for every name",
	"GET /embed":                              "the console's page",
	"GET /embed/{session}":                    "the console's page, the same for every name",
	"GET /embed.js":                           "the console's program",
	"GET /diagram":                            "the page that draws diagrams, the same for everyone",
	"GET /assets/{file}":                      "the console's program",
	"GET /favicon.svg":                        "the console's picture",
	"GET /console.json":                       "what the server offers to the console",
}

// serverWide has the routes that concern all workspaces.
var serverWide = map[string]bool{"GET /parley/v1/backup": true, "GET /parley/v1/verify": true, "GET /metrics": true}

// ownerOnly has the routes that only the owner of a session may use.
var ownerOnly = map[string]bool{
	"PATCH /parley/v1/sessions/{id}": true, "DELETE /parley/v1/sessions/{id}": true,
	"PATCH /v1/agents/{agent}": true, "DELETE /v1/agents/{agent}": true, "PATCH /v1/agents/{agent}/core-memory/blocks/{label}": true,
	"PATCH /v1/agents/{agent}/identities/attach/{id}": true, "PATCH /v1/agents/{agent}/identities/detach/{id}": true,
	"PATCH /v1/conversations/{conversation}": true, "DELETE /v1/conversations/{conversation}": true,
	"PATCH /v1/identities/{id}": true, "DELETE /v1/identities/{id}": true, "PATCH /v1/groups/{id}": true, "DELETE /v1/groups/{id}": true,
}

// request is sent to a route without a parameter in its path.
type request struct {
	query, body string
	header      map[string]string
}

var (
	inHers  = map[string]string{"Conversation-Id": "hers"}
	talk    = request{body: `{"messages":[{"role":"user","content":"intruder"}]}`, header: inHers}
	message = request{body: `{"input_message":"intruder"}`, header: inHers}
	listing = request{body: `{}`}
	thread  = `{"threadId":"hers","runId":"r","messages":[{"id":"m","role":"user","content":"intruder"}],"tools":[],"context":[]}`
)

// sent has a request for alice's data for each route without a parameter, by pattern.
var sent = map[string]request{
	"POST /parley/v1/sessions": {body: `{"id":"hers","agent":"none"}`},
	"GET /parley/v1/sessions":  {query: "?q=ask&limit=1000"},
	"POST /parley/v1/import":   {body: "{}\n"},
	"GET /parley/v1/audit":     {query: "?session=hers"},
	"POST /parley/v1/image":    {body: `{"url":"http://127.0.0.1:1/secret.png"}`},

	"POST /ag-ui/{agentname}": {body: thread}, "GET /ag-ui/{agentname}": {query: "?threadId=hers"},
	"POST /api/copilotkit/agent/{agentname}/run": {body: thread}, "POST /api/copilotkit/agent/{agentname}/connect": {body: thread},
	"POST /api/copilotkit":     {body: `{"method":"agent/connect","params":{"agentId":"demo"},"body":` + thread + `}`},
	"POST /api/chat":           {body: `{"id":"hers","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"intruder"}]}]}`},
	"POST /api/chat/{id}":      {body: `{"messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"intruder"}]}]}`},
	"POST /api/chat/{id}/stop": {body: `{}`},

	"POST /chat": talk, "POST /chat/stream": talk, "POST /v1/chat": talk, "POST /v1/chat/stream": talk, "POST /v1/chat/completions": talk,
	"POST /generate": message, "POST /generate/stream": message, "POST /generate/full": message,
	"POST /v1/workflow": message, "POST /v1/workflow/stream": message, "POST /v1/workflow/full": message,
	"POST /v1/workflow/async":     {body: `{"input_message":"intruder","job_id":"her-job","sync_timeout":10}`},
	"POST /generate/async":        {body: `{"input_message":"intruder","job_id":"her-job","sync_timeout":10}`},
	"POST /feedback":              {body: `{"observability_trace_id":"{executions/id}","reaction_type":"intruder"}`},
	"POST /static/{path...}":      {body: "intruder"},
	"PUT /static/{path...}":       {body: "intruder"},
	"POST /token/issue":           {body: `{"type":"agent","agent_run_id":"hers"}`},
	"POST /api/v1/agents":         {body: `{"interaction":"demo","data":{"user_prompt":"intruder"}}`},
	"GET /api/v1/agents/search":   {query: "?query=secret"},
	"POST /api/v1/agents/record":  {body: `{"title":"intruder"}`},
	"POST /api/v1/workflows/runs": listing,
	"POST /api/v1/pending-asks":   {body: `{"runId":"hers","questions":["intruder"]}`},
	"GET /api/v1/files/list":      {query: "?prefix=agents/hers/"},
	"GET /api/v1/files/metadata":  {query: "?file=agents/hers/a.txt"},
	"POST /api/v1/files/copy":     {body: `{"source":"agents/hers/a.txt","dest":"agents/hers/b.txt"}`},
	"POST /v1/agents":             {body: `{"name":"intruder","model":"parley/demo"}`},
	"GET /v1/agents":              {query: "?name=secret+agent"},
	"POST /v1/conversations":      {query: "?agent_id={agent}", body: `{}`},
	"GET /v1/conversations":       {query: "?agent_id={agent}"},
	"GET /v1/runs":                {query: "?agent_id={agent}"},
	"POST /v1/identities":         {body: `{"identifier_key":"intruder","name":"intruder","identity_type":"user"}`},
	"PUT /v1/identities":          {body: `{"identifier_key":"intruder","name":"intruder","identity_type":"user"}`},
	"GET /v1/identities":          {query: "?identifier_key=secret"},
	"POST /v1/groups":             {body: `{"agent_ids":["{agent}"],"description":"intruder"}`},

	"POST /api/v1/workflows/conversations":        listing,
	"POST /api/v1/workflows/execute/{name}":       {body: `{"data":{"user_prompt":"intruder"}}`},
	"POST /api/v1/files/download-url":             {body: `{"file":"agents/hers/a.txt"}`},
	"POST /api/v1/files/upload-url":               {body: `{"id":"agents/hers/a.txt"}`},
	"POST /api/v1/files/bulk-upload-urls":         {body: `{"files":[{"id":"agents/hers/a.txt"}]}`},
	"PATCH /v1/agents/{agent}/messages/{message}": {body: `{"content":"intruder"}`},
	"GET /api/workspaces/{slug}/grants":           {query: "?session=hers&all=true"},
	"POST /api/workspaces/{slug}/grants":          {body: `{"agent_id":"demo","grant_type":"spawn","scope":"session","session_id":"hers"}`},
	"POST /api/workspaces/{slug}/grants/check":    {body: `{"session_id":"hers","grant_type":"tool_scope","details":{"scopes":["secret"]}}`},
}
