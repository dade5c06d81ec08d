package files

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
)

// location is where a file is and the address of its bytes.
type location struct {
	URL  string `json:"url"`
	Path string `json:"path"`
}

// conversationName is the file under which clients download a whole run.
const conversationName = "conversation.json"

// artifact is the file that a request about a run names.
func (s *Service) artifact(r *http.Request, c chat.Caller) (file, error) {
	f, err := s.find(r.Context(), c, r.PathValue("id"), r.PathValue("path"))
	if err == nil && r.PathValue("path") == "" {
		err = chat.Errorf(chat.Invalid, "an artifact needs a path such as files/report.pdf")
	}
	return f, err
}

// putArtifact returns an address for the bytes. A request with a body stores the
// bytes at once.
func (s *Service) putArtifact(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	f, err := s.artifact(r, c)
	if err != nil {
		return err
	}
	if r.ContentLength > 0 {
		if err := s.upload(w, r, c, f, r.Header.Get("Content-Type")); err != nil {
			return err
		}
	}
	if err := c.May(&f.session, chat.Answerer); err != nil {
		return err
	}
	u, err := s.signedURL(r, permit{Method: http.MethodPut, Session: f.session.ID, Path: f.path, Type: r.Header.Get("Content-Type"), Caller: c})
	if err == nil {
		s.http.Send(w, r, http.StatusOK, location{u, f.fullPath()})
	}
	return err
}

// upload stores the body of a request.
func (s *Service) upload(w http.ResponseWriter, r *http.Request, c chat.Caller, f file, mediaType string) error {
	if r.ContentLength > s.opt.MaxSize {
		return s.tooLarge()
	}
	body := http.MaxBytesReader(w, r.Body, s.opt.MaxSize)
	info, err := s.put(r.Context(), c, f, mediaType, body)
	if err == nil {
		w.Header().Set("ETag", `"`+info.SHA256+`"`)
	}
	return err
}

// getArtifact returns the address of a file with url=1, else the file.
func (s *Service) getArtifact(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	f, err := s.artifact(r, c)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	if q.Get("url") == "" {
		return s.sendFile(w, r, permit{Session: f.session.ID, Path: f.path, Caller: c})
	}
	u, err := s.download(r, c, f, q.Get("disposition"), q.Get("filename"))
	if err == nil {
		s.http.Send(w, r, http.StatusOK, location{u, f.fullPath()})
	}
	return err
}

// listArtifacts lists the paths of a run's files. Files in the folders of
// workstreams are internal until they are merged.
func (s *Service) listArtifacts(r *http.Request, c chat.Caller) (any, error) {
	q := edge.NewQuery(r)
	visibility := cmp.Or(q.OneOf("visibility", "user", "internal", "all"), "user")
	if q.Err != nil {
		return nil, q.Err
	}
	sess, workstream, err := s.opt.Find(r.Context(), c, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	prefix := ""
	if workstream != "" {
		prefix = chat.WorkFolder(workstream)
	}
	names, err := s.names(r.Context(), sess.ID, prefix)
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, name := range names {
		name = strings.TrimPrefix(name, prefix)
		if internal := strings.HasPrefix(name, "workstreams/"); visibility == "all" || internal == (visibility == "internal") {
			out = append(out, name)
		}
	}
	if workstream == "" && visibility != "user" {
		out = append(out, conversationName)
	}
	return out, nil
}

// download returns a signed address of a file that must exist.
func (s *Service) download(r *http.Request, c chat.Caller, f file, disposition, name string) (string, error) {
	if f.path != conversationName {
		if _, err := s.info(r.Context(), f); err != nil {
			return "", err
		}
	}
	return s.signedURL(r, permit{Method: http.MethodGet, Session: f.session.ID, Path: f.path, Name: name, Disposition: disposition, Caller: c})
}

// open returns a file's bytes; conversation.json is made of the messages of the run.
func (s *Service) open(ctx context.Context, c chat.Caller, id chat.SessionID, path string) (io.ReadSeekCloser, chat.FileInfo, error) {
	if path != conversationName {
		return s.opt.Store.Get(ctx, id, path)
	}
	b, err := s.opt.Conversation(ctx, c, id)
	return nopCloser{strings.NewReader(string(b))}, chat.FileInfo{Path: path, MediaType: "application/json"}, err
}

type nopCloser struct{ io.ReadSeeker }

func (nopCloser) Close() error { return nil }

// content is a text file that several people may edit.
type content struct {
	Path       string  `json:"path"`
	Content    *string `json:"content,omitempty"`
	Generation string  `json:"generation"`
}

// maxContent bounds a text that is sent as JSON.
const maxContent = 4 << 20

func (s *Service) getContent(r *http.Request, c chat.Caller) (any, error) {
	f, err := s.artifact(r, c)
	if err != nil {
		return nil, err
	}
	body, info, err := s.opt.Store.Get(r.Context(), f.session.ID, f.path)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	if info.Size > maxContent {
		return nil, chat.Errorf(chat.TooLarge, "%s has %d bytes; a text that is edited here has at most %d", clip(f.path), info.Size, maxContent)
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(b) {
		return nil, chat.Errorf(chat.Invalid, "%s is not a text: download it instead", clip(f.path))
	}
	text := string(b)
	return content{r.PathValue("path"), &text, info.SHA256}, nil
}

// putContent replaces a text, unless it changed since the caller read it.
func (s *Service) putContent(r *http.Request, c chat.Caller) (any, error) {
	var in content
	if err := s.http.Read(r, &in); err != nil {
		return nil, err
	}
	if in.Content == nil {
		return nil, chat.Errorf(chat.Invalid, "content is missing")
	}
	f, err := s.artifact(r, c)
	if err != nil {
		return nil, err
	}
	s.edit.Lock()
	defer s.edit.Unlock()
	info, err := s.info(r.Context(), f)
	if err != nil {
		return nil, err
	}
	if in.Generation != info.SHA256 {
		return nil, chat.Errorf(chat.Conflict, "%s was changed meanwhile: load it again, then make your change", clip(f.path)).With("generation", info.SHA256)
	}
	info, err = s.put(r.Context(), c, f, info.MediaType, strings.NewReader(*in.Content))
	return content{Path: r.PathValue("path"), Generation: info.SHA256}, err
}
