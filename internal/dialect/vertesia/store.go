package vertesia

import (
	"context"
	"net/http"
	"path"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// Files by their full path, agents/RUN/PATH. There are no others: a file belongs
// to a run.

// fileOf takes a full path apart; that of a child's file leads into its folder.
func (d *Dialect) fileOf(ctx context.Context, c chat.Caller, full string) (run, string, error) {
	rest, ok := strings.CutPrefix(full, "agents/")
	id, name, more := strings.Cut(rest, "/")
	if !ok || !more || id == "" {
		return run{}, "", chat.Errorf(chat.Invalid, "files belong to runs here: give a path such as agents/RUN/files/report.pdf, not %q", clip(full, 80))
	}
	if d.opt.Files == nil {
		return run{}, "", chat.Errorf(chat.Unavailable, "this server keeps no files")
	}
	sess, err := d.findRun(ctx, c, id)
	if err == nil && sess.line != "" {
		name = chat.WorkFolder(sess.line) + name
	}
	return sess, name, err
}

// listFiles lists files by the beginning of their full path.
func (d *Dialect) listFiles(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, rest, err := d.fileOf(r.Context(), c, r.URL.Query().Get("prefix"))
	if err != nil {
		return err
	}
	names, err := d.names(r.Context(), sess.ID, rest)
	if err != nil {
		return err
	}
	for i := range names {
		names[i] = fullPath(sess.ID, names[i])
	}
	if names == nil {
		names = []string{}
	}
	d.send(w, r, http.StatusOK, map[string]any{"files": names})
	return nil
}

// fileURL is how to get at a file.
type fileURL struct {
	URL  string `json:"url"`
	ID   string `json:"id"`
	Type string `json:"mime_type,omitempty"`
	Path string `json:"path"`
}

func (d *Dialect) downloadURL(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var in struct {
		File        string `json:"file"`
		Name        string `json:"name"`
		Disposition string `json:"disposition"`
	}
	if err := d.read(r, &in); err != nil {
		return err
	}
	sess, name, err := d.fileOf(r.Context(), c, in.File)
	if err != nil {
		return err
	}
	u, err := d.urlOf(r, c, sess, name, in.Disposition, in.Name)
	if err == nil {
		d.send(w, r, http.StatusOK, fileURL{URL: u, ID: in.File, Path: fullPath(sess.ID, name)})
	}
	return err
}

// upload is a file that somebody wants to store.
type upload struct {
	Name string `json:"name"`
	ID   string `json:"id"` // its full path
	Type string `json:"mime_type"`
}

func (d *Dialect) uploadURL(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var in upload
	if err := d.read(r, &in); err != nil {
		return err
	}
	u, err := d.uploadTo(r, c, in)
	if err == nil {
		d.send(w, r, http.StatusOK, u)
	}
	return err
}

// maxUploads bounds the addresses that one request asks for.
const maxUploads = 1000

func (d *Dialect) uploadURLs(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var in struct {
		Files []upload `json:"files"`
	}
	if err := d.read(r, &in); err != nil {
		return err
	}
	if len(in.Files) > maxUploads {
		return chat.Errorf(chat.TooLarge, "at most %d files at once", maxUploads)
	}
	all := make([]fileURL, len(in.Files))
	for i, f := range in.Files {
		var err error
		if all[i], err = d.uploadTo(r, c, f); err != nil {
			return err
		}
	}
	d.send(w, r, http.StatusOK, map[string]any{"files": all})
	return nil
}

func (d *Dialect) uploadTo(r *http.Request, c chat.Caller, f upload) (fileURL, error) {
	sess, name, err := d.fileOf(r.Context(), c, first(f.ID, f.Name))
	if err != nil {
		return fileURL{}, err
	}
	if name == "" || strings.HasSuffix(name, "/") {
		return fileURL{}, chat.Errorf(chat.Invalid, "a file needs a path such as agents/%s/files/report.pdf", sess.ID)
	}
	if err := c.May(&sess.Session, chat.Answerer); err != nil {
		return fileURL{}, err
	}
	u, err := d.signedURL(r, permit{Method: http.MethodPut, Session: sess.ID, Path: name, Type: f.Type, Caller: c})
	full := fullPath(sess.ID, name)
	return fileURL{URL: u, ID: full, Type: f.Type, Path: full}, err
}

func (d *Dialect) fileMetadata(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, name, err := d.fileOf(r.Context(), c, r.URL.Query().Get("file"))
	if err != nil {
		return err
	}
	f, info, err := d.opt.Files.Get(r.Context(), sess.ID, name)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, map[string]any{
		"name": fullPath(sess.ID, name), "size": info.Size, "contentType": info.MediaType, "etag": info.SHA256, "generation": info.SHA256,
	})
	return nil
}

func (d *Dialect) deleteFile(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	full := r.PathValue("path")
	sess, name, err := d.fileOf(r.Context(), c, full)
	if err != nil {
		return err
	}
	if err := c.May(&sess.Session, chat.Answerer); err != nil {
		return err
	}
	names := []string{name}
	if r.URL.Query().Get("prefix") == "true" {
		if names, err = d.names(r.Context(), sess.ID, name); err != nil {
			return err
		}
	} else if has, err := d.has(r.Context(), sess.ID, name); err != nil || !has {
		if err == nil {
			err = chat.Errorf(chat.NotFound, "there is no file %q", clip(full, 80))
		}
		return err
	}
	for _, name := range names {
		if err := d.opt.Sessions.RemoveFile(r.Context(), c, sess.ID, name, via); err != nil {
			return err
		}
	}
	d.send(w, r, http.StatusOK, map[string]any{"success": true, "count": len(names), "file": full})
	return nil
}

func (d *Dialect) copyFile(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var in struct {
		Source string `json:"source"`
		Dest   string `json:"dest"`
	}
	if err := d.read(r, &in); err != nil {
		return err
	}
	from, name, err := d.fileOf(r.Context(), c, in.Source)
	if err != nil {
		return err
	}
	to, as, err := d.fileOf(r.Context(), c, in.Dest)
	if err != nil {
		return err
	}
	if as == "" || strings.HasSuffix(as, "/") {
		as += path.Base(name)
	}
	f, info, err := d.opt.Files.Get(r.Context(), from.ID, name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := d.keep(r.Context(), c, &to.Session, as, info.MediaType, f); err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, map[string]any{"success": true, "source": in.Source, "dest": fullPath(to.ID, as)})
	return nil
}
