package model_test

import (
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/model"
	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/modeltest"
)

// What is said during a turn under the policy steer reaches the model at its next
// step; under the policy queue it waits for a turn of its own, and the model does
// not see it before.
func TestWhatIsSaidDuringATurn(t *testing.T) {
	for _, policy := range []chat.Policy{chat.Steer, chat.Queue} {
		t.Run(string(policy), func(t *testing.T) {
			first, release := make(chan struct{}), make(chan struct{})
			var c counter
			w := newServer(t, model.Options{Tools: []tool.Tool{c.tool("count", true)}}, func(r modeltest.Request) modeltest.Reply {
				if r.Number == 1 {
					return modeltest.Reply{Calls: []modeltest.Call{{Name: "count", Args: `{}`}}, Wait: func() { close(first); <-release }}
				}
				if strings.Contains(string(r.Body), "Be quick.") {
					return modeltest.Reply{Text: "Quick it is."}
				}
				return modeltest.Reply{Text: "Slowly, then."}
			})
			if _, _, err := w.Create(w.ctx(), ann, chat.NewSession{ID: "s-1", Policy: policy}); err != nil {
				t.Fatal(err)
			}
			w.say("s-1", "Count.")
			<-first
			w.say("s-1", "Be quick.")
			close(release)
			if policy == chat.Steer {
				w.ended("s-1", 1)
				w.has("s-1", `user "Be quick."`, "turn.input", `text "Quick it is." final`, "turn done")
				return
			}
			w.ended("s-1", 2)
			w.has("s-1", `user "Be quick."`, `text "Slowly, then." final`, "turn done", `text "Quick it is." final`, "turn done")
		})
	}
}

// What is said while the model gives its answer is answered in the same turn.
func TestWhatIsSaidDuringTheAnswer(t *testing.T) {
	first, release := make(chan struct{}), make(chan struct{})
	w := newServer(t, model.Options{}, func(r modeltest.Request) modeltest.Reply {
		if r.Number == 1 {
			return modeltest.Reply{Text: "That was it.", Wait: func() { close(first); <-release }}
		}
		if r.LastUser() != "One more thing." {
			t.Errorf("asked %+v", r.Messages)
		}
		return modeltest.Reply{Text: "And that."}
	})
	if _, _, err := w.Create(w.ctx(), ann, chat.NewSession{ID: "s-1", Policy: chat.Steer}); err != nil {
		t.Fatal(err)
	}
	w.say("s-1", "Tell me.")
	<-first
	w.say("s-1", "One more thing.")
	close(release)
	w.ended("s-1", 1)
	w.has("s-1", `text "That was it." final`, "turn.input", `text "And that." final`, "turn done")
}
