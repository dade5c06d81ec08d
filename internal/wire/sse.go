package wire

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

// AppendSSE appends one Server-Sent Event to dst. An empty event or id leaves
// that line out; data that holds line breaks becomes several data lines, so that
// the client gets it back with \n between them. Line breaks in event and id, and
// NUL in id, would end or void the line and are left out.
func AppendSSE(dst []byte, event, id string, data []byte) []byte {
	if event != "" {
		dst = append(append(append(dst, "event: "...), oneLine(event)...), '\n')
	}
	if id != "" {
		dst = append(append(append(dst, "id: "...), oneLine(id)...), '\n')
	}
	for bytes.IndexByte(data, '\n') >= 0 || bytes.IndexByte(data, '\r') >= 0 {
		i := bytes.IndexAny(data, "\r\n")
		dst = append(append(append(dst, "data: "...), data[:i]...), '\n')
		if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			i++
		}
		data = data[i+1:]
	}
	dst = append(append(dst, "data: "...), data...)
	return append(dst, '\n', '\n')
}

func oneLine(s string) string {
	if !strings.ContainsAny(s, "\r\n\x00") {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r == '\r' || r == '\n' || r == 0 {
			return -1
		}
		return r
	}, s)
}

// AppendSSEComment appends a comment line, which clients ignore. Dialects without a
// ping event use it to keep the connection open.
func AppendSSEComment(dst []byte, text string) []byte {
	return append(append(append(dst, ": "...), oneLine(text)...), '\n', '\n')
}

// SSEOptions configures a stream. The zero value works.
type SSEOptions struct {
	WriteTimeout time.Duration // for one write; 0 means DefaultWriteTimeout
	ContentType  string        // "" means text/event-stream
	Gzip         bool          // compress when the client accepts gzip; then see Stream.Coding
	Zstd         bool          // the same with zstd, for clients that prefer it to gzip

	// MarkBreaks is for protocols whose clients take a proper end for success: a stream that ends early is an error for every
	// client. fetch of Node.js takes a body that is cut for a complete one when the response says "Connection: close".
	MarkBreaks bool
}

// codings returns the offered codings, gzip first: some clients end a zstd body after
// its first frame, and all of them accept gzip.
func (o *SSEOptions) codings() []string {
	var offers []string
	if o.Gzip {
		offers = append(offers, Gzip)
	}
	if o.Zstd {
		offers = append(offers, Zstd)
	}
	return offers
}

// Stream is the sending side of one open SSE response. It is made by [ServeSSE].
type Stream struct {
	connBase
	w       http.ResponseWriter // HTTP/2 and writers that cannot be taken over; else nil
	head    []byte              // response head, sent with the first write
	chunked bool
	coding  string // Gzip, Zstd or ""

	markBreaks bool // see SSEOptions

	sum   checksum    // of what was sent, for the gzip trailer
	vec   net.Buffers // vec, parts and room are for one vectored write
	parts [3][]byte
	room  [18]byte
}

// maxPeerBytes is how many bytes a client may send after its request before the stream
// is closed. None are expected.
const maxPeerBytes = 4 << 10

