package wire

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// responseHead is an HTTP/1.1 response head. Header.Write replaces line breaks
// in values, so a value cannot start a header of its own.
func responseHead(status int, h http.Header) []byte {
	if h.Get("Date") == "" {
		h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	var b bytes.Buffer
	b.Grow(512)
	b.WriteString("HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status) + "\r\n")
	_ = h.Write(&b) // a bytes.Buffer does not fail
	b.WriteString("\r\n")
	return b.Bytes()
}

// keepBuf bounds the buffers that are kept for reuse: one large batch must not
// make every pooled buffer large.
const keepBuf = 256 << 10

var bufs = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

func getBuf() *[]byte { return bufs.Get().(*[]byte) }

func putBuf(b *[]byte) {
	if cap(*b) > keepBuf {
		return
	}
	*b = (*b)[:0]
	bufs.Put(b)
}
