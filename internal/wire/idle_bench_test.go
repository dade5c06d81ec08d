//go:build unix

package wire

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// idleCost opens n readers with sockets that cost this process nothing but a
// descriptor and returns the heap and stack bytes per reader.
func idleCost(tb testing.TB, n int, request string, serve func(http.ResponseWriter, *http.Request, *Conns, func())) (heap, stack float64) {
	conns := &Conns{}
	var open sync.WaitGroup
	open.Add(n)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, conns, open.Done) }))
	defer srv.Close()
	defer func() { // first the streams: the server does not know them
		if err := conns.Shutdown(context.Background()); err != nil {
			tb.Error(err)
		}
	}()
	at := srv.Listener.Addr().(*net.TCPAddr)
	to := &syscall.SockaddrInet4{Port: at.Port, Addr: [4]byte(at.IP.To4())}
	fds := make([]int, 0, n)
	defer func() {
		for _, fd := range fds {
			syscall.Close(fd)
		}
	}()
	before := memory()
	for range n {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		if err != nil {
			tb.Fatal(err)
		}
		fds = append(fds, fd)
		if err := syscall.Connect(fd, to); err != nil {
			tb.Fatal(err)
		}
		if _, err := syscall.Write(fd, []byte(request)); err != nil {
			tb.Fatal(err)
		}
	}
	open.Wait()
	after := memory()
	return float64(after.HeapInuse-before.HeapInuse) / float64(n), float64(after.StackInuse-before.StackInuse) / float64(n)
}

func memory() (m runtime.MemStats) {
	for range 3 { // pools empty after the second, stacks shrink
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m
}

const sseRequest = "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) Test\r\nAccept: text/event-stream\r\nAccept-Language: en\r\n\r\n"

const wsRequest = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

func idleSSE(w http.ResponseWriter, r *http.Request, conns *Conns, open func()) {
	_ = ServeSSE(w, r, SSEOptions{}, conns, func(ctx context.Context, s *Stream) error {
		if err := s.Write(ctx, AppendSSE(nil, "hello", "0", []byte("{}"))); err != nil {
			return err
		}
		open()
		<-ctx.Done()
		return nil
	})
}

func idleWS(w http.ResponseWriter, r *http.Request, conns *Conns, open func()) {
	_ = ServeWS(w, r, WSOptions{}, conns, func(ctx context.Context, c *Conn) error {
		if err := c.WriteText(ctx, []byte("{}")); err != nil {
			return err
		}
		writer := make(chan struct{})
		go func() { // as a dialect would have
			defer close(writer)
			<-ctx.Done()
		}()
		defer func() { <-writer }()
		open()
		_, err := c.Read(ctx)
		return err
	})
}

func BenchmarkIdleSSE(b *testing.B) { benchmarkIdle(b, sseRequest, idleSSE) }

func BenchmarkIdleWS(b *testing.B) { benchmarkIdle(b, wsRequest, idleWS) }

func benchmarkIdle(b *testing.B, request string, serve func(http.ResponseWriter, *http.Request, *Conns, func())) {
	for b.Loop() {
		heap, stack := idleCost(b, 2000, request, serve)
		b.ReportMetric(heap, "heap-B/reader")
		b.ReportMetric(stack, "stack-B/reader")
	}
}
