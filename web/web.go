// Package web holds the console as it was built from the TypeScript beside it,
// and serves it. The built files are part of the repository, so that the program
// builds without Node; `make web` builds them.
//
// The handlers may be used by any number of goroutines. They need no token, so that a request copies no file and decompresses none
// that an earlier one has asked for.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/internal/json"
)

//go:embed all:console/dist
var files embed.FS

// Patterns are the routes of the console: its pages and its files. They are complete, so that all other addresses stay
// "not found".
var Patterns = []string{
	"GET /{$}", "GET /inbox", "GET /s/{session}", "GET /embed", "GET /embed/{session}", "GET /embed.js", "GET /diagram", "GET /assets/{file}", "GET /favicon.svg", "GET /console.json",
}

// Options say what the server offers to the console. The zero value works.
type Options struct {
	Dialects []string // names for GET …/events/{seq}?as=
	Images   bool     // external images can be fetched
	Frames   []string // origins whose pages may show /embed in a frame; http://127.0.0.1:* stands for any port
	Trace    string   // address of a trace, with {id} for its id; see [CheckTrace]
}

// CheckTrace reports why the address of a trace cannot be used. An empty address is valid: there are no links.
func CheckTrace(address string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(strings.ReplaceAll(address, "{id}", "0"))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%q does not begin with http:// or https://", address)
	case !strings.Contains(address, "{id}"):
		return fmt.Errorf("%q does not say by {id} where the id of a trace belongs", address)
	}
	return nil
}

// policy allows the console to load only its own files. With Trusted Types and no policy, scripts cannot convert text to
// HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; " +
	"connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'; frame-ancestors 'self'"

// diagramPolicy is the policy of the page that draws diagrams. Its library converts text to HTML, so that it has an origin of its
// own and cannot send requests. A policy in the page allows only its own scripts.
const diagramPolicy = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

// Handler serves the console at [Patterns]. Every page is one of two documents:
// the console, or only a conversation, for frames of other pages. The script in
// it reads the address.
func Handler(opt Options) http.Handler {
	dist, err := fs.Sub(files, "console/dist")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	c := &console{dist: dist, plain: map[string][]byte{}}
	framed, drawing := policy, diagramPolicy
	for _, origin := range opt.Frames {
		framed += " " + origin
		drawing += " " + origin
	}
	tag := sync.OnceValue(func() string {
		page, _ := fs.ReadFile(dist, "diagram.html.gz") // without it the page is not found
		return fmt.Sprintf(`"%x"`, sha256.Sum256(page))
	})
	about, err := json.Marshal(map[string]any{"dialects": list(opt.Dialects), "images": opt.Images, "frames": list(opt.Frames), "trace": opt.Trace})
	if err != nil {
		panic(err) // strings and a bool cannot fail
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		name := "index.html"
		switch {
		case r.URL.Path == "/console.json":
			h.Set("Content-Type", "application/json")
			h.Set("Cache-Control", "no-cache")
			h.Set("X-Content-Type-Options", "nosniff")
			_, _ = w.Write(about)
			return
		case r.URL.Path == "/embed.js":
			name = "embed.js"
			h.Set("Cache-Control", "no-cache")
			h.Set("Cross-Origin-Resource-Policy", "cross-origin")
		case r.URL.Path == "/embed", strings.HasPrefix(r.URL.Path, "/embed/"):
			name = "embed.html"
			h.Set("Cache-Control", "no-cache")
			h.Set("Content-Security-Policy", framed)
			h.Set("Referrer-Policy", "no-referrer")
			h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()")
		case r.URL.Path == "/diagram":
			name = "diagram.html"
			h.Set("Cache-Control", "no-cache")
			h.Set("ETag", tag())
			h.Set("Content-Security-Policy", drawing)
			h.Set("Referrer-Policy", "no-referrer")
			h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()")
		case strings.HasPrefix(r.URL.Path, "/assets/"):
			name = "assets/" + path.Base(r.URL.Path)
			// The name contains a hash of the content, so the file never changes.
			h.Set("Cache-Control", "public, max-age=31536000, immutable")
		case r.URL.Path == "/favicon.svg":
			name = "favicon.svg"
			h.Set("Cache-Control", "public, max-age=86400")
		default:
			h.Set("Cache-Control", "no-cache")
			h.Set("Content-Security-Policy", policy)
			h.Set("Referrer-Policy", "no-referrer")
			h.Set("Cross-Origin-Opener-Policy", "same-origin")
			h.Set("Permissions-Policy", "camera=(), microphone=(self), geolocation=(), payment=(), usb=()") // for voice input
		}
		c.serve(w, r, name)
	})
}

// list is never null on the wire.
func list(v []string) []string {
	if v == nil {
		return []string{}
	}
	return v
}

// console is the files of the console.
type console struct {
	dist fs.FS

	mu    sync.Mutex
	plain map[string][]byte // by name: files that are stored compressed only, for clients that accept no encoding
}

// serve sends a file in the smallest encoding that the client accepts.
func (c *console) serve(w http.ResponseWriter, r *http.Request, name string) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Accept-Encoding")
	for _, stored := range []struct{ encoding, ending string }{{"br", ".br"}, {"gzip", ".gz"}, {"", ""}} {
		if stored.encoding != "" && !accepts(r, stored.encoding) {
			continue
		}
		f, err := c.dist.Open(name + stored.ending)
		if err != nil {
			continue
		}
		defer f.Close()
		content, ok := f.(io.ReadSeeker) // of embedded files folders are none
		if !ok {
			continue
		}
		if stored.encoding != "" {
			h.Set("Content-Encoding", stored.encoding)
			if tag := h.Get("ETag"); tag != "" {
				h.Set("ETag", strings.TrimSuffix(tag, `"`)+"-"+stored.encoding+`"`) // other bytes, so that parts of both are not mixed
			}
		}
		h.Set("Content-Type", mediaType(name))
		http.ServeContent(w, r, "", time.Time{}, content)
		return
	}
	if body, err := c.decompressed(name); err == nil {
		h.Set("Content-Type", mediaType(name))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
		return
	}
	h.Del("Cache-Control")
	http.NotFound(w, r)
}

// decompressed returns a file that is stored compressed only.
func (c *console) decompressed(name string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if body, ok := c.plain[name]; ok {
		return body, nil
	}
	f, err := c.dist.Open(name + ".gz")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r)
	if err == nil {
		c.plain[name] = body
	}
	return body, err
}

func accepts(r *http.Request, encoding string) bool {
	for _, v := range r.Header.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(v, ",") {
			name, rest, _ := strings.Cut(strings.TrimSpace(part), ";")
			q := strings.ReplaceAll(rest, " ", "")
			if strings.EqualFold(strings.TrimSpace(name), encoding) && q != "q=0" && q != "q=0.0" && q != "q=0.00" && q != "q=0.000" {
				return true
			}
		}
	}
	return false
}

// mediaType does not use the table of the machine, which may differ.
func mediaType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}
