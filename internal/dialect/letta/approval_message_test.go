package letta

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parley-hq/parley/internal/dialect/letta/stream"
)

// approving is a body with an approval and a message.
func approving(call, otid, text, more string) string {
	return `{"messages":[{"type":"approval","otid":"` + otid + `","approvals":[{"tool_call_id":"` + call + `","approve":true}]},` +
		strings.TrimPrefix(message(text, more), `{"messages":[`)
}

// A message that is sent together with an approval is answered in the same response, after the approved run.
func TestMessageSentWithAnApprovalIsAnsweredInTheSameResponse(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{})
	a := w.agent("")
	path := "/v1/agents/" + a + "/messages"
	ask := func() frame {
		asked := w.say(a, `/approve rm {"f":1}`)
		return asked.Messages[len(asked.Messages)-1]
	}
	const want = `rm gave {"f":1}You said: and then`

	q := ask()
	got := get[answer](w, "POST", path, approving(q.Call.ID, "o1", "and then", ""))
	if got.text() != want || got.Stop.Reason != stream.StopEndTurn || got.Messages[0].Type != stream.KindToolReturn {
		t.Errorf("whole: %+v", got)
	}
	// The client did not hear of it and sends the same again.
	if again := get[answer](w, "POST", path, approving(q.Call.ID, "o1", "and then", "")); again.text() != want {
		t.Errorf("again: %+v", again)
	}
	said := 0
	for _, m := range get[[]frame](w, "GET", path+"?order=asc", "") {
		if m.Content == "and then" {
			said++
		}
	}
	if said != 1 {
		t.Errorf("it was said %d times", said)
	}

	for _, tokens := range []string{"true", "false"} {
		q = ask()
		frames := w.open(path+"/stream", approving(q.Call.ID, "s"+tokens, "and then", `,"stream_tokens":`+tokens)).rest()
		stops, runs := 0, map[string]bool{}
		for i, f := range frames {
			runs[f.Run] = true
			if f.Stop != "" {
				stops++
			}
			if i > 0 && f.Seq <= frames[i-1].Seq {
				t.Errorf("frame %d is not after the one before: %+v", i, f)
			}
		}
		if textOf(frames) != want || stops != 1 || len(runs) != 2 || frames[len(frames)-2].Stop != stream.StopEndTurn {
			t.Errorf("tokens %s: %q, %d stops, runs %v", tokens, textOf(frames), stops, runs)
		}
	}

	// What is sent along may ask for approval itself.
	q = ask()
	got = get[answer](w, "POST", path, approving(q.Call.ID, "o2", `/approve mv {}`, ""))
	if last := got.Messages[len(got.Messages)-1]; got.Stop.Reason != stream.StopApproval || last.Call.Name != "mv" {
		t.Errorf("asked again: %+v", got)
	} else if got = get[answer](w, "POST", path, approving(last.Call.ID, "o3", "done", "")); got.text() != "mv gave {}You said: done" {
		t.Errorf("answered again: %+v", got)
	}
}

// Messages before the answer to a question are stored and start no turn.
func TestMessagesBeforeAnAnswerStartNoTurn(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{})
	a := w.agent("")
	path := "/v1/agents/" + a + "/messages"
	w.say(a, "/ask radio")
	if code, body := w.do("POST", path, `{"messages":[{"role":"system","content":"A note."},{"role":"user","content":"pigeon"}]}`); code != http.StatusBadRequest {
		t.Errorf("no option: %d %s", code, body)
	}
	got := get[answer](w, "POST", path, `{"messages":[{"role":"system","content":"A note."},{"role":"user","content":"sms"}]}`)
	if got.text() != "You answered: sms" {
		t.Errorf("%+v", got)
	}
	var notes int
	for _, m := range get[[]frame](w, "GET", path, "") {
		if m.Type == stream.KindSystem && m.Content == "A note." {
			notes++
		}
	}
	if notes != 1 {
		t.Errorf("the note is there %d times", notes)
	}
}

// When the message that is sent with an approval is refused, the approval is not stored either.
func TestRefusedMessageSentWithAnApprovalDecidesNothing(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{})
	a := w.agent("")
	path := "/v1/agents/" + a + "/messages"
	get[answer](w, "POST", path, `{"messages":[{"role":"user","content":"first","otid":"taken"}]}`)
	asked := w.say(a, `/approve rm {}`)
	call := asked.Messages[0].Call.ID
	yes := `{"messages":[{"type":"approval","approvals":[{"tool_call_id":"` + call + `","approve":true}]},{"role":"user","content":"other","otid":"taken"}]}`
	if code, b := w.do("POST", path, yes); code != http.StatusConflict || !strings.Contains(detailOf(b), `the otid "taken" was used before`) {
		t.Errorf("%d %s", code, b)
	}
	if got := get[answer](w, "POST", path, approving(call, "", "x", "")); got.text() != "rm gave {}You said: x" {
		t.Errorf("it cannot be answered any more: %+v", got)
	}
}
