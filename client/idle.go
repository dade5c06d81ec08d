package client

import (
	"io"
	"time"
)

// idleReader calls quit when a single Read returns nothing for too long. The time that a consumer takes between reads
// does not count.
type idleReader struct {
	r     io.Reader
	limit time.Duration
	timer *time.Timer
}

func newIdleReader(r io.Reader, limit time.Duration, quit func()) *idleReader {
	w := &idleReader{r: r, limit: limit, timer: time.AfterFunc(limit, quit)}
	w.timer.Stop()
	return w
}

func (w *idleReader) Read(p []byte) (int, error) {
	w.timer.Reset(w.limit)
	defer w.timer.Stop()
	return w.r.Read(p)
}
