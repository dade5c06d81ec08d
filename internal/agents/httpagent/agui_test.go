package httpagent_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/httpagent"
)

// run is the input of a run.
type run struct {
	ThreadID string          `json:"threadId"`
	RunID    string          `json:"runId"`
	Parent   string          `json:"parentRunId"`
	State    json.RawMessage `json:"state"`
	Messages []struct {
		ID, Role  string
		Content   string
		ToolCalls []struct{ ID string }
		CallID    string `json:"toolCallId"`
		Error     string
	}
	Tools  []struct{ Name, Description string }
	Props  json.RawMessage `json:"forwardedProps"`
	Resume []struct {
		InterruptID string `json:"interruptId"`
		Status      string
		Payload     json.RawMessage
	}
}

// aguiServer starts a server whose AG-UI agent sends the given events, one function
// per run. It returns a function that returns the inputs.
func aguiServer(t *testing.T, runs ...func(run) []string) (*testServer, func() []run) {
	var mu sync.Mutex
	var requests []run
	h := newServer(t, httpagent.Options{Protocol: httpagent.AGUI}, func(w http.ResponseWriter, r *http.Request) {
		var in run
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		mu.Lock()
		requests = append(requests, in)
		n := len(requests)
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range runs[min(n, len(runs))-1](in) {
			flush(w, "data: "+e+"\n\n")
		}
	})
	return h, func() []run {
		mu.Lock()
		defer mu.Unlock()
		return requests
	}
}

func TestAGUIEvents(t *testing.T) {
	h, requests := aguiServer(t, func(run) []string {
		return []string{
			`{"type":"RUN_STARTED","threadId":"s","runId":"r"}`,
			`{"type":"STEP_STARTED","stepName":"research"}`,
			`{"type":"STATE_SNAPSHOT","snapshot":{"n":1,"list":["a"]}}`,
			`{"type":"REASONING_MESSAGE_CONTENT","messageId":"r1","delta":"Hm."}`,
			`{"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}`,
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"Look"}`,
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"ing."}`,
			`{"type":"TEXT_MESSAGE_END","messageId":"m1"}`,
			`{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"look","parentMessageId":"m1"}`,
			`{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"at\":"}`,
			`{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"\"sky\"}"}`,
			`{"type":"TOOL_CALL_END","toolCallId":"c1"}`,
			`{"type":"TOOL_CALL_RESULT","messageId":"m2","toolCallId":"c1","content":"blue"}`,
			`{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/n","value":2},{"op":"add","path":"/list/-","value":"b"}]}`,
			`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m3","role":"assistant","delta":"It is "}`,
			`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m3","delta":"blue."}`,
			`{"type":"SOMETHING_NEW","x":1}`,
			`{"type":"RUN_FINISHED","threadId":"s","runId":"r","usage":[{"model":"m","inputTokens":4,"outputTokens":2}]}`,
		}
	})
	h.send("sky?")
	h.awaitEnd(1)
	h.wantLog("user sky?", "status research", "thinking Hm.", "text Looking.", `calls look {"at":"sky"}`, `got "blue"`, "remote.round", "used 4 2", "answers It is blue.", "ended done")
	h.send("and now?")
	h.awaitEnd(2)
	second := requests()[1]
	var roles []string
	for _, m := range second.Messages {
		roles = append(roles, m.Role+":"+m.ID)
	}
	if string(second.State) != `{"n":2,"list":["a","b"]}` || second.ThreadID != "s.test" || len(second.Tools) != 1 {
		t.Errorf("received %+v", second)
	}
	if len(roles) != 6 || roles[1] != "assistant:m1" || second.Messages[2].ToolCalls[0].ID != "c1" || second.Messages[3].CallID != "c1" || roles[4] != "assistant:m3" || second.Messages[5].Content != "and now?" {
		t.Errorf("received %v", roles)
	}
}

