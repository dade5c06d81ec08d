package sse

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestFrames(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []Frame
		end  error
	}{
		"fields":               {"event: a\nid: 7\ndata: x\n\n", []Frame{{"a", "7", []byte("x")}}, io.EOF},
		"several data lines":   {"data: x\ndata:\ndata:  y\n\n", []Frame{{Data: []byte("x\n\n y")}}, io.EOF},
		"empty data":           {"data\n\n", []Frame{{Data: []byte{}}}, io.EOF},
		"a name without data":  {"event: ping\n\n", []Frame{{Event: "ping"}}, io.EOF},
		"comments":             {": hello\n\n:\ndata: x\n\n", []Frame{{Data: []byte("x")}}, io.EOF},
		"an id alone":          {"id: 1\n\ndata: x\n\n", []Frame{{Data: []byte("x")}}, io.EOF},
		"an id with zero byte": {"id: a\x00b\ndata: x\n\n", []Frame{{Data: []byte("x")}}, io.EOF},
		"CR":                   {"data: x\r\rdata: y\r\r", []Frame{{Data: []byte("x")}, {Data: []byte("y")}}, io.EOF},
		"CRLF":                 {"data: x\r\n\r\ndata: y\r\n\r\n", []Frame{{Data: []byte("x")}, {Data: []byte("y")}}, io.EOF},
		"a byte order mark":    {"\xef\xbb\xbfdata: x\n\n", []Frame{{Data: []byte("x")}}, io.EOF},
		"cut in a line":        {"data: x\n\ndata: y", []Frame{{Data: []byte("x")}}, io.ErrUnexpectedEOF},
		"cut between lines":    {"data: x\n\ndata: y\n", []Frame{{Data: []byte("x")}}, io.ErrUnexpectedEOF},
		"too large":            {"data: " + strings.Repeat("x", 100) + "\n\n", nil, ErrTooLarge},
		"too large in lines":   {strings.Repeat("data: x\n", 20) + "\n", nil, ErrTooLarge},
		"each small enough":    {strings.Repeat("data: x\n\n", 20), slices.Repeat([]Frame{{Data: []byte("x")}}, 20), io.EOF},
	} {
		for how, in := range map[string]io.Reader{"whole": strings.NewReader(c.in), "by bytes": iotest.OneByteReader(strings.NewReader(c.in))} {
			r := NewReader(in, 64)
			for i := 0; ; i++ {
				got, err := r.Next()
				if err != nil {
					if !errors.Is(err, c.end) || i != len(c.want) {
						t.Errorf("%s, %s: ended after %d frames with %v", name, how, i, err)
					}
					break
				}
				if i >= len(c.want) {
					t.Errorf("%s, %s: one frame more: %+v", name, how, got)
					break
				}
				if w := c.want[i]; got.Event != w.Event || got.ID != w.ID || string(got.Data) != string(w.Data) || (got.Data == nil) != (w.Data == nil) {
					t.Errorf("%s, %s: frame %d is %+v, want %+v", name, how, i, got, w)
				}
			}
		}
	}
}
