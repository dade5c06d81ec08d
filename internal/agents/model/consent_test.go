package model_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/model"
	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/modeltest"
)

// callThenSay calls tools once per message, then says what they gave.
func callThenSay(calls ...modeltest.Call) modeltest.Script {
	return func(r modeltest.Request) modeltest.Reply {
		if got := r.Results(); len(got) > 0 {
			var texts []string
			for _, g := range got {
				texts = append(texts, g.Text)
			}
			return modeltest.Reply{Text: "Got " + strings.Join(texts, " and ")}
		}
		return modeltest.Reply{Calls: calls}
	}
}

// prompt waits for the n-th open prompt and returns its id.
func (w *testServer) prompt(id chat.SessionID, n int) string {
	w.t.Helper()
	var request string
	w.until(id, "prompt", func(chat.Event) bool {
		count := 0
		for _, e := range w.log(id) {
			switch b := e.Body.(type) {
			case chat.AgentApprovalRequest:
				count++
				request = b.RequestID
			case chat.AgentInputRequest:
				count++
				request = b.RequestID
			case chat.AgentPermissionRequest:
				count++
				request = b.RequestID
			}
			if count == n {
				return true
			}
		}
		return false
	})
	return request
}

func (w *testServer) answer(id chat.SessionID, request string, a chat.Answer) {
	w.t.Helper()
	if _, err := w.Answer(w.ctx(), ann, id, request, a); err != nil {
		w.t.Fatal(err)
	}
}

func TestApproval(t *testing.T) {
	var c counter
	opt := model.Options{
		Tools: []tool.Tool{c.tool("safe", true), c.tool("risky", false)},
		Rules: []tool.Rule{{Match: "risky", Approval: tool.Ask, Risk: "high", When: []tool.Condition{{Args: map[string]string{"n": "7"}, Approval: tool.Never}, {Args: map[string]string{"n": "13"}, Approval: tool.Always}}}},
	}
	args := `{"n":1}`
	var mu sync.Mutex
	w := newServer(t, opt, func(r modeltest.Request) modeltest.Reply {
		mu.Lock()
		defer mu.Unlock()
		return callThenSay(modeltest.Call{Name: "safe", Args: `{"n":0}`}, modeltest.Call{Name: "risky", Args: args})(r)
	})
	set := func(s string) { mu.Lock(); args = s; mu.Unlock() }

	// Denied: the call without approval ran, and the model gets the denial.
	w.say("s-1", "one")
	request := w.prompt("s-1", 1)
	w.until("s-1", "the safe one's result", func(e chat.Event) bool { return e.Type == "agent.tool_result" })
	calls := w.until("s-1", "request", func(e chat.Event) bool { return e.Type == "agent.approval_request" }).Body.(chat.AgentApprovalRequest).Calls
	if len(calls) != 1 || calls[0].Tool != "risky" || calls[0].Risk != "high" || string(calls[0].Params) != `{"n":1}` {
		t.Fatalf("asked for %+v", calls)
	}
	w.answer("s-1", request, chat.Answer{Decisions: []chat.Decision{{CallID: calls[0].CallID, Reason: "not today"}}})
	w.ended("s-1", 1)
	if !strings.Contains(w.text("s-1"), "not today") || c.runs[`risky{"n":1}`] != 0 {
		t.Fatal(w.text("s-1"))
	}

	// Approved with other arguments, for the session.
	w.say("s-1", "two")
	request = w.prompt("s-1", 2)
	call := ""
	for _, e := range w.log("s-1") {
		if b, ok := e.Body.(chat.AgentApprovalRequest); ok {
			call = b.Calls[0].CallID
		}
	}
	w.answer("s-1", request, chat.Answer{Decisions: []chat.Decision{{CallID: call, Approve: true, Params: json.RawMessage(`{"n":2}`), Remember: "session"}}})
	w.ended("s-1", 2)
	if c.runs[`risky{"n":2}`] != 1 || c.runs[`risky{"n":1}`] != 0 {
		t.Fatalf("%v\n%s", c.runs, w.text("s-1"))
	}

	// Remembered: no further prompt; other arguments need no approval at all.
	w.say("s-1", "three")
	w.ended("s-1", 3)
	set(`{"n":7}`)
	w.say("s-2", "hello")
	w.ended("s-2", 1)
	if c.runs[`risky{"n":1}`] != 1 || c.runs[`risky{"n":7}`] != 1 || strings.Contains(w.text("s-2"), "approval") {
		t.Fatalf("%v\n%s", c.runs, w.text("s-1"))
	}
	// A tool that requires approval each time prompts again.
	set(`{"n":13}`)
	w.say("s-1", "four")
	request = w.prompt("s-1", 3)

	// The prompt stays open across a restart.
	w.stop()
	w.start(0)
	for _, e := range w.log("s-1") {
		if b, ok := e.Body.(chat.AgentApprovalRequest); ok {
			call = b.Calls[0].CallID
		}
	}
	w.answer("s-1", request, chat.Answer{Decisions: []chat.Decision{{CallID: call, Approve: true}}})
	w.ended("s-1", 4)
	if c.runs[`risky{"n":13}`] != 1 {
		t.Fatalf("%v\n%s", c.runs, w.text("s-1"))
	}
	w.has("s-1", `user "four"`, `call risky {"n":13}`, "result risky", "final", "turn done")
}

