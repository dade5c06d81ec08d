package letta

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/attachment"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/keylock"
	"github.com/parley-hq/parley/internal/record"
	"github.com/parley-hq/parley/internal/turnlog"
	"github.com/parley-hq/parley/internal/wire"
)

// sessions is what the dialect uses of the session layer.
type sessions interface {
	Create(ctx context.Context, c chat.Caller, n chat.NewSession) (chat.Session, bool, error)
	Latest(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	Resolve(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.SessionID, error)
	attachment.Sessions
	turnlog.Sessions
	ByID(ctx context.Context, c chat.Caller, id chat.ID) (chat.Session, chat.Seq, error)
	List(ctx context.Context, c chat.Caller, f core.Filter) (chat.SessionPage, error)
	State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error)
	Update(ctx context.Context, c chat.Caller, id chat.SessionID, u chat.SessionUpdated) (chat.Session, error)
	Fork(ctx context.Context, c chat.Caller, id chat.SessionID, f chat.Fork) (chat.Session, error)
	Erase(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Receipt, error)
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Stop(ctx context.Context, c chat.Caller, id chat.SessionID, workstream, reason string) (chat.StopResult, error)
	Read(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error)
	Sent(ctx context.Context, c chat.Caller, id chat.SessionID, clientID string) (*chat.Event, error)
}

// Options of the dialect.
type Options struct {
	Sessions sessions
	Files    attachment.Files
	Caller   func(*http.Request) (chat.Caller, error) // authenticates a request
	Conns    *wire.Conns                              // open streams
	Agents   func(workspace string) []string          // names of the agents of this server
	Agent    func() string                            // the agent for Letta agents without a model
	Models   map[string]string                        // model → agent, for models that are not named after one; * is any other
	Version  string                                   // of this server

	OtherNodes bool // other nodes of a cluster store agents and conversations too

	// Post calls an address that a client gave; the error is shown to that client.
	Post     func(ctx context.Context, address string, body []byte) (status int, err error)
	TryPause time.Duration // before the second try of a callback; 0 means 1 s

	MaxBody     int64         // bytes of a JSON body; 0 means 8 MiB
	MaxArtifact int64         // bytes of an image; 0 means 1 GiB
	Heartbeat   time.Duration // silence after which a stream is pinged; 0 means 20 s
	Logger      *slog.Logger
}

// via marks events that came through this dialect.
const via = "letta"

// Dialect serves Letta's clients.
type Dialect struct {
	opt       Options
	files     attachment.Store
	log       *slog.Logger
	http      *edge.HTTP
	sendLocks keylock.Locks // by session id: of several requests that send to a conversation, one decides at a time

	callbacks chan pendingCallback // for Run
	sets      *record.Sets
}

// New returns the dialect.
func New(opt Options) *Dialect {
	opt.Heartbeat = cmp.Or(opt.Heartbeat, 20*time.Second)
	opt.TryPause = cmp.Or(opt.TryPause, time.Second)
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	log := opt.Logger.With("dialect", via)
	d := &Dialect{
		opt: opt, files: attachment.Store{Sessions: opt.Sessions, Files: opt.Files, Max: opt.MaxArtifact}, log: log,
		http:      &edge.HTTP{Dialect: via, Caller: opt.Caller, MaxBody: opt.MaxBody, EncodeError: encodeError, Log: log},
		callbacks: make(chan pendingCallback, maxCallbacks),
	}
	d.sets = d.newSets()
	return d
}

// Routes lists the routes of the dialect, below /v1 and /latest. Collections are served with and without a slash at the
// end, because clients send both.
func (d *Dialect) Routes() []wire.Route {
	var list []wire.Route
	for _, base := range []string{"/v1", "/latest"} {
		for _, path := range []string{"/health", "/health/{$}"} {
			health := d.http.Route("GET "+base+path, nil)
			health.Public, health.Handler = true, http.HandlerFunc(d.health)
			list = append(list, health)
		}
		for _, r := range routes() {
			method, path, _ := strings.Cut(r.pattern, " ")
			list = append(list, d.http.Route(method+" "+base+path, d.handle(r.serve)))
			if short, collection := strings.CutSuffix(path, "/{$}"); collection {
				list = append(list, d.http.Route(method+" "+base+short, d.handle(r.serve)))
			}
		}
		for _, path := range families {
			list = append(list, d.http.Route(base+path, d.notOffered))
		}
	}
	return list
}

