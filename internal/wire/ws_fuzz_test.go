package wire

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"testing"
	"time"
	"unicode/utf8"
)

func must(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// scripted is a connection whose peer sends fixed bytes in small steps.
type scripted struct {
	net.Conn
	in   *bytes.Reader
	step int
	out  bytes.Buffer
}

func (s *scripted) Read(p []byte) (int, error)       { return s.in.Read(p[:min(len(p), s.step)]) }
func (s *scripted) Write(p []byte) (int, error)      { return s.out.Write(p) }
func (s *scripted) SetReadDeadline(time.Time) error  { return nil }
func (s *scripted) SetWriteDeadline(time.Time) error { return nil }

func FuzzWSRead(f *testing.F) {
	f.Add(frame(0x81, true, []byte("hello")), uint8(1))
	f.Add(append(frame(0x01, true, []byte("a")), frame(0x80, true, []byte("b"))...), uint8(3))
	f.Add(append(frame(0x89, true, []byte("ping")), frame(0x88, true, []byte{3, 232})...), uint8(255))
	f.Add([]byte{0x81, 0xff, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0}, uint8(7))
	const most = 1 << 10
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		conn := &scripted{in: bytes.NewReader(b), step: int(step) + 1}
		c := &Conn{max: most}
		c.timeout = time.Minute
		c.detach(context.Background(), nil)
		c.in.start(conn, bufio.NewReader(bytes.NewReader(nil)))
		c.setConn(conn)
		for {
			msg, err := c.Read(c.ctx)
			if err != nil {
				break
			}
			if len(msg) > most || !utf8.Valid(msg) {
				t.Fatalf("a message of %d bytes, valid text %v", len(msg), utf8.Valid(msg))
			}
			if cap(msg) > keepBuf { // what the pool keeps of others' may come back here
				t.Fatalf("%d bytes were set aside", cap(msg))
			}
		}
		if _, err := c.Read(c.ctx); err == nil {
			t.Fatal("reading went on after an error")
		}
		c.end(c.readErr)
		// Whatever was sent back must itself be frames.
		out := conn.out.Bytes()
		for len(out) > 0 {
			if len(out) < 2 || out[0]&0x80 == 0 || int(out[1]) > 125 || len(out) < 2+int(out[1]) {
				t.Fatalf("wrote %x", conn.out.Bytes())
			}
			out = out[2+int(out[1]):]
		}
	})
}

func TestAnnouncedSizeIsNotAllocated(t *testing.T) {
	conn := &scripted{in: bytes.NewReader([]byte{0x81, 0xff, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0, 0, 0, 0, 'x'}), step: 100}
	c := &Conn{max: 16 << 20}
	c.timeout = time.Minute
	c.detach(context.Background(), nil)
	c.in.start(conn, bufio.NewReader(bytes.NewReader(nil)))
	c.setConn(conn)
	if err := c.frame(); err != nil {
		t.Fatal(err)
	}
	c.msg = new([]byte) // not one that others have let grow
	if err := c.payload(); err != io.EOF {
		t.Fatal(err)
	}
	if n := cap(*c.msg); n > 64<<10 {
		t.Errorf("%d bytes were set aside for one that came", n)
	}
}