// An interrupt becomes a prompt, and its answer the resume of the next run, also
// after a crash.
func TestAGUIInterruptsArePrompts(t *testing.T) {
	for _, crash := range []bool{false, true} {
		h, requests := aguiServer(t, func(run) []string {
			return []string{
				`{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"pay"}`, `{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"eur\":5}"}`, `{"type":"TOOL_CALL_END","toolCallId":"c1"}`,
				`{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"tool_call","message":"Pay?","toolCallId":"c1"},{"id":"i2","reason":"input","message":"Sure?","responseSchema":{"type":"object","properties":{"confirmed":{"type":"boolean"}}}}]}}`,
			}
		}, func(run) []string {
			return []string{`{"type":"TOOL_CALL_RESULT","toolCallId":"c1","content":"paid"}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"Paid."}`, `{"type":"RUN_FINISHED"}`}
		})
		h.send("pay")
		first, second := h.awaitPrompt(1), h.awaitPrompt(2)
		if crash {
			h.kill()
			h.start()
		}
		h.answer(first, chat.Answer{Decisions: []chat.Decision{{CallID: first.Approval.Calls[0].CallID, Approve: true, Params: json.RawMessage(`{"eur":4}`)}}})
		h.answer(second, chat.Answer{Text: "Yes"})
		h.awaitEnd(1)
		h.wantLog("user pay", `calls pay {"eur":5}`, "remote.round", "agent.approval_request", "asks binary_choice Sure?", "user.approval_response", "answer yes",
			`got "paid"`, "remote.round", "answers Paid.", "ended done")
		in := requests()[1]
		b, _ := json.Marshal(in.Resume)
		if want := `[{"interruptId":"i1","Status":"resolved","Payload":{"approved":true,"editedArgs":{"eur":4}}},{"interruptId":"i2","Status":"resolved","Payload":{"confirmed":true}}]`; string(b) != want || in.Parent != requests()[0].RunID {
			t.Errorf("received %s, parent %s", b, in.Parent)
		}
		h.kill()
	}
}

// A schema for a list is a question with several choices, and a description that is no valid question is left out.
func TestAGUIInterruptForAList(t *testing.T) {
	for _, metadata := range []string{`null`, `{"parley":{"input_type":"radio"}}`, `{"parley":{"input_type":7}}`, `{"parley":"x"}`} {
		h, requests := aguiServer(t, func(run) []string {
			return []string{`{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"input","message":"Which?","expiresAt":"2999-01-01T00:00:00Z","metadata":` + metadata + `,"responseSchema":{"type":"object","required":["days"],"properties":{"days":{"type":"array","items":{"type":"string","enum":["mo","tu","we"]},"maxItems":2}}}}]}}`}
		}, func(run) []string {
			return []string{`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"Good."}`, `{"type":"RUN_FINISHED"}`}
		})
		h.send("plan")
		p := h.awaitPrompt(1)
		if p.Input.InputType != chat.InputCheckbox || len(p.Input.Options) != 3 || p.Input.Max != 2 || p.Deadline == 0 {
			t.Errorf("%s: asks %+v", metadata, p.Input)
		}
		h.answer(p, chat.Answer{Values: []string{"mo", "we"}})
		h.awaitEnd(1)
		if b := requests()[1].Resume[0].Payload; string(b) != `{"days":["mo","we"]}` {
			t.Errorf("%s: received %s", metadata, b)
		}
		h.kill()
	}
}

// Activities and custom events of Parley servers are stored; those of other servers do not end the turn.
func TestAGUIActivities(t *testing.T) {
	h, _ := aguiServer(t, func(run) []string {
		return []string{
			`{"type":"ACTIVITY_SNAPSHOT","messageId":"p","activityType":"plan","content":{"tasks":[{"id":"1","title":"one","status":"pending"}]}}`,
			`{"type":"ACTIVITY_DELTA","messageId":"p","activityType":"plan","patch":[{"op":"replace","path":"/tasks/0/status","value":"done"}]}`,
			`{"type":"ACTIVITY_DELTA","messageId":"p","activityType":"plan","patch":[{"op":"remove","path":"/nothing"}]}`,
			`{"type":"ACTIVITY_DELTA","messageId":"q","activityType":"plan","patch":[{"op":"remove","path":"/tasks"}]}`,
			`{"type":"ACTIVITY_SNAPSHOT","messageId":"q","activityType":"plan","content":{"steps":["of another kind"]}}`,
			`{"type":"ACTIVITY_SNAPSHOT","messageId":"s","activityType":"plan","subagentRunId":"w","content":{"tasks":[{"id":"1","title":"of a subagent"}]}}`,
			`{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"artifact","content":{"type":"file","path":"uploads/a.txt"}}`,
			`{"type":"ACTIVITY_SNAPSHOT","messageId":"x","activityType":"a2ui-surface","content":{"operations":[]}}`,
			`{"type":"CUSTOM","name":"parley.status","value":{"message":"busy"}}`,
			`{"type":"CUSTOM","name":"parley.status","value":"busy"}`,
			`{"type":"CUSTOM","name":"parley.error","value":{"message":"fatal"}}`,
			`{"type":"CUSTOM","name":"parley.notification","value":{"request_id":"p-1","input_type":"notification","text":"Look."}}`,
			`{"type":"CUSTOM","name":"parley.notification","value":{"request_id":"p-1","input_type":"text","text":"Your password?"}}`,
			`{"type":"CUSTOM","name":"theirs","value":{}}`,
			`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"Good."}`, `{"type":"RUN_FINISHED"}`,
		}
	})
	h.send("go")
	h.awaitEnd(1)
	h.wantLog("user go", "agent.plan", "agent.plan", "status busy", "asks notification Look.", "remote.round", "answers Good.", "ended done")
}

