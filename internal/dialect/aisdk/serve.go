package aisdk

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/pages"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/turnlog"
	"github.com/parley-hq/parley/internal/wire"
)

// Options of the dialect. Without Agents any name is accepted.
type Options struct {
	pages.Options
	SocketOptions
}

// SocketOptions are for WebSockets, whose frames may bring a token.
type SocketOptions struct {
	Allow         func(c chat.Caller, requests int) error // counts requests; nil means no limit
	Authenticate  func(ctx context.Context, token string) (chat.Caller, error)
	Bind          func(context.Context, chat.Caller) (context.Context, context.CancelFunc) // ends a context with the caller's credential
	ClientAddress func(*http.Request) string                                               // the client's address
}

// Dialect serves pages of the AI SDK.
type Dialect struct {
	*pages.Chats
	opt             SocketOptions
	unauthenticated *wire.AuthLimit // sockets
}

// New returns the dialect.
func New(opt Options) *Dialect {
	return &Dialect{
		Chats: pages.New(via, opt.Options, encodeError), opt: opt.SocketOptions,
		unauthenticated: wire.NewAuthLimit(maxUnauthenticated, maxUnauthenticatedFrame, authTimeout),
	}
}

// encodeError is the [edge.ErrorEncoder]. The body is one sentence, which the page shows as it is.
func encodeError(err error, _ http.Header) (int, any) {
	e := chat.Public(err)
	return edge.Status(e.Code), edge.Text(e.Msg)
}

// Routes lists the routes of the dialect. A page sets the option api to /api/chat, or to /api/chat/{id} when its transport
// does not send the id of the chat.
func (d *Dialect) Routes() []wire.Route {
	routes := []wire.Route{
		// Browsers cannot set headers of a WebSocket: the credential is in the query, a cookie or each frame.
		{Pattern: "GET /api/chat", Dialect: via, Public: true, QueryToken: true, Handler: http.HandlerFunc(d.socket), Fail: d.HTTP.Fail},
		d.HTTP.Route("GET /api/chat/{id}/stream", d.resume),
		d.HTTP.Route("GET /api/chat/{id}/{run}/stream", d.resume),
		d.HTTP.Route("POST /api/chat/{id}/stop", d.HTTP.Reply(d.stop)),
		d.HTTP.Route("GET /api/chat/{id}/messages", d.HTTP.Reply(d.listMessages)),
	}
	for _, pattern := range []string{"POST /api/chat", "POST /api/chat/{id}"} {
		post := d.HTTP.Route(pattern, d.post)
		post.PlainText = true // WorkflowChatTransport sets no content type
		routes = append(routes, post)
	}
	return routes
}

// isLegacy reports whether the page asks for the form of version 5, which has no approvals.
func isLegacy(q *edge.Query) bool {
	v, _ := q.Get("sdk")
	if v != "" && v != "5" && v != "6" && v != "7" && q.Err == nil {
		q.Err = invalid("Version %q of the AI SDK is not supported: this server works with versions 5, 6 and 7.", text.Clip(v, 40))
	}
	return v == "5"
}

// post sends a message or answers, and responds with what the agent says.
func (d *Dialect) post(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	q := edge.NewQuery(r)
	legacy, agent := isLegacy(q), q.Text("agent")
	if q.Err != nil {
		return q.Err
	}
	b, err := d.HTTP.Body(r)
	if err != nil {
		return err
	}
	req, err := decodeSend(b)
	if err != nil {
		return err
	}
	req.chat = cmp.Or(r.PathValue("id"), req.chat)
	req.agent = cmp.Or(agent, req.agent)
	t, err := d.send(r.Context(), c, req, legacy)
	if err != nil {
		return err
	}
	return d.stream(w, r, c, t)
}

