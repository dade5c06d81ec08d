// Tests of prompts across dialects.

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialecttest"
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

// answerCall returns the request by which a client of a dialect with HTTP requests answers a prompt. ok is false for the
// dialects with sockets and subjects.
func answerCall(dialect string, q question, yes bool) (c call, ok bool) {
	word := func(positive, negative string) string {
		if yes {
			return positive
		}
		return negative
	}
	option := word("sms", "push")
	c.method = "POST"
	switch dialect {
	case "native":
		c.path = "/parley/v1/sessions/shared/prompts/" + q.request + "/answer"
		c.body = map[string]string{
			"radio": `{"values":[` + quoted(option) + `]}`, "approve": fmt.Sprintf(`{"decisions":[{"call_id":%q,"approve":%t}]}`, q.call, yes), "permission": word(`{"granted":["files.write"]}`, `{"granted":[]}`),
		}[q.kind]
	case "vertesia":
		text, meta := option, `{"request_input_response":{"request_id":`+quoted(q.request)+`}}`
		if q.kind != "radio" {
			text = word("allow_once", "deny")
		}
		if q.kind == "approve" {
			meta = `{"tool_approval_response":{"decision":` + quoted(text) + `,"approval_key":` + quoted(q.request) + `}}`
		}
		c.path, c.body = "/api/v1/agents/shared/signal/UserInput", `{"message":`+quoted(text)+`,"metadata":`+meta+`}`
	case "letta":
		text := option
		if q.kind == "permission" {
			text = word("yes", "no")
		}
		message := `{"role":"user","content":` + quoted(text) + `}`
		if q.kind == "approve" {
			message = fmt.Sprintf(`{"type":"approval","approvals":[{"type":"approval","tool_call_id":%q,"approve":%t}]}`, q.call, yes)
		}
		c.path, c.body = "/v1/conversations/shared/messages", `{"messages":[`+message+`],"streaming":false}`
	case "agui":
		c.path, c.body = "/api/copilotkit/agent/default/run", aguiAnswer(q, map[string]string{
			"radio": `{"value":` + quoted(option) + `}`, "approve": fmt.Sprintf(`{"approved":%t}`, yes), "permission": word(`{"granted":["files.write"]}`, `{"granted":[]}`),
		}[q.kind])
	case "aisdk":
		c.path, c.body = "/api/chat", aisdkAnswer(q, yes)
	default:
		return c, false
	}
	return c, true
}

// lateStatus is the status that an answer gets after the first one. The pages get the rest of the turn, with the first answerer.
var lateStatus = map[string]int{"native": 409, "vertesia": 409, "letta": 400, "agui": 200, "aisdk": 200}

