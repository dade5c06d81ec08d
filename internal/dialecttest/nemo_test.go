package dialecttest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// A server that cannot store a message refuses it with an error and an end. The client sends it again and waits for the answer.
func TestNemoClientDoesNotTakeARefusalForAnAnswer(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.CloseNow()
		send := func(kind, content, status string) {
			frame := fmt.Sprintf(`{"type":%q,"parent_id":"m1","content":%s,"status":%q}`, kind, content, status)
			if err := c.Write(r.Context(), websocket.MessageText, []byte(frame)); err != nil {
				t.Error(err)
			}
		}
		if _, _, err := c.Read(r.Context()); err != nil {
			t.Error(err)
			return
		}
		if connections.Add(1) == 1 {
			send("error_message", `{"code":"workflow_error","details":"try again"}`, "in_progress")
		} else {
			send("system_response_message", `{"text":"hello"}`, "in_progress")
		}
		send("system_response_message", `{"text":null}`, "complete")
		_, _, _ = c.Read(r.Context()) // until the client has gone
	}))
	defer server.Close()
	c, err := New("nemo", Options{URLs: []string{server.URL}, Session: "s1", Idle: 5 * time.Second, Progress: func() {}, Resumed: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	seen, err := c.Say(t.Context(), "m1", "hi")
	if err != nil || seen.End != Done || strings.Join(seen.Texts, "") != "hello" || connections.Load() != 2 {
		t.Errorf("after %d connections the client has %q, %q, %v", connections.Load(), seen.Texts, seen.End, err)
	}
}
