package nemo

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/attachment"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/wire"
)

// sessions is what the dialect needs of the session service.
type sessions interface {
	attachment.Sessions
	PutFile(ctx context.Context, c chat.Caller, id chat.SessionID, f core.FilePut) (chat.FileInfo, error)
	RemoveFile(ctx context.Context, c chat.Caller, id chat.SessionID, path, via string) error
	Ensure(ctx context.Context, c chat.Caller, foreign string, n chat.NewSession) (chat.Session, bool, error)
	Own(ctx context.Context, c chat.Caller, foreign string) (chat.Session, error)
	ByID(ctx context.Context, c chat.Caller, id chat.ID) (chat.Session, chat.Seq, error)
	List(ctx context.Context, c chat.Caller, f core.Filter) (chat.SessionPage, error)
	ListAll(ctx context.Context, c chat.Caller, f core.Filter) iter.Seq2[chat.Session, error]
	GetAt(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Session, error)
	State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error)
	Update(ctx context.Context, c chat.Caller, id chat.SessionID, u chat.SessionUpdated) (chat.Session, error)
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Answer(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string, a chat.Answer) (chat.Event, error)
	Prompt(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string) (*chat.Prompt, error)
	Sent(ctx context.Context, c chat.Caller, id chat.SessionID, clientID string) (*chat.Event, error)
	Stop(ctx context.Context, c chat.Caller, id chat.SessionID, workstream, reason string) (chat.StopResult, error)
	Events(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) iter.Seq2[chat.Event, error]
	Facts(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) iter.Seq2[chat.Fact, error]
	Event(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Event, error)
	Watch(ctx context.Context, c chat.Caller, id chat.SessionID, from core.Start, enc core.Encoding) iter.Seq2[core.Batch, error]
}

// files stores files of sessions.
type files interface {
	attachment.Files
	Get(ctx context.Context, id chat.SessionID, path string) (io.ReadSeekCloser, chat.FileInfo, error)
}

// Options of the dialect. All functions but Now and NewID are needed.
type Options struct {
	Sessions      sessions
	Files         files
	Caller        func(*http.Request) (chat.Caller, error)                                 // authenticates a request
	Authenticate  func(context.Context, string) (chat.Caller, error)                       // authenticates a token
	Bind          func(context.Context, chat.Caller) (context.Context, context.CancelFunc) // ends a context with the caller's credential
	Allow         func(c chat.Caller, requests int) error                                  // limits messages on sockets
	ClientAddress func(*http.Request) string                                               // the client's address
	Conns         *wire.Conns                                                              // open streams and sockets
	Agent         func() string                                                            // answers sessions whose history was imported
	Schema        string                                                                   // of sockets that name none: nemo (default), documented, agentiq, aiq
	Dir           string                                                                   // keeps resume points over a restart; "" means that they are not kept
	Tools         func(ctx context.Context) []MCPClient                                    // for /mcp/client/tool/list
	Nodes         *Nodes                                                                   // the other nodes of a cluster; nil on a single server

	MaxBody     int64         // bytes of a JSON body; 0 means 8 MiB
	MaxArtifact int64         // bytes of a file
	AuthTimeout time.Duration // how long a socket stays open without authentication; 0 means 10 s
	Gone        time.Duration // how long an old socket has to answer a ping when its client reconnects; 0 means 2 s
	FirstPong   time.Duration // how long a client may take to answer its first ping; then it answers none; 0 means 10 s
	Now         func() time.Time
	NewID       func() string // ids of frames without an event; nil means random
	Logger      *slog.Logger
}

const (
	maxFrame       = 16 << 20         // bytes of a WebSocket frame
	heartbeatEvery = 20 * time.Second // on sockets and streams
)

// Dialect speaks to NeMo Agent Toolkit clients.
type Dialect struct {
	opt             Options
	files           attachment.Store
	http, openAI    *edge.HTTP // they differ in the format of errors
	schema          *schema
	points          *resumePoints
	consents        *consents
	unauthenticated *wire.AuthLimit // sockets
	log             *slog.Logger
}

