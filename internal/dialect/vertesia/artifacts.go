package vertesia

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/wire"
)

// placed is where a file is and how to get at it.
type placed struct {
	URL  string `json:"url"`
	Path string `json:"path"`
}

// conversationName is the file that clients download a whole run under.
const conversationName = "conversation.json"

// putArtifact gives an address to which the bytes can be sent. With a body, the
// bytes are taken at once.
func (d *Dialect) putArtifact(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, name, err := d.artifact(r, c)
	if err != nil {
		return err
	}
	if r.ContentLength > 0 {
		if err := d.store(w, r, c, sess, name, r.Header.Get("Content-Type")); err != nil {
			return err
		}
	}
	if err := c.May(&sess.Session, chat.Answerer); err != nil {
		return err
	}
	u, err := d.signedURL(r, permit{Method: http.MethodPut, Session: sess.ID, Path: name, Type: r.Header.Get("Content-Type"), Caller: c})
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, placed{u, fullPath(sess.ID, name)})
	return nil
}

func fullPath(id chat.SessionID, name string) string { return "agents/" + string(id) + "/" + name }

// artifact is the file that a request names. A child's are in its own folder.
func (d *Dialect) artifact(r *http.Request, c chat.Caller) (run, string, error) {
	if d.opt.Files == nil {
		return run{}, "", chat.Errorf(chat.Unavailable, "this server keeps no files")
	}
	sess, err := d.run(r, c)
	if err != nil {
		return run{}, "", err
	}
	name := r.PathValue("path")
	if name == "" {
		return sess, "", chat.Errorf(chat.Invalid, "an artifact needs a path such as files/report.pdf")
	}
	if sess.line != "" {
		name = "workstreams/" + sess.line + "/" + name
	}
	return sess, name, nil
}

// store takes the bytes of a file; that it is there is a fact.
func (d *Dialect) store(w http.ResponseWriter, r *http.Request, c chat.Caller, sess run, name, mediaType string) error {
	if r.ContentLength > d.opt.MaxArtifact {
		return tooLarge(d.opt.MaxArtifact)
	}
	ctx := r.Context()
	body := http.MaxBytesReader(w, &patient{r.Body, http.NewResponseController(w)}, d.opt.MaxArtifact)
	info, err := d.keep(ctx, c, &sess.Session, name, mediaType, body)
	if err == nil {
		w.Header().Set("ETag", `"`+info.SHA256+`"`)
	}
	return err
}

func (d *Dialect) has(ctx context.Context, id chat.SessionID, name string) (bool, error) {
	f, _, err := d.opt.Files.Get(ctx, id, name)
	switch chat.CodeOf(err) {
	case "":
		return true, f.Close()
	case chat.NotFound:
		return false, nil
	}
	return false, err
}

func (d *Dialect) keep(ctx context.Context, c chat.Caller, sess *chat.Session, name, mediaType string, body io.Reader) (chat.FileInfo, error) {
	if err := c.May(sess, chat.Answerer); err != nil {
		return chat.FileInfo{}, err
	}
	line, err := d.lineOf(ctx, c, sess.ID, name)
	if err != nil {
		return chat.FileInfo{}, err
	}
	info, err := d.opt.Sessions.PutFile(ctx, c, sess.ID, chat.FilePut{
		Path: name, MediaType: first(mediaType, "application/octet-stream"), Body: body, Max: d.opt.MaxArtifact, Workstream: line, Via: via,
	})
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		err = tooLarge(d.opt.MaxArtifact)
	}
	return info, err
}

// lineOf is the workstream whose folder a file is in, "" for none.
func (d *Dialect) lineOf(ctx context.Context, c chat.Caller, id chat.SessionID, name string) (string, error) {
	rest, ok := strings.CutPrefix(name, "workstreams/")
	line, _, more := strings.Cut(rest, "/")
	if !ok || !more {
		return "", nil
	}
	st, err := d.opt.Sessions.State(ctx, c, id)
	if err != nil || st.Workstream(line) == nil {
		return "", err
	}
	return line, nil
}

func tooLarge(limit int64) error {
	return chat.Errorf(chat.TooLarge, "a file has at most %d bytes here", limit)
}

// patient gives each piece of an upload a minute to arrive, so that nobody holds
// a handler by sending a byte an hour.
type patient struct {
	io.ReadCloser
	w *http.ResponseController
}

func (p *patient) Read(b []byte) (int, error) {
	_ = p.w.SetReadDeadline(time.Now().Add(time.Minute)) // a writer without deadlines is a test's
	n, err := p.ReadCloser.Read(b)
	if err != nil {
		_ = p.w.SetReadDeadline(time.Time{}) // net/http waits for the client's leaving with it
	}
	return n, err
}

// getArtifact gives the address of a file with url=1, else the file.
func (d *Dialect) getArtifact(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, name, err := d.artifact(r, c)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	if q.Get("url") == "" {
		return d.serveFile(w, r, permit{Session: sess.ID, Path: name, Caller: c})
	}
	u, err := d.urlOf(r, c, sess, name, q.Get("disposition"), q.Get("filename"))
	if err == nil {
		d.send(w, r, http.StatusOK, placed{u, fullPath(sess.ID, name)})
	}
	return err
}

