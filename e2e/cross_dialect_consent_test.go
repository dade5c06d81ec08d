// Tests of approvals and permissions across dialects.

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/modeltest"
)

// startCounting starts a shared session with a model that has two tools: one needs an
// approval each time, one needs a permission.
func startCounting(t *testing.T) (*sharedSession, *toolServer) {
	box := &toolServer{}
	kit := box.serve(t)
	_, model := startModel(t, func(r modeltest.Request) modeltest.Reply {
		if rs := r.Results(); len(rs) > 0 {
			return modeltest.Reply{Text: "It says: " + rs[len(rs)-1].Text}
		}
		name, n, _ := strings.Cut(r.LastUser(), " ")
		return modeltest.Reply{Calls: []modeltest.Call{{ID: "c", Name: "kit__" + name, Args: `{"n":` + n + `}`}}}
	})
	config := writeConfig(t, `agents:
  - name: helper
    kind: model
    endpoint: `+model+`
    model: scripted
    mcp: [{name: kit, url: "`+kit+`"}]
    tools:
      - {match: kit__once, approval: always}
      - {match: kit__often, approval: never, permission: [kit.count]}
`)
	return startShared(t, t.TempDir(), "--config", config), box
}

// ran returns how often a tool has run with a number.
func (b *toolServer) ran(tool string, n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.runs[fmt.Sprint(tool, " ", n)]
}

// decide approves or denies a call or a permission as a client of the dialect does.
func (s *sharedSession) decide(dialect string, q question, yes bool) {
	s.t.Helper()
	word := map[string]map[bool]string{
		"nemo": {true: "continue", false: "cancel"}, "vertesia": {true: "allow_once", false: "deny"},
		"letta": {true: "yes", false: "no"}, "x1": {true: "approve", false: "deny"},
	}[dialect][yes]
	permission := q.kind == "permission"
	switch dialect {
	case "native":
		body := fmt.Sprintf(`{"decisions":[{"call_id":%q,"approve":%t,"reason":"said so"}]}`, q.call, yes)
		if permission {
			body = `{"granted":[]}`
			if yes {
				body = `{"granted":["kit.count"]}`
			}
		}
		s.post("/parley/v1/sessions/shared/prompts/"+q.request+"/answer", body)
	case "vertesia":
		meta := `{"request_input_response":{"request_id":` + quoted(q.request) + `}}`
		if !permission {
			meta = `{"tool_approval_response":{"decision":` + quoted(word) + `,"approval_key":` + quoted(q.request) + `}}`
		}
		s.post("/api/v1/agents/shared/signal/UserInput", `{"message":`+quoted(word)+`,"metadata":`+meta+`}`)
	case "letta":
		message := `{"role":"user","content":` + quoted(word) + `}`
		if !permission {
			message = fmt.Sprintf(`{"type":"approval","approvals":[{"type":"approval","tool_call_id":%q,"approve":%t,"reason":"said so"}]}`, q.call, yes)
		}
		s.post("/v1/conversations/shared/messages", `{"messages":[`+message+`],"streaming":false}`)
	case "agui":
		payload := fmt.Sprintf(`{"approved":%t,"reason":"said so"}`, yes)
		if permission {
			payload = fmt.Sprintf(`{"approved":%t}`, yes)
		}
		s.post("/ag-ui/default", aguiAnswer(q, payload))
	case "aisdk":
		s.post("/api/chat", aisdkAnswer(q, yes))
	case "x1":
		if r := s.input("user.input_response", `{"request_id":`+quoted(q.request)+`,"text":`+quoted(word)+`}`); r.Error != nil {
			s.t.Errorf("x1: %+v", r.Error)
		}
	case "nemo":
		s.nemo.reply(s.t, "shared", q.parent, word)
	}
}

