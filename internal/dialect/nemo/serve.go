package nemo

import (
	"cmp"
	"context"
	"crypto/rand"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/wire"
)

// sessions is the door to the conversations.
type sessions interface {
	MayStore(ctx context.Context, c chat.Caller, id chat.SessionID, bytes int64) error
	PutFile(ctx context.Context, c chat.Caller, id chat.SessionID, f chat.FilePut) (chat.FileInfo, error)
	RemoveFile(ctx context.Context, c chat.Caller, id chat.SessionID, path, via string) error
	Ensure(ctx context.Context, c chat.Caller, foreign string, n chat.NewSession) (chat.Session, bool, error)
	Own(ctx context.Context, c chat.Caller, foreign string) (chat.Session, error)
	ByID(ctx context.Context, c chat.Caller, id chat.ID) (chat.Session, chat.Seq, error)
	List(ctx context.Context, c chat.Caller, f chat.Filter) (chat.SessionPage, error)
	State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error)
	Update(ctx context.Context, c chat.Caller, id chat.SessionID, u chat.SessionUpdated) (chat.Session, error)
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Answer(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string, a chat.Answer) (chat.Event, error)
	Stop(ctx context.Context, c chat.Caller, id chat.SessionID, workstream, reason string) (chat.StopResult, error)
	Read(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error)
	Event(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Fact, error)
	Watch(ctx context.Context, c chat.Caller, id chat.SessionID, from chat.Start, enc chat.Encoding) iter.Seq2[chat.Batch, error]
}

// Options of the dialect.
type Options struct {
	Sessions     sessions
	Files        files                                                                    // nil means that large attachments are refused
	Caller       func(*http.Request) (chat.Caller, error)                                 // who is asking
	Authenticate func(ctx context.Context, token string) (chat.Caller, error)             // whom a token stands for
	Bind         func(context.Context, chat.Caller) (context.Context, context.CancelFunc) // ends a context with the caller's credential; nil means that it does not end
	Allow        func(c chat.Caller, requests int) error                                  // counts messages on sockets; nil means no limit
	Remote       func(*http.Request) string                                               // the address a request comes from; nil means that of its connection
	Conns        *wire.Conns                                                              // open streams and sockets
	Agent        func() string                                                            // names who answers conversations whose history was imported; nil means demo
	Schema       string                                                                   // how sockets are spoken to that do not say: nemo (default), documented, agentiq, aiq
	Dir          string                                                                   // where delivery marks are kept over a restart; "" means nowhere
	Tools        func(ctx context.Context) []MCPClient                                    // what /mcp/client/tool/list lists; nil means none

	MaxBody     int64         // bytes of a JSON body; 0 means 8 MiB
	MaxArtifact int64         // bytes of a file; 0 means 1 GiB
	MaxFrame    int           // bytes of a WebSocket frame; 0 means 16 MiB
	AuthTimeout time.Duration // how long a socket may stay open before its client authenticates; 0 means 10 s
	Heartbeat   time.Duration // of sockets and streams; 0 means 20 s
	Gone        time.Duration // how long an old socket has to answer a ping; 0 means 2 s
	Now         func() time.Time
	NewID       func() string // ids of frames that no event stands behind; nil means random
	Logger      *slog.Logger
}

// Dialect speaks to NeMo Agent Toolkit clients.
type Dialect struct {
	opt             Options
	schema          *schema
	points          *resumePoints
	consents        *consents
	unauthenticated wire.ConnLimit // sockets whose client has not authenticated
	log             *slog.Logger
}

