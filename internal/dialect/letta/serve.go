package letta

import (
	"cmp"
	"context"
	"hash/maphash"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/wire"
)

// sessions is the door to the conversations.
type sessions interface {
	Create(ctx context.Context, c chat.Caller, n chat.NewSession) (chat.Session, bool, error)
	Resolve(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.SessionID, error)
	Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	ByID(ctx context.Context, c chat.Caller, id chat.ID) (chat.Session, chat.Seq, error)
	List(ctx context.Context, c chat.Caller, f chat.Filter) (chat.SessionPage, error)
	State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error)
	Blocks(ctx context.Context, c chat.Caller, id chat.SessionID) ([]chat.Block, error)
	Update(ctx context.Context, c chat.Caller, id chat.SessionID, u chat.SessionUpdated) (chat.Session, error)
	Fork(ctx context.Context, c chat.Caller, id chat.SessionID, f chat.Fork) (chat.Session, error)
	Erase(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Receipt, error)
	MayStore(ctx context.Context, c chat.Caller, id chat.SessionID, bytes int64) error
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Stop(ctx context.Context, c chat.Caller, id chat.SessionID, workstream, reason string) (chat.StopResult, error)
	Read(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error)
	Event(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Fact, error)
	Ends(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) ([]chat.End, error)
	Watch(ctx context.Context, c chat.Caller, id chat.SessionID, from chat.Start, enc chat.Encoding) iter.Seq2[chat.Batch, error]
}

// files keeps pictures that are too large for an event.
type files interface {
	Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, limit int64) (chat.FileInfo, error)
}

// Options of the dialect.
type Options struct {
	Sessions sessions
	Files    files                                    // nil means that large pictures are refused
	Caller   func(*http.Request) (chat.Caller, error) // who is asking
	Conns    *wire.Conns                              // open streams
	Agents   func(workspace string) []string          // names of the agents that can answer
	Agent    func() string                            // names who answers agents that name no model; nil means demo
	Models   map[string]string                        // model → agent, for models that are not named after one; * is any other
	Version  string                                   // of this server

	// Post tells somebody at an address that a client gave; the error is shown
	// to that client. nil means that nobody is called.
	Post     func(ctx context.Context, address string, body []byte) (status int, err error)
	TryPause time.Duration // before the second try; 0 means 1 s

	MaxBody     int64         // bytes of a JSON body; 0 means 8 MiB
	MaxArtifact int64         // bytes of a picture; 0 means 1 GiB
	Heartbeat   time.Duration // silence after which a stream is pinged; 0 means 20 s
	Now         func() time.Time
	Logger      *slog.Logger
}

// Dialect speaks to Letta's clients.
type Dialect struct {
	opt   Options
	log   *slog.Logger
	seed  maphash.Seed
	gates [64]sync.Mutex // of conversations, by their session's id: one request at a time decides what to send

	calls  chan pending        // for Run
	erased chan chat.SessionID // for Run

	mu    sync.Mutex
	books map[string]*book // by workspace
}

// maxErased bounds the erased sessions that wait for Run to look at them.
const maxErased = 1024

// New returns the dialect.
func New(opt Options) *Dialect {
	opt.MaxBody = cmp.Or(opt.MaxBody, 8<<20)
	opt.MaxArtifact = cmp.Or(opt.MaxArtifact, 1<<30)
	opt.Heartbeat = cmp.Or(opt.Heartbeat, 20*time.Second)
	opt.TryPause = cmp.Or(opt.TryPause, tryPause)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Agent == nil {
		opt.Agent = func() string { return "demo" }
	}
	opt.Version = cmp.Or(opt.Version, "dev")
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	return &Dialect{
		opt: opt, log: opt.Logger.With("dialect", via), seed: maphash.MakeSeed(), calls: make(chan pending, maxCalls),
		erased: make(chan chat.SessionID, maxErased), books: map[string]*book{},
	}
}

// gate is what requests that send to a conversation pass one after the other.
func (d *Dialect) gate(id chat.SessionID) *sync.Mutex {
	return &d.gates[maphash.String(d.seed, string(id))%uint64(len(d.gates))]
}

// handler is a route's work; an error it returns is the answer.
type handler func(w http.ResponseWriter, r *http.Request, c chat.Caller) error

