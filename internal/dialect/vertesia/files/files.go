// Package files serves the files of Vertesia runs: the artifacts of a run, files
// by their full path agents/RUN/PATH, and signed addresses, which clients use
// without a credential to upload and download. A workstream under the id
// RUN~WORKSTREAM has the folder workstreams/WORKSTREAM/ of its run.
//
// A [Service] may be used by any number of goroutines.
package files

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/wire"
)

// sessions are the operations of internal/session that the service uses.
type sessions interface {
	Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error)
	PutFile(ctx context.Context, c chat.Caller, id chat.SessionID, f core.FilePut) (chat.FileInfo, error)
	RemoveFile(ctx context.Context, c chat.Caller, id chat.SessionID, path, via string) error
}

// store holds the files of sessions.
type store interface {
	Get(ctx context.Context, id chat.SessionID, path string) (io.ReadSeekCloser, chat.FileInfo, error)
	Stat(ctx context.Context, id chat.SessionID, path string) (chat.FileInfo, error)
	List(ctx context.Context, id chat.SessionID, prefix, after string, limit int) (infos []chat.FileInfo, more bool, err error)
}

// Options of the service.
type Options struct {
	HTTP     *edge.HTTP
	Sessions sessions
	Store    store

	// Find returns the session of a run's id, and the workstream when the id is
	// that of a workstream.
	Find func(ctx context.Context, c chat.Caller, id string) (sess chat.Session, workstream string, err error)
	// Conversation returns all messages of a run as JSON.
	Conversation func(ctx context.Context, c chat.Caller, id chat.SessionID) ([]byte, error)

	Check        func(chat.Caller) error                                                  // why a caller's credential is no longer valid
	Bind         func(context.Context, chat.Caller) (context.Context, context.CancelFunc) // ends a context with the caller's credential
	Allow        func(c chat.Caller, requests int) error                                  // counts requests
	Secret       []byte                                                                   // signs addresses
	TrustedProxy bool                                                                     // X-Forwarded-Proto is trusted
	MaxSize      int64                                                                    // bytes of a file; 0 means 1 GiB
	Now          func() time.Time
}

// Service serves files.
type Service struct {
	opt  Options
	http *edge.HTTP
	edit sync.Mutex // of texts: compare the generation and replace
}

// New returns the service.
func New(opt Options) *Service {
	opt.MaxSize = cmp.Or(opt.MaxSize, 1<<30)
	return &Service{opt: opt, http: opt.HTTP}
}

// Routes lists the addresses of files.
func (s *Service) Routes() []wire.Route {
	var routes []wire.Route
	handle := func(pattern string, h edge.Handler) *wire.Route {
		routes = append(routes, s.http.Route(pattern, h))
		return &routes[len(routes)-1]
	}
	add := func(pattern string, h func(*http.Request, chat.Caller) (any, error)) {
		handle(pattern, s.http.Reply(h))
	}

	const run = "/api/v1/agents/{id}"
	add("GET "+run+"/artifacts", s.listArtifacts)
	handle("GET "+run+"/artifacts/{path...}", s.getArtifact)
	handle("PUT "+run+"/artifacts/{path...}", s.putArtifact).Upload = true
	add("GET "+run+"/artifact-content/{path...}", s.getContent)
	add("PUT "+run+"/artifact-content/{path...}", s.putContent)

	const files = "/api/v1/files/"
	add("GET "+files+"list", s.list)
	add("POST "+files+"download-url", s.downloadURL)
	add("POST "+files+"upload-url", s.uploadURL)
	add("POST "+files+"bulk-upload-urls", s.uploadURLs)
	add("GET "+files+"metadata", s.metadata)
	add("POST "+files+"copy", s.copy)
	add("DELETE "+files+"{path...}", s.remove)

	// The signature in the address is the credential.
	for _, method := range []string{"GET ", "PUT "} {
		routes = append(routes, wire.Route{
			Pattern: method + signedPath + "{path...}", Dialect: s.http.Dialect, Handler: http.HandlerFunc(s.serveSigned), Fail: s.http.Fail,
			Public: true, Upload: true,
		})
	}
	return routes
}

// file is a file that a request names; it need not exist.
type file struct {
	session chat.Session
	path    string
}

func (f *file) fullPath() string { return "agents/" + string(f.session.ID) + "/" + f.path }

// find returns a file by the id of its run and its path there. The files of a
// workstream are in its folder.
func (s *Service) find(ctx context.Context, c chat.Caller, run, path string) (file, error) {
	sess, workstream, err := s.opt.Find(ctx, c, run)
	if err != nil {
		return file{}, err
	}
	if workstream != "" {
		path = chat.WorkFolder(workstream) + path
	}
	return file{sess, path}, nil
}

// info returns what is known of a file that must exist.
func (s *Service) info(ctx context.Context, f file) (chat.FileInfo, error) {
	return s.opt.Store.Stat(ctx, f.session.ID, f.path)
}

// names lists the paths of a session's files that begin with prefix.
func (s *Service) names(ctx context.Context, id chat.SessionID, prefix string) ([]string, error) {
	infos, _, err := s.opt.Store.List(ctx, id, prefix, "", 0)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(infos))
	for i, f := range infos {
		names[i] = f.Path
	}
	return names, nil
}

// put stores a file and appends the event that says so, on the workstream whose
// folder the file is in.
func (s *Service) put(ctx context.Context, c chat.Caller, f file, mediaType string, body io.Reader) (chat.FileInfo, error) {
	if err := c.May(&f.session, chat.Answerer); err != nil {
		return chat.FileInfo{}, err
	}
	workstream, err := s.workstreamOf(ctx, c, f)
	if err != nil {
		return chat.FileInfo{}, err
	}
	info, err := s.opt.Sessions.PutFile(ctx, c, f.session.ID, core.FilePut{
		Path: f.path, MediaType: cmp.Or(mediaType, "application/octet-stream"), Body: body, Max: s.opt.MaxSize, Workstream: workstream, Via: s.http.Dialect,
	})
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		err = s.tooLarge()
	}
	return info, err
}

func (s *Service) tooLarge() error {
	return chat.Errorf(chat.TooLarge, "a file has at most %d bytes here", s.opt.MaxSize)
}

// workstreamOf is the workstream whose folder a file is in, "" for none.
func (s *Service) workstreamOf(ctx context.Context, c chat.Caller, f file) (string, error) {
	rest, ok := strings.CutPrefix(f.path, "workstreams/")
	id, _, more := strings.Cut(rest, "/")
	if !ok || !more {
		return "", nil
	}
	st, err := s.opt.Sessions.State(ctx, c, f.session.ID)
	if err != nil || st.Workstream(id) == nil {
		return "", err
	}
	return id, nil
}

// clip shortens a path for an error message.
func clip(path string) string { return text.Clip(path, 80) }
