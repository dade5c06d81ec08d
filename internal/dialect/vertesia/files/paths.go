package files

import (
	"cmp"
	"context"
	"net/http"
	"path"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// Files by their full path, agents/RUN/PATH: every file belongs to a run.

// byPath returns the file of a full path.
func (s *Service) byPath(ctx context.Context, c chat.Caller, full string) (file, error) {
	rest, ok := strings.CutPrefix(full, "agents/")
	run, name, more := strings.Cut(rest, "/")
	if !ok || !more || run == "" {
		return file{}, chat.Errorf(chat.Invalid, "files belong to runs here: give a path such as agents/RUN/files/report.pdf, not %q", clip(full))
	}
	return s.find(ctx, c, run, name)
}

// list lists files by the beginning of their full path.
func (s *Service) list(r *http.Request, c chat.Caller) (any, error) {
	prefix, err := s.byPath(r.Context(), c, r.URL.Query().Get("prefix"))
	if err != nil {
		return nil, err
	}
	names, err := s.names(r.Context(), prefix.session.ID, prefix.path)
	full := []string{}
	for _, name := range names {
		f := file{prefix.session, name}
		full = append(full, f.fullPath())
	}
	return map[string]any{"files": full}, err
}

// fileURL is the address of a file's bytes.
type fileURL struct {
	URL  string `json:"url"`
	ID   string `json:"id"`
	Type string `json:"mime_type,omitempty"`
	Path string `json:"path"`
}

func (s *Service) downloadURL(r *http.Request, c chat.Caller) (any, error) {
	var in struct {
		File        string `json:"file"`
		Name        string `json:"name"`
		Disposition string `json:"disposition"`
	}
	if err := s.http.Read(r, &in); err != nil {
		return nil, err
	}
	f, err := s.byPath(r.Context(), c, in.File)
	if err != nil {
		return nil, err
	}
	u, err := s.download(r, c, f, in.Disposition, in.Name)
	return fileURL{URL: u, ID: in.File, Path: f.fullPath()}, err
}

// newFile is a file that a client is about to upload.
type newFile struct {
	Name string `json:"name"`
	ID   string `json:"id"` // its full path
	Type string `json:"mime_type"`
}

func (s *Service) uploadURL(r *http.Request, c chat.Caller) (any, error) {
	var in newFile
	if err := s.http.Read(r, &in); err != nil {
		return nil, err
	}
	return s.urlFor(r, c, in)
}

// maxUploads bounds the addresses of one request.
const maxUploads = 1000

func (s *Service) uploadURLs(r *http.Request, c chat.Caller) (any, error) {
	var in struct {
		Files []newFile `json:"files"`
	}
	if err := s.http.Read(r, &in); err != nil {
		return nil, err
	}
	if len(in.Files) > maxUploads {
		return nil, chat.Errorf(chat.TooLarge, "at most %d files at once", maxUploads)
	}
	urls := make([]fileURL, len(in.Files))
	for i, f := range in.Files {
		var err error
		if urls[i], err = s.urlFor(r, c, f); err != nil {
			return nil, err
		}
	}
	return map[string]any{"files": urls}, nil
}

// urlFor returns a signed address for an upload.
func (s *Service) urlFor(r *http.Request, c chat.Caller, in newFile) (fileURL, error) {
	f, err := s.byPath(r.Context(), c, cmp.Or(in.ID, in.Name))
	if err != nil {
		return fileURL{}, err
	}
	if f.path == "" || strings.HasSuffix(f.path, "/") {
		return fileURL{}, chat.Errorf(chat.Invalid, "a file needs a path such as agents/%s/files/report.pdf", f.session.ID)
	}
	if err := c.May(&f.session, chat.Answerer); err != nil {
		return fileURL{}, err
	}
	u, err := s.signedURL(r, permit{Method: http.MethodPut, Session: f.session.ID, Path: f.path, Type: in.Type, Caller: c})
	return fileURL{URL: u, ID: f.fullPath(), Type: in.Type, Path: f.fullPath()}, err
}

func (s *Service) metadata(r *http.Request, c chat.Caller) (any, error) {
	f, err := s.byPath(r.Context(), c, r.URL.Query().Get("file"))
	if err != nil {
		return nil, err
	}
	info, err := s.info(r.Context(), f)
	return map[string]any{
		"name": f.fullPath(), "size": info.Size, "contentType": info.MediaType, "etag": info.SHA256, "generation": info.SHA256,
	}, err
}

// remove removes a file, or with prefix=true all files whose paths begin so.
func (s *Service) remove(r *http.Request, c chat.Caller) (any, error) {
	full := r.PathValue("path")
	f, err := s.byPath(r.Context(), c, full)
	if err != nil {
		return nil, err
	}
	if err := c.May(&f.session, chat.Answerer); err != nil {
		return nil, err
	}
	names := []string{f.path}
	if r.URL.Query().Get("prefix") == "true" {
		if names, err = s.names(r.Context(), f.session.ID, f.path); err != nil {
			return nil, err
		}
	} else if _, err := s.info(r.Context(), f); err != nil {
		if chat.CodeOf(err) == chat.NotFound {
			err = chat.Errorf(chat.NotFound, "there is no file %q", clip(full))
		}
		return nil, err
	}
	for _, name := range names {
		if err := s.opt.Sessions.RemoveFile(r.Context(), c, f.session.ID, name, s.http.Dialect); err != nil {
			return nil, err
		}
	}
	return map[string]any{"success": true, "count": len(names), "file": full}, nil
}

func (s *Service) copy(r *http.Request, c chat.Caller) (any, error) {
	var in struct {
		Source string `json:"source"`
		Dest   string `json:"dest"`
	}
	if err := s.http.Read(r, &in); err != nil {
		return nil, err
	}
	from, err := s.byPath(r.Context(), c, in.Source)
	if err != nil {
		return nil, err
	}
	to, err := s.byPath(r.Context(), c, in.Dest)
	if err != nil {
		return nil, err
	}
	if to.path == "" || strings.HasSuffix(to.path, "/") {
		to.path += path.Base(from.path)
	}
	body, info, err := s.opt.Store.Get(r.Context(), from.session.ID, from.path)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	_, err = s.put(r.Context(), c, to, info.MediaType, body)
	return map[string]any{"success": true, "source": in.Source, "dest": to.fullPath()}, err
}
