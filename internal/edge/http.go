package edge

import (
	"bytes"
	"cmp"
	"errors"
	"log/slog"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/wire"
)

// DefaultMaxBody bounds a JSON body when [HTTP] sets no limit.
const DefaultMaxBody = 8 << 20

// Handler does the work of a route. The error that it returns becomes the answer, so it must not have answered before.
type Handler func(w http.ResponseWriter, r *http.Request, c chat.Caller) error

// ErrorEncoder returns the status and the body of an error in the format of a dialect. The body is written as JSON unless it
// is a [Text]. The function may set headers; Retry-After and WWW-Authenticate are set already.
type ErrorEncoder func(err error, h http.Header) (status int, body any)

// Text is a body that is written as plain text, for clients that show it to people as it is.
type Text string

// HTTP answers the requests of one dialect.
type HTTP struct {
	Dialect     string                                   // for metrics and logs
	Caller      func(*http.Request) (chat.Caller, error) // authenticates the request
	MaxBody     int64                                    // bytes of a JSON body; 0 means DefaultMaxBody
	EncodeError ErrorEncoder                             // nil means the native form
	Log         *slog.Logger
}

// Route is a route of the dialect for authenticated callers.
func (x *HTTP) Route(pattern string, h Handler) wire.Route {
	return wire.Route{Pattern: pattern, Dialect: x.Dialect, Handler: x.Handle(h), Fail: x.Fail}
}

// ClientOf names a caller in a [wire.Budget].
func ClientOf(c chat.Caller) string { return c.In() + " " + c.Actor.Key() }

// Handle calls h with the caller of the request and answers with the error that it returns.
func (x *HTTP) Handle(h Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := x.Caller(r)
		if err == nil {
			err = h(w, r, c)
		}
		if err != nil {
			x.Fail(w, r, err)
		}
	})
}

// Reply is a [Handler] that answers with the value that h returns, as JSON with the status 200.
func (x *HTTP) Reply(h func(r *http.Request, c chat.Caller) (any, error)) Handler {
	return func(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
		v, err := h(r, c)
		if err == nil {
			x.Send(w, r, http.StatusOK, v)
		}
		return err
	}
}

// Fail answers with an error, and logs it when the server is at fault.
func (x *HTTP) Fail(w http.ResponseWriter, r *http.Request, err error) {
	err = wire.Reason(r.Context(), err)
	if errors.Is(err, wire.ErrShutdown) {
		err = chat.Errorf(chat.Unavailable, "the server is shutting down; try again in a moment")
	}
	e := chat.Public(err)
	if (e.Code == chat.Internal || e.Code == chat.Unavailable) && r.Context().Err() == nil { // else the client has disconnected
		x.Log.ErrorContext(r.Context(), "request failed", "route", r.Pattern, "code", e.Code, "err", err)
	}
	SetErrorHeaders(w.Header(), e)
	encode := x.EncodeError
	if encode == nil {
		encode = encodeNative
	}
	status, body := encode(err, w.Header())
	if text, ok := body.(Text); ok {
		send(w, r, status, "text/plain; charset=utf-8", []byte(text))
		return
	}
	x.Send(w, r, status, body)
}

