package web

import (
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// PagePattern is the address of a file that a frame shows.
const PagePattern = "GET /page/{session}/{path...}"

// pagePolicy is the policy of an HTML page of an agent: no scripts, no requests, an origin of its own. Inline styles are
// allowed.
const pagePolicy = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

// mediaPolicy is the policy of audio and video, which the browser itself shows: no scripts. The player requests the file again,
// from the origin of the page.
const mediaPolicy = "sandbox allow-same-origin; default-src 'none'; media-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

// pdfPolicy is the policy of PDF. Browsers refuse to show it in a sandbox; their viewers run it in their own.
const pdfPolicy = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

// pagePolicies are the types of files that a frame of the console may show, and the policy of each.
var pagePolicies = map[string]string{
	"text/html": pagePolicy, "application/pdf": pdfPolicy,
	"audio/mpeg": mediaPolicy, "audio/mp4": mediaPolicy, "audio/ogg": mediaPolicy, "audio/wav": mediaPolicy, "audio/x-wav": mediaPolicy,
	"audio/webm": mediaPolicy, "audio/flac": mediaPolicy, "audio/aac": mediaPolicy,
	"video/mp4": mediaPolicy, "video/webm": mediaPolicy, "video/ogg": mediaPolicy,
}

// Page serves files for a frame of the console: HTML, PDF, audio and video. It gets them from api, which serves
// /parley/v1/sessions, and adds a policy under which no script can run. Other files stay downloads.
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
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if policy := pagePolicies[kind]; !w.begun && err == nil && policy != "" && status < 400 {
		if kind == "text/html" {
			kind = "text/html; charset=utf-8"
		}
		h.Set("Content-Type", kind)
		h.Set("Content-Security-Policy", policy)
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