// ServeSSE answers r with a stream of events that fn writes.
//
// On HTTP/1.1 it takes the connection over, starts fn in another goroutine and returns
// nil at once; the handler should then return too. fn must not keep w or r. On HTTP/2,
// and where w cannot be taken over, fn has returned when ServeSSE returns. The header is
// sent with the first write, or with [Stream.Flush]. An error means that nothing was sent
// and the caller still has to answer.
//
// fn's context carries the values of the request's context. It ends with the cause
// [ErrPeerGone], [ErrShutdown] (fn may still write a last event, see [Stream.Write]), the
// cause of a [Binding], or the error of a failed write. When fn returns an error, the
// connection is closed without a proper end, so that the client notices.
func ServeSSE(w http.ResponseWriter, r *http.Request, opt SSEOptions, conns *Conns, fn func(context.Context, *Stream) error) error {
	chargeOf(r.Context()).giveBack() // the stream may last for hours
	offers := opt.codings()
	s := &Stream{coding: Negotiate(r.Header, offers...)}
	s.conns = conns
	s.timeout = opt.WriteTimeout
	if s.timeout <= 0 {
		s.timeout = DefaultWriteTimeout
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	if opt.ContentType != "" {
		h.Set("Content-Type", opt.ContentType)
	}
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // nginx otherwise holds events back
	if len(offers) > 0 {
		addVary(h, "Accept-Encoding")
	}
	if s.coding != "" {
		h.Set("Content-Encoding", s.coding)
	}

	if r.ProtoMajor == 1 {
		s.detach(r.Context(), nil)
		if err := conns.add(s); err != nil {
			s.unregister(s)
			return unopened(h, err)
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			s.take(conn, r, h, opt.MarkBreaks)
			s.refs.Store(2)
			go s.run(fn)
			go s.watchPeer()
			return nil
		}
		s.unregister(s)
		s.cancel(err)
		if !errors.Is(err, http.ErrNotSupported) {
			return unopened(h, err)
		}
	}

	s.w = w
	s.ctx, s.cancel = context.WithCancelCause(r.Context())
	defer s.cancel(ErrClosed)
	if err := conns.add(s); err != nil {
		return unopened(h, err)
	}
	defer conns.remove(s)
	err := conns.Guard(func() error { return fn(s.ctx, s) })
	if err = s.finish(err); err != nil && r.Context().Err() == nil {
		// This closes a response of net/http without a proper end.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// unopened removes the headers again, because the caller answers instead.
func unopened(h http.Header, err error) error {
	for _, k := range []string{"Content-Type", "Content-Encoding", "X-Accel-Buffering", "Cache-Control"} {
		h.Del(k)
	}
	return err
}

func (s *Stream) take(conn net.Conn, r *http.Request, h http.Header, markBreaks bool) {
	// HTTP/1.0 has no chunks; there the end of the connection ends the body.
	s.chunked = r.ProtoAtLeast(1, 1)
	if !s.chunked {
		resetAtClose(conn)
	}
	s.setConn(conn)
	// With chunks a proxy and the client can distinguish a proper end from a broken
	// connection. net/http cannot reuse the connection, hence close.
	h.Set("Connection", "close")
	if s.chunked {
		h.Set("Transfer-Encoding", "chunked")
		if s.markBreaks = markBreaks; markBreaks && fromNodeJS(r.UserAgent()) {
			// Node.js does not use such a connection again either. Others would, and fail because it is closed.
			h.Set("Connection", "keep-alive")
			h.Set("Keep-Alive", "timeout=1")
		}
	}
	h.Del("Content-Length")
	s.head = responseHead(http.StatusOK, h)
}

// fromNodeJS reports whether a request comes from fetch of Node.js.
func fromNodeJS(userAgent string) bool {
	return userAgent == "node" || userAgent == "undici" || strings.HasPrefix(userAgent, "Node.js/")
}

// ErrDetached is returned by a function given to [ServeSSE] when the stream continues
// without its goroutine. [Stream.End] then ends it.
var ErrDetached = errors.New("the stream continues without the goroutine of its function")

// CanDetach reports whether the function may return [ErrDetached].
func (s *Stream) CanDetach() bool { return s.w == nil }

// run calls fn and ends the stream.
func (s *Stream) run(fn func(context.Context, *Stream) error) {
	if err := s.conns.Guard(func() error { return fn(s.ctx, s) }); err != ErrDetached {
		s.End(err)
	}
}

// End ends a stream whose function has returned [ErrDetached], as the return of err from
// the function would. It is called once.
func (s *Stream) End(err error) {
	defer s.release(s)
	if s.finish(err) == nil {
		endAtClose(s.conn)
		defer s.conn.Close() // also ends watchPeer
	} else {
		defer s.breakOff()
	}
	s.cancel(ErrClosed)
}

// breakOff closes the connection without a proper end.
func (s *Stream) breakOff() { belowTLS(s.conn).Close() }

// belowTLS returns the connection below TLS, or conn itself: to close a TLS connection would be a proper end.
func belowTLS(conn net.Conn) net.Conn {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return secure.NetConn()
	}
	return conn
}

// resetAtClose makes the close of a connection an error for the client, also when the system does it because the process was
// killed. The end of a response of HTTP/1.0 is that of its connection.
func resetAtClose(conn net.Conn) { setLinger(conn, 0) }

// endAtClose makes the close of a connection a proper end again.
func endAtClose(conn net.Conn) { setLinger(conn, -1) }

func setLinger(conn net.Conn, seconds int) {
	if tcp, ok := belowTLS(conn).(*net.TCPConn); ok {
		_ = tcp.SetLinger(seconds)
	}
}

// BreakOff must be called before the panic with [http.ErrAbortHandler] of a handler that has answered partly: net/http
// breaks off the response, but for HTTP/1.0 that would be a proper end.
func BreakOff(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.ProtoMinor != 0 {
		return
	}
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil { // else it was taken over
		resetAtClose(conn)
		belowTLS(conn).Close()
	}
}

// watchPeer waits until the client disconnects. A read is the only portable way to
// notice that. It takes a goroutine with a small stack.
func (s *Stream) watchPeer() {
	defer s.release(s)
	buf := make([]byte, 32)
	for left := maxPeerBytes; left > 0; {
		n, err := s.conn.Read(buf)
		if err != nil {
			s.cancel(ErrPeerGone)
			return
		}
		left -= n
	}
	s.cancel(errors.New("the client sent data into a one-way stream"))
	s.breakOff()
}

func (s *Stream) stop(cause error) { s.cancel(cause) }

func (s *Stream) kill() {
	s.cancel(ErrClosed)
	if s.owned.Load() {
		s.breakOff()
	}
}

// Coding is how the stream is compressed: [Gzip] or [Zstd], then shared bytes go
// out by [Stream.WriteBlocks]; or "", and then by [Stream.Write].
func (s *Stream) Coding() string { return s.coding }

// Compressed reports whether the stream has a coding.
func (s *Stream) Compressed() bool { return s.coding != "" }

// Write sends p, one or more complete events, in one system call and without copying
// when p is large. It returns when the kernel has the bytes; it blocks while the client
// is slow, at most for the write timeout or until the deadline of ctx. When ctx has
// ended it writes nothing; to write a last event then, pass context.WithoutCancel(ctx).
// After an error the stream cannot be used any more.
//
// p is not kept and not changed. A gzip stream sends p as a stored block, a zstd stream
// as a separate frame: it is meant for bytes that are not shared (hello, ping).
func (s *Stream) Write(ctx context.Context, p []byte) error {
	if len(p) == 0 {
		return s.Flush(ctx)
	}
	if s.coding != "" {
		return s.writePacked(ctx, p)
	}
	s.wmu.Lock()
	defer s.wmu.Unlock()
	return s.send(ctx, p)
}

// TryWrite is Write for events that the kernel takes without waiting for the client. It
// returns false if it takes none of them: then Write sends them, or fails.
func (s *Stream) TryWrite(ctx context.Context, p []byte) bool {
	if s.coding != "" || !s.wmu.TryLock() {
		return false
	}
	defer s.wmu.Unlock()
	return s.trySendChunk(ctx, p)
}

// TryWriteBlock is WriteBlocks for one block, with the same condition as [Stream.TryWrite].
func (s *Stream) TryWriteBlock(ctx context.Context, b Block) bool {
	if s.coding == "" || !s.wmu.TryLock() {
		return false
	}
	defer s.wmu.Unlock()
	if s.coding == Zstd {
		return s.trySendChunk(ctx, b.Data)
	}
	if !s.sum.begun || !s.trySendChunk(ctx, b.Data) {
		return false
	}
	s.sum.add(b)
	return true
}

// writePacked is Write on a compressed stream. It is not inlined, because its blocks
// would be part of the stack of every reader.
//
//go:noinline
func (s *Stream) writePacked(ctx context.Context, p []byte) error {
	if s.coding == Zstd {
		return s.WriteBlocks(ctx, CompressFrame(nil, p))
	}
	return s.WriteBlocks(ctx, storedBlocks(p)...)
}

// Flush sends the header of the response if that has not happened yet.
func (s *Stream) Flush(ctx context.Context) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	return s.send(ctx, nil)
}

// WriteBlocks sends blocks made by [CompressBlock] on a gzip stream, or by
// [CompressFrame] on a zstd stream, all in one write. On one that is not
// compressed it fails.
func (s *Stream) WriteBlocks(ctx context.Context, blocks ...Block) error {
	if s.coding == "" {
		return errors.New("blocks can only be sent on a compressed stream")
	}
	s.wmu.Lock()
	defer s.wmu.Unlock()
	sums := s.coding == Gzip // a sequence of zstd frames needs no header and no trailer
	if len(blocks) == 1 && (s.sum.begun || !sums) {
		if sums {
			s.sum.add(blocks[0])
		}
		return s.send(ctx, blocks[0].Data)
	}
	// Joining copies compressed bytes only; a list of vectors per stream would take
	// more memory than it saves.
	buf := getBuffer()
	defer putBuffer(buf)
	if sums && !s.sum.begun {
		*buf = append(*buf, gzipHead...)
		s.sum.begun = true
	}
	for _, b := range blocks {
		if sums {
			s.sum.add(b)
		}
		*buf = append(*buf, b.Data...)
	}
	return s.send(ctx, *buf)
}
