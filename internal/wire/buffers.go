package wire

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// responseHead returns an HTTP/1.1 status line and headers. Header.Write replaces line
// breaks in values, so a value cannot begin another header.
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

// keepBuf is the largest buffer that is returned to the pool, so that large batches do
// not make every pooled buffer large.
const keepBuf = 256 << 10

var bufs = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

func getBuffer() *[]byte { return bufs.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	if cap(*b) > keepBuf {
		return
	}
	*b = (*b)[:0]
	bufs.Put(b)
}
