package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Artifact is a file that belongs to a session.
type Artifact = chat.FileInfo

// UploadOptions describes what is uploaded.
type UploadOptions struct {
	MediaType string                  // "" means that the server derives it from the path
	Size      int64                   // when known; 0 means not
	Progress  func(done, total int64) // called as bytes are sent; total is Size; must not block
}

func artifactPath(id chat.SessionID, path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return sessionPath(id, "/artifacts/"+strings.Join(parts, "/"))
}

// Upload stores a file in the session. A body that can seek is sent again after
// a lost connection.
func (c *Client) Upload(ctx context.Context, id chat.SessionID, path string, body io.Reader, o UploadOptions) (Artifact, error) {
	seeker, again := body.(io.Seeker)
	var out Artifact
	first := true
	err := c.repeat(ctx, again, func() error {
		if !first && again { // else nothing was sent
			if _, err := seeker.Seek(0, io.SeekStart); err != nil {
				return chat.Errorf(chat.Invalid, "the file cannot be read a second time").Because(err)
			}
		}
		first = false
		req, err := c.request(ctx, http.MethodPut, artifactPath(id, path), nil, nil)
		if err != nil {
			return err
		}
		// The transport closes what it sends; the body belongs to the caller.
		req.Body = io.NopCloser(&counted{r: body, total: o.Size, tell: o.Progress})
		req.ContentLength = -1
		if o.Size > 0 {
			req.ContentLength = o.Size
		}
		if o.MediaType != "" {
			req.Header.Set("Content-Type", o.MediaType)
		}
		res, err := c.send(req)
		if err != nil {
			return err
		}
		defer drain(res.Body)
		if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
			return c.broken(ctx, err)
		}
		return nil
	})
	return out, err
}

// counted reports how many bytes were read.
type counted struct {
	r     io.Reader
	n     int64
	total int64
	tell  func(done, total int64)
	err   error // of a failed read
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.tell != nil && n > 0 {
		c.tell(c.n, c.total)
	}
	if err != io.EOF {
		c.err = err
	}
	return n, err
}

// Download opens a file of the session. The caller closes it.
func (c *Client) Download(ctx context.Context, id chat.SessionID, path string) (io.ReadCloser, Artifact, error) {
	res, err := c.open(ctx, artifactPath(id, path))
	if err != nil {
		return nil, Artifact{}, err
	}
	a := Artifact{
		Path: path, MediaType: res.Header.Get("Content-Type"), Size: res.ContentLength,
		SHA256: strings.Trim(res.Header.Get("ETag"), `"`),
	}
	return res.Body, a, nil
}

// Artifacts lists the files of a session.
func (c *Client) Artifacts(ctx context.Context, id chat.SessionID) ([]Artifact, error) {
	var out struct {
		Artifacts []Artifact `json:"artifacts"`
	}
	err := c.do(ctx, call{method: http.MethodGet, path: sessionPath(id, "/artifacts"), safe: true}, &out)
	return out.Artifacts, err
}

// RemoveArtifact removes a file from the session.
func (c *Client) RemoveArtifact(ctx context.Context, id chat.SessionID, path string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: artifactPath(id, path)}, nil)
}
