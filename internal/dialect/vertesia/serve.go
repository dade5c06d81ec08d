package vertesia

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/wire"
)

// via is the dialect's name on what comes by it.
const via = "vertesia"

// sessions is the door to the conversations.
type sessions interface {
	PutFile(ctx context.Context, c chat.Caller, id chat.SessionID, f chat.FilePut) (chat.FileInfo, error)
	RemoveFile(ctx context.Context, c chat.Caller, id chat.SessionID, path, via string) error
	workstreams
	Create(ctx context.Context, c chat.Caller, n chat.NewSession) (chat.Session, bool, error)
	Resolve(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.SessionID, error)
	Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	ByID(ctx context.Context, c chat.Caller, id chat.ID) (chat.Session, chat.Seq, error)
	List(ctx context.Context, c chat.Caller, f chat.Filter) (chat.SessionPage, error)
	All(ctx context.Context) iter.Seq2[chat.Session, error]
	Search(ctx context.Context, c chat.Caller, id chat.SessionID, query string, before chat.Seq, limit int) (chat.SearchPage, error)
	State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error)
	Update(ctx context.Context, c chat.Caller, id chat.SessionID, u chat.SessionUpdated) (chat.Session, error)
	Erase(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Receipt, error)
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Preview(ctx context.Context, c chat.Caller, id chat.SessionID, pieces []chat.Preview) error
	Answer(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string, a chat.Answer) (chat.Event, error)
	StopAs(ctx context.Context, c chat.Caller, id chat.SessionID, workstream, reason, ack string) (chat.StopResult, error)
	Blocks(ctx context.Context, c chat.Caller, id chat.SessionID) ([]chat.Block, error)
	Read(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error)
	Event(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Fact, error)
	Watch(ctx context.Context, c chat.Caller, id chat.SessionID, from chat.Start, enc chat.Encoding) iter.Seq2[chat.Batch, error]
}

// files keeps what is too large for the log.
type files interface {
	Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, limit int64) (chat.FileInfo, error)
	Get(ctx context.Context, id chat.SessionID, path string) (io.ReadSeekCloser, chat.FileInfo, error)
	List(ctx context.Context, id chat.SessionID, prefix, after string, limit int) (infos []chat.FileInfo, more bool, err error)
	Delete(ctx context.Context, id chat.SessionID, path string) error
}

// Options of the dialect.
type Options struct {
	Sessions sessions
	Files    files                                                              // nil means that there are no artifacts
	Caller   func(*http.Request) (chat.Caller, error)                           // who is asking
	Check    func(chat.Caller) error                                            // why a caller's credential is not good any more; nil means that it always is
	Issue    func(r *http.Request) (token string, err error)                    // a short-lived token for who is asking; nil means that keys are not exchanged
	Agents   func(workspace string) []string                                    // names of agents that answer; nil means that every interaction names one
	Tools    func(ctx context.Context, agent string) (tools []Tool, known bool) // what an agent can use; nil means that none says
	Allow    func(c chat.Caller, requests int) error                            // counts frames on sockets; nil means no limit
	Conns    *wire.Conns                                                        // open streams and sockets
	Secret   []byte                                                             // signs addresses of files; the same after a restart

	TrustedProxy bool          // X-Forwarded-Proto is believed
	MaxBody      int64         // bytes of a JSON body; 0 means 8 MiB
	MaxArtifact  int64         // bytes of a file; 0 means 1 GiB
	MaxFrame     int           // bytes of a WebSocket frame; 0 means 16 MiB
	Heartbeat    time.Duration // of streams; 0 means 15 s
	Group        time.Duration // least time between two writes of chunks to a reader; 0 means 16 ms
	Retention    time.Duration // runs that were silent for so long are erased; 0 means never
	Now          func() time.Time
	Logger       *slog.Logger
}

// Tool is something an agent can use.
type Tool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Server      string `json:"-"` // who has it, where that is not the agent
}

// Dialect speaks to Vertesia clients.
type Dialect struct {
	opt  Options
	log  *slog.Logger
	lock locks // of sessions whose files or open chunks are being changed
}

