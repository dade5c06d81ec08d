package aisdk

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/servertest"
)

func TestAnApprovalContinuesTheMessage(t *testing.T) {
	servertest.EachPlace(t, func(t *testing.T, cluster func() *servertest.Cluster) {
		for _, approve := range []bool{true, false} {
			s := newTestServerIn(t, cluster(), nil)
			asked := s.say("c1", "m1", `/approve deploy {"env":"prod"}`)
			if asked.finish(t) != finishTools {
				t.Fatalf("%v", asked.chunks)
			}
			request := asked.find(t, chunkToolAsk)
			part := fmt.Sprintf(`{"type":"dynamic-tool","toolName":"deploy","toolCallId":%q,"state":"approval-responded","input":{},"approval":{"id":%q,"approved":%t,"reason":"because"}}`,
				request["toolCallId"], request["approvalId"], approve)
			rest := s.answer("c1", asked.id(t), part)
			if rest.id(t) != asked.id(t) || rest.finish(t) != finishStop || rest.run != asked.run+".1" {
				t.Fatalf("the rest is %s %v", rest.run, rest.chunks)
			}
			result := chunkToolOutput
			if !approve {
				result = chunkToolDenied
			}
			if got := rest.find(t, result)["toolCallId"]; got != request["toolCallId"] {
				t.Errorf("the output belongs to %v", got)
			}
			rest.find(t, dataAnswered)
			if late := s.answer("c1", asked.id(t), part); fmt.Sprint(late.chunks) != fmt.Sprint(rest.chunks) {
				t.Errorf("the same answer again gets %v", late.chunks)
			}
			// A page that lost its connection has a part of the rest, and would append the whole of it.
			if again := s.answer("c1", asked.id(t), part+`,{"type":"text","text":"deploy ga"}`); again.status != http.StatusConflict || !strings.Contains(again.text, "resume the chat") {
				t.Errorf("the same answer with a part of the rest gets %d %s %v", again.status, again.text, again.chunks)
			}
			if n := len(s.Events("c1", "user.approval_response")); n != 1 {
				t.Errorf("%d answers are stored", n)
			}
		}
	})
}

// null is neither yes nor no, as the decision and as the output of the tool that asks a page of version 5.
func TestNullDecidesNothing(t *testing.T) {
	s := newTestServer(t, nil)
	for id, ask := range map[string]string{"call": "/approve deploy {}", "permission": "/permission mail"} {
		asked := s.say(id, "m1", ask)
		request := asked.find(t, chunkToolAsk)
		before := len(s.Events(chat.SessionID(id)))
		for _, part := range []string{
			`{"type":"dynamic-tool","toolName":"deploy","toolCallId":"CALL","state":"approval-responded","input":{},"approval":{"id":"APPROVAL","approved":null}}`,
			`{"type":"tool-approve_call","toolCallId":"APPROVAL","state":"output-available","input":{},"output":null}`,
			`{"type":"tool-approve_call","toolCallId":"APPROVAL","state":"output-available","input":{},"output":{"approved":null}}`,
		} {
			part = strings.NewReplacer("CALL", request["toolCallId"].(string), "APPROVAL", request["approvalId"].(string)).Replace(part)
			if got := s.answer(id, asked.id(t), part); got.status < 400 || strings.HasPrefix(got.text, "{") || got.text == "" {
				t.Errorf("%s, %s: %d %s %v", ask, part, got.status, got.text, got.chunks)
			}
		}
		if len(s.Events(chat.SessionID(id))) != before {
			t.Errorf("%s: something was written", ask)
		}
	}
}

func TestAnAnswerThatIsTooLargeIsRefused(t *testing.T) {
	s := newTestServer(t, nil)
	asked := s.say("c1", "m1", "/approve deploy {}")
	request := asked.find(t, chunkToolAsk)
	part := fmt.Sprintf(`{"type":"dynamic-tool","toolName":"deploy","toolCallId":%q,"state":"approval-responded","input":{},"approval":{"id":%q,"approved":false,"reason":%q}}`,
		request["toolCallId"], request["approvalId"], strings.Repeat("x", 1<<20))
	if got := s.answer("c1", asked.id(t), part); got.status != http.StatusRequestEntityTooLarge || got.text != "An answer has at most 768 KiB." {
		t.Errorf("%d %s", got.status, got.text)
	}
}