// New returns the dialect. An unknown schema means the default one.
func New(opt Options) *Dialect {
	opt.AuthTimeout = cmp.Or(opt.AuthTimeout, 10*time.Second)
	opt.Gone = cmp.Or(opt.Gone, 2*time.Second)
	opt.FirstPong = cmp.Or(opt.FirstPong, 10*time.Second)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.NewID == nil {
		opt.NewID = randomID
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	log := opt.Logger.With("dialect", via)
	d := &Dialect{opt: opt, files: attachment.Store{Sessions: opt.Sessions, Files: opt.Files, Max: opt.MaxArtifact}, schema: schemaByName[opt.Schema], consents: newConsents(), log: log}
	if d.schema == nil {
		d.schema = &schemaNeMo
	}
	d.unauthenticated = wire.NewAuthLimit(maxUnauthenticated, maxUnauthenticatedFrame, opt.AuthTimeout)
	d.http = &edge.HTTP{Dialect: via, Caller: opt.Caller, MaxBody: opt.MaxBody, EncodeError: encodeError, Log: log}
	d.openAI = &edge.HTTP{Dialect: via, Caller: opt.Caller, MaxBody: opt.MaxBody, EncodeError: encodeOpenAIError, Log: log}
	d.points = newResumePoints(opt.Dir, opt.Nodes, opt.Now, log)
	return d
}

func randomID() string {
	var id chat.ID
	_, _ = rand.Read(id[:]) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id.UUID()
}

func (d *Dialect) now() chat.At { return chat.AtOf(d.opt.Now()) }

// Routes lists the routes of the dialect.
func (d *Dialect) Routes() []wire.Route {
	public := func(pattern string, h http.HandlerFunc) wire.Route {
		return wire.Route{Pattern: pattern, Dialect: via, Public: true, Handler: h, Fail: d.http.Fail}
	}
	socket := public("GET /websocket", d.serveSocket) // a message may bring the credential later
	socket.QueryToken = true
	routes := []wire.Route{
		socket,
		public("GET /auth/redirect", d.handleRedirect), // an authorization server sends people here
		public("GET /health", func(w http.ResponseWriter, r *http.Request) {
			d.http.Send(w, r, http.StatusOK, map[string]string{"status": "healthy"})
		}),
		d.openAI.Route("POST /v1/chat/completions", (&answerRoute{d: d, chat: true, openAI: true}).serve),
		d.http.Route("GET /executions/{id}", d.http.Reply(d.showExecution)),
		d.http.Route("POST /executions/{id}/interactions/{interaction}/response", d.respond),
		d.http.Route("POST /feedback", d.http.Reply(d.feedback)),
		d.http.Route("GET /mcp/client/tool/list", d.http.Reply(d.listTools)),
		d.http.Route("GET /static/{path...}", d.withStaticFile(d.getStatic)),
		d.http.Route("DELETE /static/{path...}", d.withStaticFile(d.deleteStatic)),
	}
	for _, method := range []string{"POST", "PUT"} {
		upload := d.http.Route(method+" /static/{path...}", d.withStaticFile(d.putStatic))
		upload.Upload = true
		routes = append(routes, upload)
	}
	for _, base := range []string{"/v1/workflow", "/generate"} {
		routes = append(routes, d.http.Route("POST "+base+"/async", d.startJob), d.http.Route("GET "+base+"/async/job/{id}", d.http.Reply(d.showJob)))
	}
	for _, rt := range []*answerRoute{
		{path: "/chat", chat: true},
		{path: "/chat/stream", chat: true, stream: true},
		{path: "/generate"},
		{path: "/generate/stream", stream: true},
		{path: "/generate/full", stream: true, full: true},
		{path: "/v1/chat", chat: true, interactive: true},
		{path: "/v1/chat/stream", chat: true, stream: true, interactive: true},
		{path: "/v1/workflow", interactive: true},
		{path: "/v1/workflow/stream", stream: true, interactive: true},
		{path: "/v1/workflow/full", stream: true, full: true, interactive: true},
	} {
		rt.d = d
		routes = append(routes, d.http.Route("POST "+rt.path, rt.serve))
	}
	return routes
}

// encodeError is the [edge.ErrorEncoder] of all routes but those of OpenAI. The body also has "detail", which clients of
// FastAPI servers read. Invalid requests get the status 422, as from the toolkit's server.
func encodeError(err error, _ http.Header) (status int, body any) {
	status = edge.Status(chat.CodeOf(err))
	if status == http.StatusBadRequest {
		status = http.StatusUnprocessableEntity
	}
	e := errorOf(err)
	return status, struct {
		errorContent
		Detail string `json:"detail"`
	}{e, e.Details}
}

// encodeOpenAIError is the [edge.ErrorEncoder] of the routes of OpenAI.
func encodeOpenAIError(err error, _ http.Header) (status int, body any) {
	kind := "invalid_request_error"
	switch chat.CodeOf(err) {
	case chat.Unauthenticated, chat.Denied:
		kind = "authentication_error"
	case chat.SlowDown:
		kind = "rate_limit_error"
	case chat.Unavailable, chat.Internal:
		kind = "server_error"
	}
	e := errorOf(err)
	return edge.Status(chat.CodeOf(err)), map[string]any{"error": map[string]any{"message": e.Details, "type": kind, "code": e.Code, "param": nil}}
}
