package wire

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestAppendSSE(t *testing.T) {
	for _, c := range []struct{ event, id, data, want string }{
		{"event", "42", `{"a":1}`, "event: event\nid: 42\ndata: {\"a\":1}\n\n"},
		{"", "", "x", "data: x\n\n"},
		{"", "", "", "data: \n\n"},
		{"", "", "a\nb\r\nc\rd\n", "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"},
		{"a\nid: 9", "1\r\nevent: x\x00", "d", "event: aid: 9\nid: 1event: x\ndata: d\n\n"},
	} {
		if got := string(AppendSSE(nil, c.event, c.id, []byte(c.data))); got != c.want {
			t.Errorf("AppendSSE(%q, %q, %q) = %q, want %q", c.event, c.id, c.data, got, c.want)
		}
	}
	if got := string(AppendSSEComment(nil, "hi\nid: 3")); got != ": hiid: 3\n\n" {
		t.Errorf("comment = %q", got)
	}
}

// streamServer serves fn at / as a stream. end ends it and fails if a stream remains.
func streamServer(t *testing.T, opt SSEOptions, fn func(context.Context, *Stream) error) (*httptest.Server, *Conns) {
	t.Helper()
	conns := &Conns{}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Extra", "kept")
		if err := ServeSSE(w, r, opt, conns, fn); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := conns.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		srv.Close()
	})
	return srv, conns
}

func TestStreamOverEachProtocol(t *testing.T) {
	big := bytes.Repeat([]byte("data: 0123456789\n\n"), 20_000) // by writev
	fn := func(ctx context.Context, s *Stream) error {
		for _, p := range [][]byte{AppendSSE(nil, "hello", "0", []byte("hi")), big, AppendSSE(nil, "event", "1", []byte("last"))} {
			if err := s.Write(ctx, p); err != nil {
				return err
			}
		}
		return nil
	}
	want := "event: hello\nid: 0\ndata: hi\n\n" + string(big) + "event: event\nid: 1\ndata: last\n\n"
	for name, setup := range map[string]func(*httptest.Server){
		"HTTP/1.1":      func(s *httptest.Server) { s.Start() },
		"HTTP/1.1, TLS": func(s *httptest.Server) { s.StartTLS() },
		"HTTP/2":        func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() },
	} {
		t.Run(name, func(t *testing.T) {
			srv, _ := streamServer(t, SSEOptions{}, fn)
			setup(srv)
			resp, err := srv.Client().Get(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if string(body) != want {
				t.Errorf("got %d bytes, want %d", len(body), len(want))
			}
			if ct, extra := resp.Header.Get("Content-Type"), resp.Header.Get("X-Extra"); ct != "text/event-stream" || extra != "kept" {
				t.Errorf("Content-Type %q, X-Extra %q", ct, extra)
			}
			if resp.Header.Get("Date") == "" || resp.ContentLength >= 0 {
				t.Errorf("Date %q, length %d", resp.Header.Get("Date"), resp.ContentLength)
			}
			if wantProto := strings.HasPrefix(name, "HTTP/2"); (resp.ProtoMajor == 2) != wantProto {
				t.Errorf("spoke %s", resp.Proto)
			}
		})
	}
}

func TestOldClientGetsNoChunks(t *testing.T) {
	srv, _ := streamServer(t, SSEOptions{}, func(ctx context.Context, s *Stream) error { return s.Write(ctx, []byte("data: a\n\n")) })
	srv.Start()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.0\r\nHost: x\r\n\r\n")
	all, _ := io.ReadAll(c)
	if s := string(all); !strings.HasSuffix(s, "\r\n\r\ndata: a\n\n") || strings.Contains(s, "chunked") {
		t.Errorf("got %q", s)
	}
}

func TestFailedStreamHasNoProperEnd(t *testing.T) {
	fn := func(ctx context.Context, s *Stream) error {
		if err := s.Write(ctx, []byte("data: a\n\n")); err != nil {
			return err
		}
		return errors.New("broken")
	}
	for _, h2 := range []bool{false, true} {
		srv, _ := streamServer(t, SSEOptions{}, fn)
		srv.EnableHTTP2 = h2
		srv.StartTLS()
		resp, err := srv.Client().Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = io.ReadAll(resp.Body); err == nil {
			t.Errorf("http2 %v: the client cannot tell that the stream was cut", h2)
		}
		resp.Body.Close()
	}
}