// families are the paths of Letta's API. Requests below them that are not offered get an answer in the form that the
// clients expect.
var families = []string{
	"/agents/", "/conversations/", "/runs/", "/steps/", "/messages/", "/identities/", "/groups/", "/models/", "/tags/", "/tools/", "/blocks/", "/folders/",
	"/archives/", "/passages/", "/templates/", "/mcp-servers/", "/projects/", "/client-side-access-tokens/", "/environments/", "/sources/", "/jobs/", "/providers/",
}

type route struct {
	pattern string
	serve   handler
}

func routes() []route {
	list := []route{
		{"GET /models/{$}", asJSON((*request).listModels)},
		{"GET /models/embedding", asJSON(empty)},
		{"GET /tags/{$}", asJSON((*request).listTags)},
		{"GET /tools/{$}", asJSON(empty)},

		{"POST /agents/{$}", asJSON((*request).createAgent)},
		{"GET /agents/{$}", asJSON((*request).listAgents)},
		{"GET /agents/{agent}", ofAgent((*request).getAgent)},
		{"PATCH /agents/{agent}", ofOwnAgent((*request).updateAgent)},
		{"DELETE /agents/{agent}", asJSON((*request).deleteAgent)},
		{"POST /agents/{agent}/recompile", ofAgent((*request).recompileAgent)},
		{"GET /agents/{agent}/tools", ofAgent((*request).listAgentTools)},
		{"GET /agents/{agent}/core-memory/blocks", ofAgent((*request).listBlocks)},
		{"GET /agents/{agent}/core-memory/blocks/{label}", ofAgent((*request).getBlock)},
		{"PATCH /agents/{agent}/core-memory/blocks/{label}", ofOwnAgent((*request).updateBlock)},
		{"PATCH /agents/{agent}/identities/attach/{id}", ofOwnAgent((*request).attachIdentity)},
		{"PATCH /agents/{agent}/identities/detach/{id}", ofOwnAgent((*request).detachIdentity)},

		{"POST /agents/{agent}/messages", (*request).sendToAgent},
		{"POST /agents/{agent}/messages/stream", (*request).streamAgent},
		{"POST /agents/{agent}/messages/async", asJSON((*request).sendAsync)},
		{"POST /agents/{agent}/messages/cancel", ofAgent((*request).cancelAgent)},
		{"GET /agents/{agent}/messages", ofAgent((*request).listAgentMessages)},
		{"PATCH /agents/{agent}/messages/{message}", (*request).immutable},

		{"POST /conversations/{$}", asJSON((*request).createConversation)},
		{"GET /conversations/{$}", asJSON((*request).listConversations)},
		{"GET /conversations/{conversation}", ofConversation((*request).getConversation)},
		{"PATCH /conversations/{conversation}", ofConversation((*request).updateConversation)},
		{"DELETE /conversations/{conversation}", ofConversation((*request).deleteConversation)},
		{"POST /conversations/{conversation}/messages", (*request).sendToConversation},
		{"GET /conversations/{conversation}/messages", asJSON((*request).listConversationMessages)},
		{"POST /conversations/{conversation}/stream", (*request).resumeConversation},
		{"POST /conversations/{conversation}/cancel", asJSON((*request).cancelConversation)},
		{"POST /conversations/{conversation}/fork", ofConversation((*request).forkConversation)},
		{"POST /conversations/{conversation}/recompile", ofConversation((*request).recompileConversation)},

		{"GET /runs/{$}", asJSON((*request).listRuns)},
		{"GET /runs/{run}", ofRun((*request).getRun)},
		{"GET /runs/{run}/messages", ofRun((*request).listRunMessages)},
		{"GET /runs/{run}/steps", ofRun((*request).listRunSteps)},
		{"GET /runs/{run}/usage", ofRun((*request).getRunUsage)},
		{"POST /runs/{run}/stream", (*request).resumeRun},

		{"GET /steps/{$}", asJSON((*request).listSteps)},
		{"GET /steps/{step}", ofStep((*request).getStep)},
		{"GET /steps/{step}/messages", ofStep((*request).listStepMessages)},
		{"GET /steps/{step}/metrics", ofStep((*request).getStepMetrics)},
		{"GET /steps/{step}/trace", ofStep((*request).getStepTrace)},

		{"GET /messages/{$}", asJSON((*request).listAllMessages)},
		{"GET /messages/{message}", asJSON((*request).getMessage)},
	}
	for _, kind := range []string{kindIdentity, kindGroup} {
		p := identityKind(kind)
		path := "/" + map[string]string{kindIdentity: "identities", kindGroup: "groups"}[kind]
		list = append(list,
			route{"POST " + path + "/{$}", asJSON(p.create)}, route{"GET " + path + "/{$}", asJSON(p.list)}, route{"GET " + path + "/{id}", asJSON(p.get)},
			route{"PATCH " + path + "/{id}", asJSON(p.update)}, route{"DELETE " + path + "/{id}", asJSON(p.remove)})
		if kind == kindIdentity {
			list = append(list, route{"PUT " + path + "/{$}", asJSON(p.upsert)})
		}
	}
	return list
}

