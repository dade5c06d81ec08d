// Tests of prompts across dialects.

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// question is an open prompt.
type question struct {
	kind    string // radio, approve, permission
	request string
	call    string // of an approval
	parent  string // the id of the NeMo message that led to it
	turn    string
}

// questions has for each kind of prompt the message that raises it, its event, and
// the text of the agent after the answer.
var questions = []struct{ kind, ask, event, answer string }{
	{"radio", "/ask radio", "agent.input_request", "You answered: sms"},
	{"approve", `/approve deploy {"x":1}`, "agent.approval_request", `deploy gave {"x":1}`},
	{"permission", "/permission files.write", "agent.permission_request", "Granted: files.write"},
}

// answer sends an answer as a client of the dialect does. refused is the refusal, or
// "". ok is false where the dialect has no field for the prompt, so that a late
// answer would be a new message.
func (s *sharedSession) answer(dialect string, q question, late bool) (refused string, ok bool) {
	s.t.Helper()
	yes := map[string]map[string]string{
		"nemo":     {"radio": "sms", "approve": "continue", "permission": "continue"},
		"vertesia": {"radio": "sms", "approve": "allow_once", "permission": "allow_once"},
		"letta":    {"radio": "sms", "permission": "yes"},
		"x1":       {"radio": "sms", "approve": "approve", "permission": "yes"},
	}[dialect][q.kind]
	send := func(path, body string, want int) string {
		code, got, _ := s.do(call{method: "POST", path: path, body: body})
		switch {
		case late && code != want:
			s.t.Errorf("%s: a late answer gets %d %s", dialect, code, got)
		case late:
			return got
		case code >= 300:
			s.t.Errorf("%s: %d %s", dialect, code, got)
		}
		return ""
	}
	switch dialect {
	case "native":
		body := map[string]string{
			"radio": `{"values":["sms"]}`, "approve": `{"decisions":[{"call_id":` + quoted(q.call) + `,"approve":true}]}`, "permission": `{"granted":["files.write"]}`,
		}[q.kind]
		return send("/parley/v1/sessions/shared/prompts/"+q.request+"/answer", body, 409), true
	case "vertesia":
		meta := `{"request_input_response":{"request_id":` + quoted(q.request) + `}}`
		if q.kind == "approve" {
			meta = `{"tool_approval_response":{"decision":"allow_once","approval_key":` + quoted(q.request) + `}}`
		}
		return send("/api/v1/agents/shared/signal/UserInput", `{"message":`+quoted(yes)+`,"metadata":`+meta+`}`, 409), true
	case "letta":
		message := `{"role":"user","content":` + quoted(yes) + `}`
		if q.kind == "approve" {
			message = `{"type":"approval","approvals":[{"type":"approval","tool_call_id":` + quoted(q.call) + `,"approve":true}]}`
		} else if late {
			return "", false
		}
		return send("/v1/conversations/shared/messages", `{"messages":[`+message+`],"streaming":false}`, 400), true
	case "agui":
		payload := map[string]string{"radio": `{"value":"sms"}`, "approve": `{"approved":true}`, "permission": `{"granted":["files.write"]}`}[q.kind]
		if late { // another answer: the run says who was first, and goes on
			payload = map[string]string{"radio": `{"value":"push"}`, "approve": `{"approved":false}`, "permission": `{"granted":[]}`}[q.kind]
		}
		return send("/ag-ui/default", aguiAnswer(q, payload), 200), true
	case "aisdk":
		yes := !late // another answer: the rest of the message says who was first
		return send("/api/chat", aisdkAnswer(q, yes), 200), true
	case "x1":
		r := s.input("user.input_response", `{"request_id":`+quoted(q.request)+`,"text":`+quoted(yes)+`}`)
		if late != (r.Error != nil) || late && (r.Error.Code != 409 || r.Error.Reason != chat.Conflict) {
			s.t.Errorf("x1: %+v %+v", r, r.Error)
		}
		if r.Error != nil {
			return r.Error.Description + fmt.Sprint(r.Error.Details), true
		}
		return "", true
	case "nemo":
		from := s.nemo.count()
		s.nemo.reply(s.t, "shared", q.parent, yes)
		if late {
			f := s.nemo.until(s.t, from, func(f nemoFrame) bool { return f.Type == "error_message" })
			return f.Content.Details, true
		}
		return "", true
	}
	s.t.Fatalf("unknown dialect %q", dialect)
	return "", false
}

// TestPromptIsAnsweredOnceAcrossDialects: each kind of prompt is raised in one dialect
// and answered in another; the refusal of a later answer names the first answerer.
func TestPromptIsAnsweredOnceAcrossDialects(t *testing.T) {
	t.Parallel()
	s := startShared(t, t.TempDir())
	s.nemo = s.connectNemo(t)
	stream := s.followVertesia(t)
	native, ctx := s.followNative(t)
	turns := 0
	for _, want := range questions {
		for i, answerer := range dialects {
			for _, step := range []int{1, 3} {
				raiser := dialects[(i+step)%len(dialects)]
				what := fmt.Sprintf("%s raised in %s, answered in %s", want.kind, raiser, answerer)
				turns++
				from := s.nemo.count()
				before, _ := stream.all()
				next := count(native, want.event) + 1
				s.sendMessage(raiser, want.ask)
				e, err := native.until(ctx, nth(want.event, next))
				if err != nil {
					t.Fatal(what, err)
				}
				q := question{kind: want.kind, request: field(t, string(e.Payload), "request_id"), turn: string(e.Turn)}
				if want.kind == "approve" {
					q.call = field(t, string(e.Payload), "calls.0.call_id")
				}
				q.parent = s.nemo.until(t, from, func(f nemoFrame) bool { return f.Type == "system_interaction_message" }).Parent
				stream.until(t, len(before), func(m vertesiaMessage) bool { return m.Type == vertesiaRequest })
				s.answer(answerer, q, false)
				if _, err := native.until(ctx, nth("turn.completed", turns)); err != nil {
					t.Fatal(what, err)
				}
				native.mu.Lock()
				said := messagesIn(native.events)
				native.mu.Unlock()
				if got := said[len(said)-1]; got != line("agent", want.answer) {
					t.Errorf("%s: %s", what, got)
				}
				stream.until(t, len(before), func(m vertesiaMessage) bool { return m.Type == vertesiaAnswer && m.Text == want.answer })
				s.nemo.until(t, from, func(f nemoFrame) bool { return f.Type == "system_response_message" && f.Status == "complete" })
				if step != 1 {
					continue
				}
				for _, other := range dialects {
					if other == answerer {
						continue
					}
					if refused, ok := s.answer(other, q, true); ok && !strings.Contains(refused, "local") {
						t.Errorf("%s: the refusal in %s does not name the first answerer: %s", what, other, refused)
					}
				}
			}
		}
	}
	if n := count(native, "turn.started"); n != turns {
		t.Errorf("%d turns for %d questions: a late answer became a message", n, turns)
	}
}

// count returns the number of events of a type.
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
