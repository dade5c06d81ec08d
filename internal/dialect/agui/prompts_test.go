package agui

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/pages"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/session"
)

// answerEntry is a resume entry.
func answerEntry(id, payload string) string {
	if payload == "" {
		return fmt.Sprintf(`{"interruptId":%q,"status":"cancelled"}`, id)
	}
	return fmt.Sprintf(`{"interruptId":%q,"status":"resolved","payload":%s}`, id, payload)
}

func TestPromptsAreInterrupts(t *testing.T) {
	for _, c := range []struct{ say, reason, payload, want string }{
		{"/ask text", "input_required", `{"value":"Ann"}`, "You answered: Ann"},
		{"/ask text", "input_required", `"Ann"`, "You answered: Ann"},
		{"/ask radio", "input_required", `{"value":"sms"}`, "You answered: sms"},
		{"/ask checkbox", "input_required", `{"value":["email","push"]}`, "You answered: email, push"},
		{"/ask binary_choice", "input_required", `{"value":false}`, "You answered: cancel"},
		{"/approve deploy {}", "tool_call", `{"approved":true}`, "deploy gave {}"},
		{"/approve deploy {}", "tool_call", `{"approved":true,"editedArgs":{"env":"test"}}`, `deploy gave {"env":"test"}`},
		{"/approve deploy {}", "tool_call", `{"approved":false,"reason":"not today"}`, "Denied: not today"},
		{"/approve deploy {}", "tool_call", "", "Denied: The person cancelled the question."},
		{"/permission mail calendar", "permission", `{"granted":["mail"]}`, "Granted: mail. Denied: calendar"},
		{"/permission mail calendar", "permission", "", "Denied: mail, calendar"},
	} {
		s := newTestServer(t, setup{})
		asked := last(s.run(body("th", "r1", "u1 "+c.say)))
		if asked.Outcome.Type != "interrupt" || len(asked.Outcome.Interrupts) != 1 || asked.Outcome.Interrupts[0].Reason != c.reason {
			t.Fatalf("%s: %s", c.say, asked.json)
		}
		frames := s.run(resumed("th", "r2", answerEntry(asked.Outcome.Interrupts[0].ID, c.payload), "u1 "+c.say))
		if frames[0].RunID != "r2" || said(frames) != c.want || last(frames).Outcome.Type != "success" {
			t.Errorf("%s with %s: %q %s", c.say, c.payload, said(frames), last(frames).json)
		}
		again := s.run(resumed("th", "r2", answerEntry(asked.Outcome.Interrupts[0].ID, c.payload), "u1 "+c.say))
		wantFrames(t, c.say+" answered again", again, frames)
		s.Close()
	}
}

func TestCancelledQuestionEndsTheTurn(t *testing.T) {
	s := newTestServer(t, setup{})
	asked := last(s.run(body("th", "r1", "u1 /ask text")))
	frames := s.run(resumed("th", "r2", answerEntry(asked.Outcome.Interrupts[0].ID, "")))
	if end := last(frames); end.Outcome == nil || end.Outcome.Type != "cancelled" {
		t.Errorf("got %s", end.json)
	}
}

func TestInterruptHasItsDeadline(t *testing.T) {
	s := newTestServer(t, setup{})
	asked := last(s.run(body("th", "r1", "u1 /ask radio timeout=0.2")))
	i := asked.Outcome.Interrupts[0]
	if i.ExpiresAt == "" || !strings.Contains(string(i.ResponseSchema), `"enum":["email","sms","push"]`) {
		t.Errorf("got %s", asked.json)
	}
	s.Until("th", chat.TurnCompleted{}.Type(), 1)
	// After its deadline only a cancellation passes the client.
	frames := s.run(resumed("th", "r2", answerEntry(i.ID, "")))
	if said(frames) != "No answer in time." {
		t.Errorf("got %q", said(frames))
	}
	late := s.run(resumed("th", "r3", answerEntry(i.ID, `{"value":"sms"}`)))
	if late[1].Type != "CUSTOM" || late[1].Name != "parley.answered" || !strings.Contains(string(late[1].Value), "The deadline of the question has passed") || said(late) != "No answer in time." {
		t.Errorf("a late answer: %s", late[1].json)
	}
	// Clients before 1.0 refuse every answer after the deadline, so they read it in the metadata.
	old := last(s.run(strings.Replace(body("old", "r1", "u1 /ask radio timeout=60"), `"protocolVersion":"1.0",`, "", 1)))
	if old.Outcome.Interrupts[0].ExpiresAt != "" || !strings.Contains(old.json, `"expiresAt":"2`) {
		t.Errorf("got %s", old.json)
	}
}

