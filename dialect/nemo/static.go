package nemo

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// static is the conversation that holds a caller's files. Nobody answers there.
const static = "nemo-static"

// inlineImages are the types that a browser may show from here; everything else
// is a download.
var inlineImages = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/avif": true}

// MCPClient is a group of tools as /mcp/client/tool/list shows it.
type MCPClient struct {
	Group     string    `json:"function_group"`
	Server    string    `json:"server"`
	Transport string    `json:"transport"`
	Healthy   bool      `json:"session_healthy"`
	Protected bool      `json:"protected"`
	Tools     []MCPTool `json:"tools"`
	Total     int       `json:"total_tools"`
	Available int       `json:"available_tools"`
}

// MCPTool is one tool of a group.
type MCPTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Server      string `json:"server"`
	Available   bool   `json:"available"`
}

func (d *Dialect) listTools(w http.ResponseWriter, r *http.Request, _ chat.Caller) error {
	clients := []MCPClient{}
	if d.opt.Tools != nil {
		clients = append(clients, d.opt.Tools(r.Context())...)
	}
	sendJSON(w, r, http.StatusOK, map[string]any{"mcp_clients": clients})
	return nil
}

// filePath cleans the path of a file.
func filePath(r *http.Request) (string, error) {
	p := path.Clean(strings.Trim(r.PathValue("path"), "/"))
	if p == "." || p == ".." || strings.HasPrefix(p, "../") {
		return "", chat.Errorf(chat.Invalid, "Invalid file path.")
	}
	return p, nil
}

func (d *Dialect) shelf(ctx context.Context, c chat.Caller) (chat.SessionID, error) {
	if d.opt.Files == nil {
		return "", chat.Errorf(chat.NotFound, "this server keeps no files")
	}
	sess, _, err := d.opt.Sessions.Ensure(ctx, c, static, chat.NewSession{Agent: chat.NoAgent, Title: "Files of NeMo clients"})
	return sess.ID, err
}

// putStatic stores a file: POST only a new one, PUT also over another.
func (d *Dialect) putStatic(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	name, err := filePath(r)
	if err != nil {
		return err
	}
	id, err := d.shelf(r.Context(), c)
	if err != nil {
		return err
	}
	if r.Method == http.MethodPost {
		f, _, err := d.opt.Files.Get(r.Context(), id, name)
		if err == nil {
			return errors.Join(chat.Errorf(chat.Conflict, "there is a file %q already: use PUT to replace it", name), f.Close())
		}
		if chat.CodeOf(err) != chat.NotFound {
			return err
		}
	}
	body, kind, err := upload(w, r, d.opt.MaxArtifact)
	if err != nil {
		return err
	}
	info, err := d.opt.Files.Put(r.Context(), id, name, kind, body, d.opt.MaxArtifact)
	if err != nil {
		return tooLarge(err, d.opt.MaxArtifact)
	}
	draft := chat.NewDraft(chat.FileUploaded{Path: info.Path, Name: path.Base(info.Path), MediaType: info.MediaType, Size: info.Size, SHA256: info.SHA256})
	draft.Via = via
	if _, err := d.opt.Sessions.Append(r.Context(), c, id, []chat.Draft{draft}); err != nil {
		return err
	}
	sendJSON(w, r, http.StatusOK, map[string]string{"filename": name})
	return nil
}

// upload finds the file in the body: the form field "file", or the whole body.
func upload(w http.ResponseWriter, r *http.Request, limit int64) (io.Reader, string, error) {
	kind := r.Header.Get("Content-Type")
	r.Body = http.MaxBytesReader(w, r.Body, limit+64<<10)
	media, _, _ := mime.ParseMediaType(kind)
	if media != "multipart/form-data" {
		if media == "application/x-www-form-urlencoded" {
			return nil, "", chat.Errorf(chat.Invalid, "send the file as the field \"file\" of a multipart form, or as the body")
		}
		return r.Body, kind, nil
	}
	form, err := r.MultipartReader()
	if err != nil {
		return nil, "", chat.Errorf(chat.Invalid, "the form cannot be read").Because(err)
	}
	for {
		var p *multipart.Part
		if p, err = form.NextPart(); err != nil {
			return nil, "", chat.Errorf(chat.Invalid, "the form has no field \"file\"").Because(err)
		}
		if p.FormName() == "file" {
			return p, first(p.Header.Get("Content-Type"), "application/octet-stream"), nil
		}
	}
}

func tooLarge(err error, limit int64) error {
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return chat.Errorf(chat.TooLarge, "a file has at most %d bytes here", limit)
	}
	return err
}

func (d *Dialect) getStatic(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	name, err := filePath(r)
	if err != nil {
		return err
	}
	id, err := d.shelf(r.Context(), c)
	if err != nil {
		return err
	}
	body, info, err := d.opt.Files.Get(r.Context(), id, name)
	if err != nil {
		return err
	}
	defer body.Close()
	// Nothing in stored bytes can run on this origin.
	h := w.Header()
	h.Set("Content-Type", info.MediaType)
	h.Set("ETag", `"`+info.SHA256+`"`)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "private, no-cache")
	how := "attachment"
	if base, _, err := mime.ParseMediaType(info.MediaType); err == nil && inlineImages[base] {
		how = "inline"
	}
	h.Set("Content-Disposition", mime.FormatMediaType(how, map[string]string{"filename": path.Base(info.Path)}))
	http.ServeContent(w, r, "", info.StoredAt.Time(), body)
	return nil
}

func (d *Dialect) deleteStatic(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	name, err := filePath(r)
	if err != nil {
		return err
	}
	id, err := d.shelf(r.Context(), c)
	if err != nil {
		return err
	}
	f, info, err := d.opt.Files.Get(r.Context(), id, name)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	draft := chat.NewDraft(chat.FileRemoved{Path: info.Path})
	draft.Via = via
	if _, err := d.opt.Sessions.Append(r.Context(), c, id, []chat.Draft{draft}); err != nil {
		return err
	}
	if err := d.opt.Files.Delete(r.Context(), id, name); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
