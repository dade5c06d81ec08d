package vertesia

import (
	"cmp"
	"context"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/dialect/vertesia/files"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/keylock"
	"github.com/parley-hq/parley/internal/wire"
)

// via is the name of the dialect on events that it appends.
const via = "vertesia"

// sessions are the operations of internal/session that the dialect uses.
type sessions interface {
	Create(ctx context.Context, c chat.Caller, n chat.NewSession) (chat.Session, bool, error)
	Resolve(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.SessionID, error)
	Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	Latest(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	GetAtPosition(ctx context.Context, c chat.Caller, id chat.SessionID, at chat.At) (chat.Session, error)
	List(ctx context.Context, c chat.Caller, f core.Filter) (chat.SessionPage, error)
	ListAll(ctx context.Context, c chat.Caller, f core.Filter) iter.Seq2[chat.Session, error]
	All(ctx context.Context) iter.Seq2[chat.Session, error]
	Search(ctx context.Context, c chat.Caller, id chat.SessionID, query string, before chat.Seq, limit int) (chat.SearchPage, error)
	State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error)
	Update(ctx context.Context, c chat.Caller, id chat.SessionID, u chat.SessionUpdated) (chat.Session, error)
	UpdateFrom(ctx context.Context, c chat.Caller, from chat.Session, u chat.SessionUpdated) (chat.Session, error)
	Fork(ctx context.Context, c chat.Caller, id chat.SessionID, f chat.Fork) (chat.Session, error)
	Erase(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Receipt, error)
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Preview(ctx context.Context, c chat.Caller, id chat.SessionID, pieces []chat.Preview) error
	Answer(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string, a chat.Answer) (chat.Event, error)
	Prompt(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string) (*chat.Prompt, error)
	Sent(ctx context.Context, c chat.Caller, id chat.SessionID, clientID string) (*chat.Event, error)
	StopAs(ctx context.Context, c chat.Caller, id chat.SessionID, workstream, reason, ack string) (chat.StopResult, error)
	StopAll(ctx context.Context, c chat.Caller, id chat.SessionID, reason string) (chat.StopResult, error)
	Launch(ctx context.Context, c chat.Caller, id chat.SessionID, l chat.Launch) (chat.WorkstreamStatus, error)
	MessageWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, m chat.Steering) (chat.WorkstreamStatus, error)
	SteerWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, s chat.Steering) (chat.WorkstreamStatus, error)
	TerminateWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, s chat.Steering) (chat.WorkstreamStatus, error)
	Workstreams(ctx context.Context, c chat.Caller, id chat.SessionID) ([]chat.WorkstreamStatus, error)
	Blocks(ctx context.Context, c chat.Caller, id chat.SessionID) ([]chat.Block, error)
	Events(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) iter.Seq2[chat.Event, error]
	Event(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Event, error)
	Watch(ctx context.Context, c chat.Caller, id chat.SessionID, from core.Start, enc core.Encoding) iter.Seq2[core.Batch, error]
	PutFile(ctx context.Context, c chat.Caller, id chat.SessionID, f core.FilePut) (chat.FileInfo, error)
	RemoveFile(ctx context.Context, c chat.Caller, id chat.SessionID, path, via string) error
}

// fileStore holds the files of sessions.
type fileStore interface {
	Get(ctx context.Context, id chat.SessionID, path string) (io.ReadSeekCloser, chat.FileInfo, error)
	Stat(ctx context.Context, id chat.SessionID, path string) (chat.FileInfo, error)
	List(ctx context.Context, id chat.SessionID, prefix, after string, limit int) (infos []chat.FileInfo, more bool, err error)
}

