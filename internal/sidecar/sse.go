package sidecar

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"unicode/utf8"
)

// frame is one event of an SSE stream.
type frame struct {
	id, event string
	data      []byte
}

// maxFrame bounds an event of the agent's stream.
const maxFrame = 8 << 20

var errFrame = errors.New("an event of the agent's stream has more than 8 MiB")

// decoder reads an SSE stream. It works on whole lines, so it does not matter
// where the network cuts: characters are never torn apart.
type decoder struct {
	r     *bufio.Reader
	first bool
	cr    bool // the last line ended with CR; an LF that follows belongs to it
	id    string
}

func newDecoder(r io.Reader) *decoder {
	return &decoder{r: bufio.NewReaderSize(r, 64<<10), first: true}
}

// next returns the next event that has data. An event that the end of the stream
// cut short is not returned.
func (d *decoder) next() (frame, error) {
	f := frame{}
	var data []byte
	have := false
	for {
		line, err := d.line()
		if err != nil {
			return frame{}, err
		}
		if len(line) == 0 {
			if have {
				f.id, f.data = d.id, bytes.TrimSuffix(data, []byte("\n"))
				return f, nil
			}
			f.event = ""
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			have = true
			if len(data)+len(value) > maxFrame {
				return frame{}, errFrame
			}
			data = append(append(data, value...), '\n')
		case "event":
			f.event = string(value)
		case "id":
			if !bytes.ContainsRune(value, 0) && utf8.Valid(value) && len(value) <= 256 {
				d.id = string(value)
			}
		}
	}
}

// line reads up to CR, LF or CRLF.
func (d *decoder) line() ([]byte, error) {
	var line []byte
	for {
		c, err := d.r.ReadByte()
		if err != nil {
			return nil, err
		}
		if c == '\n' && d.cr {
			d.cr = false
			continue
		}
		d.cr = c == '\r'
		if c == '\n' || c == '\r' {
			if d.first {
				d.first = false
				line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
			}
			return line, nil
		}
		if line = append(line, c); len(line) > maxFrame {
			return nil, errFrame
		}
	}
}