// elsewhere answers a prompt with a text before the first answer of this dialect reaches it.
type elsewhere struct {
	pages.Sessions
	text string
	once sync.Once
}

func (o *elsewhere) Answer(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string, a chat.Answer) (e chat.Event, err error) {
	o.once.Do(func() { _, err = o.Sessions.Answer(ctx, c, id, requestID, chat.Answer{Text: o.text}) })
	if err != nil {
		return e, err
	}
	return o.Sessions.Answer(ctx, c, id, requestID, a)
}

func TestAnotherAnswerInTheSameMoment(t *testing.T) {
	for _, first := range []string{"sms", "push"} {
		s := newTestServer(t, setup{between: func(all *session.Sessions) pages.Sessions { return &elsewhere{Sessions: all, text: first} }})
		asked := last(s.run(body("th", "r1", "u1 /ask radio")))
		frames := s.run(resumed("th", "r2", answerEntry(asked.Outcome.Interrupts[0].ID, `{"value":"sms"}`), "u1 /ask radio"))
		if said(frames) != "You answered: "+first || last(frames).Outcome.Type != "success" {
			t.Errorf("%s was first: %q %s", first, said(frames), last(frames).json)
		}
		if told := frames[1].Type == "CUSTOM" && frames[1].Name == "parley.answered"; told != (first == "push") {
			t.Errorf("%s was first: the run begins with %s", first, frames[1].json)
		}
		s.Close()
	}
	// A message that would have answered is a message.
	s := newTestServer(t, setup{between: func(all *session.Sessions) pages.Sessions { return &elsewhere{Sessions: all, text: "push"} }})
	s.run(body("th", "r1", "u1 /ask radio"))
	if frames := s.run(body("th", "r2", "u1 /ask radio", "u2 sms")); said(frames) != "You said: sms" {
		t.Errorf("got %q %s", said(frames), last(frames).json)
	}
}

// late refuses answers as after a deadline whose end is not stored yet.
type late struct{ pages.Sessions }

func (l late) Answer(context.Context, chat.Caller, chat.SessionID, string, chat.Answer) (e chat.Event, err error) {
	refused := chat.Errorf(chat.Conflict, "its deadline has passed")
	refused.Reason = chat.PromptEnded
	return e, refused
}

func TestAnswerBetweenTheDeadlineAndItsEnd(t *testing.T) {
	s := newTestServer(t, setup{between: func(all *session.Sessions) pages.Sessions { return late{all} }})
	asked := last(s.run(body("th", "r1", "u1 /ask radio")))
	id := asked.Outcome.Interrupts[0].ID
	res := s.open("/ag-ui/demo", resumed("th", "r2", answerEntry(id, `{"value":"sms"}`), "u1 /ask radio"))
	defer res.Close()
	if _, err := s.Sessions.Answer(t.Context(), chat.Trusted, "th", id, chat.Answer{Values: []string{"push"}}); err != nil {
		t.Fatal(err)
	}
	frames, err := readFrames(res.Reader, -1)
	if err != nil || frames[1].Name != "parley.answered" || said(frames) != "You answered: push" {
		t.Errorf("got %s, %v", types(frames), err)
	}
}

func TestAnswerGivenElsewhere(t *testing.T) {
	s := newTestServer(t, setup{})
	asked := last(s.run(body("th", "r1", "u1 /ask radio")))
	id := asked.Outcome.Interrupts[0].ID
	if _, err := s.Sessions.Answer(t.Context(), chat.Trusted, "th", id, chat.Answer{Values: []string{"push"}}); err != nil {
		t.Fatal(err)
	}
	same := s.run(resumed("th", "r2", answerEntry(id, `{"value":"push"}`)))
	if types(same) != "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED" {
		t.Errorf("the same answer: %s", types(same))
	}
	other := s.run(resumed("th", "r3", answerEntry(id, `{"value":"sms"}`)))
	if other[1].Name != "parley.answered" || said(other) != "You answered: push" {
		t.Errorf("another answer: %s %q", other[1].json, said(other))
	}
	if n := s.count("th", chat.UserInputResponse{}); n != 1 {
		t.Errorf("%d answers", n)
	}
}

