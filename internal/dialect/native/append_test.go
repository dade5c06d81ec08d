package native

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/chat"
)

// A client that appends and does not read the answers does not delay the answers of others,
// and gets all of its own when it reads.
func TestClientThatReadsNoAnswersDelaysNobody(t *testing.T) {
	for _, c := range []struct{ frames, size int }{{400, 60 << 10}, {4000, 3 << 10}, {12000, maxAtOnce - 150}} { // more than maxInFlight, and more bytes than the buffers of the kernel
		t.Run(fmt.Sprint(c.size), func(t *testing.T) { testDeafClient(t, c.frames, c.size) })
	}
}

func testDeafClient(t *testing.T, many, size int) {
	w := newTestServer(t, nil)
	w.create("root", `{"id":"deaf","agent":"none"}`)
	w.create("root", `{"id":"other","agent":"none"}`)
	deaf, other := w.dial("root", "/parley/v1/ws"), w.dial("root", "/parley/v1/ws")
	defer deaf.CloseNow()
	defer other.CloseNow()
	deaf.SetReadLimit(-1)
	text := strings.Repeat("x", size)
	written := make(chan error, 1)
	go func() {
		for i := range many {
			more, text := "", text
			switch i % 10 {
			case 4:
				text = "" // refused: a message has text
			case 9:
				more = `"after_sequence":1,` // refused: there are other events
			}
			frame := fmt.Appendf(nil, `{"op":"append","id":%d,"session_id":"deaf","events":[{"type":"user.message",%s"payload":{"text":%q}}]}`, i, more, text)
			if err := deaf.Write(t.Context(), websocket.MessageText, frame); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	for i := range 100 {
		text, op := "hello", "ok"
		if i%10 == 4 {
			text, op = "", "error"
		}
		frame := fmt.Appendf(nil, `{"op":"append","id":%d,"session_id":"other","events":[{"type":"user.message","payload":{"text":%q}}]}`, i, text)
		if err := other.Write(t.Context(), websocket.MessageText, frame); err != nil {
			t.Fatal(err)
		}
		got := w.readFrame(other)
		for strings.HasPrefix(got, `{"op":"ping"`) {
			got = w.readFrame(other)
		}
		if !strings.HasPrefix(got, fmt.Sprintf(`{"op":%q,"id":%d,`, op, i)) {
			t.Fatalf("answer %d: %s", i, got)
		}
	}
	seen := map[int]bool{}
	for len(seen) < many {
		var id int
		var op string
		got := w.readFrame(deaf)
		if strings.HasPrefix(got, `{"op":"ping"`) {
			continue // on a slow machine
		}
		_, err := fmt.Sscanf(got, `{"op":%q,"id":%d,`, &op, &id)
		if err != nil || seen[id] || op == "error" != (id%5 == 4) {
			t.Fatalf("%v: %.200s", err, got)
		}
		seen[id] = true
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// atOnce is a session layer that counts the appends which the goroutine of all sockets handles.
type atOnce struct {
	sessions
	frames *atomic.Int64
}

func (a atOnce) AppendsAtOnce(c chat.Caller, id chat.SessionID, drafts []chat.Draft) bool {
	a.frames.Add(1)
	return a.sessions.AppendsAtOnce(c, id, drafts)
}

// Only small appends are handled by the goroutine that reads all sockets.
func TestLargeAppendsDelayNobody(t *testing.T) {
	var frames atomic.Int64
	w := newTestServer(t, func(o *Options) { o.Sessions = atOnce{o.Sessions, &frames} })
	w.create("root", `{"id":"s","agent":"none"}`)
	c := w.dial("root", "/parley/v1/ws")
	defer c.CloseNow()
	for _, drafts := range []int{1, 70, 1} { // of one frame
		frame := `{"op":"append","id":1,"session_id":"s","events":[` + strings.Repeat(say("x")+",", drafts-1) + say("x") + `]}`
		for range 20 { // the first messages of a socket may be read without that goroutine
			if err := c.Write(t.Context(), websocket.MessageText, []byte(frame)); err != nil {
				t.Fatal(err)
			}
			if got := w.readFrame(c); !strings.HasPrefix(got, `{"op":"ok"`) {
				t.Fatal(got)
			}
		}
		if n := frames.Swap(0); n > 0 != (drafts == 1) {
			t.Errorf("%d frames with %d drafts were handled at once", n, drafts)
		}
	}
}