// Options of the dialect.
type Options struct {
	Sessions sessions
	Files    fileStore
	Caller   func(*http.Request) (chat.Caller, error)                                 // the caller of a request
	Check    func(chat.Caller) error                                                  // why a caller's credential is no longer valid
	Bind     func(context.Context, chat.Caller) (context.Context, context.CancelFunc) // ends a context with the caller's credential
	Issue    func(r *http.Request) (token string, err error)                          // a short-lived token for the caller
	Agents   func(workspace string) []string                                          // names of the agents
	Tools    func(ctx context.Context, agent string) (tools []Tool, known bool)       // the tools of an agent
	Allow    func(c chat.Caller, requests int) error                                  // counts requests with signed addresses, and frames on sockets
	Conns    *wire.Conns                                                              // open streams and sockets
	Secret   []byte                                                                   // signs addresses of files; it must stay the same after a restart

	TrustedProxy bool          // X-Forwarded-Proto is trusted
	MaxBody      int64         // bytes of a JSON body; 0 means 8 MiB
	MaxArtifact  int64         // bytes of a file; 0 means 1 GiB
	Group        time.Duration // least time between two writes of chunks to a reader; 0 means 16 ms
	Retention    time.Duration // runs without a change for so long are erased; 0 means never
	Now          func() time.Time
	Logger       *slog.Logger
}

// Tool is a tool of an agent.
type Tool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Server      string `json:"-"` // the MCP server that has it; "" is the agent itself
}

const (
	maxFrame  = 16 << 20         // bytes of a WebSocket frame
	heartbeat = 15 * time.Second // of streams
)

// Dialect serves Vertesia clients.
type Dialect struct {
	opt   Options
	log   *slog.Logger
	http  *edge.HTTP
	files *files.Service
	lock  keylock.Locks // of sessions whose attachments or posted chunks are being changed
}

// New returns the dialect.
func New(opt Options) *Dialect {
	opt.Group = cmp.Or(opt.Group, 16*time.Millisecond)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Dialect{opt: opt, log: opt.Logger.With("dialect", via)}
	d.http = &edge.HTTP{Dialect: via, Caller: opt.Caller, MaxBody: opt.MaxBody, EncodeError: encodeError, Log: d.log}
	d.files = files.New(files.Options{
		HTTP: d.http, Sessions: opt.Sessions, Store: opt.Files, Find: d.fileOwner, Conversation: d.conversation,
		Check: opt.Check, Bind: opt.Bind, Allow: opt.Allow, Secret: opt.Secret, TrustedProxy: opt.TrustedProxy, MaxSize: opt.MaxArtifact, Now: opt.Now,
	})
	return d
}

func (d *Dialect) now() chat.At { return chat.AtOf(d.opt.Now()) }

// failure is the body of an error.
type failure struct {
	Message string         `json:"message"`
	Error   string         `json:"error"`
	Status  int            `json:"status"`
	Details map[string]any `json:"details,omitempty"`
}

// encodeError is the [edge.ErrorEncoder].
func encodeError(err error, h http.Header) (status int, body any) {
	e := chat.Public(err)
	if e.Code == chat.SlowDown {
		// Clients that see these two headers try again by themselves.
		h.Set("X-RateLimit-Reason", "pacing")
		h.Set("X-RateLimit-Retry-Ms", "1000")
	}
	status = edge.Status(e.Code)
	return status, failure{Message: e.Msg, Error: string(e.Code), Status: status, Details: withLaunchID(e.Details)}
}