// stream responds with the chunks of a target as Server-Sent Events. The turn goes on when the client disconnects.
func (d *Dialect) stream(w http.ResponseWriter, r *http.Request, c chat.Caller, t target) error {
	h := w.Header()
	h.Set("X-Vercel-Ai-Ui-Message-Stream", "v1")
	if t.run != "" {
		h.Set("X-Workflow-Run-Id", t.run)
	}
	return d.Stream(w, r, c, t.session, func(ctx context.Context, o pages.Opening) (pages.View, chat.Seq, error) {
		if err := o.Write(nil); err != nil {
			return nil, 0, err
		}
		if err := d.await(ctx, c, &t, o.Idle); err != nil {
			return nil, 0, err
		}
		return &eventStream{newSelector(&t)}, t.turn - 1, nil
	})
}

// eventStream is a [pages.View] of a target.
type eventStream struct{ *selector }

func (s *eventStream) Append(dst []byte, entries []turnlog.Entry, live bool) ([]byte, bool, error) {
	chunks := s.takeAll(entries, live)
	for i := range chunks {
		dst = append(chunks[i].appendJSON(append(dst, "data: "...)), "\n\n"...)
	}
	if s.done {
		dst = append(dst, "data: [DONE]\n\n"...)
	}
	return dst, s.done, nil
}

// replayFinished is the value of replay with which a page gets its newest message also when the turn is over.
const replayFinished = "finished"

