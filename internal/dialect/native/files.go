package native

import (
	"errors"
	"io"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/wire"
)

func (d *Dialect) putFile(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	// Writing a file appends an event to the session, so the same rules apply.
	sess, err := d.opt.Sessions.Get(r.Context(), c, sessionID(r))
	if err != nil {
		return err
	}
	if err := c.May(&sess, chat.Answerer); err != nil {
		return err // checked again with the event; here it saves the upload
	}
	switch {
	case r.Header.Get("Content-Range") != "":
		return chat.Errorf(chat.Invalid, "a file is stored as a whole: send it without Content-Range")
	case r.Header.Get("Content-Encoding") != "":
		return chat.Errorf(chat.Invalid, "a file is stored as it is sent: send it without Content-Encoding")
	case r.ContentLength > d.opt.MaxArtifact:
		return tooLarge(d.opt.MaxArtifact)
	}
	ctx, name := r.Context(), r.PathValue("path")
	line, err := d.workstreamOf(r, c)
	if err != nil {
		return err
	}
	body := http.MaxBytesReader(w, r.Body, d.opt.MaxArtifact)
	info, err := d.opt.Sessions.PutFile(ctx, c, sess.ID, core.FilePut{
		Path: chat.WorkFolder(line) + name, MediaType: r.Header.Get("Content-Type"), Body: body, Max: d.opt.MaxArtifact, Workstream: line,
	})
	if err != nil {
		var over *http.MaxBytesError
		if errors.As(err, &over) {
			return tooLarge(d.opt.MaxArtifact)
		}
		return err
	}
	d.http.Send(w, r, http.StatusCreated, info)
	return nil
}

// workstreamOf returns the workstream whose folder gets the file, "" for none.
func (d *Dialect) workstreamOf(r *http.Request, c chat.Caller) (string, error) {
	q := edge.NewQuery(r)
	name := q.Text("workstream")
	if q.Err != nil || name == "" || name == "main" {
		return "", q.Err
	}
	w, err := d.opt.Sessions.Workstream(r.Context(), c, sessionID(r), name)
	return w.ID, err
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
	wire.StoredHeaders(w.Header(), info.Path, info.MediaType, info.SHA256)
	ranged := &rangeWriter{ResponseWriter: w}
	wire.ServeStored(ranged, r, info.StoredAt.Time(), body, func(err error) {
		d.log.ErrorContext(r.Context(), "a file could not be sent whole", "session", sess.ID, "path", info.Path, "err", err)
	})
	if ranged.refused {
		e := chat.Errorf(chat.Invalid, "the file has %d bytes, and the Range %q is not a part of it", info.Size, r.Header.Get("Range")).With("size", info.Size)
		d.http.Send(w, r, http.StatusRequestedRangeNotSatisfiable, edge.Error{Error: edge.InfoOf(e)})
	}
	return nil
}

// rangeWriter drops the plain text with which http.ServeContent refuses a range.
type rangeWriter struct {
	http.ResponseWriter
	refused bool
}

// WriteHeader takes the status.
func (w *rangeWriter) WriteHeader(code int) {
	if w.refused = code == http.StatusRequestedRangeNotSatisfiable; w.refused {
		for _, name := range []string{"Content-Disposition", "Content-Length", "ETag"} {
			w.Header().Del(name)
		}
		return
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write takes bytes of the file.
func (w *rangeWriter) Write(b []byte) (int, error) {
	if w.refused {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// ReadFrom lets the operating system move the bytes of a file.
func (w *rangeWriter) ReadFrom(r io.Reader) (int64, error) {
	if w.refused {
		return io.Copy(io.Discard, r)
	}
	return io.Copy(w.ResponseWriter, r)
}

func (d *Dialect) deleteFile(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, err := d.opt.Sessions.Get(r.Context(), c, sessionID(r))
	if err != nil {
		return err
	}
	if err := d.opt.Sessions.RemoveFile(r.Context(), c, sess.ID, r.PathValue("path"), ""); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (d *Dialect) listFiles(r *http.Request, c chat.Caller) (body filesBody, err error) {
	q := edge.NewQuery(r)
	prefix, after, limit := q.Text("prefix"), q.Text("after"), q.Limit(100, 1000)
	if q.Err != nil {
		return body, q.Err
	}
	sess, err := d.opt.Sessions.Get(r.Context(), c, sessionID(r))
	if err == nil {
		body.Artifacts, body.More, err = d.opt.Files.List(r.Context(), sess.ID, prefix, after, limit)
	}
	if body.Artifacts == nil {
		body.Artifacts = []chat.FileInfo{}
	}
	return body, err
}