// An interrupt of LangGraph becomes a prompt with the text of its value; the answer
// is sent as command.resume, also after a crash.
func TestAGUILangGraphInterruptsArePrompts(t *testing.T) {
	call := []string{`{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"pay"}`, `{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"eur\":5}"}`, `{"type":"TOOL_CALL_END","toolCallId":"c1"}`}
	const wants = `{"action_requests":[{"name":"pay","args":{"eur":5}}]}`
	decide := func(approve bool, params string) func(chat.Prompt) chat.Answer {
		return func(p chat.Prompt) chat.Answer {
			return chat.Answer{Decisions: []chat.Decision{{CallID: p.Approval.Calls[0].CallID, Approve: approve, Reason: "because", Params: json.RawMessage(params)}}}
		}
	}
	for name, c := range map[string]struct {
		before []string // events
		value  string   // of on_interrupt
		asks   string
		answer func(chat.Prompt) chat.Answer
		resume string
	}{
		"a text":    {nil, `"Which city?"`, "asks text Which city?", func(chat.Prompt) chat.Answer { return chat.Answer{Text: "Bern"} }, `"Bern"`},
		"an object": {nil, `"{\"question\": \"Which?\", \"options\": [\"red\", \"blue\"]}"`, "asks radio Which?", func(chat.Prompt) chat.Answer { return chat.Answer{Values: []string{"red"}} }, `"red"`},
		"anything":  {nil, `{"n":[1,2]}`, `asks text {"n":[1,2]}`, func(chat.Prompt) chat.Answer { return chat.Answer{Text: `{"ok":true}`} }, `{"ok":true}`},
		"a yes":     {call, wants, "agent.approval_request", decide(true, ""), `{"decisions":[{"type":"approve"}]}`},
		"a change":  {call, wants, "agent.approval_request", decide(true, `{"eur":4}`), `{"decisions":[{"edited_action":{"args":{"eur":4},"name":"pay"},"type":"edit"}]}`},
		"a no":      {call, wants, "agent.approval_request", decide(false, ""), `{"decisions":[{"message":"a person refused it. because","type":"reject"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			h, requests := aguiServer(t, func(run) []string {
				return append(slices.Clone(c.before), `{"type":"CUSTOM","name":"on_interrupt","rawEvent":{"id":"i1"},"value":`+c.value+`}`, `{"type":"RUN_FINISHED"}`)
			}, func(run) []string {
				return []string{`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"Fine."}`, `{"type":"RUN_FINISHED"}`}
			})
			h.send("go")
			p := h.awaitPrompt(1)
			if p.Approval != nil && p.Approval.Calls[0].CallID != "c3-c1" {
				t.Errorf("asked for %+v", p.Approval.Calls)
			}
			h.kill()
			h.start()
			h.answer(p, c.answer(p))
			h.awaitEnd(1)
			if s := h.summary(); !strings.Contains(s, c.asks) || !strings.Contains(s, "answers Fine.\nended done") {
				t.Error(s)
			}
			if in := requests()[1]; string(in.Props) != `{"command":{"resume":`+c.resume+`}}` || in.Resume != nil {
				t.Errorf("received %s", in.Props)
			}
			h.kill()
		})
	}
}

// A call of ask_person becomes a prompt.
func TestAGUIAskPersonIsAPrompt(t *testing.T) {
	h, requests := aguiServer(t, func(run) []string {
		return []string{`{"type":"TOOL_CALL_CHUNK","toolCallId":"c9","toolCallName":"ask_person","delta":"{\"question\":\"Which?\",\"options\":[\"red\",\"blue\"]}"}`, `{"type":"RUN_FINISHED"}`}
	}, func(run) []string {
		return []string{`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"Red."}`, `{"type":"RUN_FINISHED"}`}
	})
	h.send("colour")
	h.answer(h.awaitPrompt(1), chat.Answer{Values: []string{"red"}})
	h.awaitEnd(1)
	if s := h.summary(); !strings.Contains(s, "asks radio Which?\nanswer red\ngot \"red\"") || !strings.Contains(s, "answers Red.") {
		t.Fatal(s)
	}
	m := requests()[1].Messages
	if len(m) != 3 || m[1].ToolCalls[0].ID != "c9" || m[2].CallID != "c9" || m[2].Content != "red" {
		t.Errorf("received %+v", m)
	}
}

// What a page sends with its message reaches the agent: instructions, tools and its state. The newer one of two states is sent.
func TestAGUIPassesThePageOn(t *testing.T) {
	h, requests := aguiServer(t, func(in run) []string {
		events := []string{`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/agent","value":true}]}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"Good."}`, `{"type":"RUN_FINISHED"}`}
		if string(in.State) == `{"page":4}` {
			return events[1:]
		}
		return events
	})
	say := func(n int, text, context string) {
		t.Helper()
		if _, err := h.Append(ctx, ann, "s", []chat.Draft{chat.NewDraft(chat.UserMessage{Text: text, Context: json.RawMessage(context)})}); err != nil {
			t.Fatal(err)
		}
		h.awaitEnd(n)
	}
	say(1, "one", `{"agui":{"state":{"page":1}},"client_tools":[{"name":"look","description":"Looks.","parameters":{"type":"object"}}],"system":"Be brief."}`)
	say(2, "two", `{"agui":{}}`)
	say(3, "three", `{"agui":{"state":{"page":3}},"client_tools":[{"name":"ask_person","description":"The page asks."}]}`)
	in := requests()
	if m := in[0].Messages; string(in[0].State) != `{"page":1}` || len(m) != 2 || m[0].Role != "system" || m[0].Content != "Be brief." ||
		len(in[0].Tools) != 2 || in[0].Tools[0].Name != "ask_person" || in[0].Tools[1].Name != "look" || in[0].Tools[1].Description != "Looks." {
		t.Errorf("the first run got %+v", in[0])
	}
	if m := in[1].Messages; string(in[1].State) != `{"page":1,"agent":true}` || m[0].Role != "user" || len(in[1].Tools) != 1 {
		t.Errorf("the second run got %+v, %s", in[1], in[1].State)
	}
	if string(in[2].State) != `{"page":3}` || len(in[2].Tools) != 1 || in[2].Tools[0].Description != "The page asks." {
		t.Errorf("the third run got %+v, %s", in[2], in[2].State)
	}
	// A state that the agent does not change is not recorded: the page would get it back, after it has changed it perhaps.
	say(4, "four", `{"agui":{"state":{"page":4}}}`)
	say(5, "five", `{}`)
	all := requests()
	var records []string
	for _, e := range h.events {
		if e.Type == "remote.round" {
			records = append(records, string(e.Payload))
		}
	}
	if got := all[4]; string(got.State) != `{"page":4}` || strings.Contains(strings.Join(records[3:], ""), `"state"`) {
		t.Errorf("the fifth run got %s, the records are %q", got.State, records)
	}
}

