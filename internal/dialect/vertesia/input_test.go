package vertesia

import (
	"fmt"
	"strings"
	"testing"
)

// A client that got no response sends its answer again, when the prompt has ended: it gets the same response. An answer
// that came late is refused, also when it is sent again.
func TestTheSameAnswerAgainIsAccepted(t *testing.T) {
	for name, test := range map[string]struct{ ask, answer string }{
		"approval":         {"/approve deploy {}", `"message":"allow_once","metadata":{"tool_approval_response":{"decision":"allow_once","approval_key":%q}}`},
		"option":           {"/ask radio", `"message":"blue","metadata":{"request_input_response":{"request_id":%q}}`},
		"text":             {"/ask text", `"message":"blue","metadata":{"request_input_response":{"request_id":%q}}`},
		"without metadata": {"/approve deploy {}", `"message":"yes"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newServer(t, setup{})
			var run struct{ ID string }
			w.ok("POST", "/api/v1/agents", fmt.Sprintf(`{"interaction":"demo","data":{"task":%q},"interactive":true}`, test.ask), &run)
			s := w.stream(run.ID, "")
			s.until(is(RequestInput))
			p := w.state(run.ID).Prompts[0]
			answer := test.answer
			if name == "option" {
				answer = fmt.Sprintf(`"message":%q,"metadata":{"request_input_response":{"request_id":%%q}}`, p.Input.Options[0].ID)
			}
			if name != "without metadata" {
				answer = fmt.Sprintf(answer, p.RequestID)
			}
			first := `{"client_message_id":"first",` + answer + `}`
			w.signal(run.ID, "UserInput", first)
			s.until(is(Idle))
			w.signal(run.ID, "UserInput", first)
			if name != "without metadata" { // that would be a new message
				for range 2 {
					if code, got, _ := w.Call("POST", "/api/v1/agents/"+run.ID+"/signal/UserInput", `{"client_message_id":"late",`+answer+`}`); code != 409 {
						t.Errorf("the late answer gets %d %s", code, got)
					}
				}
			}
			// The next question is not answered by the repetition.
			w.signal(run.ID, "UserInput", fmt.Sprintf(`{"message":%q}`, test.ask))
			s.until(is(RequestInput))
			w.signal(run.ID, "UserInput", first)
			if st := w.state(run.ID); len(st.Prompts) != 1 {
				t.Errorf("%d prompts are open", len(st.Prompts))
			}
		})
	}
}

// A client that got no response sends its message again, when the agent has asked something meanwhile: the message is no answer.
func TestTheSameMessageAgainIsNoAnswer(t *testing.T) {
	w := newServer(t, setup{})
	id := w.start("hello", true)
	s := w.stream(id, "")
	s.until(is(Idle))
	message := `{"client_message_id":"m1","message":"/ask text"}`
	w.signal(id, "UserInput", message)
	s.until(is(RequestInput))
	w.signal(id, "UserInput", message)
	if st := w.state(id); len(st.Prompts) != 1 {
		t.Errorf("%d prompts are open", len(st.Prompts))
	}
}

// A decision that is not one of the protocol's is refused: it is neither an approval nor a denial. Without a decision the
// text is the choice.
func TestAnUnknownDecisionIsRefused(t *testing.T) {
	w := newServer(t, setup{})
	id := w.start("/approve deploy {}", true)
	s := w.stream(id, "")
	s.until(is(RequestInput))
	key := w.state(id).Prompts[0].RequestID
	body := fmt.Sprintf(`{"message":"allow_once","metadata":{"tool_approval_response":{"decision":"always","approval_key":%q}}}`, key)
	code, got, _ := w.Call("POST", "/api/v1/agents/"+id+"/signal/UserInput", body)
	if code != 400 || !strings.Contains(string(got), "allow_once, allow_for_run, deny, deny_with_feedback") || len(w.state(id).Prompts) != 1 {
		t.Fatalf("%d %s, %d prompts are open", code, got, len(w.state(id).Prompts))
	}
	w.signal(id, "UserInput", fmt.Sprintf(`{"message":"Allow once","metadata":{"tool_approval_response":{"approval_key":%q}}}`, key))
	if got := s.until(is(Answer)).M; got != "deploy gave {}" {
		t.Errorf("the agent says %q", got)
	}
}
