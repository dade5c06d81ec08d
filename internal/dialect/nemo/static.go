package nemo

import (
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/wire"
)

// staticConversation is the conversation that holds a caller's files. It has no agent.
const staticConversation = "nemo-static"

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

// toolListTimeout is how long MCP servers have to list their tools; a slower one is listed without tools.
const toolListTimeout = 10 * time.Second

func (d *Dialect) listTools(r *http.Request, _ chat.Caller) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), toolListTimeout)
	defer cancel()
	return map[string]any{"mcp_clients": append([]MCPClient{}, d.opt.Tools(ctx)...)}, nil
}

// staticFile is a file of a caller.
type staticFile struct {
	id   chat.SessionID
	name string
}

// withStaticFile gives a handler the file that the path names.
func (d *Dialect) withStaticFile(h func(w http.ResponseWriter, r *http.Request, c chat.Caller, f staticFile) error) edge.Handler {
	return func(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
		name := path.Clean(strings.Trim(r.PathValue("path"), "/"))
		if name == "." || name == ".." || strings.HasPrefix(name, "../") {
			return chat.Errorf(chat.Invalid, "Invalid file path.")
		}
		sess, _, err := d.opt.Sessions.Ensure(r.Context(), c, staticConversation, chat.NewSession{Agent: chat.NoAgent, Title: "Files of NeMo clients"})
		if err == nil && r.Method != http.MethodGet && r.Method != http.MethodHead {
			err = c.May(&sess, chat.Answerer)
		}
		if err != nil {
			return err
		}
		return h(w, r, c, staticFile{sess.ID, name})
	}
}

// putStatic stores a file: POST only a new one, PUT also over another.
func (d *Dialect) putStatic(w http.ResponseWriter, r *http.Request, c chat.Caller, f staticFile) error {
	isNew := r.Method == http.MethodPost
	body, kind, err := upload(w, r, d.opt.MaxArtifact)
	if err != nil {
		return err
	}
	_, err = d.opt.Sessions.PutFile(r.Context(), c, f.id, core.FilePut{
		Path: f.name, MediaType: kind, Body: body, Max: d.opt.MaxArtifact, IfAbsent: isNew, Via: via,
	})
	var over *http.MaxBytesError
	switch {
	case isNew && chat.CodeOf(err) == chat.Conflict:
		return chat.Errorf(chat.Conflict, "there is a file %q already: use PUT to replace it", f.name)
	case errors.As(err, &over):
		return chat.Errorf(chat.TooLarge, "a file has at most %d bytes here", d.opt.MaxArtifact)
	case err != nil:
		return err
	}
	d.http.Send(w, r, http.StatusOK, map[string]string{"filename": f.name})
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
			return p, cmp.Or(p.Header.Get("Content-Type"), "application/octet-stream"), nil
		}
	}
}

func (d *Dialect) getStatic(w http.ResponseWriter, r *http.Request, _ chat.Caller, f staticFile) error {
	body, info, err := d.opt.Files.Get(r.Context(), f.id, f.name)
	if err != nil {
		return err
	}
	defer body.Close()
	wire.StoredHeaders(w.Header(), info.Path, info.MediaType, info.SHA256)
	wire.ServeStored(w, r, info.StoredAt.Time(), body, func(err error) {
		d.log.ErrorContext(r.Context(), "a file could not be sent", "session", f.id, "path", info.Path, "err", err)
	})
	return nil
}

func (d *Dialect) deleteStatic(w http.ResponseWriter, r *http.Request, c chat.Caller, f staticFile) error {
	if err := d.opt.Sessions.RemoveFile(r.Context(), c, f.id, f.name, via); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