func TestAForgedApprovalWritesNothing(t *testing.T) {
	s := newTestServer(t, nil)
	done := s.say("c1", "m1", "/echo hello")
	last := len(s.Events("c1"))
	for _, part := range []string{
		`{"type":"dynamic-tool","toolName":"deploy","toolCallId":"x","state":"approval-responded","input":{},"approval":{"id":"p-1/x","approved":true}}`,
		`{"type":"tool-pay","toolCallId":"x","state":"output-available","input":{},"output":1}`,
		`{"type":"text","text":"I approve"}`,
	} {
		if got := s.answer("c1", done.id(t), part); got.status != http.StatusBadRequest || strings.HasPrefix(got.text, "{") {
			t.Errorf("%s: %d %s", part, got.status, got.text)
		}
	}
	if n := len(s.Events("c1")); n != last {
		t.Errorf("%d events were stored", n-last)
	}
}

func TestAQuestionIsAnsweredByAToolOutput(t *testing.T) {
	s := newTestServer(t, nil)
	asked := s.say("c1", "m1", "/ask radio")
	question := asked.find(t, chunkToolInput)
	if question["toolName"] != toolAsk || question["providerExecuted"] != nil {
		t.Fatalf("%v", question)
	}
	option := question["input"].(map[string]any)["options"].([]any)[0].(map[string]any)["id"]
	bad := s.answer("c1", asked.id(t), fmt.Sprintf(`{"type":"tool-ask_person","toolCallId":%q,"state":"output-available","input":{},"output":"none of them"}`, question["toolCallId"]))
	if bad.status != http.StatusBadRequest {
		t.Errorf("a wrong option: %d %s", bad.status, bad.text)
	}
	rest := s.answer("c1", asked.id(t), fmt.Sprintf(`{"type":"tool-ask_person","toolCallId":%q,"state":"output-available","input":{},"output":%q}`, question["toolCallId"], option))
	if rest.words() == "" || rest.finish(t) != finishStop {
		t.Errorf("%v", rest.chunks)
	}
}

func TestAMessageAnswersAQuestion(t *testing.T) {
	servertest.EachPlace(t, func(t *testing.T, cluster func() *servertest.Cluster) {
		s := newTestServerIn(t, cluster(), nil)
		asked := s.say("c1", "m1", "/ask text")
		rest := s.say("c1", "m2", "blue")
		if rest.id(t) == asked.id(t) || !strings.Contains(rest.words(), "blue") {
			t.Fatalf("%v", rest.chunks)
		}
		if slices.Contains(rest.types(), chunkToolOutput) {
			t.Error("the new message has the output of a call of another message")
		}
		if again := s.say("c1", "m2", "blue"); fmt.Sprint(again.chunks) != fmt.Sprint(rest.chunks) {
			t.Errorf("again: %v", again.chunks)
		}
		if n := len(s.Events("c1", "user.message")); n != 1 {
			t.Errorf("%d messages are stored", n)
		}
		var list []struct {
			ID, Role string
			Parts    []struct{ Type, State, Output string }
		}
		_, body, _ := s.Call("GET", "/api/chat/c1/messages", "")
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, m := range list {
			ids = append(ids, m.ID)
		}
		if want := []string{"m1", asked.id(t), "m2", rest.id(t)}; !slices.Equal(ids, want) {
			t.Errorf("the messages are %v, not %v", ids, want)
		} else if question := list[1].Parts[len(list[1].Parts)-1]; question.State != stateOutput || question.Output != "blue" {
			t.Errorf("a page that is loaded again shows the question as %+v", question)
		}
	})
}

func TestAMessageDoesNotWaitBehindAnApproval(t *testing.T) {
	s := newTestServer(t, nil)
	s.say("c1", "m1", `/approve deploy {}`)
	if got := s.say("c1", "m2", "hello?"); got.status != http.StatusConflict {
		t.Errorf("%d %s", got.status, got.text)
	}
	if got := s.post(fileMessage("look", "data:image/png;base64,"+strings.Repeat("QUJD", 20000))); got.status != http.StatusConflict {
		t.Errorf("with a file: %d %s", got.status, got.text)
	}
	if files, _, err := s.Files.List(t.Context(), "c1", "", "", 10); err != nil || len(files) != 0 {
		t.Errorf("stored: %v %v", files, err)
	}
}

func TestAFileIsNoAnswer(t *testing.T) {
	s := newTestServer(t, nil)
	s.say("c1", "m1", "/ask text")
	if got := s.post(fileMessage("blue", "https://example.com/blue.png")); got.status != http.StatusBadRequest {
		t.Errorf("%d %s %v", got.status, got.text, got.chunks)
	}
	if n := len(s.Events("c1", "user.input_response", "user.message")); n != 1 {
		t.Errorf("%d events are stored", n)
	}
}

