package auth

import "testing"

func TestForwardedAddressNeedsATrustedProxy(t *testing.T) {
	direct, proxied := mustNew(t, tokenOptions()), func() *Auth {
		o := tokenOptions()
		o.TrustedProxy = true
		return mustNew(t, o)
	}()
	for _, c := range []struct {
		a                       *Auth
		remote, forwarded, want string
	}{
		{direct, "192.0.2.1:4711", "", "192.0.2.1"},
		{direct, "192.0.2.1:4711", "198.51.100.7", "192.0.2.1"}, // any client can send the header
		{direct, "[2001:db8::1:2:3:4]:4711", "", "2001:db8::/64"},
		{direct, "[::ffff:192.0.2.1]:4711", "", "192.0.2.1"},
		{direct, "[::1]:4711", "", "::1"},
		{direct, "@", "", "unknown"},
		{proxied, "127.0.0.1:4711", "203.0.113.9, 198.51.100.7", "198.51.100.7"},
		{proxied, "127.0.0.1:4711", "", "127.0.0.1"},
	} {
		r := request("GET", "/")
		r.RemoteAddr = c.remote
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := c.a.ClientAddress(r); got != c.want {
			t.Errorf("%s, forwarded %q: %q, want %q", c.remote, c.forwarded, got, c.want)
		}
	}
}
