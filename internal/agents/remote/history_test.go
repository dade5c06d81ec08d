package remote_test

import (
	"encoding/json"
	"net/http"
	"testing"
)

// Messages that waited are told behind the answers that they waited for, and not
// before it is their turn.
func TestHistoryOfQueuedMessages(t *testing.T) {
	type message struct{ Role, Content string }
	told := make(chan []message, 8)
	begun, release := make(chan struct{}), make(chan struct{})
	first := true
	h := newServer(t, openAI(), func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Messages []message }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		told <- in.Messages
		if first {
			first = false
			close(begun)
			<-release
		}
		words(w, "to "+in.Messages[len(in.Messages)-1].Content)
		flush(w, stopped)
	})
	h.say("one")
	<-begun
	h.say("two")
	h.say("three")
	close(release)
	h.ends(3)
	for _, want := range []string{
		`[{"Role":"user","Content":"one"}]`,
		`[{"Role":"user","Content":"one"},{"Role":"assistant","Content":"to one"},{"Role":"user","Content":"two"}]`,
		`[{"Role":"user","Content":"one"},{"Role":"assistant","Content":"to one"},{"Role":"user","Content":"two"},{"Role":"assistant","Content":"to two"},{"Role":"user","Content":"three"}]`,
	} {
		if got, _ := json.Marshal(<-told); string(got) != want {
			t.Errorf("was told %s, not %s", got, want)
		}
	}
}