// New returns the dialect. An unknown schema is the default one; see Validate.
func New(opt Options) *Dialect {
	opt.MaxBody = cmp.Or(opt.MaxBody, 8<<20)
	opt.MaxArtifact = cmp.Or(opt.MaxArtifact, 1<<30)
	opt.MaxFrame = cmp.Or(opt.MaxFrame, 16<<20)
	opt.AuthTimeout = cmp.Or(opt.AuthTimeout, 10*time.Second)
	opt.Heartbeat = cmp.Or(opt.Heartbeat, 20*time.Second)
	if opt.Allow == nil {
		opt.Allow = func(chat.Caller, int) error { return nil }
	}
	if opt.Remote == nil {
		opt.Remote = func(r *http.Request) string {
			host, _, _ := net.SplitHostPort(r.RemoteAddr)
			return host
		}
	}
	opt.Gone = cmp.Or(opt.Gone, 2*time.Second)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.NewID == nil {
		opt.NewID = randomID
	}
	if opt.Bind == nil {
		opt.Bind = func(ctx context.Context, _ chat.Caller) (context.Context, context.CancelFunc) { return ctx, func() {} }
	}
	if opt.Agent == nil {
		opt.Agent = func() string { return "demo" }
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Dialect{opt: opt, consents: newConsents(), log: opt.Logger.With("dialect", "nemo")}
	d.unauthenticated = wire.ConnLimit{PerAddress: maxUnauthenticated, Total: maxUnauthenticatedTotal}
	w, ok := schemaFor(opt.Schema)
	if !ok {
		w = &schemaNeMo
	}
	d.schema = w
	d.points = newResumePoints(openPointFile(opt.Dir, opt.Now, d.log))
	return d
}

// Validate reports what is wrong with the options.
func (o Options) Validate() error {
	if _, ok := schemaFor(o.Schema); !ok {
		return chat.Errorf(chat.Invalid, "the NeMo schema %q is not one of nemo, documented, agentiq, aiq", o.Schema)
	}
	return nil
}

func randomID() string {
	var id chat.ID
	_, _ = rand.Read(id[:]) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id.UUID()
}

func (d *Dialect) now() chat.At { return chat.AtOf(d.opt.Now()) }

// handler is a route's work; an error it returns is the answer.
type handler func(w http.ResponseWriter, r *http.Request, c chat.Caller) error

// Routes lists where the dialect answers.
func (d *Dialect) Routes() []wire.Route {
	routes := []wire.Route{
		// Who is asking may be said later, in a message.
		{Pattern: "GET /websocket", Public: true, QueryToken: true, Handler: http.HandlerFunc(d.serveSocket), Fail: d.fail},
		// The authorization server sends people here; the state tells what for.
		{Pattern: "GET /auth/redirect", Public: true, Handler: http.HandlerFunc(d.handleRedirect), Fail: d.fail},
		{Pattern: "GET /health", Public: true, Handler: http.HandlerFunc(health), Fail: d.fail},
	}
	add := func(pattern string, h handler) {
		routes = append(routes, wire.Route{Pattern: pattern, Handler: d.handle(h, d.fail), Fail: d.fail})
	}
	for _, r := range d.answerRoutes() {
		add("POST "+r.path, r.serve)
	}
	routes = append(routes, wire.Route{Pattern: "POST /v1/chat/completions", Handler: d.handle(d.completions, d.failOpenAI), Fail: d.failOpenAI})
	for _, base := range []string{"/v1/workflow", "/generate"} {
		add("POST "+base+"/async", d.startJob)
		add("GET "+base+"/async/job/{id}", d.showJob)
	}
	add("GET /executions/{id}", d.showExecution)
	add("POST /executions/{id}/interactions/{interaction}/response", d.respond)
	add("POST /feedback", d.feedback)
	add("GET /mcp/client/tool/list", d.listTools)
	for _, method := range []string{"POST", "PUT"} {
		routes = append(routes, wire.Route{Pattern: method + " /static/{path...}", Upload: true, Handler: d.handle(d.withStaticFile(d.putStatic), d.fail), Fail: d.fail})
	}
	add("GET /static/{path...}", d.withStaticFile(d.getStatic))
	add("DELETE /static/{path...}", d.withStaticFile(d.deleteStatic))
	for i := range routes {
		routes[i].Dialect = via
	}
	return routes
}

func (d *Dialect) handle(h handler, fail func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := d.opt.Caller(r)
		if err == nil {
			err = h(w, r, c)
		}
		if err != nil {
			fail(w, r, err)
		}
	})
}

// sessionParam is what the UI may send to tell its browsers apart.
var sessionParam = regexp.MustCompile(`^[A-Za-z0-9\-_.~]{1,256}$`)

// serveSocket takes a WebSocket connection. Who is asking may be unknown at
// first: then nothing is answered until a message says it.
func (d *Dialect) serveSocket(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	browser := q.Get("session")
	if browser != "" && !sessionParam.MatchString(browser) {
		d.fail(w, r, chat.Errorf(chat.Denied, "the session in the address may hold letters, digits and - _ . ~ only"))
		return
	}
	if cookie, err := r.Cookie("nat-session"); err == nil && sessionParam.MatchString(cookie.Value) {
		browser = cookie.Value
	}
	speech := d.schema
	if name := q.Get("schema"); name != "" {
		var ok bool
		if speech, ok = schemaFor(name); !ok {
			d.fail(w, r, chat.Errorf(chat.Invalid, "schema=%q is not one of nemo, documented, agentiq, aiq", clip(name, 40)))
			return
		}
	}
	wanted := strings.TrimSpace(first(q.Get("conversation_id"), q.Get("conversationId")))
	if wanted == placeholder {
		wanted = ""
	}
	s := &socket{d: d, schema: speech, browserID: browser, subs: map[subscriptionKey]*subscription{}, requested: wanted, defaultConversation: wanted, isBrowser: r.Header.Get("Origin") != ""}
	if s.defaultConversation == "" {
		s.defaultConversation = d.opt.NewID()
	}
	s.caller, s.authErr = d.opt.Caller(r)
	limit := d.opt.MaxFrame
	if s.authErr != nil {
		if s.authWait = d.waitForAuth(d.opt.Remote(r)); s.authWait == nil {
			d.fail(w, r, chat.Errorf(chat.SlowDown, "too many connections from your address wait for authentication: authenticate on those, or send a token with the request").
				With("retry_after", int(d.opt.AuthTimeout.Seconds())+1))
			return
		}
		limit = min(limit, maxUnauthenticatedFrame)
	}
	err := wire.ServeWS(w, r, wire.WSOptions{MaxMessage: limit, Binary: true}, d.opt.Conns, s.run)
	if err != nil {
		s.authWait.end()
		d.fail(w, r, handshakeError(err))
	}
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}
