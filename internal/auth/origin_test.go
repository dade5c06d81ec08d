package auth

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

func TestForeignHostsAreRefused(t *testing.T) {
	a := mustNew(t, Options{Hosts: []string{"Chat.example.com", "192.168.1.5", "2001:db8::7"}})
	for host, ok := range map[string]bool{
		"localhost": true, "localhost:8000": true, "LOCALHOST.:80": true, "a.localhost:1": true,
		"127.0.0.1:8000": true, "127.8.8.8": true, "[::1]:8000": true, "[::1]": true, "[::ffff:127.0.0.1]:80": true,
		"chat.example.com": true, "chat.example.com:8443": true, "192.168.1.5:80": true, "[2001:db8::7]:80": true,
		"evil.com": false, "evil.com:8000": false, "localhost.evil.com": false, "127.0.0.1.evil.com": false, "evillocalhost": false,
		"0.0.0.0:8000": false, "10.0.0.1": false, "chat.example.com.evil.com": false, "": false, "[fe80::1]": false, "x.chat.example.com": false,
	} {
		r := request("GET", "/")
		r.Host = host
		if err := a.CheckHost(r); (err == nil) != ok || err != nil && !errors.Is(err, ErrHost) {
			t.Errorf("host %q: %v", host, err)
		}
	}
}

func TestForeignOriginsAreRefused(t *testing.T) {
	tokens := tokenOptions()
	tokens.AllowOrigins = []string{"https://app.example.com"}
	modes := map[string]*Auth{"open": mustNew(t, Options{}), "tokens": mustNew(t, tokens)}
	for _, c := range []struct {
		name, method string
		header       []string
		open, tokens bool
	}{
		{"without browser headers", "POST", nil, true, true},
		{"same origin", "POST", []string{"Origin", "http://localhost:8000", "Sec-Fetch-Site", "same-origin"}, true, true},
		{"same host by https", "POST", []string{"Origin", "https://localhost:8000"}, true, true},
		{"other loopback port", "POST", []string{"Origin", "http://127.0.0.1:3000", "Sec-Fetch-Site", "cross-site"}, true, false},
		{"configured", "POST", []string{"Origin", "https://app.example.com", "Sec-Fetch-Site", "cross-site"}, false, true},
		{"configured, other port", "POST", []string{"Origin", "https://app.example.com:444"}, false, false},
		{"configured, by http", "POST", []string{"Origin", "http://app.example.com"}, false, false},
		{"foreign POST", "POST", []string{"Origin", "https://evil.com", "Sec-Fetch-Site", "cross-site"}, false, false},
		{"foreign GET", "GET", []string{"Origin", "https://evil.com"}, false, false},
		{"foreign preflight", "OPTIONS", []string{"Origin", "https://evil.com", "Access-Control-Request-Method", "PUT"}, false, false},
		{"foreign host with loopback in its name", "GET", []string{"Origin", "http://localhost.evil.com"}, false, false},
		{"foreign host with loopback as user", "GET", []string{"Origin", "http://localhost@evil.com"}, false, false},
		{"sandboxed page", "POST", []string{"Origin", "null"}, false, false},
		{"two origins", "GET", []string{"Origin", "http://localhost:8000", "Origin", "https://evil.com"}, false, false},
		{"cross-site without origin", "POST", []string{"Sec-Fetch-Site", "cross-site"}, false, false},
		{"same-site without origin", "DELETE", []string{"Sec-Fetch-Site", "same-site"}, false, false},
		{"link from another site", "GET", []string{"Sec-Fetch-Site", "cross-site"}, true, true},
		{"WebSocket of a foreign site", "GET", []string{"Origin", "https://evil.com", "Upgrade", "websocket", "Connection", "Upgrade"}, false, false},
		{"WebSocket without an origin", "GET", []string{"Upgrade", "websocket", "Connection", "Upgrade"}, true, true},
	} {
		for mode, a := range modes {
			want := c.open
			if mode == "tokens" {
				want = c.tokens
			}
			r := request(c.method, "http://localhost:8000/x", c.header...)
			if err := a.CheckOrigin(r); (err == nil) != want || err != nil && (!errors.Is(err, errOrigin) || chat.CodeOf(err) != chat.Denied) {
				t.Errorf("%s, %s: %v", mode, c.name, err)
			}
		}
	}
}

