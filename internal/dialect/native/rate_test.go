package native

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/chat"
)

// TestFramesCountByTheirSize: many previews count as one request, and a long array of drafts
// counts as several.
func TestFramesCountByTheirSize(t *testing.T) {
	t.Parallel()
	var counted atomic.Int64
	w := newTestServer(t, func(o *Options) {
		o.Allow = func(_ chat.Caller, requests int) error { counted.Add(int64(requests)); return nil }
	})
	w.must("alice", "POST", "/parley/v1/sessions", `{"id":"s","agent":"helper"}`)
	var c *websocket.Conn
	send := func(frame string) {
		t.Helper()
		if err := c.Write(t.Context(), websocket.MessageText, []byte(frame)); err != nil {
			t.Fatal(err)
		}
	}
	until := func(text string) {
		t.Helper()
		for !strings.Contains(w.readFrame(c), text) {
		}
	}
	c = w.dial("helper", "/parley/v1/ws")
	defer c.CloseNow()
	for i := range 200 {
		send(fmt.Sprintf(`{"op":"preview","id":%d,"session":"s","preview":{"block":"b","offset":%d,"text":"x"}}`, i, i))
	}
	send(`{"op":"ping","id":"end"}`)
	until(`"id":"end"`)
	if n := counted.Load(); n != 4 {
		t.Errorf("200 previews and a ping count as %d requests, want 4", n)
	}
	drafts := "[" + strings.TrimSuffix(strings.Repeat(`{"type":"user.message","payload":{"text":"x"}},`, 250), ",") + "]"
	counted.Store(0)
	c = w.dial("alice", "/parley/v1/ws")
	defer c.CloseNow()
	send(`{"op":"append","id":"many","session":"s","events":` + drafts + `}`)
	until(`"id":"many"`)
	if n := counted.Load(); n != 3 {
		t.Errorf("250 drafts in a frame count as %d requests, want 3", n)
	}
	counted.Store(0)
	w.do("alice", "POST", "/parley/v1/sessions/s/events", drafts)
	if n := counted.Load(); n != 2 {
		t.Errorf("250 drafts by HTTP count as %d requests beside their own, want 2", n)
	}
}