func TestPermission(t *testing.T) {
	var c counter
	opt := model.Options{Tools: []tool.Tool{c.tool("post", false)}, Rules: []tool.Rule{{Match: "post", Scopes: []string{"web.post", "web.read"}}}}
	w := newServer(t, opt, callThenSay(modeltest.Call{Name: "post", Args: `{}`}))
	w.say("s-1", "one")
	w.answer("s-1", w.prompt("s-1", 1), chat.Answer{Granted: &[]string{"web.read"}, Duration: "session"})
	w.ended("s-1", 1)
	w.has("s-1", "error post denied: the person did not give permission for web.post", "turn done")
	w.say("s-1", "two")
	request := w.prompt("s-1", 2)
	e := w.log("s-1")
	for i := range e {
		if b, ok := e[i].Body.(chat.AgentPermissionRequest); ok && b.RequestID == request && (len(b.Scopes) != 1 || b.Scopes[0] != "web.post") {
			t.Errorf("asked for %v", b.Scopes)
		}
	}
	w.answer("s-1", request, chat.Answer{Granted: &[]string{"web.post"}, Duration: "session"})
	w.ended("s-1", 2)
	w.say("s-1", "three")
	w.ended("s-1", 3)
	if c.runs["post{}"] != 2 {
		t.Errorf("ran %v\n%s", c.runs, w.text("s-1"))
	}
}