// Routes lists where the dialect answers.
func (d *Dialect) Routes() []wire.Route {
	var routes []wire.Route
	for _, base := range []string{"/v1", "/latest"} {
		add := func(pattern string, h handler) {
			method, path, _ := strings.Cut(pattern, " ")
			route := wire.Route{Handler: d.handle(h), Fail: d.fail, Dialect: via}
			route.Pattern = method + " " + base + path
			routes = append(routes, route)
			if strings.HasSuffix(path, "/{$}") {
				// Collections have a slash at their end, and clients that leave it out.
				route.Pattern = method + " " + base + strings.TrimSuffix(path, "/{$}")
				routes = append(routes, route)
			}
		}
		for _, path := range []string{"/health", "/health/{$}"} {
			routes = append(routes, wire.Route{Pattern: "GET " + base + path, Public: true, Handler: http.HandlerFunc(d.health), Fail: d.fail, Dialect: via})
		}
		for _, r := range d.routes() {
			add(r.pattern, r.serve)
		}
		for _, path := range families {
			routes = append(routes, wire.Route{Pattern: base + path, Handler: d.handle(d.unknown), Fail: d.fail, Dialect: via})
		}
	}
	return routes
}

// families are the addresses of Letta's API; what is not offered below one of them
// is refused in the form that its clients understand.
var families = []string{
	"/agents/", "/conversations/", "/runs/", "/steps/", "/messages/", "/identities/", "/groups/", "/models/", "/tags/", "/tools/", "/blocks/", "/folders/",
	"/archives/", "/passages/", "/templates/", "/mcp-servers/", "/projects/", "/client-side-access-tokens/", "/environments/", "/sources/", "/jobs/", "/providers/",
}

type route struct {
	pattern string
	serve   handler
}

func (d *Dialect) routes() []route {
	list := []route{
		{"GET /models/{$}", d.listModels},
		{"GET /models/embedding", d.nothing},
		{"GET /tags/{$}", d.listTags},
		{"GET /tools/{$}", d.nothing},

		{"POST /agents/{$}", d.createAgent},
		{"GET /agents/{$}", d.listAgents},
		{"GET /agents/{agent}", d.getAgent},
		{"PATCH /agents/{agent}", d.updateAgent},
		{"DELETE /agents/{agent}", d.deleteAgent},
		{"POST /agents/{agent}/recompile", d.recompileAgent},
		{"GET /agents/{agent}/tools", d.listAgentTools},
		{"GET /agents/{agent}/core-memory/blocks", d.listBlocks},
		{"GET /agents/{agent}/core-memory/blocks/{label}", d.getBlock},
		{"PATCH /agents/{agent}/core-memory/blocks/{label}", d.updateBlock},
		{"PATCH /agents/{agent}/identities/attach/{id}", d.attachIdentity},
		{"PATCH /agents/{agent}/identities/detach/{id}", d.detachIdentity},

		{"POST /agents/{agent}/messages", d.sendToAgent},
		{"POST /agents/{agent}/messages/stream", d.streamAgent},
		{"POST /agents/{agent}/messages/async", d.sendAsync},
		{"POST /agents/{agent}/messages/cancel", d.cancelAgent},
		{"GET /agents/{agent}/messages", d.listAgentMessages},
		{"PATCH /agents/{agent}/messages/{message}", d.immutable},

		{"POST /conversations/{$}", d.createConversation},
		{"GET /conversations/{$}", d.listConversations},
		{"GET /conversations/{conversation}", d.getConversation},
		{"PATCH /conversations/{conversation}", d.updateConversation},
		{"DELETE /conversations/{conversation}", d.deleteConversation},
		{"POST /conversations/{conversation}/messages", d.sendToConversation},
		{"GET /conversations/{conversation}/messages", d.listConversationMessages},
		{"POST /conversations/{conversation}/stream", d.resumeConversation},
		{"POST /conversations/{conversation}/cancel", d.cancelConversation},
		{"POST /conversations/{conversation}/fork", d.forkConversation},
		{"POST /conversations/{conversation}/recompile", d.recompileConversation},

		{"GET /runs/{$}", d.listRuns},
		{"GET /runs/{run}", d.getRun},
		{"GET /runs/{run}/messages", d.listRunMessages},
		{"GET /runs/{run}/steps", d.listRunSteps},
		{"GET /runs/{run}/usage", d.getRunUsage},
		{"POST /runs/{run}/stream", d.resumeRun},

		{"GET /steps/{$}", d.listSteps},
		{"GET /steps/{step}", d.getStep},
		{"GET /steps/{step}/messages", d.listStepMessages},
		{"GET /steps/{step}/metrics", d.getStepMetrics},
		{"GET /steps/{step}/trace", d.getStepTrace},

		{"GET /messages/{$}", d.listAllMessages},
		{"GET /messages/{message}", d.getMessage},
	}
	for _, kind := range []string{kindIdentity, kindGroup} {
		p := &people{d: d, kind: kind}
		path := "/" + map[string]string{kindIdentity: "identities", kindGroup: "groups"}[kind]
		list = append(list,
			route{"POST " + path + "/{$}", p.create}, route{"GET " + path + "/{$}", p.list}, route{"GET " + path + "/{id}", p.get},
			route{"PATCH " + path + "/{id}", p.update}, route{"DELETE " + path + "/{id}", p.remove})
		if kind == kindIdentity {
			list = append(list, route{"PUT " + path + "/{$}", p.upsert})
		}
	}
	return list
}

