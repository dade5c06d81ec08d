package httpagent_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/parley-hq/parley/internal/agents/httpagent"
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

// A message without an answer is not repeated with the next one: a workflow of a NeMo
// Agent Toolkit takes the last message as its input. For a model the two are joined,
// because many models refuse user messages in a row.
func TestAnUnansweredMessageAndTheNext(t *testing.T) {
	for protocol, want := range map[string]string{
		httpagent.NeMo:   `[{"Role":"user","Content":"one"},{"Role":"user","Content":"two"}]`,
		httpagent.OpenAI: `[{"Role":"user","Content":"one\n\ntwo"}]`,
	} {
		requests := make(chan []struct{ Role, Content string }, 2)
		h := newServer(t, httpagent.Options{Protocol: protocol, Model: "m"}, func(w http.ResponseWriter, r *http.Request) {
			var in struct {
				Messages []struct{ Role, Content string }
			}
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
				t.Error(err)
			}
			if requests <- in.Messages; len(in.Messages) == 1 && in.Messages[0].Content == "one" {
				http.Error(w, `{"detail":"no"}`, http.StatusUnprocessableEntity)
				return
			}
			writeText(w, "yes")
			flush(w, stopped)
		})
		h.send("one")
		h.awaitEnd(1)
		h.send("two")
		h.awaitEnd(2)
		<-requests
		if got, _ := json.Marshal(<-requests); string(got) != want {
			t.Errorf("%v received %s, not %s", protocol, got, want)
		}
		h.kill()
	}
}
