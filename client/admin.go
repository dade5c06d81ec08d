package client

import (
	"bufio"
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Snapshot returns a session as it stands, with its last items; 0 means the
// server's default. A client shows it and follows the stream from its cursor.
func (c *Client) Snapshot(ctx context.Context, id chat.SessionID, items int) (chat.Snapshot, error) {
	v := url.Values{}
	if items > 0 {
		v.Set("items", strconv.Itoa(items))
	}
	return do[chat.Snapshot](ctx, c, call{method: http.MethodGet, path: sessionPath(id, "/snapshot"), query: v, safe: true})
}

// Export writes a session's whole log to w, one event per line, byte for byte
// as it is stored. It returns how many events it wrote; progress, when not nil,
// is called while it writes.
func (c *Client) Export(ctx context.Context, id chat.SessionID, w io.Writer, progress func(events int)) (int, error) {
	res, err := c.open(ctx, sessionPath(id, "/export"))
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	lines := bufio.NewReaderSize(res.Body, 64<<10)
	n, begun := 0, false
	for {
		part, err := lines.ReadSlice('\n')
		if len(part) > 0 {
			if _, err := w.Write(part); err != nil {
				return n, err
			}
			begun = true
		}
		switch {
		case err == nil:
			begun = false
			if n++; progress != nil {
				progress(n)
			}
		case err == bufio.ErrBufferFull:
		case err == io.EOF && !begun:
			return n, nil
		default:
			return n, c.broken(ctx, err) // EOF in the middle of an event is a cut
		}
	}
}

func (c *Client) open(ctx context.Context, path string) (res *http.Response, err error) {
	err = c.repeat(ctx, true, func() error {
		req, err := c.request(ctx, http.MethodGet, path, nil, nil)
		if err != nil {
			return err
		}
		res, err = c.send(req)
		return err
	})
	return res, err
}

// Import makes a session from its whole log, as Export wrote it. The caller
// needs the scope admin.
func (c *Client) Import(ctx context.Context, log io.Reader) (chat.Session, error) {
	var out chat.Session
	req, err := c.request(ctx, http.MethodPost, "/import", nil, nil)
	if err != nil {
		return out, err
	}
	req.Body, req.ContentLength = io.NopCloser(log), -1
	req.Header.Set("Content-Type", "application/x-ndjson")
	res, err := c.send(req)
	if err != nil {
		return out, err
	}
	defer drain(res.Body)
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		return out, c.broken(ctx, err)
	}
	return out, nil
}

// Backup writes a consistent copy of the whole store to w as a tar archive. The
// caller needs the scope admin.
func (c *Client) Backup(ctx context.Context, w io.Writer, tell func(bytes int64)) (int64, error) {
	res, err := c.open(ctx, "/backup")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	body := &counted{r: res.Body, tell: func(done, _ int64) {
		if tell != nil {
			tell(done)
		}
	}}
	_, err = io.Copy(w, body)
	if body.err != nil {
		err = c.broken(ctx, body.err)
	}
	return body.n, err
}

// Check is how far a verification has come. The last one is Done and has all
// problems.
type Check struct {
	Sessions uint64            `json:"sessions"`
	Events   uint64            `json:"events"`
	Done     bool              `json:"done"`
	Problems []json.RawMessage `json:"problems"` // texts, or objects that name what is damaged
}

// Verify has the server walk every hash chain, and reports progress. The caller
// needs the scope admin.
func (c *Client) Verify(ctx context.Context) iter.Seq2[Check, error] {
	return func(yield func(Check, error) bool) {
		res, err := c.open(ctx, "/verify")
		if err != nil {
			yield(Check{}, err)
			return
		}
		defer res.Body.Close()
		dec := json.NewDecoder(res.Body)
		for {
			var line struct {
				Check
				Error *wireError `json:"error"`
			}
			if err := dec.Decode(&line); err != nil {
				yield(Check{}, c.broken(ctx, err)) // it must not end before it is done
				return
			}
			if line.Error != nil {
				yield(line.Check, line.Error.err())
				return
			}
			if !yield(line.Check, nil) || line.Done {
				return
			}
		}
	}
}