func TestFormContentTypesAreRefused(t *testing.T) {
	a := mustNew(t, Options{})
	for kind, ok := range map[string]bool{
		"application/json": true, "application/x-ndjson": true, "": true, "image/png": true,
		"text/plain": false, "Text/Plain; charset=utf-8": false, "application/x-www-form-urlencoded": false,
		"multipart/form-data; boundary=x": false, "text/plain; =broken": false, " text/plain": false,
	} {
		r := request("POST", "/")
		if kind != "" {
			r.Header.Set("Content-Type", kind)
		}
		if err := a.CheckContentType(r); (err == nil) != ok || err != nil && !errors.Is(err, ErrContentType) {
			t.Errorf("%q: %v", kind, err)
		}
	}
	if err := a.CheckContentType(request("GET", "/", "Content-Type", "text/plain")); err != nil {
		t.Error(err)
	}
	if err := a.CheckContentType(request("POST", "/", "Content-Type", "application/json", "Content-Type", "text/plain")); err == nil {
		t.Error("a second header slips through")
	}
}

func TestCORSHeadersAreSentToAllowedOrigins(t *testing.T) {
	o := tokenOptions()
	o.AllowOrigins = []string{"https://app.example.com"}
	a := mustNew(t, o)
	w := httptest.NewRecorder()
	done := a.CORS(w, request("OPTIONS", "http://localhost/x", "Origin", "https://app.example.com", "Access-Control-Request-Method", "PATCH", "Access-Control-Request-Headers", "authorization"))
	h := w.Header()
	if !done || w.Code != 204 || h.Get("Access-Control-Allow-Origin") != "https://app.example.com" ||
		!strings.Contains(h.Get("Access-Control-Allow-Methods"), "PATCH") || h.Get("Access-Control-Allow-Headers") != "authorization" {
		t.Errorf("preflight: %v %d %v", done, w.Code, h)
	}
	w = httptest.NewRecorder()
	if a.CORS(w, request("GET", "http://localhost/x", "Origin", "https://evil.com")) || w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Error("a stranger may read")
	}
	w = httptest.NewRecorder()
	if a.CORS(w, request("GET", "http://localhost/x", "Origin", "https://app.example.com")) || w.Header().Get("Access-Control-Allow-Origin") == "" {
		t.Error("an allowed page may not read")
	}
	if w.Header().Get("Vary") != "Origin" {
		t.Error("caches are not told")
	}
}

func TestOpenModeListensOnLoopbackOnly(t *testing.T) {
	open, closed := mustNew(t, Options{}), mustNew(t, tokenOptions())
	for _, c := range []struct {
		addr       string
		a          *Auth
		tls, proxy bool
		says       string
	}{
		{"127.0.0.1:8000", open, false, false, ""},
		{"localhost:8000", open, false, false, ""},
		{"[::1]:0", open, false, false, ""},
		{":8000", open, true, true, "--token"},
		{"0.0.0.0:8000", open, true, false, "--token"},
		{"192.168.1.5:8000", closed, false, false, "--tls-cert"},
		{"[::]:8000", closed, false, false, "--trusted-proxy"},
		{"0.0.0.0:8000", closed, true, false, ""},
		{"0.0.0.0:8000", closed, false, true, ""},
		{"nonsense", closed, true, true, "HOST:PORT"},
	} {
		err := RefuseOpenBeyondLoopback(c.addr, c.a, c.tls, c.proxy)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.addr, err, c.says)
		}
	}
}
