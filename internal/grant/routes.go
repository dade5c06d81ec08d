package grant

import (
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/wire"
)

// Routes returns the routes of grants and shares.
func (s *Service) Routes() []wire.Route {
	const base, shares = "/api/workspaces/{slug}", "/api/workspaces/{slug}/sessions/{id}/shares"
	routes := []wire.Route{
		s.route("POST "+base+"/grants", s.createGrant),
		s.route("GET "+base+"/grants", s.listGrants),
		s.route("DELETE "+base+"/grants/{grant}", s.revokeGrant),
		s.route("POST "+base+"/grants/check", s.useGrant),
		s.route("POST "+shares, s.putShare),
		s.route("GET "+shares, s.listShares),
		s.route("GET "+shares+"/{share}", s.getShare),
		s.route("PUT "+shares+"/{share}", s.putShare),
		s.route("DELETE "+shares+"/{share}", s.revokeShare),
	}
	for _, pattern := range []string{"GET /api/shares/{slug}/{link}", "GET /api/shares/{slug}/{link}/{path...}"} {
		routes = append(routes, wire.Route{Pattern: pattern, Dialect: via, Public: true, Handler: http.HandlerFunc(s.readLink), Fail: s.http.Fail})
	}
	return routes
}

// request is an authenticated request with the parts that most routes need.
type request struct {
	*http.Request
	caller    chat.Caller
	workspace string
	session   chat.Session // of the path
}

// route makes a route of a handler that returns its answer. The caller has access to the workspace and the session.
func (s *Service) route(pattern string, h func(r request) (status int, answer any, err error)) wire.Route {
	return s.http.Route(pattern, func(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
		req := request{Request: r, caller: c, workspace: r.PathValue("slug")}
		err := mayEnter(c, req.workspace)
		if id := r.PathValue("id"); err == nil && id != "" {
			req.session, err = s.sessionIn(r.Context(), c, req.workspace, chat.SessionID(id))
		}
		if err != nil {
			return err
		}
		status, answer, err := h(req)
		if err != nil {
			return err
		}
		s.http.Send(w, r, status, answer)
		return nil
	})
}

func (s *Service) listGrants(r request) (int, any, error) {
	q := edge.NewQuery(r.Request)
	want := Query{User: q.Text("user"), Agent: q.Text("agent"), Type: q.Text("type"), Session: chat.SessionID(q.Text("session")), All: q.Bool("all", false)}
	if q.Err != nil {
		return 0, nil, q.Err
	}
	var err error
	if want.Session, err = s.sessions.Resolve(r.Context(), r.caller, want.Session); err != nil {
		return 0, nil, err
	}
	list, err := s.ListGrants(r.Context(), r.caller, r.workspace, want)
	return http.StatusOK, map[string]any{"grants": list}, err
}

func (s *Service) useGrant(r request) (int, any, error) {
	body, err := s.http.Body(r.Request)
	if err != nil {
		return 0, nil, err
	}
	var a Ask
	if err := json.Unmarshal(body, &a); err != nil || a.Type == "" || a.Session == "" {
		return 0, nil, chat.Errorf(chat.Invalid, "the question is {session_id, grant_type, details, call_id, tool, args}")
	}
	g, err := s.UseGrant(r.Context(), r.caller, r.workspace, a)
	return http.StatusOK, map[string]any{"ok": true, "grant": g}, err
}

// withAddress makes the link an address on this server.
func withAddress(s Share) Share {
	if s.Link != "" {
		s.Link = "/api/shares/" + s.Workspace + "/" + s.Link
	}
	return s
}

// readLink answers a link: without a path with the share, with a path with the bytes of a file. The path "content" is the
// file to show first.
func (s *Service) readLink(w http.ResponseWriter, r *http.Request) {
	if err := s.sendLink(w, r); err != nil {
		s.http.Fail(w, r, err)
	}
}

func (s *Service) sendLink(w http.ResponseWriter, r *http.Request) error {
	c, anonymous := s.http.Caller(r)
	share, err := s.shareByLink(r.Context(), c, anonymous == nil, r.PathValue("slug"), r.PathValue("link"))
	if err != nil {
		return err
	}
	path := r.PathValue("path")
	switch path {
	case "":
		s.http.Send(w, r, http.StatusOK, map[string]any{
			"share_id": share.ID, "title": share.Title, "share_type": share.Type, "path": share.firstFile(), "files": share.Files, "url": share.URL,
			"version": share.Version, "updated_at": share.UpdatedAt,
		})
		return nil
	case "content":
		path = share.firstFile()
	}
	if !share.has(path) {
		return chat.Errorf(chat.NotFound, "the share has no file %q", text.Clip(path, 80))
	}
	body, info, err := s.files.Get(r.Context(), share.Session, path)
	if err != nil {
		return err
	}
	defer body.Close()
	wire.StoredHeaders(w.Header(), info.Path, info.MediaType, info.SHA256)
	wire.ServeStored(w, r, info.StoredAt.Time(), body, func(err error) {
		s.http.Log.ErrorContext(r.Context(), "a file could not be sent to its end", "session", share.Session, "path", info.Path, "err", err)
	})
	return nil
}
