package model_test

import (
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/model"
	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/modeltest"
)

func (w *testServer) settle(id chat.SessionID, u chat.SessionUpdated) {
	w.t.Helper()
	if _, err := w.Update(w.ctx(), ann, id, u); err != nil {
		w.t.Fatal(err)
	}
}

// last is the last request that the model got.
func (w *testServer) last() modeltest.Request {
	all := w.model.Requests()
	return all[len(all)-1]
}

func TestModelsListsTheDefaultFirst(t *testing.T) {
	a := model.New(model.Options{Endpoint: "http://127.0.0.1:1", Model: "small", Models: []string{"large", "small", "*"}})
	if got := strings.Join(a.Models(), " "); got != "small large" {
		t.Errorf("%q", got)
	}
}

// What people choose for a session holds from the next turn on.
func TestChosenModel(t *testing.T) {
	var c counter
	opt := model.Options{Models: []string{"large"}, Effort: "low", Tools: []tool.Tool{c.tool("one", true), c.tool("two", true), c.tool("three", true)}}
	w := newServer(t, opt, func(modeltest.Request) modeltest.Reply { return modeltest.Reply{Text: "Yes."} })
	turn := 0
	asked := func(s *chat.Settings) modeltest.Request {
		t.Helper()
		if s != nil {
			w.settle("s-1", chat.SessionUpdated{Settings: s})
		}
		w.say("s-1", "hello")
		turn++
		w.ended("s-1", turn)
		return w.last()
	}
	if r := asked(nil); r.Model != "scripted" || !strings.Contains(string(r.Body), `"reasoning_effort":"low"`) || len(r.Tools) != 3 {
		t.Errorf("%s %s", r.Model, r.Body)
	}
	r := asked(&chat.Settings{Model: "large", Effort: "high", Tools: []string{"one", "+two"}})
	if r.Model != "large" || !strings.Contains(string(r.Body), `"reasoning_effort":"high"`) || strings.Join(r.Tools, " ") != "one two" {
		t.Errorf("%s %v %s", r.Model, r.Tools, r.Body)
	}
	w.has("s-1", "usage large")
	// A model that is not offered is reported, and the agent's default answers.
	r = asked(&chat.Settings{Model: "enormous", Effort: "absurd", Tools: []string{"-three"}})
	if r.Model != "scripted" || !strings.Contains(string(r.Body), `"reasoning_effort":"low"`) || strings.Join(r.Tools, " ") != "one two" {
		t.Errorf("%s %v %s", r.Model, r.Tools, r.Body)
	}
	said := ""
	for _, e := range w.log("s-1") {
		if b, ok := e.Body.(chat.AgentStatus); ok {
			said += b.Message + "\n"
		}
	}
	if !strings.Contains(said, "enormous is not offered here; scripted answers") || !strings.Contains(said, "absurd") {
		t.Errorf("people were told %q", said)
	}
}

// A session may leave approvals to the server, up to what insists on a person.
func TestChosenApprovals(t *testing.T) {
	var c counter
	rules := []tool.Rule{
		{Match: "low", Approval: tool.Ask, Risk: "low"}, {Match: "high", Approval: tool.Ask, Risk: "high"}, {Match: "always", Approval: tool.Always, Risk: "low"},
	}
	opt := model.Options{Tools: []tool.Tool{c.tool("low", false), c.tool("high", false), c.tool("always", false)}, Rules: rules}
	w := newServer(t, opt, func(r modeltest.Request) modeltest.Reply {
		if len(r.Results()) > 0 {
			return modeltest.Reply{Text: "Done."}
		}
		return modeltest.Reply{Calls: []modeltest.Call{{Name: r.LastUser(), Args: `{}`}}}
	})
	for _, tt := range []struct {
		mode chat.Approvals
		runs string // calls that need no approval
	}{{chat.ApproveAsk, ""}, {chat.ApproveReview, "low"}, {chat.ApproveAll, "low high"}} {
		for _, name := range []string{"low", "high", "always"} {
			id := chat.SessionID(string(tt.mode) + "-" + name)
			if _, _, err := w.Create(w.ctx(), ann, chat.NewSession{ID: id, Settings: chat.Settings{Approvals: tt.mode}}); err != nil {
				t.Fatal(err)
			}
			w.say(id, name)
			request := w.prompt(id, 1)
			sess, err := w.Get(w.ctx(), ann, id)
			if err != nil {
				t.Fatal(err)
			}
			if free := strings.Contains(tt.runs, name); free != (sess.OpenPrompts == 0) {
				t.Errorf("%s, %s: %d questions are open", tt.mode, name, sess.OpenPrompts)
			} else if !free {
				continue
			}
			w.ended(id, 1)
			w.has(id, "agent.approval_request", "user.approval_response", "call "+name, "result "+name, "turn done")
			by := w.until(id, "answer", func(e chat.Event) bool { return chat.AnswerOf(e.Body) == request })
			if by.Actor != chat.System {
				t.Errorf("%v is said to have approved it", by.Actor)
			}
		}
	}
}

// A requested summary is made once, before the next answer.
func TestCompactOnRequest(t *testing.T) {
	w := newServer(t, model.Options{}, func(r modeltest.Request) modeltest.Reply {
		if strings.Contains(r.System, "memory of a conversation") {
			return modeltest.Reply{Text: "They spoke about whales."}
		}
		return modeltest.Reply{Text: "I see."}
	})
	for n, text := range []string{"first word", "second word"} {
		w.say("s-1", text)
		w.ended("s-1", n+1)
	}
	w.settle("s-1", chat.SessionUpdated{Compact: true})
	for n, text := range []string{"third word", "fourth word"} {
		w.say("s-1", text)
		w.ended("s-1", n+3)
		body := string(w.last().Body)
		if !strings.Contains(body, "They spoke about whales.") || strings.Contains(body, "first word") || strings.Contains(body, "second word") || !strings.Contains(body, "third word") {
			t.Errorf("the model was told %s", body)
		}
	}
	if n := strings.Count(w.text("s-1"), "llm.message"); n != 1 {
		t.Errorf("%d summaries\n%s", n, w.text("s-1"))
	}
}
