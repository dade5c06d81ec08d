package wire

import "net/http"

// Route is one place where a dialect answers, and what the server must know of
// it before the dialect sees a request.
type Route struct {
	Pattern string // as in http.ServeMux
	Handler http.Handler
	Dialect string // for metrics and logs

	Public     bool // no authentication
	QueryToken bool // ?access_token= is taken here, for clients that cannot set headers
	Upload     bool // form content types and bodies over the limit are allowed
	Deliberate bool // a GET needs a header that a link or an image on a page cannot send; see auth.CheckDeliberate
	LongBody   bool // a body that goes on for as long as the client likes
	Refused    bool // whoever asks for whatever is told why it is not offered

	// Fail answers in the dialect's own form when the server refuses a request
	// before the dialect sees it; nil means the native form.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
}
