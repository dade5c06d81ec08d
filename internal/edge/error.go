package edge

import (
	"net/http"

	"github.com/parley-hq/parley/chat"
)

// Status is the HTTP status for a code. A dialect whose clients expect another status sets it in its [ErrorEncoder].
func Status(code chat.Code) int {
	switch code {
	case chat.Invalid:
		return http.StatusBadRequest
	case chat.Unauthenticated:
		return http.StatusUnauthorized
	case chat.Denied:
		return http.StatusForbidden
	case chat.NotFound:
		return http.StatusNotFound
	case chat.Conflict:
		return http.StatusConflict
	case chat.Gone:
		return http.StatusGone
	case chat.TooLarge:
		return http.StatusRequestEntityTooLarge
	case chat.SlowDown:
		return http.StatusTooManyRequests
	case chat.Unavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

// SetErrorHeaders sets the headers that HTTP has for an error, in every dialect.
func SetErrorHeaders(h http.Header, e *chat.Error) {
	switch e.Code {
	case chat.Unauthenticated:
		h.Set("WWW-Authenticate", `Bearer realm="parley"`)
	case chat.SlowDown, chat.Unavailable:
		h.Set("Retry-After", e.RetryAfter())
	}
}

// Error is the body of an error in the native API.
type Error struct {
	Error ErrorInfo `json:"error"`
}

// ErrorInfo describes an error in the native API.
type ErrorInfo struct {
	Code    chat.Code      `json:"code"`
	Reason  chat.Reason    `json:"reason,omitempty"` // for programs, where the code is not precise enough
	Message string         `json:"message"`
	Details map[string]any `json:"details"` // facts to act on; always there
}

// InfoOf returns the public part of an error.
func InfoOf(err error) ErrorInfo {
	e := chat.Public(err)
	info := ErrorInfo{Code: e.Code, Reason: e.Reason, Message: e.Msg, Details: e.Details}
	if info.Details == nil {
		info.Details = map[string]any{}
	}
	return info
}

// encodeNative is the [ErrorEncoder] of the native API: {"error":{"code","message","details"}}.
func encodeNative(err error, _ http.Header) (status int, body any) {
	return Status(chat.CodeOf(err)), Error{InfoOf(err)}
}
