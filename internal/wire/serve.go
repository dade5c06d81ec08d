package wire

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// ServeStored answers with stored bytes as http.ServeContent does: ranges, If-Range
// and If-None-Match. When the bytes cannot be read to their end, or are found to be
// damaged, the status is out already: broken is told why, and the connection is
// broken off, so that nobody takes what was sent for the whole.
func ServeStored(w http.ResponseWriter, r *http.Request, modified time.Time, body io.ReadSeeker, broken func(error)) {
	watched := &watchedReader{ReadSeeker: body}
	http.ServeContent(w, r, "", modified, watched)
	if watched.err != nil {
		broken(watched.err)
		panic(http.ErrAbortHandler)
	}
}

// watchedReader remembers why it could not be read.
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
