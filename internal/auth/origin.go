package auth

import (
	"errors"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/text"
)

// Causes inside the errors of the checks below; package server maps them to statuses.
var (
	ErrHost        = errors.New("host not served")           // 421
	errOrigin      = errors.New("origin not allowed")        // 403
	ErrContentType = errors.New("content type not accepted") // 415
)

// CheckHost refuses a request for a host that is not ours: a web page whose
// name was pointed at this machine (DNS rebinding) is refused by this, since the
// browser sends the page's own name. Loopback names and configured hosts are
// ours, with any port.
func (a *Auth) CheckHost(r *http.Request) error {
	host := hostOnly(r.Host)
	if isLoopback(host) || slices.ContainsFunc(a.opt.Hosts, func(h string) bool { return hostOnly(h) == host }) {
		return nil
	}
	return chat.Errorf(chat.Denied, "this server does not serve the host %q: the operator can allow it with --host", text.Clip(r.Host, 100)).Because(ErrHost)
}

// CheckOrigin refuses requests of web pages that are not allowed here, WebSocket
// upgrades among them. A request without Origin does not come from a page's
// script, except old browsers' same-origin ones; for those that change something
// http.CrossOriginProtection also looks at Sec-Fetch-Site.
func (a *Auth) CheckOrigin(r *http.Request) error {
	if origins := r.Header["Origin"]; len(origins) > 0 {
		if len(origins) == 1 && a.originAllowed(origins[0], r.Host) {
			return nil
		}
		return chat.Errorf(chat.Denied, "web pages from %q may not use this server: the operator can allow them with --allow-origin", text.Clip(origins[0], 100)).Because(errOrigin)
	}
	if err := a.cross.Check(r); err != nil {
		return chat.Errorf(chat.Denied, "web pages of other sites may not use this server: the operator can allow them with --allow-origin").Because(errors.Join(errOrigin, err))
	}
	return nil
}

// originAllowed reports whether pages from origin may use the server when they
// ask for host: the same origin, a configured one, and in open mode any on
// loopback.
func (a *Auth) originAllowed(origin, host string) bool {
	u, ok := parseOrigin(origin)
	if !ok {
		return false
	}
	// Whether the server is behind TLS is not known here, so only host and port
	// are compared, as browsers' same-site rules and CrossOriginProtection do.
	if strings.EqualFold(u.Host, host) {
		return true
	}
	if a.Open() && isLoopback(hostOnly(u.Host)) {
		return true
	}
	return slices.ContainsFunc(a.opt.AllowOrigins, func(o string) bool { return strings.EqualFold(o, origin) })
}

// CheckContentType refuses, on requests that change something, the content
// types that an HTML form of any site can send without a CORS preflight.
func (a *Auth) CheckContentType(r *http.Request) error {
	if safe(r.Method) {
		return nil
	}
	for _, line := range r.Header["Content-Type"] {
		kind, _, err := mime.ParseMediaType(line)
		if err != nil {
			kind, _, _ = strings.Cut(line, ";")
			kind = strings.ToLower(strings.TrimSpace(kind))
		}
		switch kind {
		case "text/plain", "application/x-www-form-urlencoded", "multipart/form-data":
			return chat.Errorf(chat.Invalid, "the content type %s is not accepted here, because any web page could send it: send `Content-Type: application/json`", kind).Because(ErrContentType)
		}
	}
	return nil
}

// requestHeader marks a request as made by a program. Its value does not matter.
const requestHeader = "X-Parley-Request"

// CheckDeliberate refuses a GET that a link, an image or a redirect can make a browser
// send: it must carry a token in a header, or requestHeader. A cookie and open mode
// are not sufficient.
func (a *Auth) CheckDeliberate(r *http.Request) error {
	if !safe(r.Method) || r.Header.Get(requestHeader) != "" || r.Header.Get(KeyHeader) != "" {
		return nil
	}
	// Browsers repeat Basic credentials without the user.
	if scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	return chat.Errorf(chat.Denied, "this address is for programs: send a token in the header Authorization, or the header `%s: 1`", requestHeader).Because(errOrigin)
}

func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// CORS sets the headers that let an allowed page of another origin read the
// answer, and reports whether r was a preflight, which is then answered. It
// comes after [Auth.CheckOrigin].
func (a *Auth) CORS(w http.ResponseWriter, r *http.Request) (done bool) {
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" || !a.originAllowed(origin, r.Host) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Credentials", "true")
	h.Set("Access-Control-Expose-Headers", "Retry-After, ETag, Location, Content-Disposition, X-Workflow-Run-Id, X-Workflow-Stream-Tail-Index")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
	if want := r.Header.Get("Access-Control-Request-Headers"); want != "" {
		h.Set("Access-Control-Allow-Headers", want) // the origin is trusted, so are its headers
	}
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// parseOrigin accepts scheme://host[:port] and nothing more.
func parseOrigin(s string) (*url.URL, bool) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Contains(u.Host, "*") ||
		u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, false
	}
	return u, true
}

// hostOnly is the lower-case host without port, brackets and final dot.
func hostOnly(s string) string {
	if h, _, err := net.SplitHostPort(s); err == nil {
		s = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(s, "[]"), "."))
}

// isLoopback reports whether a host, as hostOnly gives it, is this machine and
// cannot be anything else: names below localhost are reserved for it.
func isLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// RefuseOpenBeyondLoopback returns an error when the server must not listen on addr:
// beyond loopback it needs authentication, and TLS of its own or of a proxy. The message
// says how to configure them.
func RefuseOpenBeyondLoopback(addr string, a *Auth, tlsConfigured, trustedProxy bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return chat.Errorf(chat.Invalid, "the address %q is not of the form HOST:PORT, like 127.0.0.1:8000", addr)
	}
	if host != "" && isLoopback(hostOnly(host)) {
		return nil
	}
	if a.Open() {
		return chat.Errorf(chat.Invalid, "refusing to listen on %s without authentication: everybody who reaches it could read and write every session. "+
			"Set a token (--token, or --token-file), or JWT keys (--jwt-secret, --jwt-key, --jwks), or listen on 127.0.0.1", addr)
	}
	if !tlsConfigured && !trustedProxy {
		return chat.Errorf(chat.Invalid, "refusing to listen on %s without TLS: tokens and conversations would not be encrypted. "+
			"Give --tls-cert and --tls-key, or say --trusted-proxy if a proxy in front does TLS, or listen on 127.0.0.1", addr)
	}
	return nil
}