func TestSchemaOfABinaryChoiceIsABoolean(t *testing.T) {
	s := newTestServer(t, setup{})
	i := last(s.run(body("th", "r1", "u1 /ask binary_choice"))).Outcome.Interrupts[0]
	if !strings.Contains(string(i.ResponseSchema), `"value":{"type":"boolean"}`) {
		t.Errorf("got %s", i.ResponseSchema)
	}
}

func TestResultOfAPageToolWithPicturesKeepsThem(t *testing.T) {
	parts := `[{"type":"text","text":"done"},{"type":"image","source":{"type":"url","value":"https://example.com/a.png"}}]`
	if got := toolDecision("c", message{Content: json.RawMessage(parts)}).Result; string(got) != parts {
		t.Errorf("got %s", got)
	}
	if got := toolDecision("c", message{Content: json.RawMessage(`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`)}).Result; string(got) != `"a\nb"` {
		t.Errorf("got %s", got)
	}
}

func TestInvalidAnswerLeavesThePromptOpen(t *testing.T) {
	s := newTestServer(t, setup{})
	asked := last(s.run(body("th", "r1", "u1 /ask radio")))
	id := asked.Outcome.Interrupts[0].ID
	before := len(s.Events("th"))
	s.refused(400, "/ag-ui/demo", resumed("th", "r2", answerEntry(id, `{"value":"pigeon"}`)))
	s.refused(400, "/ag-ui/demo", resumed("th", "r2", answerEntry("p-forged", `{"approved":true}`)))
	if len(s.Events("th")) != before {
		t.Error("something was written")
	}
	if frames := s.run(resumed("th", "r3", answerEntry(id, `{"value":"sms"}`))); said(frames) != "You answered: sms" {
		t.Errorf("got %q", said(frames))
	}
	id = last(s.run(body("th", "r4", "u4 /approve deploy {}"))).Outcome.Interrupts[0].ID
	s.refused(400, "/ag-ui/demo", resumed("th", "r5", answerEntry(id, `{"approved":true,"editedArgs":"{}"}`)))
	if frames := s.run(resumed("th", "r6", answerEntry(id, `{"approved":true,"editedArgs":null}`))); said(frames) != "deploy gave {}" {
		t.Errorf("got %q", said(frames))
	}
}

// A client that knows no interrupts sends a message instead.
func TestMessageWhileAPromptIsOpen(t *testing.T) {
	s := newTestServer(t, setup{})
	s.run(body("th", "r1", "u1 /ask radio"))
	if frames := s.run(body("th", "r2", "u1 /ask radio", "u2 sms")); said(frames) != "You answered: sms" {
		t.Errorf("a message that fits: %q", said(frames))
	}
	for _, run := range []string{"r2", "r2-again"} {
		if frames := s.run(body("th", run, "u1 /ask radio", "u2 sms")); frames[0].RunID != "r2" || said(frames) != "You answered: sms" {
			t.Errorf("the message again: %s %q", frames[0].RunID, said(frames))
		}
	}
	s.run(body("th", "r3", "u3 /approve deploy {}"))
	frames := s.run(body("th", "r4", "u4 go on"))
	if types(frames) != "RUN_STARTED RUN_FINISHED" || last(frames).Outcome.Type != "interrupt" {
		t.Errorf("a message that does not fit: %s %s", types(frames), last(frames).json)
	}
	if n := s.count("th", chat.UserMessage{}); n != 2 {
		t.Errorf("%d messages", n)
	}
}

func TestEachCallOfAnApprovalIsAnInterrupt(t *testing.T) {
	s := newTestServer(t, setup{})
	asked := last(s.run(body("th", "r1", "u1 /tools one; deploy?; rm? {}")))
	if len(asked.Outcome.Interrupts) != 2 {
		t.Fatalf("got %s", asked.json)
	}
	yes, no := asked.Outcome.Interrupts[0], asked.Outcome.Interrupts[1]
	half := s.run(resumed("th", "r2", answerEntry(yes.ID, `{"approved":true}`)))
	if end := last(half); end.Outcome.Type != "interrupt" || len(end.Outcome.Interrupts) != 2 {
		t.Errorf("half of the answers: %s", end.json)
	}
	frames := s.run(resumed("th", "r3", answerEntry(yes.ID, `{"approved":true}`)+","+answerEntry(no.ID, `{"approved":false}`)))
	if said(frames) != "one gave {}\ndeploy gave {}\nrm was not allowed" {
		t.Errorf("got %q", said(frames))
	}
	var denied bool
	for _, f := range frames {
		denied = denied || f.Type == "TOOL_CALL_RESULT" && f.ToolCallID == no.ToolCallID
	}
	if !denied {
		t.Error("the refused call has no result")
	}
}