// urlOf is a signed address of a file that is there.
func (d *Dialect) urlOf(r *http.Request, c chat.Caller, sess run, name, disposition, filename string) (string, error) {
	if name != conversationName {
		body, _, err := d.opt.Files.Get(r.Context(), sess.ID, name)
		if err != nil {
			return "", err
		}
		if err := body.Close(); err != nil {
			return "", err
		}
	}
	return d.signedURL(r, permit{Method: http.MethodGet, Session: sess.ID, Path: name, Name: clip(filename, 200), Disposition: clip(disposition, 20), Caller: c})
}

// serveSigned takes or gives the bytes of a file by a signed address. Who made
// it is asked again whether they still may.
func (d *Dialect) serveSigned(w http.ResponseWriter, r *http.Request) {
	if err := d.useSigned(w, r); err != nil {
		d.fail(w, r, err)
	}
}

func (d *Dialect) useSigned(w http.ResponseWriter, r *http.Request) error {
	p, err := d.permitOf(r)
	if err != nil {
		return err
	}
	if d.opt.Files == nil {
		return chat.Errorf(chat.Unavailable, "this server keeps no files")
	}
	sess, err := d.runOf(r.Context(), p.Caller, string(p.Session))
	if err != nil {
		return err
	}
	if p.Method != http.MethodPut {
		return d.serveFile(w, r, p)
	}
	if err := d.store(w, r, p.Caller, sess, p.Path, first(p.Type, r.Header.Get("Content-Type"))); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// inlineImages are the types that a browser may show from here; everything else
// is a download.
var inlineImages = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/avif": true}

func (d *Dialect) serveFile(w http.ResponseWriter, r *http.Request, p permit) error {
	var body io.ReadSeeker
	info := chat.FileInfo{Path: p.Path, MediaType: "application/json"}
	if p.Path == conversationName {
		b, err := d.conversation(r.Context(), p.Caller, p.Session)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	} else {
		f, found, err := d.opt.Files.Get(r.Context(), p.Session, p.Path)
		if err != nil {
			return err
		}
		defer f.Close()
		body, info = f, found
	}
	h := w.Header()
	h.Set("Content-Type", info.MediaType)
	if info.SHA256 != "" {
		h.Set("ETag", `"`+info.SHA256+`"`)
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "private, no-cache")
	kind := "attachment"
	if base, _, err := mime.ParseMediaType(info.MediaType); err == nil && inlineImages[base] && p.Disposition != "attachment" {
		kind = "inline"
	}
	h.Set("Content-Disposition", mime.FormatMediaType(kind, map[string]string{"filename": safeName(first(p.Name, info.Path))}))
	wire.ServeStored(w, r, info.StoredAt.Time(), body, func(err error) {
		d.log.ErrorContext(r.Context(), "a file could not be sent whole", "session", p.Session, "path", info.Path, "err", err)
	})
	return nil
}

// conversation is a whole run as one file, unless the agent has made one.
func (d *Dialect) conversation(ctx context.Context, c chat.Caller, id chat.SessionID) ([]byte, error) {
	sess, err := d.runOf(ctx, c, string(id))
	if err != nil {
		return nil, err
	}
	p := page{coding: codingOf(asJSON, "")}
	if err := d.page(ctx, c, sess, &p); err != nil {
		return nil, err
	}
	return p.body(), nil
}

// safeName is the last part of a path without what could confuse a header.
func safeName(p string) string {
	name := strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r == '"' || r == '\\' {
			return '_'
		}
		return r
	}, path.Base(p))
	if name == "." || name == "/" {
		return "file"
	}
	return name
}

// listArtifacts lists the paths of a run's files. Those of children in work are
// internal until they are merged.
func (d *Dialect) listArtifacts(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	visibility := first(r.URL.Query().Get("visibility"), "user")
	if !slices.Contains([]string{"user", "internal", "all"}, visibility) {
		return chat.Errorf(chat.Invalid, "visibility is user, internal or all, not %q", clip(visibility, 40))
	}
	sess, err := d.run(r, c)
	if err != nil {
		return err
	}
	prefix := ""
	if sess.line != "" {
		prefix = "workstreams/" + sess.line + "/"
	}
	names, err := d.names(r.Context(), sess.ID, prefix)
	if err != nil {
		return err
	}
	out := []string{}
	for _, name := range names {
		name = strings.TrimPrefix(name, prefix)
		if internal := strings.HasPrefix(name, "workstreams/"); visibility == "all" || internal == (visibility == "internal") {
			out = append(out, name)
		}
	}
	if sess.line == "" && visibility != "user" {
		out = append(out, conversationName)
	}
	d.send(w, r, http.StatusOK, out)
	return nil
}

func (d *Dialect) names(ctx context.Context, id chat.SessionID, prefix string) ([]string, error) {
	if d.opt.Files == nil {
		return nil, nil
	}
	infos, _, err := d.opt.Files.List(ctx, id, prefix, "", 0)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(infos))
	for i, f := range infos {
		names[i] = f.Path
	}
	return names, nil
}
