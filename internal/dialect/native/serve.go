package native

import (
	"cmp"
	"context"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/wire"
)

// sessions is what the dialect uses of package session.
type sessions interface {
	Create(ctx context.Context, c chat.Caller, n chat.NewSession) (chat.Session, bool, error)
	Resolve(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.SessionID, error)
	Accept(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	GetAt(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Session, error)
	List(ctx context.Context, c chat.Caller, f core.Filter) (chat.SessionPage, error)
	Update(ctx context.Context, c chat.Caller, id chat.SessionID, u chat.SessionUpdated) (chat.Session, error)
	Erase(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Receipt, error)
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	AppendsAtOnce(c chat.Caller, id chat.SessionID, drafts []chat.Draft) bool
	AppendThen(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft, done core.AppendDone) (run func(), err error)
	Preview(ctx context.Context, c chat.Caller, id chat.SessionID, pieces []chat.Preview) error
	PreviewAll(ctx context.Context, c chat.Caller, all []core.SessionPieces) (handled int)
	PreviewLater(ctx context.Context, c chat.Caller, id chat.SessionID, pieces []chat.Preview) (func() error, error)
	Answer(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string, a chat.Answer) (chat.Event, error)
	Stop(ctx context.Context, c chat.Caller, id chat.SessionID, workstream, reason string) (chat.StopResult, error)
	StopAll(ctx context.Context, c chat.Caller, id chat.SessionID, reason string) (chat.StopResult, error)
	Launch(ctx context.Context, c chat.Caller, id chat.SessionID, l chat.Launch) (chat.WorkstreamStatus, error)
	MessageWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, m chat.Steering) (chat.WorkstreamStatus, error)
	SteerWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, m chat.Steering) (chat.WorkstreamStatus, error)
	TerminateWorkstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string, m chat.Steering) (chat.WorkstreamStatus, error)
	ReportWorkstream(ctx context.Context, ref chat.TurnRef, clientID string, p chat.WorkstreamProgress) error
	Workstreams(ctx context.Context, c chat.Caller, id chat.SessionID) ([]chat.WorkstreamStatus, error)
	Workstream(ctx context.Context, c chat.Caller, id chat.SessionID, name string) (chat.WorkstreamStatus, error)
	Fork(ctx context.Context, c chat.Caller, id chat.SessionID, f chat.Fork) (chat.Session, error)
	Read(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error)
	Facts(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) iter.Seq2[chat.Fact, error]
	Fact(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Fact, error)
	Snapshot(ctx context.Context, c chat.Caller, id chat.SessionID, items int) (chat.Snapshot, error)
	Items(ctx context.Context, c chat.Caller, id chat.SessionID, before chat.Seq, limit int) (chat.ItemPage, error)
	Search(ctx context.Context, c chat.Caller, id chat.SessionID, query string, before chat.Seq, limit int) (chat.SearchPage, error)
	Watch(ctx context.Context, c chat.Caller, id chat.SessionID, from core.Start, enc core.Encoding) iter.Seq2[core.Batch, error]
	Follow(ctx context.Context, c chat.Caller, id chat.SessionID, from core.Start, enc core.Encoding, sink core.Sink)
	Import(ctx context.Context, c chat.Caller, id chat.SessionID, facts iter.Seq2[chat.Fact, error]) (chat.Session, error)
	PutFile(ctx context.Context, c chat.Caller, id chat.SessionID, f core.FilePut) (chat.FileInfo, error)
	RemoveFile(ctx context.Context, c chat.Caller, id chat.SessionID, path, via string) error
}

// files reads artifacts.
type files interface {
	Get(ctx context.Context, id chat.SessionID, path string) (io.ReadSeekCloser, chat.FileInfo, error)
	List(ctx context.Context, id chat.SessionID, prefix, after string, limit int) ([]chat.FileInfo, bool, error)
}

// workers connects agents that run outside of the process.
type workers interface {
	Register(workspace, name string, w core.Worker, slots int, holding []chat.TurnID) core.Registration
}