func (d *Dialect) handle(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := d.opt.Caller(r)
		if err == nil {
			err = h(w, r, c)
		}
		if err != nil {
			d.fail(w, r, err)
		}
	})
}

func (d *Dialect) health(w http.ResponseWriter, r *http.Request) {
	d.send(w, r, http.StatusOK, map[string]string{"version": d.opt.Version, "status": "ok"})
}

// unknown answers what the real server has and this one has not. The status says
// that it is the server that lacks something, and the header that asking again is
// of no use; otherwise the clients would.
func (d *Dialect) unknown(w http.ResponseWriter, r *http.Request, _ chat.Caller) error {
	path := r.URL.Path
	for _, base := range []string{"/v1", "/latest"} {
		path = strings.TrimPrefix(path, base)
	}
	text := r.Method + " " + clip(r.URL.Path) + " is not offered here."
	for _, a := range advice {
		if strings.HasPrefix(path, a.below) && strings.HasSuffix(strings.TrimSuffix(path, "/"), a.end) {
			text += " " + a.text
			break
		}
	}
	w.Header().Set("X-Should-Retry", "false")
	d.send(w, r, http.StatusNotImplemented, detail{Detail: text})
	return nil
}

// advice is what to do instead of something that is not offered.
var advice = []struct{ below, end, text string }{
	{"/agents/", "/reset-messages", "The log of a conversation is never rewritten: begin an empty one with POST /v1/conversations/, or delete the agent."},
	{"/agents/", "/summarize", "An agent that calls a model makes its past fit by itself."},
	{"/conversations/", "/compact", "An agent that calls a model makes its past fit by itself."},
	{"/runs/", "/trace", "What went to a provider is not kept."},
	{"/steps/", "/feedback", "Feedback is not kept."},
	{"/agents/", "/export", "A conversation is exported with GET /parley/v1/sessions/{id}/messages, or by parley export."},
	{"/agents/", "", "Tools, folders, archives and schedules belong to the agents that the operator of this server configures."},
	{"/blocks/", "", "Memory blocks are kept with their agent: give them as memory_blocks, and see /v1/agents/{id}/core-memory/blocks."},
	{"/tools/", "", "Tools belong to the agents that the operator of this server configures; tools of the client's own go with a message, as client_tools."},
	{"/mcp-servers/", "", "MCP servers are named in the server's configuration."},
}

// nothing answers with an empty list, where there is never anything.
func (d *Dialect) nothing(w http.ResponseWriter, r *http.Request, _ chat.Caller) error {
	d.send(w, r, http.StatusOK, []any{})
	return nil
}

// immutable answers who wants to change a message.
func (d *Dialect) immutable(w http.ResponseWriter, r *http.Request, _ chat.Caller) error {
	w.Header().Set("Allow", "GET")
	d.send(w, r, http.StatusMethodNotAllowed, detail{Detail: "Messages cannot be changed: the log of a conversation is never rewritten."})
	return nil
}
