package grant

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// via marks what came in by these routes.
const via = "x1"

// files is where the bytes of shares are.
type files interface {
	Get(ctx context.Context, session chat.SessionID, path string) (io.ReadSeekCloser, chat.FileInfo, error)
}

// Options of the routes.
type Options struct {
	Sessions sessions
	Files    files // nil means that links lead to no bytes
	Caller   func(*http.Request) (chat.Caller, error)
	MaxBody  int64        // 0 means 1 MiB
	Logger   *slog.Logger // nil means none
}

// Desk serves grants and shares, and follows decisions and shares in the logs.
type Desk struct {
	Grants *Grants
	Shares *Shares
	opt    Options
	log    *slog.Logger

	mu    sync.Mutex
	queue []chat.Event // decisions and shares that were committed
	news  chan struct{}
}

// New returns a desk. Run lets it follow the logs.
func New(opt Options) *Desk {
	opt.MaxBody = cmp.Or(opt.MaxBody, 1<<20)
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	return &Desk{Grants: NewGrants(opt.Sessions), Shares: NewShares(opt.Sessions), opt: opt, log: opt.Logger.With("dialect", via), news: make(chan struct{}, 1)}
}

// Committed is told of every commit. It does not block.
func (d *Desk) Committed(evs []chat.Event) {
	for i := range evs {
		switch evs[i].Body.(type) {
		case chat.UserPermissionResponse:
		case chat.AgentShare:
			if evs[i].Via == via && strings.HasPrefix(evs[i].ClientID, byHTTP) {
				continue
			}
		default:
			continue
		}
		d.mu.Lock()
		d.queue = append(d.queue, evs[i])
		d.mu.Unlock()
		select {
		case d.news <- struct{}{}:
		default:
		}
	}
}

// Run makes grants and shares of what was committed, until ctx ends. What a crash
// leaves undone is made up for when somebody asks for the session.
func (d *Desk) Run(ctx context.Context) error {
	for {
		select {
		case <-d.news:
		case <-ctx.Done():
			return nil
		}
		d.mu.Lock()
		queue := d.queue
		d.queue = nil
		d.mu.Unlock()
		for i := range queue {
			e := &queue[i]
			var err error
			if _, ok := e.Body.(chat.AgentShare); ok {
				_, err = d.Shares.Shared(ctx, e, e.Actor)
			} else {
				_, err = d.Grants.Decided(ctx, e, "")
			}
			if err != nil && ctx.Err() == nil {
				d.log.WarnContext(ctx, "a decision or share is not in its book yet", "session", e.Session, "sequence", e.Seq, "err", err)
			}
		}
	}
}

// Routes lists where it answers.
func (d *Desk) Routes() []wire.Route {
	base := "/api/workspaces/{slug}"
	shares := base + "/sessions/{id}/shares"
	var routes []wire.Route
	add := func(pattern string, h handler) {
		routes = append(routes, wire.Route{Pattern: pattern, Dialect: via, Handler: d.handle(h)})
	}
	add("POST "+base+"/grants", d.createGrant)
	add("GET "+base+"/grants", d.listGrants)
	add("DELETE "+base+"/grants/{grant}", d.revokeGrant)
	add("POST "+base+"/grants/check", d.useGrant)
	add("POST "+shares, d.putShare)
	add("GET "+shares, d.listShares)
	add("GET "+shares+"/{share}", d.getShare)
	add("PUT "+shares+"/{share}", d.putShare)
	add("DELETE "+shares+"/{share}", d.revokeShare)
	for _, pattern := range []string{"GET /api/shares/{slug}/{link}", "GET /api/shares/{slug}/{link}/{path...}"} {
		routes = append(routes, wire.Route{Pattern: pattern, Dialect: via, Public: true, Handler: http.HandlerFunc(d.readLink)})
	}
	return routes
}

// handler answers one request; a nil body is an empty answer.
type handler func(r *http.Request, c chat.Caller, body []byte) (status int, answer any, err error)

