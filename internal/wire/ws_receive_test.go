package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// receiver is a Receiver of functions. Without try, TryReceive leaves everything to receive.
type receiver struct {
	receive func(ctx context.Context, msg []byte)
	try     func(ctx context.Context, msg []byte) (func(), bool)
	ended   chan error
}

func (r *receiver) Receive(ctx context.Context, msg []byte) { r.receive(ctx, msg) }

func (r *receiver) TryReceive(ctx context.Context, msg []byte) (func(), bool) {
	if r.try == nil {
		return nil, false
	}
	return r.try(ctx, msg)
}

func (r *receiver) End(_ context.Context, err error) error {
	r.ended <- err
	return err
}

// receiverServer serves connections with the receivers that open returns. Each connection
// must end once; ended gets the errors.
func receiverServer(t *testing.T, secure bool, opt WSOptions, open func(*Conn) *receiver) (srv *httptest.Server, conns *Conns, ended chan error) {
	t.Helper()
	conns, ended = &Conns{}, make(chan error, 1000)
	var opened atomic.Int64
	srv = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := ServeMessages(w, r, opt, conns, func(_ context.Context, c *Conn) Receiver {
			opened.Add(1)
			m := open(c)
			m.ended = ended
			return m
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}))
	if secure {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := conns.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		srv.Close()
		if cap(ended) < int(opened.Load()) {
			t.Error("the test has too many connections")
		}
	})
	return srv, conns, ended
}

// echoes returns a receiver that sends each message back. With at once it does so without waiting.
func echoes(c *Conn, atOnce bool) *receiver {
	r := &receiver{receive: func(ctx context.Context, msg []byte) { _ = c.WriteText(ctx, msg) }}
	if atOnce {
		r.try = func(ctx context.Context, msg []byte) (func(), bool) {
			return nil, c.TryWrite(ctx, AppendTextFrame(nil, msg))
		}
	}
	return r
}

// eachWay runs a test with receivers that handle messages at once and others, and over TLS.
func eachWay(t *testing.T, test func(t *testing.T, start func(opt WSOptions) *httptest.Server)) {
	for name, way := range map[string]struct{ secure, atOnce bool }{"at once": {false, true}, "later": {}, "TLS": {true, false}} {
		t.Run(name, func(t *testing.T) {
			test(t, func(opt WSOptions) *httptest.Server {
				srv, _, _ := receiverServer(t, way.secure, opt, func(c *Conn) *receiver { return echoes(c, way.atOnce) })
				return srv
			})
		})
	}
}

func dialTrusting(t *testing.T, srv *httptest.Server) *websocket.Conn {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), srv.URL, &websocket.DialOptions{HTTPClient: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(-1)
	t.Cleanup(func() { c.CloseNow() })
	return c
}

func expectText(t *testing.T, c *websocket.Conn, want string) {
	t.Helper()
	if _, got, err := c.Read(t.Context()); err != nil || string(got) != want {
		t.Fatalf("got %.80q of %d bytes, %v; want %.80q", got, len(got), err, want)
	}
}

func TestReceiversGetMessagesOfEverySize(t *testing.T) {
	eachWay(t, func(t *testing.T, start func(WSOptions) *httptest.Server) {
		c := dialTrusting(t, start(WSOptions{}))
		for _, n := range []int{0, 1, 125, 126, 4080, 4088, 4096, 4097, 9000, 65536, 1 << 20, 5} {
			text := strings.Repeat("x", n)
			if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
				t.Fatal(err)
			}
			expectText(t, c, text)
		}
		if err := c.Ping(c.CloseRead(t.Context())); err != nil { // CloseRead reads the pong
			t.Error(err)
		}
	})
}

// Messages that arrive together are handled in their order, by either method.
func TestReceiversGetMessagesInOrder(t *testing.T) {
	const n = 3000
	got := 0
	srv, _, _ := receiverServer(t, false, WSOptions{}, func(c *Conn) *receiver {
		r := echoes(c, true)
		try := r.try
		r.try = func(ctx context.Context, msg []byte) (func(), bool) {
			if got++; got%7 == 0 {
				return nil, false
			}
			return try(ctx, msg)
		}
		return r
	})
	c := dial(t, srv)
	go func() {
		for i := range n {
			if c.Write(t.Context(), websocket.MessageText, fmt.Append(nil, i, strings.Repeat("y", i%400))) != nil {
				return
			}
		}
	}()
	for i := range n {
		expectText(t, c, fmt.Sprint(i, strings.Repeat("y", i%400)))
	}
}

