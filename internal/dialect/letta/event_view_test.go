package letta

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
)

// eventFrames returns the types and the JSON of the frames of all events of a session, by event type.
func eventFrames(t *testing.T, w *testServer, id chat.SessionID) (kinds map[string][]string, said map[string]string) {
	t.Helper()
	facts, _, err := w.Sessions.Read(t.Context(), chat.Trusted, id, chat.Range{Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	kinds, said = map[string][]string{}, map[string]string{}
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			t.Fatal(err)
		}
		v, err := w.dialect.As(t.Context(), f)
		if err != nil {
			t.Fatalf("%s: %v", e.Type, err)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var frames []json.RawMessage
		if err := json.Unmarshal(b, &frames); err != nil {
			t.Fatalf("%s: %v in %s", e.Type, err, b)
		}
		for _, frame := range frames {
			var head struct {
				Type string `json:"message_type"`
			}
			if err := json.Unmarshal(frame, &head); err != nil {
				t.Fatalf("%s: %v in %s", e.Type, err, frame)
			}
			kinds[e.Type] = append(kinds[e.Type], head.Type)
			said[e.Type] += string(frame)
		}
	}
	return kinds, said
}

// The frames of a run's events have the ids of the messages that the client got.
func TestEventsAsFrames(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{})
	a := w.agent("")
	answer := w.say(a, `/tool calc {"a":1}`)
	kinds, said := eventFrames(t, w, chat.SessionID(a))
	for typ, want := range map[string]string{
		"user.message": stream.KindUser, "agent.tool_call": stream.KindToolCall, "agent.tool_result": stream.KindToolReturn, "agent.text": stream.KindAssistant,
		"turn.completed": "stop_reason usage_statistics", "turn.started": "", "session.started": "",
	} {
		if got := strings.Join(kinds[typ], " "); got != want {
			t.Errorf("%s became %q, want %q", typ, got, want)
		}
	}
	all := said["agent.tool_call"] + said["agent.tool_result"] + said["agent.text"]
	for _, m := range answer.Messages {
		if !strings.Contains(all, m.ID) {
			t.Errorf("no event is shown as message %s, which the client got", m.ID)
		}
	}
	if !strings.Contains(said["agent.tool_call"], `"tool_calls":[{`) {
		t.Errorf("calls are not a list in %s", said["agent.tool_call"])
	}
	if !strings.Contains(said["user.message"], `"run_id":"run-`) {
		t.Errorf("the message does not name its run: %s", said["user.message"])
	}
}

// Failures, questions, answers and events outside of a turn have frames too.
func TestFailuresAndQuestionsAsFrames(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{})
	a := w.agent("")
	id := chat.SessionID(a)
	w.do("POST", "/v1/agents/"+a+"/messages", message("/fail out of luck", ""))
	kinds, said := eventFrames(t, w, id)
	if got := strings.Join(kinds["turn.completed"], " "); got != "stop_reason error_message" || !strings.Contains(said["turn.completed"], "out of luck") {
		t.Errorf("a failure became %q: %s", got, said["turn.completed"])
	}
	w.say(a, "/approve deploy {}")
	prompts, err := w.Sessions.State(t.Context(), chat.Trusted, id)
	if err != nil || len(prompts.Prompts) != 1 {
		t.Fatalf("%v, %d prompts", err, len(prompts.Prompts))
	}
	call := prompts.Prompts[0].Approval.Calls[0].CallID
	if code, body := w.do("POST", "/v1/agents/"+a+"/messages", `{"messages":[{"type":"approval","approvals":[{"type":"approval","tool_call_id":"`+call+`","approve":false,"reason":"too risky"}]}]}`); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	kinds, said = eventFrames(t, w, id)
	if got := strings.Join(kinds["agent.approval_request"], " "); got != stream.KindApprovalRequest+" stop_reason usage_statistics" {
		t.Errorf("an approval request became %q", got)
	}
	if got := strings.Join(kinds["user.approval_response"], " "); got != stream.KindApprovalResponse+" "+stream.KindToolReturn || !strings.Contains(said["user.approval_response"], "too risky") {
		t.Errorf("the answer became %q: %s", got, said["user.approval_response"])
	}
	none := chat.NoAgent
	if _, err := w.Sessions.Update(t.Context(), owner, id, chat.SessionUpdated{Agent: &none}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Sessions.Append(t.Context(), owner, id, []chat.Draft{
		chat.NewDraft(chat.AgentPlan{Tasks: []chat.Task{{ID: "1", Title: "Look"}}}), chat.NewDraft(chat.AgentText{Text: "on my own"}),
	}); err != nil {
		t.Fatal(err)
	}
	kinds, said = eventFrames(t, w, id)
	if !strings.Contains(said["agent.text"], "on my own") || len(kinds["agent.plan"]) != 0 {
		t.Errorf("outside of a run: %v, text %s", kinds["agent.plan"], said["agent.text"])
	}
}
