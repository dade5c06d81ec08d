package wire

import (
	"mime"
	"net/http"
	"path"
	"strings"
)

// inlineImages are the types that a browser may show from here; everything else
// is a download.
var inlineImages = map[string]bool{
	"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/avif": true,
}

// StoredHeaders sets the headers under which stored bytes go out: nothing in them
// can run on this origin, whatever their type. tag is a hash of the bytes.
func StoredHeaders(h http.Header, name, mediaType, tag string) {
	h.Set("Content-Type", mediaType)
	h.Set("ETag", `"`+tag+`"`)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "private, no-cache")
	how := "attachment"
	if base, _, err := mime.ParseMediaType(mediaType); err == nil && inlineImages[base] {
		how = "inline"
	}
	h.Set("Content-Disposition", mime.FormatMediaType(how, map[string]string{"filename": safeName(name)}))
}

// safeName is the last part of a path without what could confuse a header.
func safeName(p string) string {
	name := strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r == '"' || r == '\\' {
			return '_'
		}
		return r
	}, path.Base(p))
	if name == "." || name == "/" {
		return "file"
	}
	return name
}
