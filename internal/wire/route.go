package wire

import "net/http"

// Route is one pattern that a dialect serves, and the rules that the server applies
// before the dialect gets a request.
type Route struct {
	Pattern string // as in http.ServeMux
	Handler http.Handler
	Dialect string // for metrics and logs

	Public     bool // no authentication
	QueryToken bool // ?access_token= is taken here, for clients that cannot set headers
	PlainText  bool // a body of text/plain is allowed, for clients that send JSON without a content type
	Upload     bool // form content types and bodies over the limit are allowed
	Deliberate bool // a GET needs a header that a link or an image on a page cannot send; see auth.CheckDeliberate
	LongBody   bool // a body without an end, such as a stream of pieces
	Refused    bool // the operation is not offered; every request gets the reason

	// Fail answers in the dialect's form when the server refuses a request before the
	// dialect gets it; nil means the native form.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
}
