package wire

import (
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// ErrTooLarge is returned for a body or message over its limit.
var ErrTooLarge = errors.New("larger than the limit")

// firstRead bounds what is allocated because of a Content-Length alone.
const firstRead = 64 << 10

// ReadBody reads the whole body of r, at most limit bytes. A longer one, or one
// that a server-wide limit cuts, gives [ErrTooLarge]; one that the client's [Budget]
// has no room for gives [ErrBusy].
func ReadBody(r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, ErrTooLarge
	}
	room, known, charge := int64(512), r.ContentLength >= 0, chargeOf(r.Context())
	if r.ContentLength > uncounted {
		if err := charge.take(r.Context(), r.ContentLength, budgetWait); err != nil {
			return nil, err
		}
	}
	if known {
		room = min(r.ContentLength+1, firstRead) // one more, so that the end is seen without growing
	}
	body := make([]byte, 0, room)
	src := io.LimitReader(r.Body, limit+1)
	for {
		n, err := src.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if int64(len(body)) > limit {
			return nil, ErrTooLarge
		}
		if err == io.EOF {
			return body, nil
		}
		if err != nil {
			if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
				return nil, ErrTooLarge
			}
			return nil, err
		}
		if len(body) == cap(body) {
			more := max(512, len(body))
			if !known && len(body)+more > uncounted {
				if err := charge.take(r.Context(), int64(more), budgetWait); err != nil {
					return nil, err
				}
			}
			body = slices.Grow(body, more)
		}
	}
}

// compressFrom is the size from which [WriteBody] compresses.
const compressFrom = 1 << 10

// WriteBody answers with a complete body, compressed with zstd or gzip when it has at
// least compressFrom bytes and the client accepts it. The caller has set Content-Type; a
// Content-Encoding that is already set is left alone. It writes nothing and returns
// [ErrBusy] when the client does not read its other answers.
func WriteBody(w http.ResponseWriter, r *http.Request, status int, body []byte) error {
	h := w.Header()
	if err := chargeOf(r.Context()).takeAnswer(r.Context(), len(body)); err != nil {
		return err
	}
	if len(body) >= compressFrom && h.Get("Content-Encoding") == "" {
		addVary(h, "Accept-Encoding")
		buf := getBuffer()
		defer putBuffer(buf)
		switch Negotiate(r.Header, "zstd", "gzip") {
		case "zstd":
			*buf = zstdEncoder().EncodeAll(body, *buf)
			h.Set("Content-Encoding", "zstd")
			body = *buf
		case "gzip":
			*buf = appendGzip(*buf, body)
			h.Set("Content-Encoding", "gzip")
			body = *buf
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	_, err := w.Write(body)
	return err
}

// WriteGzip answers with a body of blocks made by [CompressBlock], for a client that
// accepts gzip. The caller has set Content-Type. It fails as [WriteBody] does.
func WriteGzip(w http.ResponseWriter, r *http.Request, status int, blocks []Block) error {
	h := w.Header()
	addVary(h, "Accept-Encoding")
	h.Set("Content-Encoding", Gzip)
	var sum checksum
	size := len(gzipHead) + gzipTrailer
	for _, b := range blocks {
		sum.add(b)
		size += len(b.Data)
	}
	if err := chargeOf(r.Context()).takeAnswer(r.Context(), size); err != nil {
		h.Del("Content-Encoding")
		return err
	}
	h.Set("Content-Length", strconv.Itoa(size))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	buf := getBuffer()
	defer putBuffer(buf)
	*buf = append(slices.Grow(*buf, size), gzipHead...)
	for _, b := range blocks {
		*buf = append(*buf, b.Data...)
	}
	*buf = sum.appendTrailer(*buf)
	_, err := w.Write(*buf)
	return err
}

// zstdEncoder is shared: EncodeAll may be called concurrently.
var zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
	// The window keeps memory small; browsers accept up to 8 MB.
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic("wire: the options of the zstd encoder are wrong: " + err.Error())
	}
	return e
})

var gzips = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level exists
	return w
}}

func appendGzip(dst, src []byte) []byte {
	z := gzips.Get().(*gzip.Writer)
	defer gzips.Put(z)
	out := appender{dst}
	z.Reset(&out)
	_, _ = z.Write(src) // appender does not fail
	_ = z.Close()
	z.Reset(nil)
	return out.b
}

// Negotiate returns which of the offered content encodings the client's
// Accept-Encoding prefers, the earlier offer when several have the same weight, and ""
// when it accepts none of them.
func Negotiate(h http.Header, offers ...string) string {
	best, bestQ := "", 0
	accept := h["Accept-Encoding"]
	if len(accept) == 0 {
		return ""
	}
	for _, offer := range offers {
		if q := quality(accept, offer); q > bestQ {
			best, bestQ = offer, q
		}
	}
	if best != "" && quality(accept, "identity") > bestQ {
		return ""
	}
	return best
}

// quality is the weight of an encoding in thousandths. A name takes precedence over
// the star; identity is acceptable but never preferred unless named.
func quality(accept []string, coding string) int {
	named, star := -1, -1
	for _, line := range accept {
		for item := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(item, ";")
			name = strings.ToLower(textproto.TrimString(name))
			if name == "x-gzip" {
				name = "gzip"
			}
			switch name {
			case coding:
				named = max(named, weight(params))
			case "*":
				star = weight(params)
			}
		}
	}
	switch {
	case named >= 0:
		return named
	case coding == "identity":
		return 0
	default:
		return max(star, 0)
	}
}

// weight reads ;q= in thousandths; without one it is 1000, a broken one is 0.
func weight(params string) int {
	for p := range strings.SplitSeq(params, ";") {
		k, v, ok := strings.Cut(textproto.TrimString(p), "=")
		if !ok || !strings.EqualFold(textproto.TrimString(k), "q") {
			continue
		}
		q, err := strconv.ParseFloat(textproto.TrimString(v), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return int(q * 1000)
	}
	return 1000
}

// addVary adds a request header to Vary.
func addVary(h http.Header, name string) {
	for _, line := range h["Vary"] {
		for v := range strings.SplitSeq(line, ",") {
			if v = textproto.TrimString(v); v == "*" || strings.EqualFold(v, name) {
				return
			}
		}
	}
	h.Add("Vary", name)
}
