package agui

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/pages"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/turnlog"
	"github.com/parley-hq/parley/internal/wire"
)

// Options of the dialect.
type Options struct {
	pages.Options
	Agent   func() string // the agent that clients call default; nil means demo
	Version string        // of this server
}

// via marks events that came through this dialect.
const via = "agui"

// mainLine is the line whose turns are runs.
var mainLine = turnlog.MainLine

// Dialect serves AG-UI clients.
type Dialect struct {
	*pages.Chats
	defaultAgent func() string
	version      string
}

// New returns the dialect.
func New(opt Options) *Dialect {
	if opt.Agent == nil {
		opt.Agent = func() string { return "demo" }
	}
	return &Dialect{pages.New(via, opt.Options, encodeError), opt.Agent, cmp.Or(opt.Version, "dev")}
}

// encodeError is the [edge.ErrorEncoder]. Pages show the status and the body.
func encodeError(err error, _ http.Header) (int, any) {
	e := chat.Public(err)
	return edge.Status(e.Code), map[string]string{"error": string(e.Code), "message": e.Msg}
}

// runtime is the default base of CopilotKit's runtime.
const runtime = "/api/copilotkit"

// Routes lists the routes of the dialect: AG-UI itself, and the runtime of CopilotKit.
func (d *Dialect) Routes() []wire.Route {
	return []wire.Route{
		d.HTTP.Route("POST /ag-ui/{agentname}", d.postRun),
		d.HTTP.Route("GET /ag-ui/{agentname}", d.getRun),

		d.HTTP.Route("GET "+runtime+"/info", d.HTTP.Reply(d.info)),
		d.HTTP.Route("POST "+runtime+"/agent/{agentname}/run", d.postRun),
		d.HTTP.Route("POST "+runtime+"/agent/{agentname}/connect", d.postRun),
		d.HTTP.Route("POST "+runtime+"/agent/{agentname}/stop/{thread}", d.HTTP.Reply(d.stop)),
		d.HTTP.Route("GET "+runtime+"/threads", d.HTTP.Reply(d.threads)),
		d.HTTP.Route("GET "+runtime+"/threads/{thread}/messages", d.ofThread(d.threadMessages)),
		d.HTTP.Route("GET "+runtime+"/threads/{thread}/events", d.ofThread(d.threadEvents)),
		d.HTTP.Route("GET "+runtime+"/threads/{thread}/state", d.ofThread(d.threadState)),
		d.HTTP.Route("POST "+runtime, d.single),
		d.HTTP.Route(runtime+"/", d.notOffered),
	}
}

// notOffered answers requests of CopilotKit that its clients do without.
func (d *Dialect) notOffered(w http.ResponseWriter, r *http.Request, _ chat.Caller) error {
	return chat.Errorf(chat.NotFound, "%s %s is not offered here", r.Method, text.Clip(r.URL.Path, 200))
}

// agentName is the agent that a path names. CopilotKit calls the usual one default.
func (d *Dialect) agentName(c chat.Caller, name string) (string, error) {
	all := d.Agents(c.In())
	if name == "default" && !slices.Contains(all, name) {
		return d.defaultAgent(), nil
	}
	if !slices.Contains(all, name) {
		return "", chat.Errorf(chat.NotFound, "there is no agent %q; there are: %s", text.Clip(name, 80), strings.Join(all, ", "))
	}
	return name, nil
}

// postRun is a run, or on CopilotKit's route for it the whole thread.
func (d *Dialect) postRun(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	b, err := d.HTTP.Body(r)
	if err != nil {
		return err
	}
	return d.run(w, r, c, r.PathValue("agentname"), b, strings.HasSuffix(r.Pattern, "/connect"))
}

// run does what a request for a run asks for, and answers with the frames of the run. With connect, or with ?connect=1, it answers with
// all runs of the thread, and follows the running one to its end.
func (d *Dialect) run(w http.ResponseWriter, r *http.Request, c chat.Caller, agent string, body []byte, connect bool) error {
	in, err := decodeInput(body)
	if err != nil {
		return err
	}
	q := edge.NewQuery(r)
	connect, in.Branch = q.Bool("connect", connect), q.Bool("branch", false)
	if q.Err != nil {
		return q.Err
	}
	if in.Calls, err = callsOf(r); err != nil {
		return err
	}
	if agent, err = d.agentName(c, agent); err != nil {
		return err
	}
	ctx, f := r.Context(), variantOf(r, in.Version)
	var t *target
	switch last := r.Header.Get("Last-Event-ID"); {
	case connect:
		t, err = d.connect(ctx, c, in, f)
	case last != "":
		t, err = d.resumeAfter(ctx, c, in.ThreadID, in.RunID, last, f)
	default:
		t, err = d.start(ctx, c, agent, in, f)
	}
	if err != nil {
		return err
	}
	return d.stream(w, r, t)
}

// connect shows all runs of a thread.
func (d *Dialect) connect(ctx context.Context, c chat.Caller, in *input, f variant) (*target, error) {
	t := &target{caller: c, thread: in.ThreadID, variant: f, whole: true}
	sess, err := d.find(ctx, c, in.ThreadID)
	if chat.CodeOf(err) == chat.NotFound {
		return t, nil // a thread that does not exist yet has no runs
	}
	if err != nil {
		return nil, err
	}
	t.session = sess.ID
	return t, d.forgetRuns(ctx, t, in.Messages)
}

// forgetRuns lets a page that connects again forget the runs that it has: it would append the text of a run to what it has of it.
func (d *Dialect) forgetRuns(ctx context.Context, t *target, has []message) error {
	if !slices.ContainsFunc(has, func(m message) bool { return m.Role != "user" }) {
		return nil
	}
	var kept []message // the imported ones, which come before the snapshot, and those of people
	oldest := chat.Range{Limit: 1 + maxImported, Workstream: &mainLine}
	for e, err := range d.Sessions.Events(ctx, t.caller, t.session, oldest) {
		if err != nil {
			return err
		}
		if m, ok := messageOf(&e); ok && isImported(&e) {
			kept = append(kept, m)
		}
	}
	for _, m := range has {
		if m.Role == "user" && !slices.ContainsFunc(kept, func(k message) bool { return k.ID == m.ID }) {
			kept = append(kept, m)
		}
	}
	t.extra = append(t.extra, event{Type: "MESSAGES_SNAPSHOT", Messages: kept})
	return nil
}
