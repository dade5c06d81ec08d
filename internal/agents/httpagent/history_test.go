package httpagent_test

import (
	"encoding/json"
	"net/http"
	"testing"
)

// A queued message is sent after the answers that it was queued behind, and not
// before its own turn.
func TestQueuedMessagesFollowTheAnswersBeforeThem(t *testing.T) {
	type message struct{ Role, Content string }
	requests := make(chan []message, 8)
	begun, release := make(chan struct{}), make(chan struct{})
	first := true
	h := newServer(t, openAI(), func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Messages []message }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		requests <- in.Messages
		if first {
			first = false
			close(begun)
			<-release
		}
		writeText(w, "to "+in.Messages[len(in.Messages)-1].Content)
		flush(w, stopped)
	})
	h.send("one")
	<-begun
	h.send("two")
	h.send("three")
	close(release)
	h.awaitEnd(3)
	for _, want := range []string{
		`[{"Role":"user","Content":"one"}]`,
		`[{"Role":"user","Content":"one"},{"Role":"assistant","Content":"to one"},{"Role":"user","Content":"two"}]`,
		`[{"Role":"user","Content":"one"},{"Role":"assistant","Content":"to one"},{"Role":"user","Content":"two"},{"Role":"assistant","Content":"to two"},{"Role":"user","Content":"three"}]`,
	} {
		if got, _ := json.Marshal(<-requests); string(got) != want {
			t.Errorf("received %s, not %s", got, want)
		}
	}
}
