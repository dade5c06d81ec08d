package wire

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/gobwas/ws"
)

// wsServer runs fn on every connection; results gets what fn returned.
func wsServer(t *testing.T, opt WSOptions, fn func(context.Context, *Conn) error) (srv *httptest.Server, conns *Conns, results chan error) {
	t.Helper()
	conns, results = &Conns{}, make(chan error, 64)
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := ServeWS(w, r, opt, conns, func(ctx context.Context, c *Conn) error {
			err := fn(ctx, c)
			results <- err
			return err
		})
		var bad *HandshakeError
		if errors.As(err, &bad) {
			http.Error(w, bad.Reason, bad.Status)
		} else if err != nil {
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
	return srv, conns, results
}

// echo sends every message back until the connection ends.
func echo(ctx context.Context, c *Conn) error {
	for {
		msg, err := c.Read(ctx)
		if err != nil {
			return err
		}
		if err := c.WriteText(ctx, msg); err != nil {
			return err
		}
	}
}

func dial(t *testing.T, srv *httptest.Server) *websocket.Conn {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(-1)
	t.Cleanup(func() { c.CloseNow() })
	return c
}

func TestMessagesOfEverySize(t *testing.T) {
	srv, _, results := wsServer(t, WSOptions{}, echo)
	c := dial(t, srv)
	for _, n := range []int{0, 1, 100, 125, 126, 127, 128, 4095, 4096, 4097, 65535, 65536, 100_000, 3 << 20} {
		text := []byte(strings.Repeat("é", n/2) + strings.Repeat("x", n%2))
		if err := c.Write(t.Context(), websocket.MessageText, text); err != nil {
			t.Fatal(err)
		}
		kind, got, err := c.Read(t.Context())
		if err != nil || kind != websocket.MessageText || !bytes.Equal(got, text) {
			t.Fatalf("%d bytes: got %d, %v", n, len(got), err)
		}
	}
	if err := c.Close(websocket.StatusNormalClosure, "done"); err != nil {
		t.Error(err)
	}
	var closed *CloseError
	if err := <-results; !errors.As(err, &closed) || closed.Code != 1000 || closed.Reason != "done" || closed.Ours {
		t.Errorf("the server saw %v", err)
	}
}

func TestFragmentsWithPingsBetween(t *testing.T) {
	srv, _, _ := wsServer(t, WSOptions{}, echo)
	c := dial(t, srv)
	w, err := c.Writer(t.Context(), websocket.MessageText) // each Write is a fragment
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan string, 1)
	go func() {
		_, b, _ := c.Read(ctx)
		got <- string(b)
	}()
	var want strings.Builder
	for i := range 50 {
		part := fmt.Sprint(i, strings.Repeat("é", i*100))
		want.WriteString(part)
		io.WriteString(w, part)
		if i%10 == 0 {
			if err := c.Ping(ctx); err != nil { // waits for the pong
				t.Fatal(err)
			}
		}
	}
	w.Close()
	if s := <-got; s != want.String() {
		t.Errorf("got %d bytes, want %d", len(s), want.Len())
	}
	cancel()
}

func TestSharedFramesInOneWriteAndPong(t *testing.T) {
	var batch []byte
	for i := range 100 {
		batch = AppendTextFrame(batch, []byte(fmt.Sprint("message ", i)))
	}
	batch = AppendTextFrame(batch, bytes.Repeat([]byte("x"), 70_000))
	batch = AppendPingFrame(batch, []byte("at 100"))
	arrived := make(chan string, 1)
	srv, _, _ := wsServer(t, WSOptions{}, func(ctx context.Context, c *Conn) error {
		c.OnPong(func(p []byte) { arrived <- string(p) })
		if err := c.Write(ctx, batch); err != nil {
			return err
		}
		_, err := c.Read(ctx)
		return err
	})
	for range 3 {
		c := dial(t, srv)
		for i := range 100 {
			_, got, err := c.Read(t.Context())
			if err != nil || string(got) != fmt.Sprint("message ", i) {
				t.Fatalf("got %q, %v", got, err)
			}
		}
		if _, got, err := c.Read(t.Context()); err != nil || len(got) != 70_000 {
			t.Fatalf("got %d bytes, %v", len(got), err)
		}
		c.CloseRead(t.Context()) // answers the ping
		if p := <-arrived; p != "at 100" {
			t.Errorf("pong %q", p)
		}
	}
}

// raw connects and shakes hands by hand.
func raw(t *testing.T, srv *httptest.Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	d := ws.Dialer{NetDial: func(context.Context, string, string) (net.Conn, error) { return c, nil }}
	if _, _, err := d.Upgrade(c, must(t, "ws://"+srv.Listener.Addr().String())); err != nil {
		t.Fatal(err)
	}
	return c
}