// Routes lists the addresses of the dialect.
func (d *Dialect) Routes() []wire.Route {
	routes := d.files.Routes()
	handle := func(pattern string, h edge.Handler) *wire.Route {
		routes = append(routes, d.http.Route(pattern, h))
		return &routes[len(routes)-1]
	}
	// h returns the answer to a request, in onRun to one about a run, and in onWhole to
	// one that a workstream under its own id cannot have; in stream it writes it.
	add := func(pattern string, h func(*http.Request, chat.Caller) (any, error)) {
		handle(pattern, d.http.Reply(h))
	}
	stream := func(pattern string, h func(http.ResponseWriter, *http.Request, chat.Caller, run) error) *wire.Route {
		return handle(pattern, func(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
			sess, err := d.findRun(r.Context(), c, r.PathValue("id"))
			if err != nil {
				return err
			}
			return h(w, r, c, sess)
		})
	}
	onRun := func(pattern string, h func(*http.Request, chat.Caller, run) (any, error)) {
		add(pattern, func(r *http.Request, c chat.Caller) (any, error) {
			sess, err := d.findRun(r.Context(), c, r.PathValue("id"))
			if err != nil {
				return nil, err
			}
			return h(r, c, sess)
		})
	}
	onWhole := func(pattern string, h func(*http.Request, chat.Caller, run) (any, error)) {
		onRun(pattern, func(r *http.Request, c chat.Caller, sess run) (any, error) {
			if err := sess.mustBeWhole(); err != nil {
				return nil, err
			}
			return h(r, c, sess)
		})
	}

	add("POST /token/issue", d.issueToken)

	const agents = "/api/v1/agents"
	for _, slash := range []string{"", "/{$}"} {
		add("POST "+agents+slash, d.startRun)
		add("GET "+agents+slash, d.listRuns)
	}
	add("GET "+agents+"/search", d.searchRuns)
	add("POST "+agents+"/record", d.recordRun)
	onRun("GET "+agents+"/{id}", d.showRun)
	onRun("DELETE "+agents+"/{id}", d.deleteRun)
	onWhole("POST "+agents+"/{id}/restart", d.restartRun)
	onWhole("POST "+agents+"/{id}/fork", d.forkRun)
	onWhole("POST "+agents+"/{id}/status", d.setStatus)
	onWhole("POST "+agents+"/{id}/workflow", d.bindRun)
	onRun("GET "+agents+"/{id}/internals", d.showRun)
	stream("GET "+agents+"/{id}/details/stream", d.streamDetails).QueryToken = true
	onRun("GET "+agents+"/{id}/children", d.listChildren)
	add("GET "+agents+"/{id}/children/{child}/details", d.showChild)
	onRun("GET "+agents+"/{id}/details", d.showDetails)
	onRun("POST "+agents+"/{id}/updates", d.postUpdate)

	const runs = "/api/v1/workflows/runs"
	for _, base := range []string{agents + "/{id}", runs + "/{workflow}/{id}"} {
		stream("GET "+base+"/updates", d.listUpdates)
		stream("GET "+base+"/stream", d.streamUpdates).QueryToken = true
		onRun("POST "+base+"/signal/{name}", d.signal)
		onRun("GET "+base+"/query/{name}", d.query)
		onRun("POST "+base+"/events", d.telemetry)
	}
	onRun("POST "+runs+"/{id}/updates", d.postUpdate)
	onRun("GET "+runs+"/{workflow}/{id}", d.showDetails)
	stream("GET "+runs+"/{workflow}/{id}/ws", d.socket).QueryToken = true
	onRun("GET "+runs+"/{workflow}/{id}/interaction", d.showInteraction)
	onRun("POST "+runs+"/{workflow}/{id}/actions/terminate", d.endRun)
	onRun("POST "+runs+"/{workflow}/{id}/actions/cancel", d.endRun)
	for _, slash := range []string{"", "/{$}"} {
		add("POST "+runs+slash, d.searchWorkflows)
		add("POST /api/v1/pending-asks"+slash, d.registerQuestion)
		add("GET /api/v1/pending-asks"+slash, d.listQuestions)
	}
	add("POST /api/v1/workflows/conversations", d.searchWorkflows)
	add("POST /api/v1/workflows/execute/{name}", d.executeWorkflow)
	add("GET /api/v1/pending-asks/{ask}", d.showQuestion)
	add("POST /api/v1/pending-asks/{ask}/resolve", d.resolveQuestion)
	add("GET /api/v1/interactions", d.listInteractions)
	add("GET /api/v1/interactions/catalog", d.listInteractions)
	add("GET /api/v1/apps/installations", listNone)
	return append(routes, d.refusedRoutes()...)
}

// issueToken exchanges a key for a short-lived token.
func (d *Dialect) issueToken(r *http.Request, _ chat.Caller) (any, error) {
	token, err := d.opt.Issue(r)
	return map[string]string{"token": token}, err
}

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