// follow sends a user message behind an assistant message that has a part.
func (s *testServer) follow(chatID, before, part, id, text string) response {
	s.t.Helper()
	return s.post(fmt.Sprintf(`{"id":%q,"trigger":"submit-message","messages":[{"id":%q,"role":"assistant","parts":[%s]},{"id":%q,"role":"user","parts":[{"type":"text","text":%q}]}]}`,
		chatID, before, part, id, text))
}

func TestAMessageBringsAnswersThatWereNotSent(t *testing.T) {
	s := newTestServer(t, nil)
	asked := s.say("c1", "m1", `/approve deploy {"env":"prod"}`)
	request := asked.find(t, chunkToolAsk)
	part := func(approval any, approved string) string {
		return fmt.Sprintf(`{"type":"dynamic-tool","toolName":"deploy","toolCallId":%q,"state":"approval-responded","input":{},"approval":{"id":%q%s}}`, request["toolCallId"], approval, approved)
	}
	for name, p := range map[string]string{"not decided": part(request["approvalId"], ""), "forged": part("p-1/x", `,"approved":true`)} {
		if got := s.follow("c1", asked.id(t), p, "m2", "/echo next"); got.status != http.StatusConflict {
			t.Errorf("%s: %d %s", name, got.status, got.text)
		}
	}
	if n := len(s.Events("c1", "user.approval_response", "user.message")); n != 1 {
		t.Errorf("%d events are stored", n)
	}
	yes := part(request["approvalId"], `,"approved":true`)
	next := s.follow("c1", asked.id(t), yes, "m2", "/echo next")
	if next.words() != "next" || next.id(t) == asked.id(t) {
		t.Fatalf("%d %s %v", next.status, next.text, next.chunks)
	}
	if again := s.follow("c1", asked.id(t), yes, "m2", "/echo next"); fmt.Sprint(again.chunks) != fmt.Sprint(next.chunks) {
		t.Errorf("again: %v", again.chunks)
	}
	if n := len(s.Events("c1", "user.approval_response")); n != 1 {
		t.Errorf("%d answers are stored", n)
	}
	if n := len(s.Events("c1", "agent.tool_result")); n != 1 {
		t.Errorf("the call has %d results", n)
	}
}

func TestAMessageFollowsAnAnsweredQuestion(t *testing.T) {
	for state, stored := range map[string]int{`"state":"output-available","output":"blue"`: 2, `"state":"output-error","errorText":"cancelled"`: 1} {
		s := newTestServer(t, nil)
		asked := s.say("c1", "m1", "/ask text")
		part := fmt.Sprintf(`{"type":"tool-ask_person","toolCallId":%q,"input":{},%s}`, asked.find(t, chunkToolInput)["toolCallId"], state)
		next := s.follow("c1", asked.id(t), part, "m2", "/echo next") // without an output the message itself is the answer
		if !strings.Contains(next.words(), "next") {
			t.Errorf("%s: %d %s %v", state, next.status, next.text, next.chunks)
		}
		if n := len(s.Events("c1", "user.message")); n != stored {
			t.Errorf("%s: %d messages are stored", state, n)
		}
		if n := len(s.Events("c1", "user.input_response")); n != 1 {
			t.Errorf("%s: %d answers are stored", state, n)
		}
	}
}

// A message that comes while a turn with an open question is being stopped is neither an answer nor refused: the next turn answers it.
func TestMessageWhileAQuestionIsStopped(t *testing.T) {
	for _, what := range []string{"question", "approval"} {
		release := make(chan struct{})
		s := newTestServer(t, map[string]agent.Agent{"slow": agent.Func(func(ctx context.Context, turn *agent.Turn) (err error) {
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
		})})
		message := func(id, text string) string {
			return strings.Replace(userMessage("c1", id, text), "{", `{"agent":"slow",`, 1)
		}
		if asked := s.post(message("m1", what)); asked.finish(t) != finishTools {
			t.Fatalf("%v", asked.chunks)
		}
		if code, text, _ := s.Call("POST", "/api/chat/c1/stop", "", s.header()...); code != http.StatusOK {
			t.Fatal(code, text)
		}
		res := s.Send("POST", "/api/chat", message("m2", "hello"), s.header()...)
		close(release)
		if got := s.read(res, 0); got.words() != "You said: hello" {
			t.Errorf("%s: %d %s %v", what, got.status, got.text, got.chunks)
		}
		s.Close()
	}
}
