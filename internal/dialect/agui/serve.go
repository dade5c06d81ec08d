package agui

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/attachment"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/keylock"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/wire"
)

// sessions is what the dialect uses of the session layer.
type sessions interface {
	Own(ctx context.Context, c chat.Caller, foreign string) (chat.Session, error)
	Ensure(ctx context.Context, c chat.Caller, foreign string, n chat.NewSession) (chat.Session, bool, error)
	attachment.Sessions
	ByID(ctx context.Context, c chat.Caller, id chat.ID) (chat.Session, chat.Seq, error)
	List(ctx context.Context, c chat.Caller, f chat.Filter) (chat.SessionPage, error)
	State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error)
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Answer(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string, a chat.Answer) (chat.Event, error)
	Sent(ctx context.Context, c chat.Caller, id chat.SessionID, clientID string) (*chat.Event, error)
	Update(ctx context.Context, c chat.Caller, id chat.SessionID, u chat.SessionUpdated) (chat.Session, error)
	Fork(ctx context.Context, c chat.Caller, id chat.SessionID, f chat.Fork) (chat.Session, error)
	ReplaceAlias(ctx context.Context, c chat.Caller, alias string, id chat.SessionID) error
	Stop(ctx context.Context, c chat.Caller, id chat.SessionID, workstream, reason string) (chat.StopResult, error)
	Events(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) iter.Seq2[chat.Event, error]
	Event(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Event, error)
	Ends(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) ([]chat.End, error)
	Watch(ctx context.Context, c chat.Caller, id chat.SessionID, from chat.Start, enc chat.Encoding) iter.Seq2[chat.Batch, error]
}

// Options of the dialect.
type Options struct {
	Sessions sessions
	Files    attachment.Files
	Caller   func(*http.Request) (chat.Caller, error) // authenticates a request
	Conns    *wire.Conns                              // open streams
	Agents   func(workspace string) []string          // names of the agents of this server
	Agent    func() string                            // the agent that clients call default; nil means demo
	Version  string                                   // of this server

	MaxBody     int64         // bytes of a JSON body; 0 means 8 MiB
	MaxArtifact int64         // bytes of an attachment; 0 means 1 GiB
	Heartbeat   time.Duration // silence after which a comment is sent; 0 means 15 s
	Logger      *slog.Logger
}

// via marks events that came through this dialect.
const via = "agui"

// Dialect serves AG-UI clients.
type Dialect struct {
	opt   Options
	files attachment.Store
	log   *slog.Logger
	http  *edge.HTTP
	gates keylock.Locks // of several requests that send to a thread, one decides at a time
}

// New returns the dialect.
func New(opt Options) *Dialect {
	opt.Heartbeat = cmp.Or(opt.Heartbeat, 15*time.Second)
	if opt.Agent == nil {
		opt.Agent = func() string { return "demo" }
	}
	opt.Version = cmp.Or(opt.Version, "dev")
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	log := opt.Logger.With("dialect", via)
	return &Dialect{
		opt: opt, log: log, files: attachment.Store{Sessions: opt.Sessions, Files: opt.Files, Max: opt.MaxArtifact},
		http: &edge.HTTP{Dialect: via, Caller: opt.Caller, MaxBody: opt.MaxBody, EncodeError: encodeError, Log: log},
	}
}

// encodeError is the [edge.ErrorEncoder]. Pages show the status and the body.
func encodeError(err error, _ http.Header) (int, any) {
	e := chat.Public(err)
	return edge.Status(e.Code), errorBody{Error: string(e.Code), Message: e.Msg}
}

// runtime is the default base of CopilotKit's runtime.
const runtime = "/api/copilotkit"

