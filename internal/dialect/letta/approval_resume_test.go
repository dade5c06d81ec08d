package letta

import (
	"fmt"
	"testing"

	"github.com/parley-hq/parley/internal/dialect/letta/stream"
)

// Clients that come back look at the last message of the conversation, or of the agent, for an open approval request.
func TestOpenApprovalIsTheLastMessage(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{})
	a := w.agent("")
	conv := get[object](w, "POST", "/v1/conversations/?agent_id="+a, "{}")["id"].(string)
	for path, at := range map[string]string{"/v1/agents/" + a + "/messages": "/v1/agents/" + a, "/v1/conversations/" + conv + "/messages": "/v1/conversations/" + conv} {
		w.do("POST", path, message(`/approve deploy {"env":"prod"}`, `,"streaming":false`))
		ids, _ := get[object](w, "GET", at, "")["in_context_message_ids"].([]any)
		if len(ids) < 2 {
			t.Fatalf("%s has %v", at, ids)
		}
		items := get[[]object](w, "GET", fmt.Sprint("/v1/messages/", ids[len(ids)-1]), "")
		if last := items[len(items)-1]; last["message_type"] != stream.KindApprovalRequest {
			t.Errorf("%s: the last is %v", at, last)
		}
	}
}

// Every frame has its own position, so a stream that is cut between two frames is resumed with the second.
func TestStreamIsResumedAroundAQuestion(t *testing.T) {
	t.Parallel()
	for _, ask := range []string{"/ask text", "/ask radio", "/permission files:read"} {
		w := newTestServer(t, setup{})
		a := w.agent("")
		live := w.open("/v1/agents/"+a+"/messages", message(ask, `,"streaming":true,"include_pings":false`)).rest()
		for i := 1; i < len(live); i++ {
			if live[i].Type != "" && live[i].Seq <= live[i-1].Seq {
				t.Errorf("%s: %s at %d comes after %s at %d", ask, live[i].Type, live[i].Seq, live[i-1].Type, live[i-1].Seq)
			}
		}
	}
}

// A client that lost the response to its answer sends the answer again. By then the run may have ended.
func TestAnswerIsSentAgainAfterTheRun(t *testing.T) {
	t.Parallel()
	for ask, reply := range map[string]string{"/ask text": "blue", "/ask radio": "sms", "/permission files:read": "yes"} {
		w := newTestServer(t, setup{})
		a := w.agent("")
		path := "/v1/agents/" + a + "/messages"
		w.say(a, ask)
		with := func(text string) string {
			return fmt.Sprintf(`{"messages":[{"role":"user","content":%q,"otid":"o-1"}]}`, text)
		}
		first := get[answer](w, "POST", path, with(reply))
		if again := get[answer](w, "POST", path, with(reply)); again.text() == "" || again.text() != first.text() {
			t.Errorf("%s: %q, and then %q", ask, first.text(), again.text())
		}
		if code, b := w.do("POST", path, with("no, something else")); code != 409 {
			t.Errorf("%s: another message with its otid: %d %s", ask, code, b)
		}
	}
}