// A frame of which a part has arrived delays neither other connections nor the end.
func TestHalfAFrameDelaysNobody(t *testing.T) {
	srv, _, _ := receiverServer(t, false, WSOptions{}, func(c *Conn) *receiver { return echoes(c, true) })
	slow, other := raw(t, srv), dial(t, srv)
	want := strings.Repeat("slow", 60)
	for i, b := range frame(0x81, true, []byte(want)) {
		if _, err := slow.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
		if i%40 == 0 {
			if err := other.Write(t.Context(), websocket.MessageText, []byte("quick")); err != nil {
				t.Fatal(err)
			}
			expectText(t, other, "quick")
		}
	}
	answer := make([]byte, 4+len(want))
	if _, err := io.ReadFull(slow, answer); err != nil || string(answer[4:]) != want {
		t.Fatalf("got %q, %v", answer, err)
	}
	if _, err := slow.Write(frame(0x81, true, []byte("never whole"))[:9]); err != nil {
		t.Fatal(err)
	} // the shutdown at the end of the test ends it
}

// A client that does not read is disconnected after the time limit of a write. Others notice nothing.
func TestReceiverOfAClientThatNeverReads(t *testing.T) {
	big := bytes.Repeat([]byte("z"), 1<<20)
	srv, _, ended := receiverServer(t, false, WSOptions{WriteTimeout: 300 * time.Millisecond}, func(c *Conn) *receiver {
		r := echoes(c, true)
		try := r.try
		r.receive = func(ctx context.Context, msg []byte) {
			if string(msg) != "big" {
				_ = c.WriteText(ctx, msg)
				return
			}
			for range 64 {
				_ = c.WriteText(ctx, big)
			}
		}
		r.try = func(ctx context.Context, msg []byte) (func(), bool) {
			if string(msg) == "big" {
				return nil, false
			}
			return try(ctx, msg)
		}
		return r
	})
	deaf, other := raw(t, srv), dial(t, srv)
	if _, err := deaf.Write(frame(0x81, true, []byte("big"))); err != nil {
		t.Fatal(err)
	}
	for waiting := true; waiting; {
		if err := other.Write(t.Context(), websocket.MessageText, []byte("quick")); err != nil {
			t.Fatal(err)
		}
		expectText(t, other, "quick")
		select {
		case err := <-ended:
			if err == nil || errors.Is(err, ErrPeerGone) {
				t.Errorf("the connection ended with %v", err)
			}
			waiting = false
		default:
		}
	}
}