// answer sends an answer as a client of the dialect does. A late one differs from the first one in the dialects that go on
// after it. refused is what a late answer gets. ok is false where the dialect has no field for the prompt, so that a late
// answer would be a new message.
func (s *sharedSession) answer(dialect string, q question, late bool) (refused string, ok bool) {
	s.t.Helper()
	if dialect == "letta" && late && q.kind != "approve" {
		return "", false
	}
	if c, ok := answerCall(dialect, q, !late || lateStatus[dialect] != 200); ok {
		code, got, _ := s.do(c)
		switch {
		case late && code != lateStatus[dialect]:
			s.t.Errorf("%s: a late answer gets %d %s", dialect, code, got)
		case late:
			return got, true
		case code >= 300:
			s.t.Errorf("%s: %d %s", dialect, code, got)
		}
		return "", true
	}
	yes := map[string]map[string]string{
		"nemo": {"radio": "sms", "approve": "continue", "permission": "continue"},
		"x1":   {"radio": "sms", "approve": "approve", "permission": "yes"},
	}[dialect][q.kind]
	switch dialect {
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
// and answered in another; the refusal of a later answer names the first answerer. Of
// answers from all dialects at the same time one counts.
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
				q := questionOf(t, e, want.kind)
				q.parent = s.nemo.until(t, from, func(f nemoFrame) bool { return f.Type == "system_interaction_message" }).Parent
				stream.until(t, len(before), func(m vertesiaMessage) bool { return m.Type == dialecttest.VertesiaRequest })
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
				stream.until(t, len(before), func(m vertesiaMessage) bool { return m.Type == dialecttest.VertesiaAnswer && m.Text == want.answer })
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
	for range 4 {
		turns++
		s.raceAnswers(t, native, ctx, turns)
	}
	if n := count(native, "turn.started"); n != turns {
		t.Errorf("%d turns for %d questions: a late answer became a message", n, turns)
	}
}

// questionOf reads a prompt from its event.
func questionOf(t testing.TB, e chat.Event, kind string) question {
	q := question{kind: kind, request: field(t, string(e.Payload), "request_id"), turn: string(e.Turn)}
	if kind == "approve" {
		q.call = field(t, string(e.Payload), "calls.0.call_id")
	}
	return q
}

// raceAnswers raises an approval and answers it from all dialects at the same time. All approve but AG-UI, so that its
// page learns of another answer.
func (s *sharedSession) raceAnswers(t *testing.T, native *reader, ctx context.Context, turn int) {
	t.Helper()
	want, from := questions[1], s.nemo.count()
	next := count(native, want.event) + 1
	s.sendMessage("native", want.ask)
	e, err := native.until(ctx, nth(want.event, next))
	if err != nil {
		t.Fatal(err)
	}
	q := questionOf(t, e, want.kind)
	q.parent = s.nemo.until(t, from, func(f nemoFrame) bool { return f.Type == "system_interaction_message" }).Parent

	type result struct {
		code int
		body string
	}
	results := make([]result, len(dialects))
	var all sync.WaitGroup
	for i, d := range dialects {
		all.Go(func() {
			c, ok := answerCall(d, q, d != "agui")
			switch {
			case ok:
				results[i].code, results[i].body, _ = s.do(c)
			case d == "x1":
				r := s.input("user.input_response", `{"request_id":`+quoted(q.request)+`,"text":"approve"}`)
				if r.Error != nil {
					results[i] = result{r.Error.Code, fmt.Sprint(r.Error.Description, r.Error.Details)}
				}
			default:
				s.nemo.reply(t, "shared", q.parent, "continue")
			}
		})
	}
	all.Wait()
	if _, err := native.until(ctx, nth("turn.completed", turn)); err != nil {
		t.Fatal(err)
	}
	// NeMo's client has read everything that came before the answer to this frame.
	s.nemo.write(t, `{"type":"nonsense","conversation_id":"nowhere"}`)
	s.nemo.until(t, from, func(f nemoFrame) bool { return f.Type == "error_message" && f.Conversation == "nowhere" })

	var winners []string
	native.mu.Lock()
	stored := slices.DeleteFunc(slices.Clone(native.events), func(e chat.Event) bool { return chat.AnswerOf(e.Body) != q.request })
	native.mu.Unlock()
	if len(stored) != 1 {
		t.Fatalf("%d answers are stored", len(stored))
	}
	for i, d := range dialects {
		r := results[i]
		won := r.code < 300
		switch d {
		case "agui":
			won = !strings.Contains(r.body, "parley.answered")
			if r.code != 200 || !strings.Contains(r.body, "RUN_FINISHED") || strings.Contains(r.body, "RUN_ERROR") {
				t.Errorf("agui: %d %s", r.code, r.body)
			}
		case "aisdk": // the first one gets the same
			won = stored[0].Via == "aisdk"
			if r.code != 200 || !strings.Contains(r.body, `"data-answered"`) || !strings.HasSuffix(r.body, "data: [DONE]\n\n") {
				t.Errorf("aisdk: %d %s", r.code, r.body)
			}
		case "nemo":
			s.nemo.mu.Lock()
			won = !slices.ContainsFunc(s.nemo.frames[from:], func(f nemoFrame) bool {
				r.body += f.Content.Details
				return f.Type == "error_message" && f.Conversation == "shared"
			})
			s.nemo.mu.Unlock()
		case "x1":
			won = r.code == 0
		}
		if won {
			winners = append(winners, d)
		} else if !strings.Contains(r.body, "local") {
			t.Errorf("%s: %d %s does not name the first answerer", d, r.code, r.body)
		}
		if !won && r.code != 0 && r.code != lateStatus[d] && !(d == "x1" && r.code == 409) {
			t.Errorf("%s: the late answer gets %d %s", d, r.code, r.body)
		}
	}
	if len(winners) != 1 {
		t.Errorf("the answers of %q count; stored is the one of %q", winners, stored[0].Via)
	}
	denied := stored[0].Body.(chat.UserApprovalResponse).Decisions[0].Approve == false
	if denied != slices.Equal(winners, []string{"agui"}) {
		t.Errorf("%q was first, and the stored answer is %s", winners, stored[0].Payload)
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