// Options of the dialect.
type Options struct {
	Sessions sessions
	Files    files
	Workers  workers
	Agents   func(workspace string) any                                     // answer of GET agents
	Builtin  func(name string) bool                                         // whether an agent runs in this process
	Caller   func(*http.Request) (chat.Caller, error)                       // authenticates a request
	Allow    func(c chat.Caller, requests int) error                        // counts frames as requests; nil means no limit
	Conns    *wire.Conns                                                    // open streams and sockets
	Backup   func(ctx context.Context, w io.Writer) error                   // writes a tar of everything
	Verify   func(ctx context.Context, line func(v any) error) error        // checks the store and reports its progress
	Messages MessagesFunc                                                   // the session as messages for a model; nil means not offered
	As       map[string]func(ctx context.Context, e chat.Fact) (any, error) // an event in the form of another dialect
	Version  string

	// Partition returns the partition of a session in a cluster; nil means that there are none.
	Partition func(chat.SessionID) int

	// Audit records exports, imports and backups; nil means not recorded. AuditLog
	// lists the audit log; nil means not offered.
	Audit    func(ctx context.Context, event string, c chat.Caller, details map[string]any)
	AuditLog func(ctx context.Context, c chat.Caller, q chat.AuditQuery) (chat.AuditPage, error)

	MaxBody     int64         // bytes of a JSON body; 0 means 8 MiB
	MaxArtifact int64         // bytes of an artifact; 0 means 1 GiB
	Heartbeat   time.Duration // of streams; 0 means 15 s
	Now         func() time.Time
	Logger      *slog.Logger
}

// Dialect answers native requests.
type Dialect struct {
	opt       Options
	http      *edge.HTTP
	log       *slog.Logger
	described func() object   // the OpenAPI document, built once
	stacks    *wire.StackPool // runs the commands of sockets
	pages     pages
}

// New returns the dialect.
func New(opt Options) *Dialect {
	opt.MaxBody = cmp.Or(opt.MaxBody, edge.DefaultMaxBody)
	opt.MaxArtifact = cmp.Or(opt.MaxArtifact, 1<<30)
	opt.Heartbeat = cmp.Or(opt.Heartbeat, 15*time.Second)
	if opt.Allow == nil {
		opt.Allow = func(chat.Caller, int) error { return nil }
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Dialect{opt: opt, log: opt.Logger.With("dialect", "native"), stacks: wire.NewStackPool()}
	d.http = &edge.HTTP{Dialect: "native", Caller: opt.Caller, MaxBody: opt.MaxBody, Log: d.log}
	d.described = sync.OnceValue(d.document)
	return d
}

func (d *Dialect) now() chat.At { return chat.AtOf(d.opt.Now()) }

// Routes returns the routes of the dialect.
func (d *Dialect) Routes() []wire.Route {
	var routes []wire.Route
	for _, op := range d.operations() {
		routes = append(routes, wire.Route{
			// Fail is nil: the server's own refusals have the native form.
			Pattern: op.method + " " + op.path, Dialect: "native",
			Upload: op.upload, LongBody: op.longBody, QueryToken: op.queryToken, Public: op.public, Deliberate: op.deliberate,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var c chat.Caller
				var err error
				if !op.public {
					c, err = d.opt.Caller(r)
				}
				if err == nil && !op.exact {
					err = d.resolve(r, c)
				}
				if err == nil {
					err = op.do.run(w, r, c, op.code)
				}
				if err != nil {
					d.http.Fail(w, r, err)
				}
			}),
		})
	}
	return routes
}

// resolve replaces the session id in the path by the id of the session that it
// means for the caller.
func (d *Dialect) resolve(r *http.Request, c chat.Caller) error {
	if r.PathValue("id") == "" {
		return nil
	}
	id, err := d.opt.Sessions.Resolve(r.Context(), c, sessionID(r))
	if err == nil {
		r.SetPathValue("id", string(id))
	}
	return err
}

func sessionID(r *http.Request) chat.SessionID { return chat.SessionID(r.PathValue("id")) }

func (d *Dialect) appendEvents(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	b, err := d.http.Body(r)
	if err != nil {
		return err
	}
	drafts, err := chat.ParseDrafts(b)
	if err == nil {
		err = d.opt.Allow(c, moreRequests(len(drafts)))
	}
	if err != nil {
		return err
	}
	events, err := d.opt.Sessions.Append(r.Context(), c, sessionID(r), drafts)
	if err != nil {
		return err
	}
	b = append(make([]byte, 0, 64+512*len(events)), '{')
	edge.SendJSON(w, r, http.StatusCreated, appendEventsField(b, events))
	return nil
}

// appendEventsField ends an object with its field events, without reflection.
func appendEventsField(b []byte, events []chat.Event) []byte {
	b = append(b, `"events":[`...)
	for i := range events {
		if i > 0 {
			b = append(b, ',')
		}
		b = events[i].AppendJSON(b)
	}
	return append(b, ']', '}')
}