// HTTP/1.0 has no mark for the end of a stream: one that is broken off ends with an error of the connection.
func TestOldClientNoticesAFailedStream(t *testing.T) {
	for _, secure := range []bool{false, true} {
		for _, fails := range []bool{false, true} {
			srv, _ := streamServer(t, SSEOptions{}, func(ctx context.Context, s *Stream) error {
				if err := s.Write(ctx, []byte("data: a\n\n")); err != nil || !fails {
					return err
				}
				return errors.New("broken")
			})
			var c net.Conn
			var err error
			if secure {
				srv.StartTLS()
				c, err = tls.Dial("tcp", srv.Listener.Addr().String(), srv.Client().Transport.(*http.Transport).TLSClientConfig)
			} else {
				srv.Start()
				c, err = net.Dial("tcp", srv.Listener.Addr().String())
			}
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(c, "GET / HTTP/1.0\r\nHost: x\r\n\r\n")
			all, err := io.ReadAll(c)
			if !strings.HasSuffix(string(all), "data: a\n\n") || (err != nil) != fails {
				t.Errorf("secure %t, fails %t: %v after %q", secure, fails, err, all)
			}
			c.Close()
		}
	}
}

// fetch of Node.js takes a body that is cut for a complete one after "Connection: close".
func TestBreaksAreMarked(t *testing.T) {
	for _, breaks := range []bool{false, true} {
		srv, _ := streamServer(t, SSEOptions{MarkBreaks: true}, func(ctx context.Context, s *Stream) error {
			if err := s.Write(ctx, []byte("data: a\n\n")); err != nil || !breaks {
				return err
			}
			return errors.New("broken")
		})
		srv.Start()
		for agent, close := range map[string]bool{"node": false, "undici": false, "Mozilla/5.0": true, "": true} {
			c, err := net.Dial("tcp", srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: "+agent+"\r\n\r\n")
			all, _ := io.ReadAll(c)
			c.Close()
			head, chunks, _ := strings.Cut(string(all), "\r\n\r\n")
			if strings.Contains(head, "Connection: close") != close || strings.Contains(head, "Keep-Alive: timeout=1") == close {
				t.Errorf("%q gets %s", agent, head)
			}
			if end := map[bool]string{false: "\r\n0\r\n\r\n", true: "\r\nbroken\r\n"}[breaks]; !strings.HasSuffix(chunks, end) {
				t.Errorf("%q: the body ends with %q", agent, chunks)
			}
		}
	}
}

func TestPeerGoneEndsStream(t *testing.T) {
	cause := make(chan error, 1)
	srv, conns := streamServer(t, SSEOptions{}, func(ctx context.Context, s *Stream) error {
		if err := s.Flush(ctx); err != nil {
			return err
		}
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return context.Cause(ctx)
	})
	srv.Start()
	ctx, cancel := context.WithCancel(context.Background())
	req, _ := http.NewRequestWithContext(ctx, "GET", srv.URL, nil)
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if n := conns.Len(); n != 1 {
		t.Errorf("%d connections are known, want 1", n)
	}
	cancel()
	resp.Body.Close()
	if err := <-cause; err != ErrPeerGone {
		t.Errorf("the context ended with %v", err)
	}
}

func TestStreamsCanWriteAtShutdown(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		srv, conns := streamServer(t, SSEOptions{}, func(ctx context.Context, s *Stream) error {
			if err := s.Flush(ctx); err != nil {
				return err
			}
			<-ctx.Done()
			if context.Cause(ctx) != ErrShutdown {
				return context.Cause(ctx)
			}
			if err := s.Write(ctx, []byte("data: refused\n\n")); err == nil {
				t.Error("a write with an ended context went through")
			}
			return s.Write(context.WithoutCancel(ctx), []byte("data: bye\n\n"))
		})
		srv.EnableHTTP2 = h2
		srv.StartTLS()
		resp, err := srv.Client().Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		if err := conns.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != "data: bye\n\n" || err != nil {
			t.Errorf("http2 %v: got %q, %v", h2, body, err)
		}
		select {
		case <-conns.Closing():
		default:
			t.Error("Closing is still open")
		}
		resp, err = srv.Client().Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable || strings.Contains(resp.Header.Get("Content-Type"), "event-stream") {
			t.Errorf("after the shutdown: %s, %s", resp.Status, resp.Header.Get("Content-Type"))
		}
	}
}

func TestShutdownClosesStreamsThatDoNotEnd(t *testing.T) {
	release := make(chan struct{})
	srv, conns := streamServer(t, SSEOptions{}, func(ctx context.Context, s *Stream) error {
		if err := s.Flush(ctx); err != nil {
			return err
		}
		for { // writes on, whatever happens, to a client that does not read
			if err := s.Write(context.Background(), make([]byte, 1<<20)); err != nil {
				close(release)
				return err
			}
		}
	})
	srv.Start()
	resp, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := conns.Shutdown(ctx); err == nil || !strings.Contains(err.Error(), "1 connections were closed by force") {
		t.Errorf("Shutdown = %v", err)
	}
	<-release
}

