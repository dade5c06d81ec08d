package client

import (
	"io"
	"time"
)

// silenceReader calls quit when a single Read returns nothing for too long. The time that a consumer takes between reads
// does not count.
type silenceReader struct {
	r     io.Reader
	limit time.Duration
	timer *time.Timer
}

func newSilenceReader(r io.Reader, limit time.Duration, quit func()) *silenceReader {
	w := &silenceReader{r: r, limit: limit, timer: time.AfterFunc(limit, quit)}
	w.timer.Stop()
	return w
}

func (w *silenceReader) Read(p []byte) (int, error) {
	w.timer.Reset(w.limit)
	defer w.timer.Stop()
	return w.r.Read(p)
}
