package letta

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// statuses are the HTTP statuses of errors.
var statuses = map[chat.Code]int{
	chat.Invalid: 400, chat.Unauthenticated: 401, chat.Denied: 403, chat.NotFound: 404, chat.Conflict: 409,
	chat.Gone: 410, chat.TooLarge: 413, chat.SlowDown: 429, chat.Unavailable: 503, chat.Internal: 500,
}

// Details of errors that say how they are answered.
const (
	statusDetail = "letta_status" // another status than the code's
	failedDetail = "letta_run"    // the run that failed
	bodyDetail   = "letta_detail" // what stands under detail instead of the message
	runDetail    = "letta_busy"   // the run that is under way
)

// detail is the form of most errors.
type detail struct {
	TraceID *string `json:"trace_id,omitempty"`
	Detail  any     `json:"detail"`
	RunID   string  `json:"run_id,omitempty"`
	Error   any     `json:"error,omitempty"`
}

// fail answers a request with an error.
func (d *Dialect) fail(w http.ResponseWriter, r *http.Request, err error) {
	err = wire.Reason(r.Context(), err)
	e := chat.Public(err)
	code, ok := statuses[e.Code]
	if !ok {
		code = http.StatusInternalServerError
	}
	if s, ok := e.Details[statusDetail].(int); ok {
		code = s
	}
	body := detail{Detail: e.Msg}
	if v, ok := e.Details[bodyDetail]; ok {
		body.Detail = v
	}
	body.RunID, _ = e.Details[runDetail].(string)
	h := w.Header()
	run, failed := e.Details[failedDetail].(string)
	switch {
	case failed:
		body.RunID = run
		body.Error = map[string]string{"type": "internal_error", "message": e.Msg, "detail": e.Msg}
		// The clients repeat what failed; the message would be answered again.
		h.Set("X-Should-Retry", "false")
	case e.Code == chat.Internal || e.Code == chat.Unavailable:
		if r.Context().Err() == nil {
			d.log.ErrorContext(r.Context(), "request failed", "route", r.Pattern, "code", e.Code, "err", err)
		}
		if e.Code == chat.Unavailable {
			h.Set("Retry-After", e.RetryAfter())
		}
	case e.Code == chat.SlowDown:
		h.Set("Retry-After", e.RetryAfter())
	case e.Code == chat.Conflict:
		h.Set("X-Should-Retry", "false") // it would be a conflict again
	case e.Code == chat.Unauthenticated:
		h.Set("WWW-Authenticate", `Bearer realm="parley"`)
		body.Detail = "Unauthorized"
	case code == http.StatusUnprocessableEntity:
		body.TraceID = new(string)
	}
	d.send(w, r, code, body)
}

// send answers with JSON.
func (d *Dialect) send(w http.ResponseWriter, r *http.Request, code int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		d.log.ErrorContext(r.Context(), "an answer could not be written as JSON", "route", r.Pattern, "err", err)
		code, b = http.StatusInternalServerError, []byte(`{"detail":"the answer could not be written"}`)
	}
	d.sendBytes(w, r, code, b)
}

func (d *Dialect) sendBytes(w http.ResponseWriter, r *http.Request, code int, b []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	_ = wire.WriteBody(w, r, code, b) // the client has gone if this fails
}

// sendItems answers with a list of messages.
func (d *Dialect) sendItems(w http.ResponseWriter, r *http.Request, items []item) {
	b := make([]byte, 0, 2+len(items)*400)
	b = append(b, '[')
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = items[i].append(b)
	}
	d.sendBytes(w, r, http.StatusOK, append(b, ']'))
}

// stamp is a time as the fields of objects have it.
func stamp(at chat.At) any {
	if at == 0 {
		return nil
	}
	return at.String()
}

func itoa(n int) string { return strconv.Itoa(n) }

// clip shortens what a client sent for a message to a person.
func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

// or is v, or the value that stands for nothing.
func or[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}
