package tool

import (
	"errors"
	"net"
	"net/http"
)

// SameOrigin refuses redirects to other servers, because they would receive the key or the
// configured headers, and the conversation or the arguments of a call.
func SameOrigin(r *http.Request, via []*http.Request) error {
	if first := via[0].URL; r.URL.Scheme != first.Scheme || r.URL.Host != first.Host {
		return errors.New("it redirects to another server")
	}
	if len(via) >= 10 {
		return errors.New("it redirects too often")
	}
	return nil
}

// roundTripper sends requests to a server with the configured headers, and records whether the server received a call.
type roundTripper struct {
	next http.RoundTripper
	add  map[string]string
}

// RoundTrip sends a request.
func (c roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	next := c.next
	if next == nil {
		next = http.DefaultTransport
	}
	if len(c.add) > 0 {
		r = r.Clone(r.Context())
		for name, value := range c.add {
			r.Header.Set(name, value)
		}
	}
	response, err := next.RoundTrip(r)
	// The first request of a call carries it; later ones carry answers to the server's questions.
	if u, ok := r.Context().Value(callKey{}).(*runningCall); ok && r.Method == http.MethodPost && u.posts.Add(1) == 1 {
		if err == nil {
			u.status.Store(int32(response.StatusCode))
		} else if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
			u.status.Store(unreachable)
		}
	}
	return response, err
}

const unreachable = -1 // instead of a status: there was no connection

// notReceived reports whether the server has certainly not executed the call: there was no connection, or the server
// refused the call, for example because it was restarted and does not have the session any more.
func (u *runningCall) notReceived() bool {
	status := u.status.Load()
	return status == unreachable || status >= 400 && status < 500 && status != http.StatusTooManyRequests
}

// sessionUnknown reports whether the server does not have the session any more (404 in the protocol).
func (u *runningCall) sessionUnknown() bool { return u.status.Load() == http.StatusNotFound }

// busy reports whether the server is overloaded; the connection is still usable.
func (u *runningCall) busy() bool {
	switch u.status.Load() {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
