package wire

import (
	"net/http"
	"testing"
)

func TestStoredHeaders(t *testing.T) {
	for _, c := range []struct{ name, media, want string }{
		{"a/b/photo.png", "image/png", `inline; filename=photo.png`},
		{"page.html", "text/html; charset=utf-8", `attachment; filename=page.html`},
		{"x.svg", "image/svg+xml", `attachment; filename=x.svg`},
		{"a\"b\\c\n.txt", "text/plain", `attachment; filename=a_b_c_.txt`},
		{"", "text/plain", `attachment; filename=file`},
	} {
		h := http.Header{}
		StoredHeaders(h, c.name, c.media, "abc")
		if got := h.Get("Content-Disposition"); got != c.want {
			t.Errorf("%q: %s, want %s", c.name, got, c.want)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Security-Policy") != "sandbox; default-src 'none'" || h.Get("ETag") != `"abc"` || h.Get("Content-Type") != c.media {
			t.Errorf("%q: %v", c.name, h)
		}
	}
}