func (d *Desk) handle(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := d.opt.Caller(r)
		var body []byte
		if err == nil && r.Method != http.MethodGet && r.Method != http.MethodDelete {
			if body, err = wire.ReadBody(r, d.opt.MaxBody); err == nil && len(body) > 0 {
				if cerr := wire.CheckJSON(body, 128); cerr != nil {
					err = chat.Errorf(chat.Invalid, "the body is not valid JSON, or nested too deeply").Because(cerr)
				}
			}
		}
		if id := chat.SessionID(r.PathValue("id")); err == nil && id != "" {
			if err = d.resolve(r, c, &id); err == nil {
				r.SetPathValue("id", string(id))
			}
		}
		code, answer := 0, any(nil)
		if err == nil {
			code, answer, err = h(r, c, body)
		}
		if err != nil {
			d.fail(w, r, err)
			return
		}
		d.answer(w, r, code, answer)
	})
}

// resolve replaces a session id of a request by the id of the session that it
// means for the caller.
func (d *Desk) resolve(r *http.Request, c chat.Caller, id *chat.SessionID) (err error) {
	*id, err = d.Shares.sessions.Resolve(r.Context(), c, *id)
	return err
}

var status = map[chat.Code]int{
	chat.Invalid: http.StatusBadRequest, chat.Unauthenticated: http.StatusUnauthorized, chat.Denied: http.StatusForbidden,
	chat.NotFound: http.StatusNotFound, chat.Conflict: http.StatusConflict, chat.Gone: http.StatusGone,
	chat.TooLarge: http.StatusRequestEntityTooLarge, chat.SlowDown: http.StatusTooManyRequests,
	chat.Unavailable: http.StatusServiceUnavailable, chat.Internal: http.StatusInternalServerError,
}

func (d *Desk) fail(w http.ResponseWriter, r *http.Request, err error) {
	err = wire.Reason(r.Context(), err)
	e := chat.Public(err)
	if e.Code == chat.Internal && r.Context().Err() == nil { // else the client has gone away
		d.log.ErrorContext(r.Context(), "a request failed", "path", r.URL.Path, "err", err)
	}
	if s := e.RetryAfter(); s != "" {
		w.Header().Set("Retry-After", s)
	}
	d.answer(w, r, status[e.Code], map[string]any{"error": map[string]any{"code": e.Code, "message": e.Msg, "details": e.Details}})
}

func (d *Desk) answer(w http.ResponseWriter, r *http.Request, code int, answer any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(answer); err != nil {
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err := wire.WriteBody(w, r, code, b.Bytes()); err != nil {
		d.log.Debug("an answer could not be sent", "err", err)
	}
}

func (d *Desk) createGrant(r *http.Request, c chat.Caller, body []byte) (int, any, error) {
	var g Grant
	if err := json.Unmarshal(body, &g); err != nil {
		return 0, nil, chat.Errorf(chat.Invalid, "a grant is {user_id or agent_id, grant_type, details, scope, session_id, reason, request_id}").Because(err)
	}
	if err := d.resolve(r, c, &g.Session); err != nil {
		return 0, nil, err
	}
	g, err := d.Grants.Create(r.Context(), c, r.PathValue("slug"), g, r.Header.Get("Idempotency-Key"))
	return http.StatusCreated, g, err
}

func (d *Desk) listGrants(r *http.Request, c chat.Caller, _ []byte) (int, any, error) {
	q := r.URL.Query()
	session := chat.SessionID(q.Get("session"))
	if err := d.resolve(r, c, &session); err != nil {
		return 0, nil, err
	}
	list, err := d.Grants.List(r.Context(), c, r.PathValue("slug"), Query{
		User: q.Get("user"), Agent: q.Get("agent"), Type: q.Get("type"), Session: session, All: q.Get("all") == "true",
	})
	return http.StatusOK, map[string]any{"grants": list}, err
}

func (d *Desk) revokeGrant(r *http.Request, c chat.Caller, _ []byte) (int, any, error) {
	g, err := d.Grants.Revoke(r.Context(), c, r.PathValue("slug"), r.PathValue("grant"))
	return http.StatusOK, g, err
}

func (d *Desk) useGrant(r *http.Request, c chat.Caller, body []byte) (int, any, error) {
	var a Ask
	if err := json.Unmarshal(body, &a); err != nil || a.Type == "" || a.Session == "" {
		return 0, nil, chat.Errorf(chat.Invalid, "the question is {session_id, grant_type, details, call_id, tool, args}")
	}
	if err := d.resolve(r, c, &a.Session); err != nil {
		return 0, nil, err
	}
	g, err := d.Grants.Use(r.Context(), c, r.PathValue("slug"), a)
	return http.StatusOK, map[string]any{"ok": true, "grant": g}, err
}

// putShare creates or updates a share.
func (d *Desk) putShare(r *http.Request, c chat.Caller, body []byte) (int, any, error) {
	slug, id := r.PathValue("slug"), chat.SessionID(r.PathValue("id"))
	if err := d.Shares.visible(r.Context(), c, slug, id); err != nil {
		return 0, nil, err
	}
	if name := r.PathValue("share"); name != "" {
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
			return 0, nil, chat.Errorf(chat.Invalid, "a share is an object").Because(err)
		}
		fields["share_id"], _ = json.Marshal(name) // a text
		var err error
		if body, err = json.Marshal(fields); err != nil {
			return 0, nil, err
		}
	}
	s, err := d.Shares.Put(r.Context(), c, id, body, r.Header.Get("Idempotency-Key"))
	code := http.StatusCreated
	if s.Version > 1 {
		code = http.StatusOK
	}
	return code, linked(s), err
}