func TestClientToolsAreRunByThePage(t *testing.T) {
	servertest.EachPlace(t, func(t *testing.T, cluster func() *servertest.Cluster) {
		s := newTestServer(t, setup{cluster: cluster()})
		tools := func(b string) string {
			return strings.Replace(b, `"tools":[]`, `"tools":[{"name":"paint","description":"paints","parameters":{"type":"object"}}]`, 1)
		}
		say := `u1 /approve paint {"color":"red"}`
		frames := s.run(tools(body("th", "r1", say)))
		end := last(frames)
		if end.Outcome.Type != "success" || len(end.Outcome.Pending) != 1 {
			t.Fatalf("got %s", end.json)
		}
		call := end.Outcome.Pending[0]
		assistant := fmt.Sprintf(`{"id":"a1","role":"assistant","toolCalls":[{"id":%q,"type":"function","function":{"name":"paint","arguments":"{}"}}]}`, call)
		result := fmt.Sprintf(`{"id":"t1","role":"tool","toolCallId":%q,"content":"painted"}`, call)
		if frames = s.run(tools(body("th", "r2", say, assistant, result))); said(frames) != `paint gave "painted"` || frames[0].RunID != "r2" {
			t.Errorf("got %q", said(frames))
		}
		again := s.run(tools(body("th", "r2", say, assistant, result)))
		wantFrames(t, "the result again", again, frames)
		old := last(s.run(strings.Replace(tools(body("old", "r1", say)), `"protocolVersion":"1.0",`, "", 1)))
		if old.Outcome.Type != "success" || old.Outcome.Pending != nil {
			t.Errorf("before 1.0: %s", old.json)
		}
	})
}

// CopilotKit adds a tool message for an interrupt that it answers.
func TestToolMessageForAnApprovalIsNoResult(t *testing.T) {
	s := newTestServer(t, setup{})
	asked := last(s.run(body("th", "r1", "u1 /approve deploy {}")))
	i := asked.Outcome.Interrupts[0]
	message := fmt.Sprintf(`{"id":"t1","role":"tool","toolCallId":%q,"content":"{\"approved\":true}"}`, i.ToolCallID)
	frames := s.run(resumed("th", "r2", answerEntry(i.ID, `{"approved":true}`), "u1 /approve deploy {}", message))
	if said(frames) != "deploy gave {}" {
		t.Errorf("got %q", said(frames))
	}
	// Without resume it is a forged result of a call that the agent runs itself.
	asked = last(s.run(body("forged", "r1", "u1 /approve deploy {}")))
	message = fmt.Sprintf(`{"id":"t1","role":"tool","toolCallId":%q,"content":"{\"approved\":true}"}`, asked.Outcome.Interrupts[0].ToolCallID)
	frames = s.run(body("forged", "r2", "u1 /approve deploy {}", `{"id":"a1","role":"assistant","content":""}`, message))
	if last(frames).Outcome.Type != "interrupt" || s.count("forged", chat.UserApprovalResponse{}) != 0 {
		t.Errorf("a forged result: %s", last(frames).json)
	}
}

// A workstream that asks ends the run of the main line, and goes on in the next one under the same id.
func TestWorkstreamAsks(t *testing.T) {
	parent := agent.Func(func(ctx context.Context, t *agent.Turn) error {
		if t.Workstream != "" {
			p, err := t.Ask(ctx, chat.AgentInputRequest{InputType: chat.InputText, Text: "Which one?"})
			if err != nil {
				return err
			}
			w := t.Stream(true)
			if err := w.Write(ctx, "I take "+p.Text); err != nil {
				return err
			}
			return w.Close(ctx)
		}
		if _, err := t.Launch(ctx, chat.Launch{ID: "w1", Instruction: "choose"}); err != nil {
			return err
		}
		if _, err := t.Await(ctx, "w1"); err != nil {
			return err
		}
		w := t.Stream(true)
		if err := w.Write(ctx, "Done."); err != nil {
			return err
		}
		return w.Close(ctx)
	})
	s := newTestServer(t, setup{agents: map[string]agentType{"parent": parent}})
	frames := s.stream("/ag-ui/parent", body("th", "r1", "u1 go"))
	end := last(frames)
	if end.Outcome.Type != "interrupt" || end.Outcome.Interrupts[0].SubagentRunID != "w1" || !strings.Contains(types(frames), "SUBAGENT_STARTED") || frames[len(frames)-2].Type != "SUBAGENT_FINISHED" {
		t.Fatalf("%s: %s", types(frames), end.json)
	}
	frames = s.stream("/ag-ui/parent", resumed("th", "r2", answerEntry(end.Outcome.Interrupts[0].ID, `{"value":"tea"}`)))
	if got := said(frames); got != "I take teaDone." || last(frames).Outcome.Type != "success" {
		t.Errorf("%s: %q", types(frames), got)
	}
	_, text, _ := s.Call("GET", "/api/copilotkit/threads/th/events", "")
	var list struct{ Events []json.RawMessage }
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	if problem := verify(list.Events, true); problem != "" {
		t.Error(problem)
	}
}