// A call of the page's tool waits for the page, beside a question of the agent, and the next run gets the result.
func TestAGUICallsOfThePagesTools(t *testing.T) {
	h, requests := aguiServer(t, func(run) []string {
		return []string{
			`{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"look"}`, `{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"at\":\"sky\"}"}`, `{"type":"TOOL_CALL_END","toolCallId":"c1"}`,
			`{"type":"TOOL_CALL_CHUNK","toolCallId":"c2","toolCallName":"look","delta":"{}"}`,
			`{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"input","message":"Sure?"}]}}`,
		}
	}, func(run) []string {
		return []string{`{"type":"TOOL_CALL_RESULT","toolCallId":"c1","content":"blue"}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"Good."}`, `{"type":"RUN_FINISHED"}`}
	})
	if _, err := h.Append(ctx, ann, "s", []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "go", Context: json.RawMessage(`{"client_tools":[{"name":"look"}]}`)})}); err != nil {
		t.Fatal(err)
	}
	question, calls := h.awaitPrompt(1), h.awaitPrompt(2)
	if calls.Approval == nil || len(calls.Approval.Calls) != 2 || !calls.Approval.Calls[0].Client || string(calls.Approval.Calls[0].Params) != `{"at":"sky"}` {
		t.Fatalf("asked for %+v", calls.Approval)
	}
	h.kill() // the prompts outlive the server
	h.start()
	h.answer(question, chat.Answer{Text: "yes"})
	h.answer(calls, chat.Answer{Decisions: []chat.Decision{
		{CallID: calls.Approval.Calls[0].CallID, Approve: true, Result: json.RawMessage(`"blue"`)}, {CallID: calls.Approval.Calls[1].CallID, Approve: true, Error: "no sky here"},
	}})
	h.awaitEnd(1)
	h.wantLog("user go", `calls look {"at":"sky"}`, "calls look {}", "remote.round", "asks text Sure?", "agent.approval_request", "answer yes", "user.approval_response",
		`got "blue"`, "tool error no sky here", "remote.round", "answers Good.", "ended done")
	m := requests()[1].Messages
	if len(m) != 5 || m[1].ToolCalls[0].ID != "c1" || m[3].CallID != "c1" || m[3].Content != "blue" || m[4].CallID != "c2" || m[4].Error != "no sky here" || requests()[1].Resume[0].InterruptID != "i1" {
		t.Errorf("received %+v", m)
	}
}

