package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The built console must be built from the sources beside it.
func TestConsoleIsBuiltFromItsSources(t *testing.T) {
	names := []string{
		"client/package.json", "react/package.json", "console/package.json", "console/index.html", "console/embed.html", "console/diagram.html", "console/vite.config.ts", "console/scripts/finish.mjs",
	}
	for _, dir := range []string{"client/src", "react/src", "console/src", "console/public"} {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				names = append(names, filepath.ToSlash(name))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(names)
	sum := sha256.New()
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(sum, "%s %x\n", name, sha256.Sum256(b))
	}
	built, err := files.ReadFile("console/dist/sources.sum")
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != strings.TrimSpace(string(built)) {
		t.Errorf("the console in web/console/dist was built from other sources: run `make web` and commit the result")
	}
}

func get(t *testing.T, h http.Handler, target string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	mux := http.NewServeMux()
	for _, p := range Patterns {
		mux.Handle(p, h)
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPagesAreTheConsoleUnderItsPolicy(t *testing.T) {
	h := Handler(Options{})
	for _, target := range []string{"/", "/inbox", "/s/some-session"} {
		res := get(t, h, target)
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/html; charset=utf-8" || res.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d %v", target, res.StatusCode, res.Header)
		}
		csp := res.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "require-trusted-types-for 'script'", "trusted-types 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy lacks %s", target, want)
			}
		}
		if strings.Contains(csp, "unsafe") {
			t.Errorf("%s: the policy has an exception: %s", target, csp)
		}
		if html := body(t, res); strings.Contains(html, "<script>") || strings.Contains(html, "style=") || !strings.Contains(html, `src="/assets/`) {
			t.Errorf("%s: not the console, or something inline:\n%s", target, html)
		}
	}
	if res := get(t, h, "/elsewhere"); res.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown address answered %d", res.StatusCode)
	}
}

func TestOnlyNamedPagesMayShowTheFrame(t *testing.T) {
	h := Handler(Options{Dialects: []string{"nemo"}, Images: true, Frames: []string{"https://app.example.com", "http://127.0.0.1:*"}})
	for _, target := range []string{"/embed", "/embed/some-session"} {
		res := get(t, h, target)
		csp := res.Header.Get("Content-Security-Policy")
		if res.StatusCode != http.StatusOK || !strings.HasSuffix(csp, "frame-ancestors 'self' https://app.example.com http://127.0.0.1:*") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: %d, policy %q", target, res.StatusCode, csp)
		}
	}
	if csp := get(t, h, "/").Header.Get("Content-Security-Policy"); !strings.HasSuffix(csp, "frame-ancestors 'self'") {
		t.Errorf("the console itself may be framed: %q", csp)
	}
	if got := body(t, get(t, h, "/console.json")); got != `{"dialects":["nemo"],"frames":["https://app.example.com","http://127.0.0.1:*"],"images":true,"trace":""}` {
		t.Errorf("about: %s", got)
	}
	if got := body(t, get(t, Handler(Options{}), "/console.json")); got != `{"dialects":[],"frames":[],"images":false,"trace":""}` {
		t.Errorf("about: %s", got)
	}
	if res := get(t, h, "/embed.js"); res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/javascript; charset=utf-8" || strings.Contains(body(t, res), "import ") {
		t.Errorf("the loader: %d %v", res.StatusCode, res.Header)
	}
}

func TestCheckTrace(t *testing.T) {
	for address, ok := range map[string]bool{
		"": true, "https://traces.example.com/trace/{id}": true, "http://127.0.0.1:16686/search?trace={id}#x": true,
		"https://traces.example.com/": false, "traces/{id}": false, "javascript:{id}": false, "//traces.example.com/{id}": false, "https://{id": false,
	} {
		if err := CheckTrace(address); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestAssetsAreCompressedAndImmutable(t *testing.T) {
	names, err := fs.Glob(files, "console/dist/assets/*.js.gz")
	if err != nil || len(names) == 0 {
		t.Fatal("no script was built", err)
	}
	target := strings.TrimSuffix(strings.TrimPrefix(names[0], "console/dist"), ".gz")
	packed, err := files.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	script, err := io.ReadAll(unpacked)
	if err != nil || len(script) < len(packed) {
		t.Fatalf("%s: %d bytes of %d, %v", names[0], len(packed), len(script), err)
	}
	h := Handler(Options{})
	if res := get(t, h, target); body(t, res) != string(script) {
		t.Errorf("without an encoding %s is not the script", target)
	}
	for encoding, want := range map[string]string{"gzip, deflate, br": "br", "gzip": "gzip", "br;q=0, gzip": "gzip", "": ""} {
		res := get(t, h, target, "Accept-Encoding", encoding)
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Encoding") != want {
			t.Errorf("%q: %d, encoding %q, want %q", encoding, res.StatusCode, res.Header.Get("Content-Encoding"), want)
		}
		if !strings.Contains(res.Header.Get("Cache-Control"), "immutable") || res.Header.Get("Content-Type") != "text/javascript; charset=utf-8" {
			t.Errorf("%q: %v", encoding, res.Header)
		}
	}
	for _, target := range []string{"/assets/none.js", "/assets/..%2findex.html"} {
		res := get(t, h, target)
		if res.StatusCode != http.StatusNotFound || strings.Contains(res.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d, %q", target, res.StatusCode, res.Header.Get("Cache-Control"))
		}
	}
}

func TestPagesOfAgentsCannotRunAnything(t *testing.T) {
	var asked string
	kind := "text/html"
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.EscapedPath()
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Disposition", "attachment")
		w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'")
		_, _ = io.WriteString(w, "<h1>Hello</h1>")
	})
	mux := http.NewServeMux()
	mux.Handle(PagePattern, Page(api))
	ask := func() *http.Response {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/page/s-1/out/a%20b.html", nil))
		return w.Result()
	}
	res := ask()
	if asked != "/parley/v1/sessions/s-1/artifacts/out/a%20b.html" {
		t.Errorf("asked for %s", asked)
	}
	csp := res.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(csp, "sandbox; default-src 'none'") || strings.Contains(csp, "allow-") || strings.Contains(csp, "script-src") || strings.Contains(csp, "connect-src") {
		t.Errorf("policy %q", csp)
	}
	if res.Header.Get("Content-Disposition") != "inline" || body(t, res) != "<h1>Hello</h1>" {
		t.Errorf("%v", res.Header)
	}
	kind = "image/svg+xml"
	if res = ask(); res.Header.Get("Content-Disposition") != "attachment" {
		t.Errorf("other files must stay downloads: %v", res.Header)
	}
}

