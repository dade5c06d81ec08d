package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func (b *Budget) used(client string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.shares[client]; s != nil {
		return s.used
	}
	return 0
}

func TestBodiesOfAClientAreBounded(t *testing.T) {
	b := NewBudget(4 * uncounted)
	read := func(client string, bytes int, known bool) (done func(), err error) {
		var body io.Reader = strings.NewReader(strings.Repeat("x", bytes))
		if !known {
			body = io.MultiReader(body) // its length is not known
		}
		ctx, done := b.Charge(t.Context(), client)
		if got, err := ReadBody(httptest.NewRequest("POST", "/", body).WithContext(ctx), 100*uncounted); err == nil && len(got) != bytes {
			t.Errorf("%d of %d bytes", len(got), bytes)
		} else if err != nil {
			return done, err
		}
		return done, nil
	}
	must := func(client string, bytes int, known bool) (done func()) {
		t.Helper()
		done, err := read(client, bytes, known)
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	first := must("ann", 3*uncounted, true)
	_ = must("bob", 3*uncounted, false)
	_ = must("ann", uncounted, true) // small ones do not count
	if n := b.used("ann"); n != 3*uncounted {
		t.Errorf("%d bytes count", n)
	}
	for _, known := range []bool{true, false} {
		r := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader(strings.Repeat("x", 2*uncounted))))
		if known {
			r.ContentLength = 2 * uncounted
		}
		ctx, done := b.Charge(t.Context(), "ann")
		ctx, cancel := context.WithTimeoutCause(ctx, time.Millisecond, errors.New("it waits"))
		if _, err := ReadBody(r.WithContext(ctx), 100*uncounted); err == nil || err.Error() != "it waits" {
			t.Errorf("a second one, known %t: %v", known, err)
		}
		cancel()
		done()
	}
	time.AfterFunc(time.Millisecond, first)
	must("ann", 3*uncounted, true)()  // after the first one has ended
	must("ann", 50*uncounted, true)() // one that is larger than the budget is served alone
	if n := b.used("ann"); n != 0 || len(b.shares) != 1 {
		t.Errorf("%d bytes are left, %d shares", n, len(b.shares))
	}
}

func TestAnswersOfAClientAreBounded(t *testing.T) {
	b := NewBudget(2 * uncounted)
	if err := b.take(t.Context(), "ann", 0, uncounted, 0); err != nil {
		t.Fatal(err)
	}
	large := make([]byte, 2*uncounted)
	ctx, done := b.Charge(t.Context(), "ann")
	r := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
	for name, write := range map[string]func(http.ResponseWriter) error{
		"a body":      func(w http.ResponseWriter) error { return WriteBody(w, r, 200, large) },
		"gzip blocks": func(w http.ResponseWriter) error { return WriteGzip(w, r, 200, []Block{{Data: large}}) },
	} {
		w := httptest.NewRecorder()
		if err := write(w); !errors.Is(err, ErrBusy) || w.Body.Len() > 0 || w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: %v, %d bytes %v", name, err, w.Body.Len(), w.Header())
		}
	}
	b.give("ann", uncounted)
	if err := WriteBody(httptest.NewRecorder(), r, 200, large); err != nil {
		t.Error(err)
	}
	done()
}

// An answer that repeats its request, with a little around it, is sent although the client has no room left.
func TestAnswersThatRepeatTheirRequestAreSent(t *testing.T) {
	b := NewBudget(4 * uncounted)
	for range 2 {
		r := httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", 2*uncounted)))
		ctx, done := b.Charge(t.Context(), "ann")
		defer done()
		r = r.WithContext(ctx)
		body, err := ReadBody(r, 100*uncounted)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		if err := WriteBody(w, r, 200, append(body, "more"...)); err != nil || w.Body.Len() != 2*uncounted+4 {
			t.Errorf("%v, %d bytes", err, w.Body.Len())
		}
	}
}

