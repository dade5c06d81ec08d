package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"time"
)

// maxFrame bounds one frame of a stream; an event has at most 768 KiB.
const maxFrame = 4 << 20

var errFrameTooLarge = errors.New("a frame of the stream is too large")

// sseFrame is one frame of an event stream.
type sseFrame struct {
	event string
	id    string
	data  []byte
}

// sseReader reads frames. A frame counts only when its empty line has arrived,
// so a cut in the middle of one leaves no trace.
type sseReader struct {
	r *bufio.Reader
}

func newSSEReader(r io.Reader) *sseReader { return &sseReader{bufio.NewReaderSize(r, 16<<10)} }

// next returns the next frame that says something.
func (s *sseReader) next() (sseFrame, error) {
	var f sseFrame
	begun, size := false, 0
	for {
		line, err := s.line(maxFrame - size)
		if err != nil {
			if err == io.EOF && begun {
				err = io.ErrUnexpectedEOF
			}
			return sseFrame{}, err
		}
		size += len(line)
		if len(line) == 0 {
			if begun && (f.event != "" || f.data != nil) {
				return f, nil
			}
			f, begun, size = sseFrame{}, false, 0
			continue
		}
		begun = true
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			f.event = string(value)
		case "id":
			f.id = string(value)
		case "data":
			if f.data != nil {
				f.data = append(f.data, '\n')
			}
			f.data = append(f.data, value...)
			if f.data == nil {
				f.data = []byte{}
			}
		}
	}
}

// line returns one line without its end. A line that the connection cut is not
// returned.
func (s *sseReader) line(room int) ([]byte, error) {
	var long []byte
	for {
		part, err := s.r.ReadSlice('\n')
		if len(long)+len(part) > room {
			return nil, errFrameTooLarge
		}
		if err == bufio.ErrBufferFull {
			long = append(long, part...)
			continue
		}
		if err != nil {
			if err == io.EOF && len(long)+len(part) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if long != nil {
			part = append(long, part...)
		}
		return bytes.TrimSuffix(part[:len(part)-1], []byte("\r")), nil
	}
}

// watched is a reader that calls quit when a single Read brings nothing for too
// long. The time a consumer takes between reads does not count.
type watched struct {
	r     io.Reader
	limit time.Duration
	timer *time.Timer
}

func watch(r io.Reader, limit time.Duration, quit func()) *watched {
	w := &watched{r: r, limit: limit, timer: time.AfterFunc(limit, quit)}
	w.timer.Stop()
	return w
}

func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(w.limit)
	defer w.timer.Stop()
	return w.r.Read(p)
}
