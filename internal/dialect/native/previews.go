package native

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// showPreviews shows pieces of blocks. An array is one unit. Anything else is
// one object after the other, each shown as it arrives, so that an agent can
// keep one request open for a whole answer.
func (d *Dialect) showPreviews(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	ctx, id := r.Context(), sessionID(r)
	// Access is checked before the first piece is read.
	if err := d.opt.Sessions.Preview(ctx, c, id, nil); err != nil {
		return err
	}
	if _, err := d.opt.Sessions.Get(ctx, c, id); err != nil {
		return err
	}
	body := bufio.NewReader(r.Body)
	first, err := skipSpace(body)
	if err == nil && first == '[' {
		whole := *r
		whole.Body = io.NopCloser(body)
		b, err := d.http.Body(&whole)
		if err != nil {
			return err
		}
		pieces, err := parsePreviews(b)
		if err == nil {
			err = d.opt.Sessions.Preview(ctx, c, id, pieces)
		}
		if err == nil {
			d.http.Send(w, r, http.StatusOK, shownBody{len(pieces)})
		}
		return err
	}
	done := d.cutAtShutdown(w)
	defer done()
	shown, err := d.showEach(newPieces(body, d.opt.MaxBody), func(p chat.Preview) error {
		return d.opt.Sessions.Preview(ctx, c, id, []chat.Preview{p})
	})
	if err != nil {
		// The rest of the body is not read: the client may wait for the error
		// before it sends more.
		w.Header().Set("Connection", "close")
		return chat.Public(err).With("shown", shown)
	}
	d.http.Send(w, r, http.StatusOK, shownBody{shown})
	return nil
}

// showEach shows one piece after the other until the body ends.
func (d *Dialect) showEach(pieces *pieceReader, show func(chat.Preview) error) (shown int, err error) {
	for {
		p, err := pieces.next()
		switch {
		case errors.Is(err, io.EOF) && shown == 0:
			return 0, errNoPieces()
		case errors.Is(err, io.EOF):
			return shown, nil
		case errors.Is(err, os.ErrDeadlineExceeded) && d.closing():
			return shown, chat.Errorf(chat.Unavailable, "the server is shutting down; come back and send the rest")
		case err != nil:
			return shown, err
		}
		if err := show(p); err != nil {
			return shown, err
		}
		shown++
	}
}

func errNoPieces() error {
	return chat.Errorf(chat.Invalid, "there is nothing to show: send {block, offset, text}")
}

// cutAtShutdown stops reading a body without end when the server shuts down.
func (d *Dialect) cutAtShutdown(w http.ResponseWriter) (done func()) {
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-d.opt.Conns.Closing():
			_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // fails only for response writers of tests
		case <-over:
		}
	})
	return func() { close(over); wg.Wait() }
}

func (d *Dialect) closing() bool {
	select {
	case <-d.opt.Conns.Closing():
		return true
	default:
		return false
	}
}

// skipSpace skips white space and returns the next byte without reading it.
func skipSpace(r *bufio.Reader) (byte, error) {
	for {
		c, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c, r.UnreadByte()
		}
	}
}

// pieceReader reads pieces one JSON value after the other.
type pieceReader struct {
	dec   *json.Decoder
	limit *valueLimit
}

func newPieces(r io.Reader, most int64) *pieceReader {
	limit := &valueLimit{r: r, left: most, most: most}
	return &pieceReader{json.NewDecoder(limit), limit}
}

// next returns the next piece, io.EOF after the last.
func (p *pieceReader) next() (chat.Preview, error) {
	p.limit.left = p.limit.most
	var raw json.RawMessage
	if err := p.dec.Decode(&raw); err != nil {
		var syntax *json.SyntaxError
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded):
			return chat.Preview{}, err
		case errors.Is(err, io.ErrUnexpectedEOF):
			return chat.Preview{}, chat.Errorf(chat.Invalid, "the body ends in the middle of a preview").Because(err)
		case errors.As(err, &syntax):
			return chat.Preview{}, chat.Errorf(chat.Invalid, "not a preview: %s", chat.JSONProblem(err)).Because(err)
		}
		return chat.Preview{}, edge.BodyError(err, p.limit.most)
	}
	// The decoder would silently replace bytes that are not UTF-8.
	if err := edge.CheckJSON(raw); err != nil {
		return chat.Preview{}, err
	}
	var body previewBody
	if err := json.Unmarshal(raw, &body); err != nil {
		return chat.Preview{}, chat.Errorf(chat.Invalid, "not a preview: %s", chat.JSONProblem(err)).Because(err)
	}
	return body.preview(), nil
}

// valueLimit bounds the bytes of one JSON value.
type valueLimit struct {
	r          io.Reader
	left, most int64
}

func (a *valueLimit) Read(p []byte) (int, error) {
	if a.left <= 0 {
		return 0, wire.ErrTooLarge
	}
	n, err := a.r.Read(p[:min(int64(len(p)), a.left)])
	a.left -= int64(n)
	return n, err
}

// parsePreviews reads an array of pieces.
func parsePreviews(b []byte) ([]chat.Preview, error) {
	var bodies []previewBody
	if len(bytes.TrimSpace(b)) > 0 {
		if err := edge.Decode(b, &bodies); err != nil {
			return nil, err
		}
	}
	if len(bodies) == 0 {
		return nil, errNoPieces()
	}
	out := make([]chat.Preview, len(bodies))
	for i, p := range bodies {
		out[i] = p.preview()
	}
	return out, nil
}
