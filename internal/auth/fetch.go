package auth

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/text"
)

// errPrivate is the cause inside the error for an address that must not be
// fetched.
var errPrivate = errors.New("not a public address")

const maxRedirects = 5

// SafeClient fetches addresses that users or agents supply: http and https only,
// public addresses only, checked after the name was resolved and again at each
// of at most five redirects. timeout bounds the whole exchange, body included.
// Call CloseIdleConnections when it is no longer needed.
func SafeClient(timeout time.Duration) *http.Client { return safeClient(timeout, checkAddr) }

func safeClient(timeout time.Duration, check func(netip.Addr) error) *http.Client {
	return &http.Client{
		Timeout:   timeout,
		Transport: safeTransport(check),
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) >= maxRedirects {
				return chat.Errorf(chat.Invalid, "the address redirects more than %d times", maxRedirects)
			}
			return nil // the target is checked when it is dialled
		},
	}
}

// SafeTransport is the transport of [SafeClient]. It does not use a proxy from
// the environment: behind one, addresses could not be checked.
func SafeTransport() http.RoundTripper { return safeTransport(checkAddr) }

type guarded struct{ *http.Transport }

func safeTransport(check func(netip.Addr) error) guarded {
	dialer := &net.Dialer{
		Timeout: 10 * time.Second,
		// Control gets the address that is connected to, so the name cannot resolve to
		// another address between the check and the connection.
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return chat.Errorf(chat.Invalid, "this address cannot be fetched").Because(err)
			}
			return check(at.Addr())
		},
	}
	return guarded{&http.Transport{
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           16,
		IdleConnTimeout:        30 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}}
}

// RoundTrip is called for the first request and for each redirect.
func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return nil, chat.Errorf(chat.Invalid, "only http and https addresses can be fetched, not %q", text.Clip(r.URL.Scheme, 100))
	}
	return g.Transport.RoundTrip(r)
}

var (
	refused = prefixes(
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
		"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", // this network, CGNAT, special, documentation, reserved
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", // Teredo and special, documentation, 6to4
	)
	global6 = netip.MustParsePrefix("2000::/3")
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
)

func prefixes(all ...string) (list []netip.Prefix) {
	for _, s := range all {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}

// checkAddr refuses addresses that are not on the public internet: private,
// loopback, link-local (cloud metadata services), shared, multicast,
// unspecified, reserved, and the IPv6 forms that hide one of these.
func checkAddr(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	ok := addr.IsGlobalUnicast() && !addr.IsPrivate() && !addr.IsLoopback() && !addr.IsLinkLocalUnicast() &&
		(addr.Is4() || global6.Contains(addr))
	for _, p := range refused {
		ok = ok && !p.Contains(addr)
	}
	if ok {
		return nil
	}
	return chat.Errorf(chat.Denied, "this address is not public, so it is not fetched: only the operator's own configuration may name private addresses").Because(errPrivate)
}
