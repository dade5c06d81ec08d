package nemo

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/wire"
)

func authMessage(name string) string {
	return fmt.Sprintf(`{"type":"auth_message","payload":{"method":"api_key","token":%q}}`, servertest.TokenOf(name))
}

// An unauthenticated client can send small frames only; later the usual limit holds.
func TestFramesBeforeAuthenticationAreSmall(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{secured: true})
	long := strings.Repeat("x", 100<<10)
	c := w.dial("")
	c.say("c1", "m1", long)
	if _, err := c.tryNext(30 * time.Second); websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
		t.Errorf("a frame of 100 KiB without a token: %v", err)
	}
	c = w.dial("")
	c.send(authMessage("alice"))
	if f := c.next(); f.Status != "success" {
		t.Fatalf("alice: %s", f.raw)
	}
	c.say("c1", "m1", "/echo "+long)
	c.readTurn()
	header := w.dial("", "X-API-Key", servertest.TokenOf("alice"))
	header.say("c2", "m1", "/echo "+long)
	header.readTurn()
}

// A socket without authentication is closed; an authenticated one stays open.
func TestAuthenticationHasADeadline(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{secured: true, change: func(o *Options) { o.AuthTimeout = 3 * time.Second }})
	known := w.dial("")
	known.send(authMessage("alice"))
	if f := known.next(); f.Status != "success" {
		t.Fatalf("alice: %s", f.raw)
	}
	silent := w.dial("")
	if _, err := silent.tryNext(30 * time.Second); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("a silent client: %v", err)
	}
	known.say("c1", "m1", "hi") // its time would have been over before that of the silent one
	if got := textOf(known.readTurn()); got != "You said: hi" {
		t.Errorf("alice: %q", got)
	}
}

// Messages count for who authenticated on the socket: one person does not use up what others at the same address may send.
func TestMessagesCountForTheCallerOfTheSocket(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{secured: true})
	long := strings.Repeat("x", 100<<10)
	for range 4 { // each of them counts as the largest message; together they are the limit of one client
		c := w.dial("")
		c.send(authMessage("alice"))
		if f := c.next(); f.Status != "success" {
			t.Fatalf("alice: %s", f.raw)
		}
		unfinished, err := c.conn.Writer(t.Context(), websocket.MessageText)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(unfinished, long); err != nil {
			t.Fatal(err)
		}
	}
	c := w.dial("")
	c.send(authMessage("bob"))
	if f := c.next(); f.Status != "success" {
		t.Fatalf("bob: %s", f.raw)
	}
	c.say("c1", "m1", "/echo "+long)
	c.readTurn()
}

func TestUnauthenticatedSocketsAreBounded(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{secured: true})
	var open []*client
	for range wire.MaxUnauthenticated {
		open = append(open, w.dial(""))
	}
	dial := func() (int, error) {
		conn, res, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(w.HTTP.URL, "http")+"/websocket", nil)
		if err == nil {
			conn.CloseNow()
		}
		if res == nil {
			return 0, err
		}
		if err != nil && res.Header.Get("Retry-After") == "" {
			t.Errorf("no Retry-After: %v", res.Header)
		}
		return res.StatusCode, err
	}
	if code, err := dial(); code != http.StatusTooManyRequests {
		t.Errorf("socket %d without a token: %d, %v", wire.MaxUnauthenticated+1, code, err)
	}
	w.dial("", "X-API-Key", servertest.TokenOf("alice")) // those with a token are not meant
	open[0].send(authMessage("alice"))                   // and who authenticates makes room
	if f := open[0].next(); f.Status != "success" {
		t.Fatalf("alice: %s", f.raw)
	}
	if code, err := dial(); err != nil {
		t.Errorf("there is room again: %d, %v", code, err)
	}
}