func (d *Dialect) health(w http.ResponseWriter, r *http.Request) {
	d.http.Send(w, r, http.StatusOK, map[string]string{"version": d.opt.Version, "status": "ok"})
}

// notOffered answers requests that only Letta's server offers. X-Should-Retry keeps the clients from
// sending them again.
func (d *Dialect) notOffered(w http.ResponseWriter, r *http.Request, _ chat.Caller) error {
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/v1"), "/latest")
	text := r.Method + " " + clip(r.URL.Path) + " is not offered here."
	for _, a := range advice {
		if strings.HasPrefix(path, a.below) && strings.HasSuffix(strings.TrimSuffix(path, "/"), a.end) {
			text += " " + a.text
			break
		}
	}
	w.Header().Set("X-Should-Retry", "false")
	d.http.Send(w, r, http.StatusNotImplemented, errorBody{Detail: text})
	return nil
}

// advice says what to use instead of something that is not offered.
var advice = []struct{ below, end, text string }{
	{"/agents/", "/reset-messages", "The log of a conversation is never rewritten: begin an empty one with POST /v1/conversations/, or delete the agent."},
	{"/agents/", "/summarize", "Model agents compact their context by themselves."},
	{"/conversations/", "/compact", "Model agents compact their context by themselves."},
	{"/runs/", "/trace", "Requests to providers are not stored."},
	{"/steps/", "/feedback", "Feedback is not stored."},
	{"/agents/", "/export", "A conversation is exported with GET /parley/v1/sessions/{id}/messages, or by parley export."},
	{"/agents/", "", "Agents are created, listed, read, changed with PATCH, and deleted; their tools, folders, archives and schedules are set up by the operator of this server."},
	{"/runs/", "/metrics", "See /v1/runs/{id}/usage and /v1/runs/{id}/steps."},
	{"/runs/", "", "Runs are a part of their conversation, and are erased with it."},
	{"/messages/", "/search", "One conversation is searched with GET /parley/v1/sessions/{id}/search?q=WORDS."},
	{"/folders/", "", filesAdvice},
	{"/sources/", "", filesAdvice},
	{"/jobs/", "", "Work in the background is a run: see /v1/runs/."},
	{"/providers/", "", "Models are the agents of this server: see /v1/models/."},
	{"/blocks/", "", "Memory blocks are stored with their agent: give them as memory_blocks, and see /v1/agents/{id}/core-memory/blocks."},
	{"/tools/", "", "Tools belong to the agents that the operator of this server configures; tools of the client's own go with a message, as client_tools."},
	{"/mcp-servers/", "", "MCP servers are named in the server's configuration."},
	{"/", "", "docs/letta.md lists what this server offers."},
}

const filesAdvice = "Files belong to conversations: see /parley/v1/sessions/{id}/artifacts."

// empty answers with an empty list.
func empty(*request) (any, error) { return []any{}, nil }

// immutable refuses to change a message.
func (q *request) immutable(w http.ResponseWriter) error {
	w.Header().Set("Allow", "GET")
	q.http.Send(w, q.Request, http.StatusMethodNotAllowed, errorBody{Detail: "Messages cannot be changed: the log of a conversation is never rewritten."})
	return nil
}
