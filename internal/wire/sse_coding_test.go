package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestStreamCoding: a client that knows gzip gets it, unless it likes zstd better.
func TestStreamCoding(t *testing.T) {
	srv, _ := streamServer(t, SSEOptions{Gzip: true, Zstd: true}, func(ctx context.Context, s *Stream) error {
		return s.Write(ctx, []byte("data: "+s.Coding()+"\n\n"))
	})
	srv.Start()
	for accept, want := range map[string]string{
		"gzip, deflate, br, zstd": Gzip,
		"zstd, gzip":              Gzip,
		"zstd":                    Zstd,
		"zstd, gzip;q=0.9":        Zstd,
		"br":                      "",
		"identity":                "",
		"zstd;q=0":                "",
	} {
		req, _ := http.NewRequest("GET", srv.URL, nil)
		req.Header.Set("Accept-Encoding", accept)
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Content-Encoding"); got != want || resp.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %q, Vary %q; want %q", accept, got, resp.Header.Get("Vary"), want)
		}
	}
}

// TestZstdStream sends what is shared and what is not, each piece of which is
// there before the next is sent.
func TestZstdStream(t *testing.T) {
	text := func(i int) []byte {
		return bytes.Repeat(AppendSSE(nil, "event", "1", []byte(strings.Repeat("hello parley ", i+1))), 30)
	}
	var frames []Block
	for i := range 6 {
		frames = append(frames, CompressFrame(nil, text(i)))
	}
	// Larger than a block of zstd may be.
	big := bytes.Repeat([]byte("data: 0123456789\n\n"), 20_000)
	parts := [][]byte{[]byte("data: hello\n\n"), bytes.Join([][]byte{text(0), text(1), text(2)}, nil), text(3), text(4), text(5), big}
	for _, h2 := range []bool{false, true} {
		next := make(chan struct{})
		fn := func(ctx context.Context, s *Stream) error {
			if s.Coding() != Zstd {
				return errors.New("not zstd")
			}
			sends := []func() error{
				func() error { return s.Write(ctx, parts[0]) },
				func() error { return s.WriteBlocks(ctx, frames[:3]...) },
				func() error { return s.WriteBlocks(ctx, frames[3]) },
				func() error { return s.WriteBlocks(ctx, frames[4]) },
				func() error { return s.WriteBlocks(ctx, frames[5]) },
				func() error { return s.Write(ctx, big) },
			}
			for _, send := range sends {
				if err := send(); err != nil {
					return err
				}
				<-next
			}
			return nil
		}
		srv, _ := streamServer(t, SSEOptions{Gzip: true, Zstd: true}, fn)
		srv.EnableHTTP2 = h2
		srv.StartTLS()
		req, _ := http.NewRequest("GET", srv.URL, nil)
		req.Header.Set("Accept-Encoding", "zstd")
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		z, err := zstd.NewReader(resp.Body, zstd.WithDecoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range parts {
			got := make([]byte, len(want))
			if _, err := io.ReadFull(z, got); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("http2 %v: part %d is not there at once, or not itself: %v", h2, i, err)
			}
			next <- struct{}{}
		}
		if rest, err := io.ReadAll(z); err != nil || len(rest) > 0 {
			t.Errorf("http2 %v: behind the end: %q, %v", h2, rest, err)
		}
		z.Close()
		resp.Body.Close()
	}
}

func TestCompressFrameAppends(t *testing.T) {
	b := CompressFrame([]byte("before"), bytes.Repeat([]byte("parley "), 1000))
	if !bytes.HasPrefix(b.Data, []byte("before")) || b.Size != 7000 || len(b.Data) > 300 {
		t.Errorf("%d bytes for %d", len(b.Data), b.Size)
	}
}
