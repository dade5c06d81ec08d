package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// BenchmarkStreamWrite shows where copying stops being cheaper than writev.
func BenchmarkStreamWrite(b *testing.B) {
	for _, size := range []int{300, 1 << 10, 2 << 10, 4 << 10, 16 << 10, 64 << 10} {
		for _, how := range []string{"copy", "writev"} {
			b.Run(fmt.Sprint(size, "/", how), func(b *testing.B) {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				defer l.Close()
				drained := make(chan struct{})
				go func() {
					defer close(drained)
					c, err := l.Accept()
					if err != nil {
						return
					}
					defer c.Close()
					io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 256<<10))
				}()
				c, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				s := &Stream{}
				s.timeout = DefaultWriteTimeout
				s.detach(context.Background(), nil)
				s.setConn(c)
				if how == "copy" {
					s.setConn(struct{ net.Conn }{c})
				}
				s.chunked = true
				p := bytes.Repeat([]byte("x"), size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if how == "writev" {
						err = s.sendVector(p)
					} else {
						err = s.Write(s.ctx, p)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				c.Close()
				<-drained
			})
		}
	}
}

func BenchmarkCheckJSON(b *testing.B) {
	doc := []byte(`[` + string(bytes.Repeat([]byte(`{"type":"user.message","payload":{"text":"hello there, how are you"},"client_id":"c-1"},`), 100)) + `0]`)
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		if err := CheckJSON(doc, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWriteBody(b *testing.B) {
	body := bytes.Repeat([]byte(`{"session_id":"s-01","sequence":42,"type":"agent.text","payload":{"block":"b7","text":"Four."}},`), 3000)
	for _, enc := range []string{"gzip", "zstd"} {
		b.Run(enc, func(b *testing.B) {
			r := &http.Request{Header: http.Header{"Accept-Encoding": {enc}}}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := WriteBody(nowhere{}, r, 200, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}