// frame makes a client's frame.
func frame(head byte, masked bool, payload []byte) []byte {
	out := appendFrameHead(nil, 0, len(payload))
	out[0] = head
	if masked {
		out[1] |= 0x80
		mask := [4]byte{1, 2, 3, 4}
		out = append(out, mask[:]...)
		payload = bytes.Clone(payload)
		ws.Cipher(payload, mask, 0)
	}
	return append(out, payload...)
}

func TestBadFramesAreRefusedWithTheRightCode(t *testing.T) {
	code := func(c uint16, reason string) []byte { return append(binary.BigEndian.AppendUint16(nil, c), reason...) }
	srv, _, results := wsServer(t, WSOptions{MaxMessage: 1000}, echo)
	for _, c := range []struct {
		name string
		send []byte
		want int
	}{
		{"unmasked", frame(0x81, false, []byte("hi")), 1002},
		{"reserved bits", frame(0xc1, true, []byte("hi")), 1002},
		{"reserved opcode", frame(0x83, true, nil), 1002},
		{"continuation of nothing", frame(0x80, true, []byte("x")), 1002},
		{"new message inside another", append(frame(0x01, true, []byte("a")), frame(0x81, true, []byte("b"))...), 1002},
		{"fragmented ping", frame(0x09, true, nil), 1002},
		{"long ping", frame(0x89, true, make([]byte, 126)), 1002},
		{"binary", frame(0x82, true, []byte("x")), 1003},
		{"bad text", frame(0x81, true, []byte("a\xff")), 1007},
		{"cut character", frame(0x81, true, []byte("a\xc3")), 1007},
		{"too big", frame(0x81, true, make([]byte, 1001)), 1009},
		{"too big in parts", append(frame(0x01, true, make([]byte, 600)), frame(0x80, true, make([]byte, 600))...), 1009},
		{"announces 2^63", []byte{0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, 1009},
		{"close with one byte", frame(0x88, true, []byte{3}), 1002},
		{"close with 1005", frame(0x88, true, code(1005, "")), 1002},
		{"close with bad text", frame(0x88, true, code(1000, "\xff")), 1002},
		{"close 1001", frame(0x88, true, code(1001, "bye")), 1001},
		{"close 4000", frame(0x88, true, code(4000, "mine")), 4000},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := raw(t, srv)
			conn.Write(c.send)
			f, err := ws.ReadFrame(conn)
			if err != nil {
				t.Fatal(err)
			}
			got, reason := ws.ParseCloseFrameData(f.Payload)
			if f.Header.OpCode != ws.OpClose || int(got) != c.want {
				t.Errorf("got %v %d %q, want a close with %d", f.Header.OpCode, got, reason, c.want)
			}
			conn.(*net.TCPConn).CloseWrite()
			if rest, err := io.ReadAll(conn); len(rest) > 0 || err != nil {
				t.Errorf("after the close: %q, %v", rest, err)
			}
			var closed *CloseError
			if err := <-results; !errors.As(err, &closed) || closed.Code != c.want {
				t.Errorf("fn saw %v", err)
			}
		})
	}
}

func TestEmptyCloseIsAnsweredEmpty(t *testing.T) {
	srv, _, _ := wsServer(t, WSOptions{}, echo)
	conn := raw(t, srv)
	conn.Write(frame(0x88, true, nil))
	if all, err := io.ReadAll(conn); !bytes.Equal(all, []byte{0x88, 0}) || err != nil {
		t.Errorf("got %x, %v", all, err)
	}
}

func TestFramesSentWithTheHandshake(t *testing.T) {
	srv, _, _ := wsServer(t, WSOptions{}, echo)
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	conn.Write(append([]byte(head), append(frame(0x81, true, []byte("early")), frame(0x88, true, nil)...)...))
	all, _ := io.ReadAll(conn)
	want := append(AppendTextFrame(nil, []byte("early")), 0x88, 0)
	if !bytes.HasSuffix(all, want) || !bytes.Contains(all, []byte("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")) {
		t.Errorf("got %q", all)
	}
}

