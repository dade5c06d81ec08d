package artifact

import (
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
)

func TestInvalidPathsAreRefused(t *testing.T) {
	for _, p := range []string{
		"a", "a.txt", "files/w1/report.pdf", "ünïcode/文件.csv", "...", "..a", "a..", ".hidden", "C:", "con", "a b",
		strings.Repeat("s", maxSegment), strings.Repeat("a/", 511) + "ab", "~", "%2e%2e", "name:with:colons", "-rf",
	} {
		if err := CheckPath(p); err != nil {
			t.Errorf("CheckPath(%q) = %v, want it accepted", p, err)
		}
	}
	for _, p := range []string{
		"", "/", "/etc/passwd", "..", "../x", "a/../b", "a/..", ".", "./a", "a/./b", "a//b", "a/", "//", "a\x00b",
		`..\x`, `a\b`, `C:\x`, "a\nb", "a\x7f", "\xff", "a/\xc3", strings.Repeat("s", maxSegment+1),
		strings.Repeat("a/", 512) + "a", strings.Repeat("é", 128),
	} {
		if err := CheckPath(p); chat.CodeOf(err) != chat.Invalid {
			t.Errorf("CheckPath(%q) = %v, want invalid", p, err)
		}
	}
}

func FuzzCheckPath(f *testing.F) {
	for _, p := range []string{"a/b", "../a", "a\\b", "/a", "a//b", "a\x00", "é/文"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if CheckPath(p) != nil {
			return
		}
		if path.Clean(p) != p || path.IsAbs(p) || !filepath.IsLocal(p) || !utf8.ValidString(p) || len(p) > maxPath {
			t.Fatalf("%q was accepted", p)
		}
		if strings.ContainsAny(p, "\x00\\") {
			t.Fatalf("%q was accepted", p)
		}
	})
}

func TestMediaTypeIsCheckedOrGuessed(t *testing.T) {
	for _, c := range []struct{ said, name, head, want string }{
		{"text/x-own", "a.png", "\x89PNG\r\n\x1a\n", "text/x-own"},
		{"", "a.bin", "\x89PNG\r\n\x1a\n", "image/png"},
		{"", "a.png", "plain words", "text/plain; charset=utf-8"},
		{"", "a.csv", "a,b\n1,2\n", "text/csv; charset=utf-8"},
		{"", "A.JSON", `{"a":1}`, "application/json"},
		{"", "a.html", "<!DOCTYPE html><p>", "text/html; charset=utf-8"},
		{"", "a.svg", `<?xml version="1.0"?><svg/>`, "image/svg+xml"},
		{"", "a.xlsx", "PK\x03\x04....", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
		{"", "a", "\x00\x01\x02", "application/octet-stream"},
		{"", "a.md", "", "text/markdown; charset=utf-8"},
	} {
		if got := mediaTypeOf(c.said, c.name, []byte(c.head)); got != c.want {
			t.Errorf("%q %q %.10q: %s, want %s", c.said, c.name, c.head, got, c.want)
		}
	}
	for _, bad := range []string{"csv", "a/b/c d", "text/", strings.Repeat("a", 300) + "/b", "text/plain; ;=", "text/plain\r\nX: y"} {
		if checkMediaType(bad) == nil {
			t.Errorf("media type %q was accepted", bad)
		}
	}
}
