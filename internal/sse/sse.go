// Package sse reads Server-Sent Events. The writing side is in package wire.
//
// Lines end with LF, CR or CRLF, as the standard allows. A frame counts only when its empty line has arrived, so a
// connection that is cut in the middle of a frame leaves nothing behind.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrTooLarge is returned for a frame over the limit of its [Reader].
var ErrTooLarge = errors.New("a frame of the event stream is too large")

// Frame is one event of a stream.
type Frame struct {
	Event string // "" where the standard means "message"
	ID    string // of this frame; "" when it has none
	Data  []byte // nil when the frame has no data line
}

// Reader reads frames. One goroutine at a time may use it.
type Reader struct {
	// Other is called for every line whose field name is not of the standard, when the line has arrived. An error ends
	// Next. nil ignores such lines.
	Other func(name, value []byte) error

	r      *bufio.Reader
	max    int
	line   []byte // the last line; reused
	begun  bool   // a line was read: a byte order mark is none any more
	skipLF bool   // the last line ended with CR; an LF that follows belongs to it
}

// bufferSize is small because a connection has a buffer of its own: a smaller one here needs no more system calls.
const bufferSize = 1 << 10

// NewReader returns a reader of frames with at most max bytes each.
func NewReader(r io.Reader, max int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, bufferSize), max: max}
}

// Next returns the next frame that has a name or data. At the end of the stream it returns io.EOF, and
// io.ErrUnexpectedEOF when the stream ends inside a frame, with what there is of the frame.
func (r *Reader) Next() (Frame, error) {
	var f Frame
	begun, size := false, 0
	for {
		end := r.readLine(r.max - size)
		if end == io.EOF && begun {
			end = io.ErrUnexpectedEOF
		}
		if end != nil && (end != io.ErrUnexpectedEOF || len(r.line) == 0) {
			return f, end
		}
		size += len(r.line)
		if len(r.line) == 0 {
			if f.Event != "" || f.Data != nil {
				return f, nil
			}
			f, begun, size = Frame{}, false, 0
			continue
		}
		begun = true
		name, value, _ := bytes.Cut(r.line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			f.Event = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				f.ID = string(value)
			}
		case "data":
			if f.Data == nil {
				f.Data = make([]byte, 0, len(value))
			} else {
				f.Data = append(f.Data, '\n')
			}
			f.Data = append(f.Data, value...)
		case "", "retry":
		default:
			if r.Other == nil {
				break
			}
			if err := r.Other(name, value); err != nil {
				return f, err
			}
		}
		if end != nil {
			return f, end
		}
	}
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// readLine reads one line, without its end, into r.line. It fails when the connection ends before the line does.
func (r *Reader) readLine(max int) error {
	r.line = r.line[:0]
	for {
		if _, err := r.r.Peek(1); err != nil {
			if err == io.EOF && len(r.line) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		b, _ := r.r.Peek(r.r.Buffered()) // it is buffered: there is no error
		if r.skipLF {
			r.skipLF = false
			if b[0] == '\n' {
				_, _ = r.r.Discard(1)
				continue
			}
		}
		end := bytes.IndexAny(b, "\r\n")
		part := b
		if end >= 0 {
			part = b[:end]
		}
		if len(r.line)+len(part) > max {
			return ErrTooLarge
		}
		r.line = append(r.line, part...)
		if end < 0 {
			_, _ = r.r.Discard(len(b))
			continue
		}
		r.skipLF = b[end] == '\r'
		_, _ = r.r.Discard(end + 1)
		if !r.begun {
			r.begun = true
			r.line = bytes.TrimPrefix(r.line, byteOrderMark)
		}
		return nil
	}
}