// Send answers with v as JSON.
func (x *HTTP) Send(w http.ResponseWriter, r *http.Request, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		x.Log.ErrorContext(r.Context(), "an answer could not be written as JSON", "route", r.Pattern, "err", err)
		status, b = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"the answer could not be written as JSON"}}`)
	}
	SendJSON(w, r, status, b)
}

// SendJSON answers with a body that is JSON already.
func SendJSON(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	send(w, r, status, "application/json", body)
}

// SendBlocks answers with JSON that is compressed already, for a client that accepts gzip.
func SendBlocks(w http.ResponseWriter, r *http.Request, status int, blocks []wire.Block) {
	setHeaders(w.Header(), "application/json")
	answerIfBusy(w, r, wire.WriteGzip(w, r, status, blocks))
}

func setHeaders(h http.Header, contentType string) {
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}

func send(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	setHeaders(w.Header(), contentType)
	answerIfBusy(w, r, wire.WriteBody(w, r, status, body))
}

// answerIfBusy answers a request with an error if its body was not written because of [wire.ErrBusy]. Any other error means
// that the client has disconnected.
func answerIfBusy(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, wire.ErrBusy) {
		status, body := encodeNative(errBusy(), w.Header())
		SetErrorHeaders(w.Header(), chat.Public(errBusy()))
		b, _ := json.Marshal(body) // it has only texts
		SendJSON(w, r, status, b)
	}
}

// errBusy is the error for a client with too many large requests and answers.
func errBusy() error {
	return chat.Errorf(chat.SlowDown, "too many large requests and answers of yours are under way: read the answers, then try again").With("retry_after", 1)
}

// Read decodes the JSON body of a request. An empty body leaves v unchanged.
func (x *HTTP) Read(r *http.Request, v any) error {
	b, err := x.Body(r)
	if err != nil || len(bytes.TrimSpace(b)) == 0 {
		return err
	}
	return Decode(b, v)
}

// Decode decodes JSON of a client.
func Decode(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return chat.Errorf(chat.Invalid, "the body cannot be decoded: %s", chat.JSONProblem(err)).Because(err)
	}
	return nil
}

// Body reads the body of a request and checks its size, its characters and its nesting.
func (x *HTTP) Body(r *http.Request) ([]byte, error) {
	b, err := ReadBody(r, cmp.Or(x.MaxBody, DefaultMaxBody))
	if err != nil {
		return nil, err
	}
	err = CheckJSON(b)
	if encoding := r.Header.Get("Content-Encoding"); err != nil && encoding != "" {
		err = chat.Errorf(chat.Invalid, "a body with `Content-Encoding: %s` is not read: send it uncompressed", text.Clip(encoding, 40)).Because(err)
	}
	return b, err
}

// ReadBody reads a body of at most limit bytes.
func ReadBody(r *http.Request, limit int64) ([]byte, error) {
	b, err := wire.ReadBody(r, limit)
	if err != nil {
		return nil, BodyError(err, limit)
	}
	return b, nil
}

// BodyError says why a body with a limit could not be read.
func BodyError(err error, limit int64) error {
	if errors.Is(err, wire.ErrTooLarge) {
		return chat.Errorf(chat.TooLarge, "the body has more than %d bytes; upload large content as an artifact", limit)
	}
	if errors.Is(err, wire.ErrBusy) {
		return errBusy()
	}
	return chat.Errorf(chat.Invalid, "the body could not be read to its end").Because(err)
}

// CheckJSON refuses JSON that a decoder would change silently or that costs too much to decode; see [wire.CheckJSON].
func CheckJSON(b []byte) error {
	switch err := wire.CheckJSON(b, wire.MaxJSONDepth); {
	case errors.Is(err, wire.ErrJSONDepth):
		return chat.Errorf(chat.Invalid, "the JSON is nested deeper than %d levels", wire.MaxJSONDepth)
	case errors.Is(err, wire.ErrJSONSurrogate):
		return chat.Errorf(chat.Invalid, "the body has a surrogate without its other half, such as \\ud83d alone").Because(err)
	case err != nil:
		return chat.Errorf(chat.Invalid, "the body is not valid UTF-8").Because(err)
	}
	return nil
}

// CheckSize normalizes the draft of a message and refuses it when it is too large to be stored, before a session is created for
// it.
func CheckSize(d *chat.Draft) error {
	err := d.Normalize()
	if chat.CodeOf(err) == chat.TooLarge || err == nil && !core.FitsEvent(d) {
		return chat.Errorf(chat.TooLarge, "a message has at most %d KiB, not counting attachments that are stored as files; send it in parts", chat.MaxEvent>>10).Because(err)
	}
	return err
}