func (d *Desk) listShares(r *http.Request, c chat.Caller, _ []byte) (int, any, error) {
	list, err := d.Shares.List(r.Context(), c, r.PathValue("slug"), chat.SessionID(r.PathValue("id")), r.URL.Query().Get("all") == "true")
	for i := range list {
		list[i] = linked(list[i])
	}
	return http.StatusOK, map[string]any{"shares": list}, err
}

func (d *Desk) getShare(r *http.Request, c chat.Caller, _ []byte) (int, any, error) {
	s, err := d.Shares.Get(r.Context(), c, r.PathValue("slug"), chat.SessionID(r.PathValue("id")), r.PathValue("share"))
	return http.StatusOK, linked(s), err
}

func (d *Desk) revokeShare(r *http.Request, c chat.Caller, _ []byte) (int, any, error) {
	s, err := d.Shares.Revoke(r.Context(), c, r.PathValue("slug"), chat.SessionID(r.PathValue("id")), r.PathValue("share"))
	return http.StatusOK, linked(s), err
}

// linked has the link as an address on this server.
func linked(s Share) Share {
	if s.Link != "" {
		s.Link = "/api/shares/" + s.Workspace + "/" + s.Link
	}
	return s
}

// readLink shows what is behind a link: without a path the record, with one the
// bytes of a file. "content" is the file that the share begins with.
func (d *Desk) readLink(w http.ResponseWriter, r *http.Request) {
	c, cerr := d.opt.Caller(r)
	s, err := d.Shares.ByLink(r.Context(), c, cerr == nil, r.PathValue("slug"), r.PathValue("link"))
	if err != nil {
		d.fail(w, r, err)
		return
	}
	path := r.PathValue("path")
	if path == "" {
		d.answer(w, r, http.StatusOK, map[string]any{
			"share_id": s.ID, "title": s.Title, "share_type": s.Type, "path": s.begin(), "files": s.Files, "url": s.URL, "version": s.Version, "updated_at": s.UpdatedAt,
		})
		return
	}
	if path == "content" {
		path = s.begin()
	}
	if d.opt.Files == nil || !s.holds(path) {
		d.fail(w, r, chat.Errorf(chat.NotFound, "the share has no file %q", clip(path)))
		return
	}
	body, info, err := d.opt.Files.Get(r.Context(), s.Session, path)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	defer body.Close()
	wire.StoredHeaders(w.Header(), info.Path, info.MediaType, info.SHA256)
	wire.ServeStored(w, r, info.StoredAt.Time(), body, func(err error) {
		d.log.ErrorContext(r.Context(), "a file could not be sent whole", "session", s.Session, "path", info.Path, "err", err)
	})
}

// holds reports whether a file is part of the share: what else the session has is
// none of the reader's business.
func (s *Share) holds(path string) bool {
	if path == "" {
		return false
	}
	if path == s.Path || path == s.Entry {
		return true
	}
	var plain []string
	if json.Unmarshal(s.Files, &plain) == nil {
		for _, f := range plain {
			if f == path {
				return true
			}
		}
	}
	var objects []struct {
		Path string `json:"path"`
	}
	if json.Unmarshal(s.Files, &objects) == nil {
		for _, f := range objects {
			if f.Path == path {
				return true
			}
		}
	}
	return strings.HasSuffix(s.Path, "/") && strings.HasPrefix(path, s.Path)
}