// A fault of a client that does not read is answered by another goroutine.
func TestFaultOfAClientThatNeverReadsDelaysNobody(t *testing.T) {
	opened := make(chan *Conn, 2)
	srv, conns, _ := receiverServer(t, false, WSOptions{}, func(c *Conn) *receiver {
		opened <- c
		return echoes(c, true)
	})
	deaf := raw(t, srv)
	c := <-opened
	other := dial(t, srv)
	written := make(chan error, 1)
	go func() { written <- c.WriteText(t.Context(), make([]byte, 64<<20)) }() // more than the buffers of the kernel
	for c.wmu.TryLock() {
		c.wmu.Unlock()
		runtime.Gosched()
	}
	untilParked(t, c)
	if _, err := deaf.Write(frame(0x81, true, []byte{0xff})); err != nil { // not UTF-8
		t.Fatal(err)
	}
	for range 10 {
		if err := other.Write(t.Context(), websocket.MessageText, []byte("quick")); err != nil {
			t.Fatal(err)
		}
		expectText(t, other, "quick")
	}
	go func() { _, _ = io.Copy(io.Discard, deaf) }()
	if err := <-written; err != nil {
		t.Error(err)
	}
	if err := conns.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// Many connections at once are all answered, and each ends once.
func TestManyReceivers(t *testing.T) {
	const clients, each = 200, 30
	var runs, later atomic.Int64
	srv, conns, ended := receiverServer(t, false, WSOptions{}, func(c *Conn) *receiver {
		r := echoes(c, true)
		r.try = func(ctx context.Context, msg []byte) (func(), bool) {
			runs.Add(1)
			answer := AppendTextFrame(nil, msg)
			return func() { later.Add(1); _ = c.Write(ctx, answer) }, true
		}
		return r
	})
	var wg sync.WaitGroup
	for i := range clients {
		c := dial(t, srv)
		wg.Go(func() {
			for n := range each {
				text := fmt.Sprint(i, " ", n)
				if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
					t.Error(err)
					return
				}
				if _, got, err := c.Read(t.Context()); err != nil || string(got) != text {
					t.Errorf("got %q, %v, want %q", got, err, text)
					return
				}
			}
			if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for range clients {
		<-ended
	}
	if runs.Load() == 0 || runs.Load() != later.Load() {
		t.Errorf("%d functions were returned and %d were called", runs.Load(), later.Load())
	}
	if err := conns.Shutdown(t.Context()); err != nil || len(ended) > 0 {
		t.Errorf("%v; %d connections ended twice", err, len(ended))
	}
}

// An idle connection has no goroutine.
func TestIdleReceiversHaveNoGoroutine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Log("the connections have goroutines on this system")
		return
	}
	const clients = 200
	srv, conns, _ := receiverServer(t, false, WSOptions{}, func(c *Conn) *receiver { return echoes(c, true) })
	before := runtime.NumGoroutine()
	for range clients {
		c := raw(t, srv)
		if _, err := c.Write(frame(0x81, true, []byte("hi"))); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
	}
	end := time.Now().Add(20 * time.Second)
	for runtime.NumGoroutine() > before+20 { // goroutines that have just answered are still there
		if time.Now().After(end) {
			t.Fatalf("%d goroutines for %d connections", runtime.NumGoroutine()-before, conns.Len())
		}
		runtime.Gosched()
	}
}

// A client that closes while its message is handled: the message is handled to its end, then the connection ends.
func TestCloseWhileAMessageIsHandled(t *testing.T) {
	for name, atOnce := range map[string]bool{"at once": true, "later": false} {
		for way, leave := range map[string]func(c net.Conn){
			"close frame": func(c net.Conn) { _, _ = c.Write(frame(0x88, true, []byte{3, 0xe8})) },
			"reset":       func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); c.Close() },
		} {
			t.Run(name+", "+way, func(t *testing.T) {
				begun, goOn, handled := make(chan bool), make(chan bool), false
				handle := func() { begun <- true; <-goOn; handled = true }
				srv, _, ended := receiverServer(t, false, WSOptions{}, func(c *Conn) *receiver {
					r := &receiver{receive: func(context.Context, []byte) { handle() }}
					if atOnce {
						r.try = func(context.Context, []byte) (func(), bool) { handle(); return nil, true }
					}
					return r
				})
				c := raw(t, srv)
				if _, err := c.Write(frame(0x81, true, []byte("work"))); err != nil {
					t.Fatal(err)
				}
				<-begun
				leave(c)
				close(goOn)
				var closed *CloseError
				if err := <-ended; !handled || way == "reset" && err != ErrPeerGone || way != "reset" && !errors.As(err, &closed) {
					t.Errorf("handled: %v; ended with %v", handled, err)
				}
			})
		}
	}
}

// untilParked waits until the connection has no goroutine.
func untilParked(t *testing.T, c *Conn) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); runtime.GOOS == "linux" && c.poll.state.Load() != waiting; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("a goroutine reads the connection")
		}
	}
}

// A shutdown ends connections that wait with 1001, and waits for messages that are handled.
func TestShutdownEndsReceivers(t *testing.T) {
	begun, goOn, opened := make(chan bool), make(chan bool), make(chan *Conn, 2)
	srv, conns, ended := receiverServer(t, false, WSOptions{}, func(c *Conn) *receiver {
		opened <- c
		return &receiver{receive: func(_ context.Context, msg []byte) {
			if string(msg) == "work" {
				begun <- true
				<-goOn
			}
			_ = c.WriteText(context.Background(), msg)
		}}
	})
	idle := dial(t, srv)
	idleConn := <-opened
	busy := dial(t, srv)
	for c, text := range map[*websocket.Conn]string{idle: "hi", busy: "work"} {
		if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	expectText(t, idle, "hi")
	<-begun
	untilParked(t, idleConn)
	down := make(chan error)
	go func() { down <- conns.Shutdown(t.Context()) }()
	if _, _, err := idle.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the idle connection got %v", err)
	}
	if err := <-ended; err != ErrShutdown {
		t.Errorf("the idle connection ended with %v", err)
	}
	close(goOn)
	expectText(t, busy, "work")
	if _, _, err := busy.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the busy connection got %v", err)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}

// revoked is the cause of a binding that has ended.
type revoked struct{ error }

func (revoked) CloseFrame() (int, string) { return 4401, "sign in again" }

// A connection that waits ends with what it is bound to.
func TestReceiverEndsWithItsBinding(t *testing.T) {
	bound, revoke := context.WithCancelCause(t.Context())
	conns, ended, opened := &Conns{}, make(chan error, 1), make(chan *Conn, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(Bind(r.Context(), func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			stop := context.AfterFunc(bound, func() { cancel(context.Cause(bound)) })
			return ctx, func() { stop(); cancel(nil) }
		}))
		_ = ServeMessages(w, r, WSOptions{}, conns, func(_ context.Context, c *Conn) Receiver {
			m := echoes(c, true)
			m.ended = ended
			opened <- c
			return m
		})
	}))
	defer srv.Close()
	c := dial(t, srv)
	if err := c.Write(t.Context(), websocket.MessageText, []byte("hi")); err != nil {
		t.Fatal(err)
	}
	expectText(t, c, "hi")
	untilParked(t, <-opened)
	revoke(revoked{errors.New("the token was revoked")})
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != 4401 {
		t.Errorf("the client got %v", err)
	}
	if err := <-ended; Ended(bound) == nil || err != context.Cause(bound) {
		t.Errorf("the connection ended with %v", err)
	}
	if err := conns.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// A panic ends one connection.
