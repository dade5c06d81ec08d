package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// imageServer is a server of another site, and a proxy that treats its address as public.
type imageServer struct {
	*httptest.Server
	images   *Images
	requests func() []*http.Request
}

func newImageServer(t *testing.T, opt Options, h http.HandlerFunc) *imageServer {
	t.Helper()
	var mu sync.Mutex
	var requests []*http.Request
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests = append(requests, r)
		mu.Unlock()
		h(w, r)
	}))
	addr := srv.Listener.Addr().String()
	opt.anyPort = true
	opt.Transport = onlyTo(addr)
	images := New(opt)
	t.Cleanup(func() {
		images.Close()
		srv.Close()
	})
	return &imageServer{Server: srv, images: images, requests: func() []*http.Request {
		mu.Lock()
		defer mu.Unlock()
		return requests
	}}
}

// onlyTo connects to one address only, so that no test can reach another host.
func onlyTo(addr string) http.RoundTripper {
	return &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != addr {
			return nil, chat.Errorf(chat.Denied, "this address is not public")
		}
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}}
}

func fetch(p *Images, target string) *httptest.ResponseRecorder {
	body, _ := json.Marshal(map[string]string{"url": target})
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/image", bytes.NewReader(body))
	r.Header.Set("Cookie", "session=secret")
	r.Header.Set("Referer", "http://127.0.0.1:8000/s/private")
	p.ServeHTTP(w, r)
	return w
}

func pngImage() []byte {
	var b bytes.Buffer
	_ = png.Encode(&b, image.NewGray(image.Rect(0, 0, 2, 2)))
	return b.Bytes()
}

func TestImagesAreFetchedWithoutDataOfTheUser(t *testing.T) {
	e := newImageServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/a.png?x=1", http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/html") // the wrong type
		w.Header().Set("Set-Cookie", "track=1")
		_, _ = w.Write(pngImage())
	})
	for _, path := range []string{"/a.png", "/moved", "/a.png"} {
		w := fetch(e.images, e.URL+path)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/png" || !bytes.Equal(w.Body.Bytes(), pngImage()) {
			t.Fatalf("%s: %d %v", path, w.Code, w.Header())
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Set-Cookie") != "" || !strings.HasPrefix(w.Header().Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s: %v", path, w.Header())
		}
	}
	for _, r := range e.requests() {
		for _, name := range []string{"Cookie", "Referer", "X-Forwarded-For", "Origin"} {
			if v := r.Header.Get(name); v != "" {
				t.Errorf("%s: was sent %s %q", r.URL, name, v)
			}
		}
	}
}

func TestLargeFilesAndOtherTypesAreRefused(t *testing.T) {
	e := newImageServer(t, Options{MaxBytes: 1 << 20}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		switch r.URL.Path {
		case "/page":
			_, _ = io.WriteString(w, "<html><script>alert(1)</script>")
		case "/svg":
			w.Header().Set("Content-Type", "image/svg+xml")
			_, _ = io.WriteString(w, `<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>`)
		case "/big":
			_, _ = w.Write(append(pngImage(), make([]byte, 2<<20)...))
		case "/endless":
			w.WriteHeader(http.StatusOK)
			_, _ = w.Write(pngImage())
			for range 100 {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/inward":
			http.Redirect(w, r, "http://127.0.0.1:80/metrics", http.StatusFound)
		case "/scheme":
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	})
	for path, want := range map[string]string{
		"/page": "is not a PNG", "/svg": "is not a PNG", "/big": "larger than 1 MiB", "/endless": "larger than 1 MiB", "/none": "status 404",
		"/loop": "more than three times", "/inward": "not public", "/scheme": "not the address",
	} {
		if w := fetch(e.images, e.URL+path); w.Code == http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %q", path, w.Code, w.Body, want)
		}
	}
}

func TestOtherAddressesAreRefused(t *testing.T) {
	p := New(Options{Transport: onlyTo("")})
	defer p.Close()
	for target, want := range map[string]string{
		"http://127.0.0.1/x.png": "not public", "ftp://example.com/x.png": "https and http only", "http://user:pw@example.com/": "name and password",
		"http://example.com:6379/": "ports 80", "javascript:alert(1)": "not the address", "": "not the address", "/x.png": "not the address", "http://": "not the address",
	} {
		if w := fetch(p, target); w.Code == http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%q: %d %s, want %q", target, w.Code, w.Body, want)
		}
	}
}

func TestFetchesAtOnceAreLimited(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	e := newImageServer(t, Options{Concurrent: 1}, func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		_, _ = w.Write(pngImage())
	})
	done := make(chan int)
	go func() { done <- fetch(e.images, e.URL).Code }()
	<-arrived
	if w := fetch(e.images, e.URL); !strings.Contains(w.Body.String(), "too many") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	close(release)
	if code := <-done; code != http.StatusOK {
		t.Errorf("the first one got %d", code)
	}
}

// Every accepted address is one of http or https.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"https://example.com/a.png", "http://127.0.0.1:8000", "//x", "https://a@b", "https://[::1%25eth0]/"} {
		f.Add(s)
	}
	p := New(Options{Transport: onlyTo("")})
	f.Fuzz(func(t *testing.T, s string) {
		u, err := p.address(s)
		if err != nil {
			if chat.CodeOf(err) != chat.Invalid {
				t.Fatal(err)
			}
			return
		}
		again, err := url.Parse(u.String())
		if err != nil || again.Hostname() == "" || again.Scheme != "http" && again.Scheme != "https" || again.User != nil {
			t.Fatal(fmt.Sprint(s, " gave ", u))
		}
	})
}