// resume responds with a run from a chunk on, or with the newest message of a chat whose turn is not over. 204 means that
// there is nothing to resume. A page that was offline until the turn ended would keep an incomplete message; with
// replay=finished it always gets the newest message.
//
// A page that sends startIndex does not handle 204 and asks again until it gets the end. So it gets the newest message, too, and an
// end without a message from a chat that has none.
func (d *Dialect) resume(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	q := edge.NewQuery(r)
	legacy := isLegacy(q)
	replay, _ := q.Get("replay")
	if replay != "" && replay != replayFinished {
		q.Refuse("replay", replay, "the only value is "+replayFinished)
	}
	at, indexed := q.Get("startIndex")
	skip, err := strconv.Atoi(at)
	if indexed && err != nil {
		q.Refuse("startIndex", at, "it must be a whole number")
	}
	if q.Err != nil {
		return q.Err
	}
	id := cmp.Or(r.PathValue("run"), r.PathValue("id"))
	t, err := d.resumable(r.Context(), c, id, legacy, indexed || replay == replayFinished)
	if err != nil {
		return err
	}
	if skip < 0 {
		// The last chunks would lack the beginning of their message, and the page all of it. The client computes from this header
		// with which chunk the response begins: the first.
		w.Header().Set("X-Workflow-Stream-Tail-Index", strconv.Itoa(-1-skip))
		skip = 0
	}
	if t == nil {
		if _, _, isRun := parseRun(id); indexed && !isRun {
			w.Header().Set("Content-Type", "text/event-stream")
			return wire.WriteBody(w, r, http.StatusOK, emptyStream)
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	t.skip = skip
	return d.stream(w, r, c, *t)
}

// emptyStream has no message.
var emptyStream = []byte("data: {\"type\":\"" + chunkFinish + "\"}\n\ndata: [DONE]\n\n")

// resumable returns what an id of a run or a chat stands for, nil when there is nothing to resume.
func (d *Dialect) resumable(ctx context.Context, c chat.Caller, id string, legacy, finished bool) (*target, error) {
	if t, err := d.runByID(ctx, c, id, legacy); t != nil || err != nil {
		return t, err
	}
	sess, err := d.find(ctx, c, id)
	if chat.CodeOf(err) == chat.NotFound {
		return nil, nil // a new chat
	}
	if err != nil {
		return nil, err
	}
	st, err := d.Sessions.State(ctx, c, sess.ID)
	if err != nil {
		return nil, err
	}
	t := &target{session: sess.ID, whole: true, legacy: legacy}
	if turn := st.Line(mainLine).Turn; turn != nil {
		t.turn, t.run = turn.Seq, string(turn.ID)
		return t, nil
	}
	if !finished {
		return nil, nil
	}
	e, err := turnlog.Last(ctx, d.Sessions, c, sess.ID, sess.Last)
	if err != nil || e == nil {
		return nil, err
	}
	t.turn, t.run = e.Seq, string(e.Turn)
	return t, nil
}

// runByID returns the run with an id, or the run of the message with an id while it waits, nil when the id is neither.
func (d *Dialect) runByID(ctx context.Context, c chat.Caller, id string, legacy bool) (*target, error) {
	turn, at, isRun := parseRun(id)
	parsed, ok := chat.ParseID(chat.TurnPrefix, string(turn))
	if !isRun {
		parsed, ok = chat.ParseID(chat.EventPrefix, id)
	}
	if !ok {
		return nil, nil
	}
	sess, seq, err := d.Sessions.ByID(ctx, c, parsed)
	if err != nil {
		if chat.CodeOf(err) == chat.NotFound {
			err = nil
		}
		return nil, err
	}
	t := target{session: sess.ID, turn: seq, at: at, run: id}
	if isRun {
		_, err = d.started(ctx, c, sess.ID, turn)
	} else {
		var e chat.Event
		if e, err = d.Sessions.Event(ctx, c, sess.ID, seq); err != nil {
			return nil, err
		}
		if _, ok := e.Body.(chat.UserMessage); !ok {
			return nil, nil
		}
		t, err = d.attach(ctx, c, &e)
	}
	t.legacy = legacy
	return &t, err
}

// runID is the id of a segment.
func runID(turn chat.TurnID, at segment) string {
	id := messageID(turn, at.message)
	if at.index > 0 {
		id += "." + strconv.Itoa(at.index)
	}
	return id
}

// parseRun reads the id of a segment or of an assistant message.
func parseRun(id string) (turn chat.TurnID, at segment, ok bool) {
	id, index, cut := strings.Cut(id, ".")
	if cut {
		n, err := strconv.ParseUint(index, 10, 31)
		if err != nil {
			return "", at, false
		}
		at.index = int(n)
	}
	id, message, cut := strings.Cut(id, "~")
	if cut {
		n, err := strconv.ParseUint(message, 10, 38)
		if err != nil {
			return "", at, false
		}
		at.message = chat.Seq(n)
	}
	_, ok = chat.ParseID(chat.TurnPrefix, id)
	return chat.TurnID(id), at, ok
}

// stop stops the running turn of a chat or of a run. A page that closes its connection stops nothing.
func (d *Dialect) stop(r *http.Request, c chat.Caller) (any, error) {
	ctx := r.Context()
	t, err := d.runByID(ctx, c, r.PathValue("id"), false)
	if err != nil {
		return nil, err
	}
	if t == nil {
		sess, err := d.find(ctx, c, r.PathValue("id"))
		if err != nil {
			return nil, err
		}
		t = &target{session: sess.ID}
	}
	st, err := d.Sessions.State(ctx, c, t.session)
	if err != nil {
		return nil, err
	}
	// A run that is over, or has not begun, is not stopped.
	if turn := st.Line(mainLine).Turn; turn == nil || t.turn != turn.Seq && t.run != "" {
		return map[string]bool{"stopped": false}, nil
	}
	return d.Stop(ctx, c, t.session)
}

// listMessages lists the messages of a chat for the option messages of useChat. A chat that does not exist has none.
func (d *Dialect) listMessages(r *http.Request, c chat.Caller) (any, error) {
	q := edge.NewQuery(r)
	legacy := isLegacy(q)
	limit := q.Limit(listMessages, maxListMessages)
	if q.Err != nil {
		return nil, q.Err
	}
	sess, err := d.find(r.Context(), c, r.PathValue("id"))
	if chat.CodeOf(err) == chat.NotFound {
		return []*uiMessage{}, nil
	}
	if err != nil {
		return nil, err
	}
	return d.list(r.Context(), c, sess.ID, legacy, limit)
}
