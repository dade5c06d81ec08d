package native

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// TestPiecesAndEventsOfOneConnectionKeepTheirOrder: pieces of several sessions that arrive together are shown together, and
// before an event that follows them.
func TestPiecesAndEventsOfOneConnectionKeepTheirOrder(t *testing.T) {
	w := newTestServer(t, nil)
	const sessions, pieces = 3, 100
	for i := range sessions {
		w.create("root", fmt.Sprintf(`{"id":"s%d","agent":"none"}`, i))
	}
	reader, conn := w.dial("root", "/parley/v1/ws"), w.dial("root", "/parley/v1/ws")
	defer reader.CloseNow()
	defer conn.CloseNow()
	for i := range sessions {
		if err := reader.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, `{"op":"watch","session_id":"s%d"}`, i)); err != nil {
			t.Fatal(err)
		}
		w.readFrame(reader)
	}
	write := func(format string, args ...any) {
		if err := conn.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, format, args...)); err != nil {
			t.Error(err)
		}
	}
	go func() {
		for round := range 3 {
			for p := range pieces {
				for i := range sessions {
					write(`{"op":"preview","session_id":"s%d","preview":{"block":"b%d","offset":%d,"text":"%04d"}}`, i, round, 4*p, p)
				}
			}
			for i := range sessions {
				var text strings.Builder
				for p := range pieces {
					fmt.Fprintf(&text, "%04d", p)
				}
				write(`{"op":"append","session_id":"s%d","events":[{"type":"agent.text","payload":{"block":"b%d","text":"%s"}}]}`, i, round, text.String())
			}
		}
	}()
	round, next := make([]int, sessions), make([]int, sessions)
	for done := 0; done < 3*sessions; {
		text := w.readFrame(reader)
		var i int
		if _, err := fmt.Sscanf(text[strings.Index(text, `"session_id":"s`):], `"session_id":"s%d"`, &i); err != nil {
			t.Fatal(text, err)
		}
		switch {
		case strings.HasPrefix(text, `{"op":"preview"`):
			if want := fmt.Sprintf(`"preview":{"block":"b%d","offset":%d,"end":%d,"text":"%04d"`, round[i], 4*next[i], 4*next[i]+4, next[i]); !strings.Contains(text, want) {
				t.Fatalf("%s instead of %s", text, want)
			}
			next[i]++
		case strings.HasPrefix(text, `{"op":"event"`):
			if next[i] != pieces || !strings.Contains(text, fmt.Sprintf(`"block":"b%d"`, round[i])) {
				t.Fatalf("after %d pieces of round %d: %s", next[i], round[i], text)
			}
			round[i], next[i] = round[i]+1, 0
			done++
		default:
			t.Fatal(text)
		}
	}
}
