package tool

import (
	"errors"
	"net"
	"net/http"
)

// carrier sends the requests to a server: with the headers it wants, and with an
// eye on whether it took a call.
type carrier struct {
	next http.RoundTripper
	add  map[string]string
}

// RoundTrip sends a request.
func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) {
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
	// The first request of a call carries it; others bring what its server asks.
	if u, ok := r.Context().Value(callKey{}).(*underway); ok && r.Method == http.MethodPost && u.posts.Add(1) == 1 {
		if err == nil {
			u.status.Store(int32(response.StatusCode))
		} else if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
			u.status.Store(unreached)
		}
	}
	return response, err
}

const unreached = -1 // instead of a status: nobody was there

// untaken reports whether a server has certainly not begun with a call: nobody
// was there, or it sent it back, as one does that was restarted and does not know
// the session any more.
func (u *underway) untaken() bool {
	status := u.status.Load()
	return status == unreached || status >= 400 && status < 500 && status != http.StatusTooManyRequests
}

// forgotten reports whether a server does not know the session any more, in the
// protocol's own word for it.
func (u *underway) forgotten() bool { return u.status.Load() == http.StatusNotFound }

// busy reports whether a server has too much to do at the moment; the connection
// is as good as before.
func (u *underway) busy() bool {
	switch u.status.Load() {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
