package wire

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// copyBelow is the size below which bytes are copied after their chunk header instead
// of being sent by writev: the copy is faster there.
const copyBelow = 2 << 10

var crlf = []byte("\r\n")

// send writes p as one chunk, after the response header if that was not sent yet.
// The caller holds wmu.
func (s *Stream) send(ctx context.Context, p []byte) error {
	if s.closed {
		return ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var err error
	if s.w != nil {
		err = s.sendOwned(ctx, p)
	} else if err = s.extend(ctx); err == nil {
		if err = s.sendRest(); err == nil {
			err = s.sendTaken(p)
		}
	}
	if err != nil {
		s.closed = true
		err = fmt.Errorf("send to the reader: %w", err)
		s.cancel(err)
	}
	return err
}

// sendOwned writes through net/http.
func (s *Stream) sendOwned(ctx context.Context, p []byte) error {
	rc := http.NewResponseController(s.w)
	until := time.Now().Add(s.timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(until) {
		until = d
	}
	// Writers in tests may have no deadlines.
	_ = rc.SetWriteDeadline(until)
	if _, err := s.w.Write(p); err != nil {
		return err
	}
	return rc.Flush()
}

// sendTaken writes to the connection itself, in one call.
func (s *Stream) sendTaken(p []byte) error {
	if len(p) == 0 && s.head == nil {
		return nil
	}
	_, tcp := s.conn.(*net.TCPConn)
	if !tcp || len(p) < copyBelow {
		// TLS makes a record of each write, so there one buffer is right at any size.
		buf := getBuffer()
		defer putBuffer(buf)
		b := append(*buf, s.head...)
		if len(p) > 0 {
			b = append(s.appendChunkHead(b, len(p)), p...)
			b = s.appendChunkEnd(b)
		}
		*buf = b
		s.head = nil
		_, err := s.conn.Write(b)
		return err
	}
	return s.sendVector(p)
}

// trySendChunk sends p as one chunk if the kernel takes it without waiting. The caller
// holds wmu.
func (s *Stream) trySendChunk(ctx context.Context, p []byte) bool {
	if s.w != nil || s.head != nil {
		return false
	}
	buf := getBuffer()
	defer putBuffer(buf)
	*buf = s.appendChunkEnd(append(s.appendChunkHead(*buf, len(p)), p...))
	return s.trySend(ctx, *buf, s.flushRest)
}

// flushRest sends what was left by trySendChunk. A failure ends the stream.
func (s *Stream) flushRest() { _ = s.Flush(context.WithoutCancel(s.ctx)) }

// sendVector sends the chunk header, p and the chunk end without copying.
func (s *Stream) sendVector(p []byte) error {
	first := s.room[:0]
	if s.head != nil {
		first = s.head
		s.head = nil
	}
	s.parts = [3][]byte{s.appendChunkHead(first, len(p)), p, crlf}
	s.vec = s.parts[:]
	if !s.chunked {
		s.vec = s.parts[:2]
	}
	_, err := s.vec.WriteTo(s.conn)
	s.vec, s.parts = nil, [3][]byte{} // release the shared batch
	return err
}

func (s *Stream) appendChunkHead(b []byte, n int) []byte {
	if !s.chunked {
		return b
	}
	return append(strconv.AppendUint(b, uint64(n), 16), '\r', '\n')
}

func (s *Stream) appendChunkEnd(b []byte) []byte {
	if !s.chunked {
		return b
	}
	return append(b, '\r', '\n')
}

// finish ends the response when err is nil; otherwise it leaves the end out.
func (s *Stream) finish(err error) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if err != nil || s.closed {
		if s.markBreaks && !s.closed {
			// No client takes a body with a malformed chunk for a complete one.
			_ = s.conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = s.conn.Write([]byte("broken\r\n"))
		}
		s.closed = true
		return cmp.Or(err, ErrClosed)
	}
	// The context may have ended already; a proper end is sent all the same.
	ctx := context.WithoutCancel(s.ctx)
	var tail []byte
	if s.coding == Gzip {
		if !s.sum.begun {
			tail = append(tail, gzipHead...)
		}
		tail = s.sum.appendTrailer(tail)
	}
	if err := s.send(ctx, tail); err != nil {
		return err
	}
	s.closed = true
	if s.w == nil && s.chunked {
		_, err = s.conn.Write([]byte("0\r\n\r\n"))
	}
	return err
}