func (d *Dialect) readEvents(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	rg, err := rangeOf(r)
	if err != nil {
		return err
	}
	if sent, err := d.sendPages(w, r, c, rg); sent || err != nil {
		return err
	}
	facts, more, err := d.opt.Sessions.Read(r.Context(), c, sessionID(r), rg)
	if err != nil {
		return err
	}
	if len(facts) == 0 && rg.After > 0 {
		if err := d.reaches(r, c, rg.After); err != nil {
			return err
		}
	}
	size := 32
	for _, f := range facts {
		size += len(f.JSON) + 1
	}
	b := append(make([]byte, 0, size), `{"events":[`...)
	for i, f := range facts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, f.JSON...)
	}
	if more {
		b = append(b, `],"more":true}`...)
	} else {
		b = append(b, `],"more":false}`...)
	}
	edge.SendJSON(w, r, http.StatusOK, b)
	return nil
}

// reaches refuses a sequence beyond the last event: the session was replaced, and the
// client would wait for ever.
func (d *Dialect) reaches(r *http.Request, c chat.Caller, after chat.Seq) error {
	sess, err := d.opt.Sessions.GetAt(r.Context(), c, sessionID(r), after)
	if err == nil && after > sess.Last {
		err = errBeyond(sess.Last)
	}
	return err
}

func errBeyond(last chat.Seq) error {
	return chat.Errorf(chat.Gone, "the cursor is beyond the last event, %d: the session was replaced; reload it from the start", last).With("last", last)
}

func (d *Dialect) readEvent(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	q := edge.NewQuery(r)
	var seq chat.Seq
	if n, err := chat.ParseCursor(r.PathValue("seq")); err != nil || len(n.Blocks) > 0 || n.Seq == 0 {
		return chat.Errorf(chat.Invalid, "%q is not the sequence of an event", r.PathValue("seq"))
	} else {
		seq = n.Seq
	}
	as := q.Text("as")
	if q.Err != nil {
		return q.Err
	}
	fact, err := d.opt.Sessions.Fact(r.Context(), c, sessionID(r), seq)
	if err != nil {
		return err
	}
	if as == "" || as == "native" {
		edge.SendJSON(w, r, http.StatusOK, fact.JSON)
		return nil
	}
	f, ok := d.opt.As[as]
	if !ok {
		return chat.Errorf(chat.Invalid, "as=%q: this server does not speak that dialect", as).With("parameter", "as")
	}
	v, err := f(r.Context(), fact)
	if err == nil {
		d.http.Send(w, r, http.StatusOK, v)
	}
	return err
}

func (d *Dialect) answerPrompt(r *http.Request, c chat.Caller, a chat.Answer) (eventBody, error) {
	e, err := d.opt.Sessions.Answer(r.Context(), c, sessionID(r), r.PathValue("request_id"), a)
	return eventBody{e}, err
}

func (d *Dialect) snapshot(r *http.Request, c chat.Caller) (chat.Snapshot, error) {
	q := edge.NewQuery(r)
	n := q.Number("items", 0, 2000, 200)
	if q.Err != nil {
		return chat.Snapshot{}, q.Err
	}
	return d.opt.Sessions.Snapshot(r.Context(), c, sessionID(r), int(n))
}

func (d *Dialect) readItems(r *http.Request, c chat.Caller) (chat.ItemPage, error) {
	q := edge.NewQuery(r)
	before, limit := q.Sequence("before", 1), q.Limit(100, 1000)
	if q.Err != nil {
		return chat.ItemPage{}, q.Err
	}
	return d.opt.Sessions.Items(r.Context(), c, sessionID(r), before, limit)
}

func (d *Dialect) searchEvents(r *http.Request, c chat.Caller) (chat.SearchPage, error) {
	q := edge.NewQuery(r)
	before, limit, text := q.Sequence("before", 1), q.Limit(100, 1000), q.Text("q")
	if q.Err == nil && text == "" {
		q.Refuse("q", "", "say what to look for")
	}
	if q.Err != nil {
		return chat.SearchPage{}, q.Err
	}
	return d.opt.Sessions.Search(r.Context(), c, sessionID(r), text, before, limit)
}

func (d *Dialect) listAgents(_ *http.Request, c chat.Caller) (agentsBody, error) {
	return agentsBody{d.opt.Agents(c.In())}, nil
}