// While messages of a client fill its budget, a WebSocket of the client is not read. Messages count until the next one is read, or
// until the reader lets go of them.
func TestMessagesOfAClientAreBounded(t *testing.T) {
	b := NewBudget(4 * uncounted)
	got, next, release := make(chan int), make(chan struct{}), make(chan func(), 1)
	conns := &Conns{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, done := b.Charge(r.Context(), "ann")
		defer done()
		err := ServeWS(w, r.WithContext(ctx), WSOptions{}, conns, func(ctx context.Context, c *Conn) error {
			for {
				msg, err := c.Read(ctx)
				if err != nil {
					return err
				}
				if r.URL.Path == "/holds" {
					release <- c.Hold()
				}
				got <- len(msg)
				<-next
			}
		})
		if err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	send := func(path string, bytes int) *websocket.Conn {
		c, _, err := websocket.Dial(t.Context(), srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.CloseNow() })
		go func() { _ = c.Write(t.Context(), websocket.MessageText, []byte(strings.Repeat("x", bytes))) }() // got says whether it arrives
		return c
	}
	send("/holds", 3*uncounted)
	<-got
	send("/", 2*uncounted)
	send("/", uncounted)
	if n := <-got; n != uncounted { // the larger one waits
		t.Fatal(n)
	}
	next <- struct{}{}
	next <- struct{}{} // the reader of the first message goes on, which still counts
	if n := b.used("ann"); n != 3*uncounted {
		t.Fatalf("%d bytes count", n)
	}
	(<-release)()
	if n := <-got; n != 2*uncounted {
		t.Fatal(n)
	}
	next <- struct{}{}
	if err := conns.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.used("ann"); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// Two messages in fragments do not wait for each other. A message counts as what it has when it is whole.
func TestFragmentsDoNotWaitForEachOther(t *testing.T) {
	b := NewBudget(4 * uncounted)
	got, counts := make(chan int), make(chan int64, 2)
	conns := &Conns{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, done := b.Charge(r.Context(), "ann")
		defer done()
		err := ServeWS(w, r.WithContext(ctx), WSOptions{MaxMessage: 4 * uncounted}, conns, func(ctx context.Context, c *Conn) error {
			for {
				msg, err := c.Read(ctx)
				if err != nil {
					return err
				}
				counts <- b.used("ann")
				got <- len(msg)
			}
		})
		if err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	fragment := strings.Repeat("x", 3*uncounted/2)
	var ends []io.Closer
	for range 2 {
		c, _, err := websocket.Dial(t.Context(), srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.CloseNow() })
		w, err := c.Writer(t.Context(), websocket.MessageText)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, fragment); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, w)
	}
	for _, w := range ends { // after both have begun
		if _, err := io.WriteString(w.(io.Writer), fragment); err != nil {
			t.Fatal(err)
		}
		go func() { _ = w.Close() }() // got says whether the message arrives
	}
	for range 2 {
		if n := <-got; n != 2*len(fragment) {
			t.Errorf("%d bytes", n)
		}
	}
	if n := <-counts; n != 3*uncounted {
		t.Errorf("the first message counts as %d bytes", n)
	}
	if err := conns.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.used("ann"); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// A connection that waits for room ends when its client has disconnected, although the others give nothing back.
func TestAClientThatWaitsForRoomDisconnects(t *testing.T) {
	b := NewBudget(4 * uncounted)
	if err := b.take(t.Context(), "ann", 0, 4*uncounted, 0); err != nil {
		t.Fatal(err)
	}
	conns, ended := &Conns{}, make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, done := b.Charge(r.Context(), "ann")
		defer done()
		err := ServeMessages(w, r.WithContext(ctx), WSOptions{}, conns, func(context.Context, *Conn) Receiver {
			return &receiver{receive: func(context.Context, []byte) { t.Error("there was room") }, ended: ended}
		})
		if err != nil {
			t.Error(err)
		}
	}))
	defer srv.Close()
	c := raw(t, srv)
	if _, err := c.Write(frame(0x81, true, make([]byte, 2*uncounted))[:100]); err != nil {
		t.Fatal(err)
	}
	waits := func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.shares["ann"].freed != nil
	}
	for end := time.Now().Add(time.Minute); !waits(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the connection does not wait for room")
		}
	}
	c.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, ErrPeerGone) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the connection still waits")
	}
	if err := conns.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	b.give("ann", 4*uncounted)
	if len(b.shares) > 0 {
		t.Error("something is counted")
	}
}
