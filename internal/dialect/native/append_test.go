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
	w := newTestServer(t, nil)
	w.create("root", `{"id":"deaf","agent":"none"}`)
	w.create("root", `{"id":"other","agent":"none"}`)
	deaf, other := w.dial("root", "/parley/v1/ws"), w.dial("root", "/parley/v1/ws")
	defer deaf.CloseNow()
	defer other.CloseNow()
	deaf.SetReadLimit(-1)
	const many = 400 // more than maxInFlight, and more bytes than the buffers of the kernel
	text := strings.Repeat("x", 60<<10)
	written := make(chan error, 1)
	go func() {
		for i := range many {
			frame := fmt.Appendf(nil, `{"op":"append","id":%d,"session_id":"deaf","events":[{"type":"user.message","payload":{"text":%q}}]}`, i, text)
			if err := deaf.Write(t.Context(), websocket.MessageText, frame); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	for i := range 100 {
		frame := fmt.Appendf(nil, `{"op":"append","id":%d,"session_id":"other","events":[{"type":"user.message","payload":{"text":"hello"}}]}`, i)
		if err := other.Write(t.Context(), websocket.MessageText, frame); err != nil {
			t.Fatal(err)
		}
		got := w.readFrame(other)
		for strings.HasPrefix(got, `{"op":"ping"`) {
			got = w.readFrame(other)
		}
		if !strings.HasPrefix(got, fmt.Sprintf(`{"op":"ok","id":%d,`, i)) {
			t.Fatalf("answer %d: %s", i, got)
		}
	}
	seen := map[int]bool{}
	for len(seen) < many {
		var id int
		got := w.readFrame(deaf)
		if strings.HasPrefix(got, `{"op":"ping"`) {
			continue // on a slow machine
		}
		if _, err := fmt.Sscanf(got, `{"op":"ok","id":%d,`, &id); err != nil || seen[id] {
			t.Fatalf("%v: %.100s", err, got)
		}
		seen[id] = true
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}