func TestPanicOfAReceiverEndsItsConnection(t *testing.T) {
	var faults atomic.Int64
	srv, conns, ended := receiverServer(t, false, WSOptions{}, func(c *Conn) *receiver {
		r := echoes(c, true)
		try := r.try
		r.receive = func(ctx context.Context, msg []byte) {
			if string(msg) == "receive" || string(msg) == "try" {
				panic("in Receive")
			}
			_ = c.WriteText(ctx, msg)
		}
		r.try = func(ctx context.Context, msg []byte) (func(), bool) {
			switch string(msg) {
			case "try":
				panic("in TryReceive")
			case "receive":
				return nil, false
			}
			return try(ctx, msg)
		}
		return r
	})
	conns.Panicked = func(any, []byte) { faults.Add(1) }
	other := dial(t, srv)
	for i, text := range []string{"try", "receive"} {
		c := dial(t, srv)
		if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusInternalError {
			t.Errorf("%s: the client got %v", text, err)
		}
		if err := <-ended; err != errPanicked || faults.Load() != int64(i+1) {
			t.Errorf("%s: ended with %v", text, err)
		}
	}
	if err := other.Write(t.Context(), websocket.MessageText, []byte("still here")); err != nil {
		t.Fatal(err)
	}
	expectText(t, other, "still here")
}

// A connection that stays is read as well as before.
func TestReceiverThatStays(t *testing.T) {
	srv, _, ended := receiverServer(t, false, WSOptions{}, func(c *Conn) *receiver {
		r := echoes(c, false)
		r.receive = func(ctx context.Context, msg []byte) { c.Stay(); _ = c.WriteText(ctx, msg) }
		return r
	})
	c := dial(t, srv)
	for i := range 100 {
		if err := c.Write(t.Context(), websocket.MessageText, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
		expectText(t, c, fmt.Sprint(i))
	}
	c.CloseNow()
	if err := <-ended; err != ErrPeerGone {
		t.Errorf("ended with %v", err)
	}
}

// A client may end the connection right behind its last message. Both arrive together if the
// goroutine that reads is busy, and the end makes no event of its own.
func TestTheEndIsNoticedBehindTheLastMessage(t *testing.T) {
	block, blocked, last := make(chan struct{}), make(chan struct{}), make(chan struct{})
	srv, _, ended := receiverServer(t, false, WSOptions{}, func(c *Conn) *receiver {
		r := echoes(c, true)
		try := r.try
		r.try = func(ctx context.Context, msg []byte) (func(), bool) {
			switch string(msg) {
			case "block":
				close(blocked)
				<-block
			case "last":
				close(last)
			}
			return try(ctx, msg)
		}
		return r
	})
	busy, leaves := dial(t, srv), raw(t, srv)
	for range 2 { // so that the poller waits for both
		if err := busy.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		expectText(t, busy, "hello")
	}
	if err := busy.Write(t.Context(), websocket.MessageText, []byte("block")); err != nil {
		t.Fatal(err)
	}
	<-blocked
	if _, err := leaves.Write(frame(0x81, true, []byte("last"))); err != nil {
		t.Fatal(err)
	}
	if err := leaves.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	close(block)
	<-last
	select {
	case err := <-ended:
		if !errors.Is(err, ErrPeerGone) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the end of the connection was not noticed")
	}
}
