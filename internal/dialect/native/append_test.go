package native

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// A client that appends and does not read the answers does not delay the answers of others,
// and gets all of its own when it reads.
func TestClientThatReadsNoAnswersDelaysNobody(t *testing.T) {
	for _, c := range []struct{ frames, size int }{{400, 60 << 10}, {4000, 3 << 10}} { // more than maxInFlight, and more bytes than the buffers of the kernel
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