// New returns the dialect.
func New(opt Options) *Dialect {
	if opt.Allow == nil {
		opt.Allow = func(chat.Caller, int) error { return nil }
	}
	opt.MaxBody = cmp.Or(opt.MaxBody, 8<<20)
	opt.MaxArtifact = cmp.Or(opt.MaxArtifact, 1<<30)
	opt.MaxFrame = cmp.Or(opt.MaxFrame, 16<<20)
	opt.Heartbeat = cmp.Or(opt.Heartbeat, 15*time.Second)
	opt.Group = cmp.Or(opt.Group, 16*time.Millisecond)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Check == nil {
		opt.Check = func(chat.Caller) error { return nil }
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	return &Dialect{opt: opt, log: opt.Logger.With("dialect", via)}
}

func (d *Dialect) now() chat.At { return chat.AtOf(d.opt.Now()) }

// handler is a route's work; an error it returns is the answer.
type handler func(w http.ResponseWriter, r *http.Request, c chat.Caller) error

// Routes lists where the dialect answers.
func (d *Dialect) Routes() []wire.Route {
	var routes []wire.Route
	add := func(pattern string, h handler, change ...func(*wire.Route)) {
		r := wire.Route{Pattern: pattern, Dialect: via, Handler: d.handle(h), Fail: d.fail}
		for _, f := range change {
			f(&r)
		}
		routes = append(routes, r)
	}
	query := func(r *wire.Route) { r.QueryToken = true }
	upload := func(r *wire.Route) { r.Upload = true }
	signed := func(r *wire.Route) { r.Public, r.Upload = true, true }

	add("POST /token/issue", d.issueToken)

	const agents = "/api/v1/agents"
	for _, slash := range []string{"", "/{$}"} {
		add("POST "+agents+slash, d.startRun)
		add("GET "+agents+slash, d.listRuns)
	}
	add("GET "+agents+"/search", d.searchRuns)
	add("POST "+agents+"/record", d.recordRun)
	add("GET "+agents+"/{id}", d.showRun)
	add("DELETE "+agents+"/{id}", d.deleteRun)
	add("POST "+agents+"/{id}/restart", d.restartRun)
	add("POST "+agents+"/{id}/fork", d.forkRun)
	add("POST "+agents+"/{id}/status", d.setStatus)
	add("POST "+agents+"/{id}/workflow", d.bindRun)
	add("GET "+agents+"/{id}/internals", d.showInternals)
	add("GET "+agents+"/{id}/details/stream", d.streamDetails, query)
	add("GET "+agents+"/{id}/children", d.listChildren)
	add("GET "+agents+"/{id}/children/{child}/details", d.showChild)
	add("GET "+agents+"/{id}/artifacts", d.listArtifacts)
	add("GET "+agents+"/{id}/artifacts/{path...}", d.getArtifact)
	add("PUT "+agents+"/{id}/artifacts/{path...}", d.putArtifact, upload)
	add("GET "+agents+"/{id}/artifact-content/{path...}", d.getContent)
	add("PUT "+agents+"/{id}/artifact-content/{path...}", d.putContent)

	const runs = "/api/v1/workflows/runs"
	for _, base := range []string{agents + "/{id}", runs + "/{workflow}/{id}"} {
		add("GET "+base+"/updates", d.listUpdates)
		add("GET "+base+"/stream", d.streamUpdates, query)
		add("POST "+base+"/signal/{name}", d.signal)
		add("GET "+base+"/query/{name}", d.query)
		add("POST "+base+"/events", d.telemetry)
	}
	add("GET "+agents+"/{id}/details", d.showDetails)
	add("POST "+agents+"/{id}/updates", d.postUpdate)
	add("POST "+runs+"/{id}/updates", d.postUpdate)
	add("GET "+runs+"/{workflow}/{id}", d.showDetails)
	add("GET "+runs+"/{workflow}/{id}/ws", d.socket, query)
	add("GET "+runs+"/{workflow}/{id}/interaction", d.showInteraction)
	add("POST "+runs+"/{workflow}/{id}/actions/terminate", d.endRun)
	add("POST "+runs+"/{workflow}/{id}/actions/cancel", d.endRun)
	for _, slash := range []string{"", "/{$}"} {
		add("POST "+runs+slash, d.searchWorkflows)
		add("POST /api/v1/pending-asks"+slash, d.registerAsk)
		add("GET /api/v1/pending-asks"+slash, d.listAsks)
	}
	add("POST /api/v1/workflows/conversations", d.searchWorkflows)
	add("POST /api/v1/workflows/execute/{name}", d.executeWorkflow)
	add("GET /api/v1/pending-asks/{ask}", d.showAsk)
	add("POST /api/v1/pending-asks/{ask}/resolve", d.resolveAsk)
	add("GET /api/v1/files/list", d.listFiles)
	add("POST /api/v1/files/download-url", d.downloadURL)
	add("POST /api/v1/files/upload-url", d.uploadURL)
	add("POST /api/v1/files/bulk-upload-urls", d.uploadURLs)
	add("GET /api/v1/files/metadata", d.fileMetadata)
	add("POST /api/v1/files/copy", d.copyFile)
	add("DELETE /api/v1/files/{path...}", d.deleteFile)
	add("GET /api/v1/interactions", d.listInteractions)
	add("GET /api/v1/interactions/catalog", d.listInteractions)
	add("GET /api/v1/apps/installations", d.listNone)
	routes = append(routes, d.refusals()...)
	// Here the address itself says who may: it is signed.
	for _, method := range []string{"GET ", "PUT "} {
		routes = append(routes, wire.Route{Pattern: method + signedPath + "{path...}", Dialect: via, Handler: http.HandlerFunc(d.serveSigned), Fail: d.fail})
		signed(&routes[len(routes)-1])
	}
	return routes
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

// status maps codes to HTTP.
var status = map[chat.Code]int{
	chat.Invalid: http.StatusBadRequest, chat.Unauthenticated: http.StatusUnauthorized, chat.Denied: http.StatusForbidden,
	chat.NotFound: http.StatusNotFound, chat.Conflict: http.StatusConflict, chat.Gone: http.StatusGone, chat.TooLarge: http.StatusRequestEntityTooLarge,
	chat.SlowDown: http.StatusTooManyRequests, chat.Unavailable: http.StatusServiceUnavailable, chat.Internal: http.StatusInternalServerError,
}

// failure is the protocol's error form.
type failure struct {
	Message string         `json:"message"`
	Error   string         `json:"error"`
	Status  int            `json:"status"`
	Details map[string]any `json:"details,omitempty"`
}

// fail answers a request with an error.
func (d *Dialect) fail(w http.ResponseWriter, r *http.Request, err error) {
	err = wire.Reason(r.Context(), err)
	e := chat.Public(err)
	code, ok := status[e.Code]
	if !ok {
		code = http.StatusInternalServerError
	}
	switch e.Code {
	case chat.Internal, chat.Unavailable:
		if r.Context().Err() == nil { // else the client has gone away
			d.log.ErrorContext(r.Context(), "request failed", "route", r.Pattern, "code", e.Code, "err", err)
		}
		if e.Code == chat.Unavailable {
			w.Header().Set("Retry-After", e.RetryAfter())
		}
	case chat.SlowDown:
		// Clients take these two as a request to try again by themselves.
		w.Header().Set("X-RateLimit-Reason", "pacing")
		w.Header().Set("X-RateLimit-Retry-Ms", "1000")
		w.Header().Set("Retry-After", e.RetryAfter())
	case chat.Unauthenticated:
		w.Header().Set("WWW-Authenticate", `Bearer realm="parley"`)
	}
	d.send(w, r, code, failure{Message: e.Msg, Error: string(e.Code), Status: code, Details: byWorkstream(e.Details)})
}

// send answers with JSON.
func (d *Dialect) send(w http.ResponseWriter, r *http.Request, code int, body any) {
	b, err := marshal(body)
	if err != nil {
		d.log.ErrorContext(r.Context(), "an answer could not be written as JSON", "route", r.Pattern, "err", err)
		code, b = http.StatusInternalServerError, []byte(`{"message":"the answer could not be written","error":"internal"}`)
	}
	sendJSON(w, r, code, b)
}

func sendJSON(w http.ResponseWriter, r *http.Request, code int, b []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	_ = wire.WriteBody(w, r, code, b) // the peer is gone: nobody is left to tell
}

// read decodes a JSON body into v; no body at all leaves v as it is.
func (d *Dialect) read(r *http.Request, v any) error {
	b, err := d.body(r)
	if err != nil || len(b) == 0 {
		return err
	}
	return decode(b, v)
}

func (d *Dialect) body(r *http.Request) ([]byte, error) {
	b, err := wire.ReadBody(r, d.opt.MaxBody)
	if errors.Is(err, wire.ErrTooLarge) {
		return nil, chat.Errorf(chat.TooLarge, "the body is larger than %d bytes: upload large things as artifacts", d.opt.MaxBody)
	}
	if err != nil {
		return nil, chat.Errorf(chat.Invalid, "the body could not be read to its end").Because(err)
	}
	return b, nil
}

// run is the session that a request names, and the line of it when it names a
// child.
type run struct {
	chat.Session
	line string
	once bool // ends by itself
}

// run finds what the request is about.
func (d *Dialect) run(r *http.Request, c chat.Caller) (run, error) {
	return d.findRun(r.Context(), c, r.PathValue("id"))
}

// findRun finds the run that a client's id means for the caller.
func (d *Dialect) findRun(ctx context.Context, c chat.Caller, name string) (run, error) {
	id, line, child := strings.Cut(name, "~")
	resolved, err := d.opt.Sessions.Resolve(ctx, c, chat.SessionID(id))
	if err != nil {
		return run{}, err
	}
	if id = string(resolved); child {
		id += "~" + line
	}
	return d.runOf(ctx, c, id)
}

// runOf finds a run by its own id.
func (d *Dialect) runOf(ctx context.Context, c chat.Caller, name string) (run, error) {
	id, line, child := strings.Cut(name, "~")
	sess, err := d.opt.Sessions.Get(ctx, c, chat.SessionID(id))
	if err != nil {
		if chat.CodeOf(err) == chat.NotFound {
			err = chat.Errorf(chat.NotFound, "there is no run %q, or it is not yours", clip(name, 80))
		}
		return run{}, err
	}
	res := run{Session: sess, line: line, once: !child && metaOf(&sess).once()}
	if !child {
		return res, nil
	}
	st, err := d.opt.Sessions.State(ctx, c, sess.ID)
	if err != nil {
		return run{}, err
	}
	if line == "" || st.Workstream(line) == nil {
		return run{}, chat.Errorf(chat.NotFound, "run %s has no workstream %q", id, clip(line, 64))
	}
	return res, nil
}

// name is what the protocol calls the run.
func (r *run) name() string {
	if r.line != "" {
		return childID(r.ID, r.line)
	}
	return string(r.ID)
}
