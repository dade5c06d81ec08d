package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Pattern is the route. It is a POST because the request makes the server act, and so
// that the address is not in logs of URLs.
const Pattern = "POST /parley/v1/image"

// Options of the proxy.
type Options struct {
	MaxBytes   int64         // of an image; 0 means 10 MiB
	Timeout    time.Duration // for all of it, with redirects; 0 means 15 s
	Concurrent int           // fetches at once; 0 means 16

	// Transport connects to public addresses only; required.
	Transport http.RoundTripper

	// Fail answers with an error; nil means a plain JSON form.
	Fail func(w http.ResponseWriter, r *http.Request, err error)

	anyPort bool // for tests, whose servers listen anywhere
}

// Images fetches images.
type Images struct {
	opt    Options
	client *http.Client
	room   chan struct{}
}

// New returns the proxy. It starts nothing; call Close at the end to close
// idle connections.
func New(opt Options) *Images {
	opt.MaxBytes = cmp.Or(opt.MaxBytes, 10<<20)
	opt.Timeout = cmp.Or(opt.Timeout, 15*time.Second)
	opt.Concurrent = cmp.Or(opt.Concurrent, 16)
	if opt.Fail == nil {
		opt.Fail = plain
	}
	p := &Images{opt: opt, room: make(chan struct{}, opt.Concurrent)}
	p.client = &http.Client{
		Transport: opt.Transport,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > 3 {
				return chat.Errorf(chat.Invalid, "the address of the image redirects more than three times")
			}
			r.Header.Del("Referer")
			_, err := p.address(r.URL.String())
			return err
		},
	}
	return p
}

// Close closes idle connections.
func (p *Images) Close() { p.client.CloseIdleConnections() }

// ServeHTTP answers {"url": "https://…"} with the picture.
func (p *Images) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, kind, err := p.serve(r)
	if err != nil {
		p.opt.Fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(body)
}

func (p *Images) serve(r *http.Request) ([]byte, string, error) {
	var ask struct {
		URL string `json:"url"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 16<<10)).Decode(&ask); err != nil {
		return nil, "", chat.Errorf(chat.Invalid, "the body must be JSON like {\"url\": \"https://…\"}").Because(err)
	}
	u, err := p.address(ask.URL)
	if err != nil {
		return nil, "", err
	}
	select {
	case p.room <- struct{}{}:
		defer func() { <-p.room }()
	default:
		return nil, "", chat.Errorf(chat.SlowDown, "too many images are being fetched at the moment; try again in a few seconds")
	}
	ctx, cancel := context.WithTimeout(r.Context(), p.opt.Timeout)
	defer cancel()
	return p.fetch(ctx, u)
}

// address reads the address of an image, if it is one that may be fetched.
func (p *Images) address(s string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(s))
	switch {
	case err != nil || len(s) > 8<<10 || u.Host == "" || u.Hostname() == "":
		return nil, chat.Errorf(chat.Invalid, "this is not the address of an image: it must begin with https:// or http:// and name a host")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, chat.Errorf(chat.Invalid, "images are fetched over https and http only, not %q", u.Scheme)
	case u.User != nil:
		return nil, chat.Errorf(chat.Invalid, "the address has a name and password in it; such images are not fetched")
	}
	// Other ports usually belong to services, not to images.
	if port := u.Port(); !p.opt.anyPort && port != "" && port != "80" && port != "443" && port != "8080" && port != "8443" {
		return nil, chat.Errorf(chat.Invalid, "images are fetched from ports 80, 443, 8080 and 8443 only, not from %s", port)
	}
	u.Fragment = ""
	return u, nil
}

func (p *Images) fetch(ctx context.Context, u *url.URL) ([]byte, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, "", chat.Errorf(chat.Invalid, "this is not the address of an image").Because(err)
	}
	req.Header.Set("Accept", "image/avif,image/webp,image/png,image/jpeg,image/gif")
	req.Header.Set("User-Agent", "Parley-Images/1")
	res, err := p.client.Do(req)
	if err != nil {
		return nil, "", refused(u, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, "", chat.Errorf(chat.Unavailable, "%s answered with status %d instead of an image", u.Hostname(), res.StatusCode)
	}
	if res.ContentLength > p.opt.MaxBytes {
		return nil, "", tooLarge(p.opt.MaxBytes)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, p.opt.MaxBytes+1))
	if err != nil {
		return nil, "", refused(u, err)
	}
	if int64(len(body)) > p.opt.MaxBytes {
		return nil, "", tooLarge(p.opt.MaxBytes)
	}
	kind := sniff(body)
	if kind == "" {
		return nil, "", chat.Errorf(chat.Invalid, "the answer of %s is not a PNG, JPEG, GIF, WebP or AVIF image", u.Hostname())
	}
	return body, kind, nil
}

func tooLarge(limit int64) error {
	return chat.Errorf(chat.TooLarge, "the image is larger than %d MiB and was not loaded", limit>>20).With("limit", limit)
}

// refused returns the error for the client of a failed fetch. The error of the network
// is only logged.
func refused(u *url.URL, err error) error {
	var own *chat.Error
	if errors.As(err, &own) {
		return own
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return chat.Errorf(chat.Unavailable, "%s took too long to answer", u.Hostname()).Because(err)
	}
	return chat.Errorf(chat.Unavailable, "%s could not be reached", u.Hostname()).Because(fmt.Errorf("fetch an image: %w", err))
}

// sniff returns the type of an image by its first bytes, "" for types that are not
// returned. SVG is not returned: it can contain scripts and addresses.
func sniff(b []byte) string {
	switch {
	case bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(b, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(b, []byte("GIF87a")), bytes.HasPrefix(b, []byte("GIF89a")):
		return "image/gif"
	case len(b) > 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		return "image/webp"
	case len(b) > 12 && string(b[4:8]) == "ftyp" && (string(b[8:12]) == "avif" || string(b[8:12]) == "avis"):
		return "image/avif"
	}
	return ""
}

// plain writes an error when Options.Fail is nil.
func plain(w http.ResponseWriter, _ *http.Request, err error) {
	e := chat.Public(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadGateway)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": e.Code, "message": e.Msg}})
}