func TestBinaryWhereItIsAllowed(t *testing.T) {
	srv, _, _ := wsServer(t, WSOptions{Binary: true}, echo)
	c := dial(t, srv)
	c.Write(t.Context(), websocket.MessageBinary, []byte("abc"))
	if _, got, err := c.Read(t.Context()); string(got) != "abc" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestCloseCodes(t *testing.T) {
	for name, c := range map[string]struct {
		fn   func(context.Context, *Conn) error
		want websocket.StatusCode
	}{
		"nil":       {func(context.Context, *Conn) error { return nil }, 1000},
		"error":     {func(context.Context, *Conn) error { return errors.New("secret") }, 1011},
		"CloseWith": {func(_ context.Context, c *Conn) error { return c.CloseWith(4001, strings.Repeat("é", 100)) }, 4001},
	} {
		t.Run(name, func(t *testing.T) {
			srv, _, _ := wsServer(t, WSOptions{}, c.fn)
			_, _, err := dial(t, srv).Read(t.Context())
			var closed websocket.CloseError
			if !errors.As(err, &closed) || closed.Code != c.want || strings.Contains(closed.Reason, "secret") {
				t.Errorf("the client saw %v", err)
			}
		})
	}
}

func TestShutdownWakesReaders(t *testing.T) {
	srv, conns, results := wsServer(t, WSOptions{}, echo)
	c := dial(t, srv)
	c.Write(t.Context(), websocket.MessageText, []byte("x"))
	if _, _, err := c.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := make(chan error, 1)
	go func() {
		_, _, err := c.Read(t.Context())
		seen <- err
	}()
	if err := conns.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-seen; websocket.CloseStatus(err) != 1001 {
		t.Errorf("the client saw %v", err)
	}
	if err := <-results; err != ErrShutdown {
		t.Errorf("Read returned %v", err)
	}
}

func TestReadEndsWithAContextOfItsOwn(t *testing.T) {
	srv, _, results := wsServer(t, WSOptions{}, func(ctx context.Context, c *Conn) error {
		mine, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		_, err := c.Read(mine)
		return err
	})
	dial(t, srv)
	if err := <-results; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Read returned %v", err)
	}
}

func TestPeerGoneEndsTheContext(t *testing.T) {
	srv, _, results := wsServer(t, WSOptions{}, func(ctx context.Context, c *Conn) error {
		_, err := c.Read(ctx)
		<-ctx.Done() // a writer would wait here
		return errors.Join(err, c.Write(ctx, AppendTextFrame(nil, nil)))
	})
	raw(t, srv).Close()
	if err := <-results; !errors.Is(err, ErrPeerGone) {
		t.Errorf("got %v", err)
	}
}

func TestBadHandshakesAreRefused(t *testing.T) {
	srv, _, _ := wsServer(t, WSOptions{}, echo)
	good := map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
	for name, c := range map[string]struct {
		method, header, value string
		want                  int
	}{
		"plain":   {"GET", "Upgrade", "", 426},
		"POST":    {"POST", "", "", 405},
		"version": {"GET", "Sec-WebSocket-Version", "8", 400},
		"key":     {"GET", "Sec-WebSocket-Key", "short", 400},
	} {
		req, _ := http.NewRequest(c.method, srv.URL, nil)
		for k, v := range good {
			req.Header.Set(k, v)
		}
		if c.header != "" {
			req.Header.Set(c.header, c.value)
		}
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s: %s, want %d", name, resp.Status, c.want)
		}
	}
}

func TestManyWritersDoNotMixFrames(t *testing.T) {
	const writers, each = 8, 50
	srv, _, _ := wsServer(t, WSOptions{}, func(ctx context.Context, c *Conn) error {
		done := make(chan error, writers)
		for range writers {
			go func() {
				var err error
				for range each {
					if err = c.WriteText(ctx, []byte(strings.Repeat(rand.Text(), 100))); err != nil {
						break
					}
				}
				done <- err
			}()
		}
		var err error
		for range writers {
			err = errors.Join(err, <-done)
		}
		return err
	})
	c := dial(t, srv)
	for range writers * each {
		_, got, err := c.Read(t.Context())
		if err != nil || len(got) != 2600 || !bytes.Equal(got[:26], got[26:52]) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
}

// Who sends too much learns why: closing while bytes are unread would reset the
// connection, and take the close frame along. It is more than fits any buffer
// between the two.
func TestFarTooBigIsReadToItsEnd(t *testing.T) {
	const limit = 8 << 20
	srv, _, results := wsServer(t, WSOptions{MaxMessage: limit}, echo)
	conn := raw(t, srv)
	if _, err := conn.Write(frame(0x81, true, make([]byte, (drainTimes-1)*limit))); err != nil {
		t.Fatal(err)
	}
	f, err := ws.ReadFrame(conn)
	if err != nil {
		t.Fatal(err)
	}
	if code, _ := ws.ParseCloseFrameData(f.Payload); code != 1009 {
		t.Errorf("closed with %d", code)
	}
	conn.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(conn); len(rest) > 0 || err != nil {
		t.Errorf("after the close: %q, %v", rest, err)
	}
	<-results
}