func TestDiagramsAreDrawnWithoutAnOrigin(t *testing.T) {
	res := get(t, Handler(Options{Frames: []string{"https://host.example"}}), "/diagram")
	policy := res.Header.Get("Content-Security-Policy")
	for _, part := range []string{"sandbox allow-scripts;", "default-src 'none'", "frame-ancestors 'self' https://host.example"} {
		if !strings.Contains(policy, part) {
			t.Errorf("the policy %q has no %q", policy, part)
		}
	}
	for _, part := range []string{"allow-same-origin", "connect-src", "'self';"} {
		if strings.Contains(policy, part) {
			t.Errorf("the policy %q has %q", policy, part)
		}
	}
	// The page is stored compressed only; a client that accepts no encoding gets it too.
	if text := body(t, res); res.StatusCode != http.StatusOK || !strings.Contains(text, "mermaid") || !strings.Contains(text, "script-src 'sha256-") {
		t.Errorf("status %d, %d bytes", res.StatusCode, len(text))
	}
	// A page that has not changed is not sent again. Each encoding has a tag of its own, because its bytes differ.
	tags := map[string]bool{}
	for _, encoding := range []string{"br", "gzip", "identity"} {
		tag := get(t, Handler(Options{}), "/diagram", "Accept-Encoding", encoding).Header.Get("ETag")
		if tag == "" || tags[tag] {
			t.Errorf("the tag of %s is %q", encoding, tag)
		}
		tags[tag] = true
		again := get(t, Handler(Options{}), "/diagram", "Accept-Encoding", encoding, "If-None-Match", tag)
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("%s: status %d for a page that has not changed", encoding, again.StatusCode)
		}
	}
}

func TestFilesInAFrameRunNoScript(t *testing.T) {
	for _, c := range []struct{ stored, sent, policy string }{
		{"audio/mpeg", "audio/mpeg", mediaPolicy},
		{"video/mp4; codecs=avc1", "video/mp4", mediaPolicy},
		{"application/pdf", "application/pdf", pdfPolicy},
		{"image/svg+xml", "image/svg+xml", ""},
		{"application/xhtml+xml", "application/xhtml+xml", ""},
		{"audio/unknown", "audio/unknown", ""},
	} {
		api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.stored)
			w.Header().Set("Content-Disposition", "attachment")
			_, _ = io.WriteString(w, "x")
		})
		mux := http.NewServeMux()
		mux.Handle(PagePattern, Page(api))
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/page/s-1/a", nil))
		h := w.Header()
		if h.Get("Content-Type") != c.sent || h.Get("Content-Security-Policy") != c.policy || (h.Get("Content-Disposition") == "inline") != (c.policy != "") {
			t.Errorf("%s: %v", c.stored, h)
		}
	}
	for _, policy := range []string{pagePolicy, mediaPolicy, pdfPolicy} {
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "script") {
			t.Errorf("the policy %q may run scripts", policy)
		}
	}
}

// discarded is a response that nobody reads.
type discarded struct{ header http.Header }

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }
func (d *discarded) WriteHeader(int)             {}

// The console needs no token. The largest file must not take much memory for each client that reads it, and is decompressed once.
func TestRequestsShareTheBytesOfAFile(t *testing.T) {
	h := Handler(Options{})
	for _, header := range []http.Header{{}, {"Range": {"bytes=0-0"}}, {"Accept-Encoding": {"gzip"}}, {"Accept-Encoding": {"br"}}} {
		request := func() {
			r := httptest.NewRequest(http.MethodGet, "/diagram", nil)
			r.Header = header
			h.ServeHTTP(&discarded{http.Header{}}, r)
		}
		request()
		const times, most = 20, 100 << 10
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range times {
			request()
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / times; each > most {
			t.Errorf("%v: %d bytes of memory for each request, want at most %d", header, each, most)
		}
	}
}
