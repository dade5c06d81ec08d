// Test support: a NeMo client for the cross-dialect tests.

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/internal/dialecttest"
	"github.com/parley-hq/parley/internal/sleep"
)

// nemoClient is a NeMo client on a WebSocket. It reconnects with the
// conversation's id; the protocol has no cursor.
type nemoClient struct {
	mu        sync.Mutex
	conn      *websocket.Conn
	frames    []nemoFrame
	faults    []string
	changed   chan struct{}
	sent      int
	confirmed []nemoConfirmed
}

type nemoFrame struct {
	dialecttest.NemoFrame
	connection int // the number of the connection on which it arrived
}

// connectNemo opens a socket and reads until the test ends.
func (s *sharedSession) connectNemo(t *testing.T) *nemoClient {
	t.Helper()
	n := &nemoClient{changed: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	ready := make(chan struct{})
	done := make(chan struct{})
	address := "ws://" + s.addr + "/websocket?conversation_id=" + s.id
	go func() {
		defer close(done)
		n.run(ctx, address, ready)
	}()
	t.Cleanup(func() {
		stop()
		<-done
		for _, f := range n.faults {
			t.Errorf("nemo: %s", f)
		}
	})
	select {
	case <-ready:
	case <-time.After(30 * time.Second):
		t.Fatal("no WebSocket")
	}
	return n
}

func (n *nemoClient) run(ctx context.Context, url string, ready chan struct{}) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for connection := 0; ctx.Err() == nil; {
		conn, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: client})
		if err != nil {
			sleep.For(ctx, 20*time.Millisecond)
			continue
		}
		conn.SetReadLimit(1 << 24)
		n.mu.Lock()
		n.conn = conn
		n.mu.Unlock()
		if connection++; connection == 1 {
			close(ready)
		}
		for {
			_, b, err := conn.Read(ctx)
			if err != nil {
				break
			}
			n.frame(b, connection)
		}
		conn.CloseNow()
	}
}

func (n *nemoClient) frame(b []byte, connection int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := nemoFrame{connection: connection}
	if err := json.Unmarshal(b, &f); err != nil {
		n.faults = append(n.faults, fmt.Sprintf("%v: %s", err, b))
	}
	n.frames = append(n.frames, f)
	close(n.changed)
	n.changed = make(chan struct{})
}

// write sends a frame on the current connection.
func (n *nemoClient) write(t testing.TB, frame string) {
	t.Helper()
	n.mu.Lock()
	conn := n.conn
	n.mu.Unlock()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		t.Fatal(err)
	}
}

func (n *nemoClient) sendMessage(t testing.TB, conversation, text string) {
	t.Helper()
	n.sent++
	n.write(t, dialecttest.NemoMessage(conversation, fmt.Sprint("m-", n.sent), text))
}

func (n *nemoClient) reply(t testing.TB, conversation, parent, text string) {
	t.Helper()
	n.sent++
	n.write(t, dialecttest.NemoAnswer(conversation, fmt.Sprint("a-", n.sent), parent, text))
}

// until waits for a frame that matches and is not among the first from frames.
func (n *nemoClient) until(t testing.TB, from int, match func(nemoFrame) bool) nemoFrame {
	t.Helper()
	return awaitMatch(t, from, n.all, match)
}

func (n *nemoClient) all() ([]nemoFrame, chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.frames, n.changed
}

// count returns the number of frames.
func (n *nemoClient) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.frames)
}

// answers returns the texts of the answers that have ended, in order.
func (n *nemoClient) answers() (list []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	open := map[string]*strings.Builder{}
	for _, f := range n.frames {
		if f.Type != "system_response_message" {
			continue
		}
		if open[f.Parent] == nil {
			open[f.Parent] = &strings.Builder{}
		}
		if f.Content.Text != nil {
			open[f.Parent].WriteString(*f.Content.Text)
		}
		if f.Status == "complete" {
			list = append(list, open[f.Parent].String())
			delete(open, f.Parent)
		}
	}
	return list
}
