package server

import (
	"errors"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
)

// statusOf returns the HTTP status for err: that of [edge.Status], but for the rules
// about host and content type, which have statuses of their own.
func statusOf(err error) int {
	switch {
	case errors.Is(err, auth.ErrHost):
		return http.StatusMisdirectedRequest
	case errors.Is(err, auth.ErrContentType):
		return http.StatusUnsupportedMediaType
	}
	return edge.Status(chat.CodeOf(err))
}

// WriteError answers with err in the native form, see [edge.Error].
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	writeError(w, r, statusOf(err), err)
}

func writeError(w http.ResponseWriter, r *http.Request, status int, err error) {
	edge.SetErrorHeaders(w.Header(), chat.Public(err))
	body, err := json.Marshal(edge.Error{Error: edge.InfoOf(err)})
	if err != nil { // a detail that is not JSON
		body = []byte(`{"error":{"code":"internal","message":"the error could not be written","details":{}}}`)
	}
	edge.SendJSON(w, r, status, body)
}
