package letta

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// refusal is an error whose answer has more than a status and a message.
type refusal struct {
	error
	malformed bool   // the request does not have the form of the API: status 422
	run       string // the run that has to end first
	pending   string // the message with the approval request that has to be answered first
}

func (r *refusal) Unwrap() error { return r.error }

// malformed refuses a request that does not have the form of the API. Letta's server answers 422 to those, and 400 to
// requests that it understands and cannot do.
func malformed(format string, args ...any) error {
	return &refusal{error: chat.Errorf(chat.Invalid, format, args...), malformed: true}
}

// errorBody is the body of an error.
type errorBody struct {
	TraceID *string `json:"trace_id,omitempty"`
	Detail  any     `json:"detail"`
	RunID   string  `json:"run_id,omitempty"`
	Error   any     `json:"error,omitempty"`
}

// encodeError is the [edge.ErrorEncoder].
func encodeError(err error, h http.Header) (int, any) {
	e := chat.Public(err)
	status, body := edge.Status(e.Code), errorBody{Detail: e.Msg}
	switch e.Code {
	case chat.Unauthenticated:
		body.Detail = "Unauthorized"
	case chat.Conflict:
		h.Set("X-Should-Retry", "false") // it would be a conflict again
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		body.RunID = r.run
		if r.pending != "" {
			body.Detail = map[string]string{"code": "PENDING_APPROVAL", "message": e.Msg, "pending_request_id": r.pending}
		}
		if r.malformed {
			status, body.TraceID = http.StatusUnprocessableEntity, new(string)
		}
	}
	return status, body
}

// sendFailed answers with a failed run. X-Should-Retry keeps the client from sending the message again.
func (q *request) sendFailed(w http.ResponseWriter, run, reason string) {
	message := "The run failed: " + reason
	w.Header().Set("X-Should-Retry", "false")
	q.http.Send(w, q.Request, http.StatusInternalServerError, errorBody{
		Detail: message, RunID: run, Error: map[string]string{"type": "internal_error", "message": message, "detail": message},
	})
}

// stamp is a time in the form of an object's fields; 0 is null.
func stamp(at chat.At) any {
	if at == 0 {
		return nil
	}
	return at.String()
}

// orNull is v, or nil for the zero value, which JSON writes as null.
func orNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// quote is a text as JSON.
func quote(s string) json.RawMessage { return json.AppendString(nil, s) }

func itoa(n int) string { return strconv.Itoa(n) }

// clip shortens a client's value for an error message.
func clip(s string) string { return text.Clip(s, 80) }
