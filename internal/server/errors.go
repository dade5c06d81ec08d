package server

import (
	"errors"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/json"
)

var statuses = map[chat.Code]int{
	chat.Invalid: 400, chat.Unauthenticated: 401, chat.Denied: 403, chat.NotFound: 404, chat.Conflict: 409,
	chat.Gone: 410, chat.TooLarge: 413, chat.SlowDown: 429, chat.Unavailable: 503, chat.Internal: 500,
}

// StatusOf is the HTTP status for err. The rules about host, origin and content
// type have statuses of their own.
func StatusOf(err error) int {
	switch {
	case errors.Is(err, auth.ErrHost):
		return http.StatusMisdirectedRequest
	case errors.Is(err, auth.ErrContentType):
		return http.StatusUnsupportedMediaType
	}
	if s, ok := statuses[chat.CodeOf(err)]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// WriteError answers with err in the native form,
// {"error":{"code","message","details"}}.
func WriteError(w http.ResponseWriter, _ *http.Request, err error) {
	writeError(w, StatusOf(err), chat.Public(err))
}

func writeError(w http.ResponseWriter, status int, e *chat.Error) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Del("Content-Length")
	errorHeaders(h, e)
	details := e.Details
	if details == nil {
		details = map[string]any{}
	}
	body, err := json.Marshal(map[string]any{"error": map[string]any{"code": e.Code, "message": e.Msg, "details": details}})
	if err != nil { // a detail that is not JSON
		body = []byte(`{"error":{"code":"internal","message":"the error could not be written","details":{}}}`)
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client has gone if this fails
}

// errorHeaders sets what HTTP itself has to say about an error, in every dialect.
func errorHeaders(h http.Header, err error) {
	e := chat.Public(err)
	switch e.Code {
	case chat.Unauthenticated:
		h.Set("WWW-Authenticate", `Bearer realm="parley"`)
	case chat.SlowDown, chat.Unavailable:
		h.Set("Retry-After", e.RetryAfter())
	}
}