// TestToolCallIsDecidedInEveryDialect: each dialect can approve and deny a tool call,
// and grant and refuse a permission, for a turn that another dialect started.
func TestToolCallIsDecidedInEveryDialect(t *testing.T) {
	s, box := startCounting(t)
	s.nemo = s.connectNemo(t)
	native, ctx := s.followNative(t)
	n := 0
	for i, dialect := range dialects {
		for _, kind := range []string{"once", "often"} {
			for _, yes := range []bool{true, false} {
				n++
				what := fmt.Sprintf("%s, asked from %s, answered %t in %s", kind, dialects[(i+1)%len(dialects)], yes, dialect)
				from := s.nemo.count()
				s.sendMessage(dialects[(i+1)%len(dialects)], fmt.Sprint(kind, " ", n))
				event := map[string]string{"once": "agent.approval_request", "often": "agent.permission_request"}[kind]
				e, err := native.until(ctx, nth(event, 2*i+map[bool]int{true: 1, false: 2}[yes]))
				if err != nil {
					t.Fatal(what, err)
				}
				q := question{kind: "permission", request: field(t, string(e.Payload), "request_id"), turn: string(e.Turn)}
				if kind == "once" {
					q.kind, q.call = "approve", field(t, string(e.Payload), "calls.0.call_id")
				}
				q.parent = s.nemo.until(t, from, func(f nemoFrame) bool { return f.Type == "system_interaction_message" }).Parent
				s.decide(dialect, q, yes)
				if _, err := native.until(ctx, nth("turn.completed", n)); err != nil {
					t.Fatal(what, err)
				}
				native.mu.Lock()
				said := messagesIn(native.events)
				native.mu.Unlock()
				last := said[len(said)-1]
				if runs := box.ran(kind, n); runs != map[bool]int{true: 1}[yes] || strings.Contains(last, fmt.Sprint("counted ", n)) != yes {
					t.Errorf("%s: it ran %d times; %s", what, runs, last)
				}
			}
		}
	}
}

// TestApprovalMayChangeArguments: in the dialects that have a field for it an approval
// replaces the arguments of a call.
func TestApprovalMayChangeArguments(t *testing.T) {
	s, box := startCounting(t)
	native, ctx := s.followNative(t)
	for i, dialect := range []string{"native", "x1"} {
		s.sendMessage(dialect, fmt.Sprint("once ", i))
		e, err := native.until(ctx, nth("agent.approval_request", i+1))
		if err != nil {
			t.Fatal(err)
		}
		q := e.Body.(chat.AgentApprovalRequest)
		decisions := fmt.Sprintf(`"decisions":[{"call_id":%q,"approve":true,"params":{"n":%d}}]`, q.Calls[0].CallID, 70+i)
		if dialect == "native" {
			s.post("/parley/v1/sessions/shared/prompts/"+q.RequestID+"/answer", `{`+decisions+`}`)
		} else if r := s.input("user.approval_response", `{"request_id":`+quoted(q.RequestID)+`,`+decisions+`}`); r.Error != nil {
			t.Errorf("x1: %+v", r.Error)
		}
		if _, err := native.until(ctx, nth("turn.completed", i+1)); err != nil {
			t.Fatal(err)
		}
		if box.ran("once", i) != 0 || box.ran("once", 70+i) != 1 {
			t.Errorf("%s: it ran %v", dialect, box.runs)
		}
	}
}

// TestLastingPermissionHoldsInEveryDialect: a permission that a person grants with
// duration always holds in their other sessions, in each dialect.
func TestLastingPermissionHoldsInEveryDialect(t *testing.T) {
	s, box := startCounting(t)
	native, ctx := s.followNative(t)
	s.sendMessage("native", "often 1")
	e, err := native.until(ctx, ofType("agent.permission_request"))
	if err != nil {
		t.Fatal(err)
	}
	s.post("/parley/v1/sessions/shared/prompts/"+field(t, string(e.Payload), "request_id")+"/answer", `{"granted":["kit.count"],"duration":"always"}`)
	if _, err := native.until(ctx, ofType("turn.completed")); err != nil {
		t.Fatal(err)
	}
	for i, dialect := range dialects {
		s.id = "in-" + dialect
		s.post("/parley/v1/sessions", `{"id":"`+s.id+`"}`)
		if dialect == "nemo" {
			s.nemo = s.connectNemo(t)
		}
		r, ctx := follow(t, s.process, chat.SessionID(s.id))
		s.sendMessage(dialect, fmt.Sprint("often ", 10+i))
		if _, err := r.until(ctx, ofType("turn.completed")); err != nil {
			t.Fatal(dialect, err)
		}
		if count(r, "agent.permission_request") != 0 || box.ran("often", 10+i) != 1 {
			t.Errorf("%s: the agent asked again, or the tool did not run: %v", dialect, box.runs)
		}
	}
}
