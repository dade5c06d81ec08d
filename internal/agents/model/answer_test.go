package model_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/model"
	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/modeltest"
)

func TestEveryProviderAnswers(t *testing.T) {
	for _, name := range model.Providers {
		t.Run(name, func(t *testing.T) {
			var c counter
			opt := model.Options{Provider: name, Instructions: "Be brief.", Tools: []tool.Tool{c.tool("count", true), c.tool("other", true)}}
			opt.Key = func() (string, error) { return "sk-secret", nil }
			w := newServer(t, opt, func(r modeltest.Request) modeltest.Reply {
				if len(r.Results()) == 0 {
					return modeltest.Reply{Thinking: "I had better count.", Text: "Let me see.", Input: 10, Output: 5,
						Calls: []modeltest.Call{{ID: "x1", Name: "count", Args: `{"n":1}`}, {ID: "x2", Name: "other", Args: `{"n":2}`}}}
				}
				if len(r.Results()) != 2 || !strings.Contains(r.Results()[0].Text, "ok") {
					t.Errorf("the model was given %+v", r.Results())
				}
				return modeltest.Reply{Text: "There are two of them.", Input: 20, Output: 6}
			})
			w.say("s-1", "How many?")
			if end := w.ended("s-1", 1); end.Outcome != "done" || end.Usage == nil || end.Usage.InputTokens != 30 {
				t.Fatalf("%+v\n%s", end, w.text("s-1"))
			}
			w.has("s-1", `thinking "I had better count."`, `text "Let me see."`, `call count {"n":1}`, `call other {"n":2}`, "usage scripted 10/5",
				"result", "result", `text "There are two of them." final`, "usage scripted 20/6", "turn done")
			if len(c.runs) != 2 {
				t.Errorf("the tools ran %v", c.runs)
			}
			first := w.model.Requests()[0]
			if first.System != "Be brief." || first.LastUser() != "How many?" || first.Key != "sk-secret" || len(first.Tools) != 2 {
				t.Errorf("asked %+v", first)
			}

			// The second request contains the first turn, and its reasoning where the provider
			// accepts it. The sender's system text follows the agent's instructions.
			thanks := chat.UserMessage{Text: "Thanks", Context: json.RawMessage(`{"system":"Speak French."}`)}
			if _, err := w.Append(w.ctx(), ann, "s-1", []chat.Draft{chat.NewDraft(thanks)}); err != nil {
				t.Fatal(err)
			}
			w.ended("s-1", 2)
			last := w.model.Requests()[len(w.model.Requests())-1]
			if !strings.HasPrefix(last.System, "Be brief.") || !strings.HasSuffix(last.System, "Speak French.") {
				t.Errorf("the model is told %q", last.System)
			}
			if !strings.Contains(string(last.Body), "There are two of them.") || last.LastUser() != "Thanks" {
				t.Errorf("asked %s", last.Body)
			}
			if sealed := map[string]string{model.Anthropic: "signed", model.OpenAI: "I had better"}[name]; !strings.Contains(string(last.Body), sealed) {
				t.Errorf("the reasoning is not in %s", last.Body)
			}
		})
	}
}

// An answer that is too long for one event is several blocks, the last of which
// is the turn's answer.
func TestALongAnswer(t *testing.T) {
	whole := strings.Repeat("0123456789abcde ", 1_300_000/16)
	var pieces []string
	for rest := whole; rest != ""; {
		n := min(len(rest), 100_001)
		pieces, rest = append(pieces, rest[:n]), rest[n:]
	}
	w := newServer(t, model.Options{}, func(modeltest.Request) modeltest.Reply { return modeltest.Reply{Pieces: pieces} })
	w.say("s-1", "Tell me everything.")
	if end := w.ended("s-1", 1); end.Outcome != chat.Done {
		t.Fatal(end)
	}
	var said []string
	for _, e := range w.log("s-1") {
		if b, ok := e.Body.(chat.AgentText); ok {
			said = append(said, b.Text)
			if last := len(strings.Join(said, "")) == len(whole); b.Partial || b.Final != last {
				t.Errorf("block %d has partial %v and final %v", len(said), b.Partial, b.Final)
			}
		}
	}
	if strings.Join(said, "") != whole || len(said) < 3 {
		t.Errorf("%d blocks have %d bytes of %d", len(said), len(strings.Join(said, "")), len(whole))
	}
}
