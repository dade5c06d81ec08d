package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// question is a prompt that is open in a hall.
type question struct {
	kind    string // radio, approve, permission
	request string
	call    string // of an approval
	parent  string // NeMo's name for the message that led to it
}

// questions are what raises each kind, its event, and what the agent says when
// it has been answered.
var questions = []struct{ kind, ask, event, answer string }{
	{"radio", "/ask radio", "agent.input_request", "You answered: sms"},
	{"approve", `/approve deploy {"x":1}`, "agent.approval_request", `deploy gave {"x":1}`},
	{"permission", "/permission files.write", "agent.permission_request", "Granted: files.write"},
}

// answer answers as a client of the dialect does. refused is why it was not
// taken, "" if it was; ok is false where the dialect cannot say which prompt it
// answers, so that what comes late is something else.
func (h *hall) answer(dialect string, q question, late bool) (refused string, ok bool) {
	h.t.Helper()
	yes := map[string]map[string]string{
		"nemo":     {"radio": "sms", "approve": "continue", "permission": "continue"},
		"vertesia": {"radio": "sms", "approve": "allow_once", "permission": "allow_once"},
		"letta":    {"radio": "sms", "permission": "yes"},
		"x1":       {"radio": "sms", "approve": "approve", "permission": "yes"},
	}[dialect][q.kind]
	send := func(path, body string, want int) string {
		code, got, _ := h.do(call{method: "POST", path: path, body: body})
		switch {
		case late && code != want:
			h.t.Errorf("%s: a late answer gets %d %s", dialect, code, got)
		case late:
			return got
		case code >= 300:
			h.t.Errorf("%s: %d %s", dialect, code, got)
		}
		return ""
	}
	switch dialect {
	case "native":
		body := map[string]string{
			"radio": `{"values":["sms"]}`, "approve": `{"decisions":[{"call_id":` + quoted(q.call) + `,"approve":true}]}`, "permission": `{"granted":["files.write"]}`,
		}[q.kind]
		return send("/parley/v1/sessions/hall/prompts/"+q.request+"/answer", body, 409), true
	case "vertesia":
		meta := `{"request_input_response":{"request_id":` + quoted(q.request) + `}}`
		if q.kind == "approve" {
			meta = `{"tool_approval_response":{"decision":"allow_once","approval_key":` + quoted(q.request) + `}}`
		}
		return send("/api/v1/agents/hall/signal/UserInput", `{"message":`+quoted(yes)+`,"metadata":`+meta+`}`, 409), true
	case "letta":
		message := `{"role":"user","content":` + quoted(yes) + `}`
		if q.kind == "approve" {
			message = `{"type":"approval","approvals":[{"type":"approval","tool_call_id":` + quoted(q.call) + `,"approve":true}]}`
		} else if late {
			return "", false
		}
		return send("/v1/conversations/hall/messages", `{"messages":[`+message+`],"streaming":false}`, 400), true
	case "x1":
		r := h.input("user.input_response", `{"request_id":`+quoted(q.request)+`,"text":`+quoted(yes)+`}`)
		if late != (r.Error != nil) || late && (r.Error.Code != 409 || r.Error.Reason != chat.Conflict) {
			h.t.Errorf("x1: %+v %+v", r, r.Error)
		}
		if r.Error != nil {
			return r.Error.Description + fmt.Sprint(r.Error.Details), true
		}
		return "", true
	case "nemo":
		from := h.nemo.count()
		h.nemo.reply(h.t, "hall", q.parent, yes)
		if late {
			f := h.nemo.until(h.t, from, func(f nemoFrame) bool { return f.Type == "error_message" })
			return f.Content.Details, true
		}
		return "", true
	}
	h.t.Fatalf("nobody answers in %q", dialect)
	return "", false
}

// TestCrossingPrompts: each kind of prompt is raised in one dialect and answered
// in another; whoever comes later is told who was first.
func TestCrossingPrompts(t *testing.T) {
	t.Parallel()
	h := openHall(t)
	h.nemo = h.listenNemo(t)
	stream := h.listenVertesia(t)
	native, ctx := h.listenNative(t)
	turns := 0
	for _, want := range questions {
		for i, answerer := range dialects {
			for _, step := range []int{1, 3} {
				raiser := dialects[(i+step)%len(dialects)]
				what := fmt.Sprintf("%s raised in %s, answered in %s", want.kind, raiser, answerer)
				turns++
				from := h.nemo.count()
				before, _ := stream.all()
				next := count(native, want.event) + 1
				h.say(raiser, want.ask)
				e, err := native.until(ctx, nth(want.event, next))
				if err != nil {
					t.Fatal(what, err)
				}
				q := question{kind: want.kind, request: field(t, string(e.Payload), "request_id")}
				if want.kind == "approve" {
					q.call = field(t, string(e.Payload), "calls.0.call_id")
				}
				q.parent = h.nemo.until(t, from, func(f nemoFrame) bool { return f.Type == "system_interaction_message" }).Parent
				stream.until(t, len(before), func(m vertesiaMessage) bool { return m.Type == vertesiaRequest })
				h.answer(answerer, q, false)
				if _, err := native.until(ctx, nth("turn.completed", turns)); err != nil {
					t.Fatal(what, err)
				}
				native.mu.Lock()
				said := spokenIn(native.events)
				native.mu.Unlock()
				if got := said[len(said)-1]; got != line("agent", want.answer) {
					t.Errorf("%s: %s", what, got)
				}
				stream.until(t, len(before), func(m vertesiaMessage) bool { return m.Type == vertesiaAnswer && m.Text == want.answer })
				h.nemo.until(t, from, func(f nemoFrame) bool { return f.Type == "system_response_message" && f.Status == "complete" })
				if step != 1 {
					continue
				}
				for _, loser := range dialects {
					if loser == answerer {
						continue
					}
					if refused, ok := h.answer(loser, q, true); ok && !strings.Contains(refused, "local") {
						t.Errorf("%s: %s is not told who was first: %s", what, loser, refused)
					}
				}
			}
		}
	}
	if n := count(native, "turn.started"); n != turns {
		t.Errorf("%d turns for %d questions: a late answer became a message", n, turns)
	}
}

// count is how many events of a type a reader has.
func count(r *reader, typ string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Type == typ {
			n++
		}
	}
	return n
}