func TestMessageWithAnAnswerIsAnsweredAfterIt(t *testing.T) {
	s := newTestServer(t, setup{})
	asked := last(s.run(body("th", "r1", "u1 /ask radio")))
	b := resumed("th", "r2", answerEntry(asked.Outcome.Interrupts[0].ID, `{"value":"sms"}`), "u1 /ask radio", "u2 and more")
	frames := s.run(b)
	if got := said(frames); got != "You answered: smsYou said: and more" {
		t.Errorf("got %q", got)
	}
	if again := s.run(b); said(again) != "You answered: sms" || s.count("th", chat.UserMessage{}) != 2 {
		t.Errorf("again: %q, %d messages", said(again), s.count("th", chat.UserMessage{}))
	}
}

// Of several pages that answer at once one is first, and all of them get the run.
func TestPagesAnswerAtOnce(t *testing.T) {
	s := newTestServer(t, setup{})
	asked := last(s.run(body("th", "r1", "u1 /ask radio")))
	id := asked.Outcome.Interrupts[0].ID
	var pages sync.WaitGroup
	texts := make([]string, 8)
	for i := range texts {
		pages.Go(func() {
			value := []string{"sms", "push"}[i%2]
			code, text, _ := s.Call("POST", "/ag-ui/demo", resumed("th", fmt.Sprint("page-", i), answerEntry(id, `{"value":"`+value+`"}`)))
			if code != 200 {
				text = fmt.Sprint(code, " ", text)
			}
			texts[i] = text
		})
	}
	pages.Wait()
	if n := s.count("th", chat.UserInputResponse{}); n != 1 {
		t.Errorf("%d answers", n)
	}
	answer := s.Events("th", chat.UserInputResponse{}.Type())[0].Body.(chat.UserInputResponse).Values[0]
	for i, text := range texts {
		if !strings.Contains(text, `"RUN_FINISHED"`) || !strings.Contains(text, answer) {
			t.Errorf("page %d: %s", i, text)
		}
	}
}

// A message that comes while a turn with an open question is being stopped is neither an answer nor lost: the next turn answers it.
func TestMessageWhileAQuestionIsStopped(t *testing.T) {
	for _, what := range []string{"question", "approval"} {
		release := make(chan struct{})
		s := newTestServer(t, setup{agents: map[string]agentType{"slow": agent.Func(func(ctx context.Context, turn *agent.Turn) (err error) {
			switch turn.Text() {
			case "question":
				_, err = turn.Ask(ctx, chat.AgentInputRequest{InputType: chat.InputText, Text: "Who?"})
			case "approval":
				_, err = turn.Approve(ctx, chat.AgentApprovalRequest{Calls: []chat.ApprovalCall{{CallID: "c1", Tool: "pay"}}})
			default:
				return turn.Say(ctx, "You said: "+turn.Text())
			}
			<-release // it takes a while to stop
			return err
		})}})
		if end := last(s.stream("/ag-ui/slow", body("th", "r1", "u1 "+what))); end.Outcome.Type != "interrupt" {
			t.Fatal(end.json)
		}
		if _, text, _ := s.Call("POST", "/api/copilotkit/agent/slow/stop/th", `{}`); strings.TrimSpace(text) != `{"stopped":true}` {
			t.Fatal(text)
		}
		res := s.open("/ag-ui/slow", body("th", "r2", "u1 "+what, "u2 hello"))
		close(release)
		frames, err := readFrames(res.Reader, -1)
		if res.Close(); err != nil {
			t.Fatal(err)
		}
		if said(frames) != "You said: hello" || last(frames).RunID != "r2" || s.count("th", chat.UserInputResponse{}) != 0 {
			t.Errorf("%s: %q, %s", what, said(frames), last(frames).json)
		}
		s.Close()
	}
}
