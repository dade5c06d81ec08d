package auth

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

func TestCheckAddrRefusesPrivateAddresses(t *testing.T) {
	for addr, ok := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "2606:4700::1111": true, "64:ff9b::808:808": true,
		"127.0.0.1": false, "127.9.9.9": false, "10.0.0.1": false, "172.16.0.1": false, "192.168.0.1": false,
		"169.254.169.254": false, "100.64.0.1": false, "100.100.100.200": false, "0.0.0.0": false, "0.1.2.3": false,
		"224.0.0.1": false, "255.255.255.255": false, "240.0.0.1": false, "198.18.0.1": false, "192.0.2.1": false, "192.0.0.170": false,
		"::": false, "::1": false, "fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "fd00:ec2::254": false, "ff02::1": false, "fec0::1": false,
		"::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::127.0.0.1": false, "64:ff9b::7f00:1": false, "64:ff9b:1::a00:1": false,
		"2002:7f00:1::": false, "2001:0:1::1": false, "2001:db8::1": false,
	} {
		if err := checkAddr(netip.MustParseAddr(addr)); (err == nil) != ok || err != nil && !errors.Is(err, errPrivate) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestSafeClientRefusesPrivateAddresses(t *testing.T) {
	c := SafeClient(time.Minute)
	defer c.CloseIdleConnections()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request came through") }))
	defer srv.Close()
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	for _, url := range []string{
		srv.URL, "http://localhost:" + port, "http://[::1]:" + port, "http://127.1.2.3:" + port, "http://0.0.0.0:" + port,
		"http://[::ffff:127.0.0.1]:" + port, "https://127.0.0.1:" + port,
	} {
		resp, err := c.Get(url)
		if err == nil {
			resp.Body.Close()
		}
		if !errors.Is(err, errPrivate) || chat.CodeOf(err) != chat.Denied {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"file:///etc/passwd", "gopher://127.0.0.1", "ftp://example.com"} {
		if _, err := c.Get(url); chat.CodeOf(err) != chat.Invalid {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestSafeClientChecksRedirects(t *testing.T) {
	var target string
	public := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) }))
	defer public.Close()
	at := netip.MustParseAddrPort(public.Listener.Addr().String())
	private, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer private.Close()
	// The address of the first server counts as public; others are checked.
	c := safeClient(time.Minute, func(a netip.Addr) error {
		if a == at.Addr() {
			return nil
		}
		return checkAddr(a)
	})
	defer c.CloseIdleConnections()
	for _, to := range []string{"http://" + private.Addr().String(), "http://[::1]/"} { // loopback only, in case the check is broken
		target = to
		if _, err := c.Get(public.URL); !errors.Is(err, errPrivate) {
			t.Errorf("redirect to %s: %v", to, err)
		}
	}
	target = "file:///etc/passwd"
	if _, err := c.Get(public.URL); err == nil {
		t.Error("redirect to a file")
	}
	target = public.URL
	if _, err := c.Get(public.URL); err == nil || !strings.Contains(err.Error(), "more than 5") {
		t.Errorf("endless redirects: %v", err)
	}
}
