package wire

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

// inlineImages are the types that a browser may display; everything else is a
// download.
var inlineImages = map[string]bool{
	"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/avif": true,
}

// StoredHeaders sets the headers for stored bytes, so that nothing in them can run on
// this origin, whatever their type. tag is a hash of the bytes.
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
	h.Set("Content-Disposition", mime.FormatMediaType(how, map[string]string{"filename": SafeName(name)}))
}

// SafeName returns the last part of a path without the characters that a header
// cannot hold.
func SafeName(p string) string {
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

// ServeStored answers with stored bytes as http.ServeContent does: ranges, If-Range
// and If-None-Match. When the bytes cannot be read to their end, or are damaged, the
// status was sent already: broken is called with the error and the connection is
// closed, so that the client notices that the body is not complete.
func ServeStored(w http.ResponseWriter, r *http.Request, modified time.Time, body io.ReadSeeker, broken func(error)) {
	watched := &watchedReader{ReadSeeker: body}
	http.ServeContent(w, r, "", modified, watched)
	if watched.err != nil {
		broken(watched.err)
		panic(http.ErrAbortHandler)
	}
}

// watchedReader keeps the error of a failed read.
type watchedReader struct {
	io.ReadSeeker
	err error
}

// Read reads on.
func (b *watchedReader) Read(p []byte) (int, error) {
	n, err := b.ReadSeeker.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}