// A call of the page's tool was not run when the server was killed before the run had ended, so the agent is called again.
func TestAGUICallOfThePagesToolBeforeACrash(t *testing.T) {
	var calls atomic.Int32
	h := newServer(t, httpagent.Options{Protocol: httpagent.AGUI}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		n := calls.Add(1)
		if n < 3 {
			flush(w, `data: {"type":"TOOL_CALL_CHUNK","toolCallId":"c1","toolCallName":"look","delta":"{}"}`+"\n\n", `data: {"type":"TOOL_CALL_END","toolCallId":"c1"}`+"\n\n")
		} else {
			flush(w, `data: {"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"Good."}`+"\n\n")
		}
		if n == 1 {
			<-r.Context().Done()
			return
		}
		flush(w, `data: {"type":"RUN_FINISHED"}`+"\n\n")
	})
	if _, err := h.Append(ctx, ann, "s", []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "go", Context: json.RawMessage(`{"client_tools":[{"name":"look"}]}`)})}); err != nil {
		t.Fatal(err)
	}
	h.await("the call", func() bool {
		return slices.ContainsFunc(h.events, func(e chat.Event) bool { return e.Type == chat.AgentToolCall{}.Type() })
	})
	h.kill()
	h.start()
	p := h.awaitPrompt(1)
	h.answer(p, chat.Answer{Decisions: []chat.Decision{{CallID: p.Approval.Calls[0].CallID, Approve: true, Result: json.RawMessage(`"blue"`)}}})
	h.awaitEnd(1)
	h.wantLog("user go", "calls look {}", "remote.round", "agent.approval_request", "user.approval_response", `got "blue"`, "remote.round", "answers Good.", "ended done")
}

func TestAGUIErrors(t *testing.T) {
	for event, says := range map[string]string{
		`{"type":"RUN_ERROR","message":"out of tokens"}`: "out of tokens",
		`{"type":"RUN`: "cannot be read",
		`{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/no","value":1}]}`: "does not fit",
		`{"type":"CUSTOM","name":"x"}`:                                             "broke off",
	} {
		h, _ := aguiServer(t, func(run) []string {
			return []string{`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"Hi"}`, event}
		})
		h.send("go")
		if end := h.awaitEnd(1); end.Outcome != chat.Failed || !strings.Contains(end.Error, says) {
			t.Errorf("%s: ended %s %s", event, end.Outcome, end.Error)
		}
		h.kill()
	}
}
