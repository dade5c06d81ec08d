package web

import (
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// PagePattern is the address of an HTML artifact as a page.
const PagePattern = "GET /page/{session}/{path...}"

// pagePolicy is the policy of an HTML page of an agent: no scripts, no requests, an origin of its own. Inline styles are
// allowed.
const pagePolicy = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

// Page serves HTML artifacts for a frame of the console. It gets them from api, which serves /parley/v1/sessions, and adds a
// policy under which no script can run. Other files stay downloads.
func Page(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var escaped strings.Builder
		escaped.WriteString("/parley/v1/sessions/" + url.PathEscape(r.PathValue("session")) + "/artifacts")
		for part := range strings.SplitSeq(r.PathValue("path"), "/") {
			escaped.WriteString("/" + url.PathEscape(part))
		}
		inner := r.Clone(r.Context())
		inner.URL.RawPath = escaped.String()
		path, err := url.PathUnescape(inner.URL.RawPath)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		inner.URL.Path = path
		api.ServeHTTP(&pageWriter{ResponseWriter: w}, inner)
	})
}

// pageWriter adds the policy when the header is written.
type pageWriter struct {
	http.ResponseWriter
	begun bool
}

// Unwrap lets http.ResponseController reach the writer below.
func (w *pageWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *pageWriter) WriteHeader(status int) {
	h := w.Header()
	if kind, _, err := mime.ParseMediaType(h.Get("Content-Type")); !w.begun && err == nil && kind == "text/html" && status < 400 {
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("Content-Disposition", "inline")
		h.Set("Referrer-Policy", "no-referrer")
	}
	w.begun = w.begun || status >= 200
	w.ResponseWriter.WriteHeader(status)
}

func (w *pageWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}