func TestBuiltinTools(t *testing.T) {
	tools, err := tool.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	w := newServer(t, model.Options{Tools: tools}, callThenSay(
		modeltest.Call{Name: "ask_user", Args: `{"question":"Which colour?","options":["red",{"value":"blue","label":"Blue"}]}`},
		modeltest.Call{Name: "update_plan", Args: `{"tasks":[{"title":"Paint","status":"in_progress"}]}`},
		modeltest.Call{Name: "request_permission", Args: `{"scopes":["paint.buy"],"justification":"There is none left."}`},
		modeltest.Call{Name: "publish_artifact", Args: `{"title":"Colours","type":"table","content":"{\"columns\":[\"c\"],\"rows\":[[\"red\"]]}"}`},
	))
	w.say("s-1", "paint")
	for n := 1; n <= 2; n++ { // the prompts open in parallel, in any order
		request := w.prompt("s-1", n)
		for _, e := range w.log("s-1") {
			switch b := e.Body.(type) {
			case chat.AgentInputRequest:
				if b.RequestID == request {
					if b.InputType != chat.InputRadio || len(b.Options) != 2 || b.Options[0].Value != "red" {
						t.Errorf("asked %+v", b)
					}
					w.answer("s-1", request, chat.Answer{Values: []string{"blue"}})
				}
			case chat.AgentPermissionRequest:
				if b.RequestID == request {
					w.answer("s-1", request, chat.Answer{Granted: &[]string{"paint.buy"}})
				}
			}
		}
	}
	if end := w.ended("s-1", 1); end.Outcome != chat.Done {
		t.Fatal(w.text("s-1"))
	}
	text := w.text("s-1")
	for _, want := range []string{`result ask_user {"answered":true,"values":["blue"]}`, `result update_plan {"shown":true}`, "agent.plan", "agent.artifact",
		`result request_permission {"denied":null,"duration":"once","granted":["paint.buy"]}`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// Calls of one step run at the same time.
func TestParallelCalls(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	meet := tool.Tool{Name: "meet", Repeatable: true, Run: func(ctx context.Context, _ tool.Call) (json.RawMessage, error) {
		both.Done()
		both.Wait() // returns only if both calls run in parallel
		return json.RawMessage(`"met"`), nil
	}}
	w := newServer(t, model.Options{Tools: []tool.Tool{meet}}, callThenSay(modeltest.Call{Name: "meet", Args: `{"n":1}`}, modeltest.Call{Name: "meet", Args: `{"n":2}`}))
	w.say("s-1", "meet")
	w.ended("s-1", 1)
	w.has("s-1", `result meet "met"`, `result meet "met"`, "turn done")
}

// A conversation that does not fit is summarised; the summary is stored in the log,
// and later turns start from it.
func TestSummary(t *testing.T) {
	w := newServer(t, model.Options{Window: 2000, MaxTokens: 200, Instructions: "Be brief."}, func(r modeltest.Request) modeltest.Reply {
		if strings.Contains(r.System, "memory of a conversation") {
			return modeltest.Reply{Text: "They spoke about whales.", Output: 7}
		}
		return modeltest.Reply{Text: "Yes. " + strings.Repeat("whale ", 100)}
	})
	for n := 1; n <= 12; n++ {
		w.say("s-1", "Tell me more about number "+strings.Repeat("x", n))
		if end := w.ended("s-1", n); end.Outcome != chat.Done {
			t.Fatal(w.text("s-1"))
		}
	}
	if n := strings.Count(w.text("s-1"), "llm.message"); n < 1 || n > 4 {
		t.Errorf("%d summaries\n%s", n, w.text("s-1"))
	}
	requests := w.model.Requests()
	last := requests[len(requests)-1]
	body := string(last.Body)
	if !strings.Contains(body, "They spoke about whales.") || !strings.Contains(body, "Be brief.") || !strings.Contains(body, strings.Repeat("x", 12)) || len(body) > 9000 {
		t.Errorf("%d bytes: %s", len(body), body)
	}
	if strings.Contains(body, `number x"`) {
		t.Error("the first message is still there")
	}
}

// No call slips through because there are many.
func TestManyCallsThatNeedApproval(t *testing.T) {
	var c counter
	var calls []modeltest.Call
	for range 103 {
		calls = append(calls, modeltest.Call{Name: "risky", Args: `{"n":1}`})
	}
	w := newServer(t, model.Options{Tools: []tool.Tool{c.tool("risky", false)}, Rules: []tool.Rule{{Match: "risky", Approval: tool.Always}}}, callThenSay(calls...))
	w.say("s-1", "all of them")
	request := w.prompt("s-1", 1)
	var decisions []chat.Decision
	for _, e := range w.log("s-1") {
		if b, ok := e.Body.(chat.AgentApprovalRequest); ok {
			for _, call := range b.Calls {
				decisions = append(decisions, chat.Decision{CallID: call.CallID, Reason: "no"})
			}
		}
	}
	w.answer("s-1", request, chat.Answer{Decisions: decisions})
	w.ended("s-1", 1)
	if n := strings.Count(w.text("s-1"), "error risky denied: too many calls"); n != 3 || len(decisions) != 100 || len(c.runs) != 0 {
		t.Errorf("%d were refused at once, %d asked for, %v ran", n, len(decisions), c.runs)
	}
}
