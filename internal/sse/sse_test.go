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

// The frames before a cut are the same as without it.
func FuzzCut(f *testing.F) {
	f.Add("event: hello\nid: 1\ndata: {}\n\ndata: x\n\n", 7)
	f.Add("data: a\ndata: b\r\n\r\n: note\n\nid: 4\nevent: x\n\n", 3)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		whole := read(text)
		before := read(text[:max(0, min(cut, len(text)))])
		if len(before) > len(whole) {
			t.Fatal("a cut stream has more frames than the whole one")
		}
		for i, f := range before {
			if string(f.Data) != string(whole[i].Data) || f.ID != whole[i].ID || f.Event != whole[i].Event {
				t.Fatal("a cut changed a frame before it")
			}
		}
	})
}

func read(text string) (all []Frame) {
	r := NewReader(strings.NewReader(text), 1<<20)
	for {
		f, err := r.Next()
		if err != nil {
			return all
		}
		all = append(all, f)
	}
}

// Lines with other field names are given to Other when they arrive; a frame that is cut is returned with the error.
func TestOtherFieldsAndCutFrames(t *testing.T) {
	r := NewReader(strings.NewReader("step: {\"a\": 1}\n\n{\"code\": 2}\ndata: x\n\nevent: y\ndata: par"), 1<<20)
	var other []string
	r.Other = func(name, value []byte) error { other = append(other, string(name)+"="+string(value)); return nil }
	if f, err := r.Next(); err != nil || string(f.Data) != "x" || !slices.Equal(other, []string{`step={"a": 1}`, `{"code"=2}`}) {
		t.Error(f, err, other)
	}
	if f, err := r.Next(); err != io.ErrUnexpectedEOF || f.Event != "y" || string(f.Data) != "par" {
		t.Error(f, err)
	}
}