// Routes lists the routes of the dialect: AG-UI itself, and the runtime of CopilotKit.
func (d *Dialect) Routes() []wire.Route {
	return []wire.Route{
		d.http.Route("POST /ag-ui/{agentname}", d.postRun),
		d.http.Route("GET /ag-ui/{agentname}", d.getRun),

		d.http.Route("GET "+runtime+"/info", d.http.Reply(d.info)),
		d.http.Route("POST "+runtime+"/agent/{agentname}/run", d.postRun),
		d.http.Route("POST "+runtime+"/agent/{agentname}/connect", d.postConnect),
		d.http.Route("POST "+runtime+"/agent/{agentname}/stop/{thread}", d.http.Reply(d.stop)),
		d.http.Route("GET "+runtime+"/threads", d.http.Reply(d.threads)),
		d.http.Route("GET "+runtime+"/threads/{thread}/messages", d.http.Reply(d.threadMessages)),
		d.http.Route("GET "+runtime+"/threads/{thread}/events", d.http.Reply(d.threadEvents)),
		d.http.Route("GET "+runtime+"/threads/{thread}/state", d.http.Reply(d.threadState)),
		d.http.Route("POST "+runtime, d.single),
		d.http.Route(runtime+"/", d.notOffered),
	}
}

// notOffered answers requests of CopilotKit that its clients do without.
func (d *Dialect) notOffered(w http.ResponseWriter, r *http.Request, _ chat.Caller) error {
	return chat.Errorf(chat.NotFound, "%s %s is not offered here", r.Method, text.Clip(r.URL.Path, 200))
}

// agentName is the agent that a path names. CopilotKit calls the usual one default.
func (d *Dialect) agentName(c chat.Caller, name string) (string, error) {
	all := d.opt.Agents(c.In())
	if name == "default" && !slices.Contains(all, name) {
		return d.opt.Agent(), nil
	}
	if !slices.Contains(all, name) {
		return "", chat.Errorf(chat.NotFound, "there is no agent %q; there are: %s", text.Clip(name, 80), strings.Join(all, ", "))
	}
	return name, nil
}

// postRun is a run, or with ?connect=1 the whole thread.
func (d *Dialect) postRun(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	b, err := d.http.Body(r)
	if err != nil {
		return err
	}
	q := edge.NewQuery(r)
	connect, branch := q.Bool("connect", false), q.Bool("branch", false)
	if q.Err != nil {
		return q.Err
	}
	if connect {
		return d.connect(w, r, c, r.PathValue("agentname"), b)
	}
	return d.run(w, r, c, r.PathValue("agentname"), b, branch)
}

func (d *Dialect) postConnect(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	b, err := d.http.Body(r)
	if err != nil {
		return err
	}
	return d.connect(w, r, c, r.PathValue("agentname"), b)
}

// run does what a request for a run asks for, and answers with the frames of the run.
func (d *Dialect) run(w http.ResponseWriter, r *http.Request, c chat.Caller, agent string, body []byte, branch bool) error {
	in, err := decodeInput(body)
	if err != nil {
		return err
	}
	in.Branch = branch
	if agent, err = d.agentName(c, agent); err != nil {
		return err
	}
	f := variantOf(r, in.Version)
	var t *target
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		t, err = d.resumeAfter(r.Context(), c, in.ThreadID, in.RunID, last, f)
	} else {
		t, err = d.start(r.Context(), c, agent, in, f)
	}
	if err != nil {
		return err
	}
	return d.stream(w, r, t)
}

// connect answers with all runs of a thread, and follows the running one to its end.
func (d *Dialect) connect(w http.ResponseWriter, r *http.Request, c chat.Caller, agent string, body []byte) error {
	in, err := decodeInput(body)
	if err != nil {
		return err
	}
	if _, err = d.agentName(c, agent); err != nil {
		return err
	}
	t := &target{caller: c, thread: in.ThreadID, variant: variantOf(r, in.Version), whole: true}
	sess, err := d.find(r.Context(), c, in.ThreadID)
	switch {
	case err == nil:
		t.session = sess.ID
	case chat.CodeOf(err) != chat.NotFound: // a thread that does not exist yet has no runs
		return err
	}
	return d.stream(w, r, t)
}
