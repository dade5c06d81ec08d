package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/parley-hq/parley/chat"
)

// recorder records the status of an answer and writes "not found" and "method not
// allowed" of net/http in the native form.
type recorder struct {
	http.ResponseWriter
	request *http.Request // its Pattern is set by the mux, and empty when no route matched
	dialect string
	status  int
	taken   bool // the connection was hijacked
	swallow bool // discard the text of net/http's answer

	notFound http.Handler // the page for a browser; nil: it gets the error too
}

// Unwrap lets http.ResponseController reach deadlines and Flush.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
		if w.request.Pattern == "" && !w.swallow {
			switch status {
			case http.StatusNotFound:
				w.swallow = true
				if w.notFound != nil && wantsPage(w.request) {
					r := w.request.Clone(w.request.Context())
					r.URL.Path = "/"
					for _, name := range []string{"Range", "If-None-Match", "If-Modified-Since"} {
						r.Header.Del(name)
					}
					w.notFound.ServeHTTP(notFoundWriter{w.ResponseWriter}, r)
					return
				}
				w.answer(status, chat.Errorf(chat.NotFound, "there is no such address: check the path"))
				return
			case http.StatusMethodNotAllowed:
				w.swallow = true
				w.answer(status, chat.Errorf(chat.Invalid, "this address does not accept the method %s: it accepts %s",
					methodLabel(w.request.Method), w.Header().Get("Allow")))
				return
			}
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// wantsPage reports whether a request is that of a person at a browser.
func wantsPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// notFoundWriter writes every answer with the status 404.
type notFoundWriter struct{ http.ResponseWriter }

func (w notFoundWriter) WriteHeader(int) { w.ResponseWriter.WriteHeader(http.StatusNotFound) }

func (w *recorder) answer(status int, err error) {
	writeError(w.ResponseWriter, w.request, status, err)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.swallow {
		return len(p), nil
	}
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// ReadFrom lets net/http send a file without copying it through this process.
func (w *recorder) ReadFrom(src io.Reader) (int64, error) {
	if w.swallow {
		return io.Copy(io.Discard, src)
	}
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return io.Copy(w.ResponseWriter, src)
}

// Hijack records that the connection was hijacked.
func (w *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.taken = w.taken || err == nil
	return c, rw, err
}

func (w *recorder) begun() bool { return w.status != 0 || w.taken }

func (w *recorder) code() int {
	switch {
	case w.taken && w.Header().Get("Upgrade") != "":
		return http.StatusSwitchingProtocols
	case w.status == 0:
		return http.StatusOK
	}
	return w.status
}

// secretParams are query parameters whose values are not logged.
var secretParams = map[string]bool{
	"access_token": true, "token": true, "session": true, "code": true, "key": true, "api_key": true, "apikey": true,
	"secret": true, "password": true, "sig": true, "signature": true, "jwt": true, "auth": true, "authorization": true,
	"id_token": true, "refresh_token": true, "client_secret": true, "state": true, "credential": true,
}

// redactURL returns the path and query without secrets.
func redactURL(u *url.URL) string {
	if u.RawQuery == "" {
		return u.EscapedPath()
	}
	parts := strings.FieldsFunc(u.RawQuery, func(r rune) bool { return r == '&' || r == ';' })
	for i, p := range parts {
		k, _, _ := strings.Cut(p, "=")
		name, err := url.QueryUnescape(k)
		if err != nil || secretParams[strings.ToLower(name)] {
			parts[i] = k + "=[hidden]"
		}
	}
	return u.EscapedPath() + "?" + strings.Join(parts, "&")
}