func TestSlowReaderIsDisconnected(t *testing.T) {
	failed := make(chan error, 1)
	srv, _ := streamServer(t, SSEOptions{WriteTimeout: 50 * time.Millisecond}, func(ctx context.Context, s *Stream) error {
		for {
			if err := s.Write(ctx, make([]byte, 1<<20)); err != nil {
				failed <- err
				return err
			}
		}
	})
	srv.Start()
	// On a busy machine the time may be over before anything has come.
	if resp, err := srv.Client().Get(srv.URL); err == nil {
		defer resp.Body.Close()
	}
	var timeout net.Error
	if err := <-failed; !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("the write failed with %v", err)
	}
}

func TestStreamClientThatSendsDataIsDisconnected(t *testing.T) {
	cause := make(chan error, 1)
	srv, _ := streamServer(t, SSEOptions{}, func(ctx context.Context, s *Stream) error {
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil
	})
	srv.Start()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	c.Write(make([]byte, 3*maxPeerBytes))
	if err := <-cause; err == nil || err == ErrPeerGone {
		t.Errorf("cause %v", err)
	}
}

func TestPanicEndsOneStreamOnly(t *testing.T) {
	told := make(chan any, 1)
	srv, conns := streamServer(t, SSEOptions{}, func(ctx context.Context, s *Stream) error {
		if err := s.Flush(ctx); err != nil {
			return err
		}
		panic("boom")
	})
	conns.Panicked = func(v any, _ []byte) { told <- v }
	srv.Start()
	resp, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream looks properly ended")
	}
	if v := <-told; v != "boom" {
		t.Errorf("told about %v", v)
	}
}

func TestSharedCompressedStream(t *testing.T) {
	text := func(i int) []byte {
		return bytes.Repeat(AppendSSE(nil, "event", "1", []byte(strings.Repeat("hello parley ", i))), 30)
	}
	var blocks []Block
	var want []byte
	for i := range 10 {
		blocks = append(blocks, CompressBlock(nil, text(i)))
	}
	fn := func(ctx context.Context, s *Stream) error {
		if !s.Compressed() {
			return errors.New("not compressed")
		}
		if err := s.Write(ctx, []byte("data: hello\n\n")); err != nil {
			return err
		}
		if err := s.WriteBlocks(ctx, blocks[:3]...); err != nil {
			return err
		}
		for _, b := range blocks[3:] {
			if err := s.WriteBlocks(ctx, b); err != nil {
				return err
			}
		}
		return s.Write(ctx, make([]byte, 3*maxStored))
	}
	want = append(want, "data: hello\n\n"...)
	for i := range 10 {
		want = append(want, text(i)...)
	}
	want = append(want, make([]byte, 3*maxStored)...)
	for _, h2 := range []bool{false, true} {
		srv, _ := streamServer(t, SSEOptions{Gzip: true}, fn)
		srv.EnableHTTP2 = h2
		srv.StartTLS()
		req, _ := http.NewRequest("GET", srv.URL, nil)
		req.Header.Set("Accept-Encoding", "gzip")
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if e := resp.Header.Get("Content-Encoding"); e != "gzip" {
			t.Fatalf("Content-Encoding %q", e)
		}
		z, err := gzip.NewReader(bufio.NewReader(resp.Body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(z) // checks the trailer
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("http2 %v: got %d bytes, want %d, %v", h2, len(got), len(want), err)
		}
		resp.Body.Close()
	}
}

func TestCompressedStreamArrivesAtOnce(t *testing.T) {
	next := make(chan struct{})
	srv, _ := streamServer(t, SSEOptions{Gzip: true}, func(ctx context.Context, s *Stream) error {
		for i := range 3 {
			if err := s.WriteBlocks(ctx, CompressBlock(nil, AppendSSE(nil, "", "", []byte{byte('a' + i)}))); err != nil {
				return err
			}
			<-next
		}
		return nil
	})
	srv.Start()
	resp, err := srv.Client().Get(srv.URL) // decompresses by itself
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	buf := make([]byte, 9)
	for _, want := range []string{"data: a\n\n", "data: b\n\n", "data: c\n\n"} {
		if _, err := io.ReadFull(resp.Body, buf); err != nil || string(buf) != want[:9] {
			t.Fatalf("got %q, %v", buf, err)
		}
		next <- struct{}{}
	}
	if _, err := resp.Body.Read(buf); err != io.EOF {
		t.Errorf("end: %v", err)
	}
}

func TestBlocksNeedACompressedStream(t *testing.T) {
	srv, _ := streamServer(t, SSEOptions{}, func(ctx context.Context, s *Stream) error {
		if s.WriteBlocks(ctx, CompressBlock(nil, []byte("x"))) == nil {
			t.Error("blocks went out on a plain stream")
		}
		return nil
	})
	srv.Start()
	resp, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}
