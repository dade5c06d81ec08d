package native

import (
	"errors"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// inlineImages are the types that a browser may show from here; everything else
// is a download.
var inlineImages = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/avif": true}

func (d *Dialect) putFile(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	// Writing a file is writing to the session: the fact comes with it.
	sess, err := d.opt.Sessions.Get(r.Context(), c, sessionID(r))
	if err != nil {
		return err
	}
	if r.ContentLength > d.opt.MaxArtifact {
		return tooLarge(d.opt.MaxArtifact)
	}
	name := r.PathValue("path")
	body := http.MaxBytesReader(w, r.Body, d.opt.MaxArtifact)
	info, err := d.opt.Files.Put(r.Context(), sess.ID, name, r.Header.Get("Content-Type"), body, d.opt.MaxArtifact)
	if err != nil {
		var over *http.MaxBytesError
		if errors.As(err, &over) {
			return tooLarge(d.opt.MaxArtifact)
		}
		return err
	}
	draft := chat.NewDraft(chat.FileUploaded{Path: info.Path, Name: path.Base(info.Path), MediaType: info.MediaType, Size: info.Size, SHA256: info.SHA256})
	if _, err := d.opt.Sessions.Append(r.Context(), c, sess.ID, []chat.Draft{draft}); err != nil {
		return errors.Join(err, d.opt.Files.Delete(r.Context(), sess.ID, name))
	}
	d.send(w, r, http.StatusCreated, info)
	return nil
}

func tooLarge(limit int64) error {
	return chat.Errorf(chat.TooLarge, "a file has at most %d bytes here", limit)
}

func (d *Dialect) getFile(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, err := d.opt.Sessions.Get(r.Context(), c, sessionID(r))
	if err != nil {
		return err
	}
	body, info, err := d.opt.Files.Get(r.Context(), sess.ID, r.PathValue("path"))
	if err != nil {
		return err
	}
	defer body.Close()
	protect(w.Header(), info)
	// ServeContent answers ranges, If-Range and If-None-Match.
	http.ServeContent(w, r, "", info.StoredAt.Time(), body)
	return nil
}

// protect sets the headers under which stored bytes go out: nothing in them can
// run on this origin.
func protect(h http.Header, info chat.FileInfo) {
	h.Set("Content-Type", info.MediaType)
	h.Set("ETag", `"`+info.SHA256+`"`)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "private, no-cache")
	kind := "attachment"
	if base, _, err := mime.ParseMediaType(info.MediaType); err == nil && inlineImages[base] {
		kind = "inline"
	}
	h.Set("Content-Disposition", mime.FormatMediaType(kind, map[string]string{"filename": safeName(info.Path)}))
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

func (d *Dialect) deleteFile(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, err := d.opt.Sessions.Get(r.Context(), c, sessionID(r))
	if err != nil {
		return err
	}
	name := r.PathValue("path")
	f, info, err := d.opt.Files.Get(r.Context(), sess.ID, name)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if _, err := d.opt.Sessions.Append(r.Context(), c, sess.ID, []chat.Draft{chat.NewDraft(chat.FileRemoved{Path: info.Path})}); err != nil {
		return err
	}
	if err := d.opt.Files.Delete(r.Context(), sess.ID, name); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (d *Dialect) listFiles(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	q := query{r: r}
	prefix, after, limit := q.text("prefix"), q.text("after"), q.limit()
	if q.err != nil {
		return q.err
	}
	sess, err := d.opt.Sessions.Get(r.Context(), c, sessionID(r))
	if err != nil {
		return err
	}
	infos, more, err := d.opt.Files.List(r.Context(), sess.ID, prefix, after, limit)
	if err != nil {
		return err
	}
	body := filesBody{Artifacts: infos, More: more}
	if infos == nil {
		body.Artifacts = []chat.FileInfo{}
	}
	d.send(w, r, http.StatusOK, body)
	return nil
}
