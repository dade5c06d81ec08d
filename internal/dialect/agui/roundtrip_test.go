package agui

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/httpagent"
	"github.com/parley-hq/parley/internal/aguiwire"
	"github.com/parley-hq/parley/internal/core"
)

// summary is what the transcript of a session shows: a line for each event of the agent, people and turns.
func (s *testServer) summary(id chat.SessionID) string {
	var out []string
	for _, e := range s.Events(id) {
		line := ""
		switch b := e.Body.(type) {
		case chat.UserMessage:
			line = "user " + b.Text
		case chat.AgentText:
			line = fmt.Sprintf("text %q final=%v", b.Text, b.Final)
		case chat.AgentThinking:
			line = "thinking " + b.Text
		case chat.AgentToolCall:
			line = fmt.Sprintf("call %s %s", b.Tool, b.Params)
		case chat.AgentToolResult:
			line = fmt.Sprintf("result %s", b.Result)
		case chat.AgentToolError:
			line = "error " + b.Error
		case chat.AgentUsage:
			line = fmt.Sprintf("usage %s %d %d", b.Model, b.InputTokens, b.OutputTokens)
		case chat.AgentInputRequest:
			line = fmt.Sprintf("ask %s %s %d-%d %q %q required=%v", b.InputType, b.Text, b.Min, b.Max, b.Placeholder, b.URL, b.Required == nil)
			for _, o := range b.Options {
				line += fmt.Sprintf(" %s=%s", o.Answer(), o.Label)
			}
		case chat.AgentPermissionRequest:
			line = fmt.Sprint("permission ", b.Scopes, " ", b.Justification)
		case chat.UserPermissionResponse:
			line = fmt.Sprint("granted ", b.Granted, b.Duration)
		case chat.AgentPlan, chat.AgentStatus, chat.AgentArtifact, chat.AgentShare, chat.AgentToolProgress:
			line = e.Type + " " + string(e.Payload)
		case chat.AgentApprovalRequest:
			line = "approve " + b.Calls[0].Tool
		case chat.UserInputResponse:
			line = "answer " + b.Text + strings.Join(b.Values, ",")
		case chat.UserApprovalResponse:
			line = fmt.Sprintf("decided %v %s", b.Decisions[0].Approve, b.Decisions[0].Reason)
		case chat.TurnCompleted:
			line = fmt.Sprintf("ended %s %s", b.Outcome, b.Error)
		}
		if line != "" {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// TestRoundTripGivesTheSameTranscript: an agent of the kind ag-ui that calls this dialect is a session with the same transcript.
func TestRoundTripGivesTheSameTranscript(t *testing.T) {
	near := newTestServer(t, setup{})
	a, err := httpagent.New(httpagent.Options{Protocol: httpagent.AGUI, URL: near.HTTP.URL + "/ag-ui/demo", NoAsk: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	far := newTestServer(t, setup{agents: map[string]agentType{"far": a}})
	ask := func(s *testServer, agent, id, say string, answer chat.Answer) {
		t.Helper()
		ctx := t.Context()
		if _, _, err := s.Sessions.Create(ctx, chat.Trusted, chat.NewSession{ID: chat.SessionID(id), Agent: agent}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Sessions.Append(ctx, chat.Trusted, chat.SessionID(id), []chat.Draft{chat.NewDraft(chat.UserMessage{Text: say})}); err != nil {
			t.Fatal(err)
		}
		if answer.Text != "" || answer.Values != nil || answer.Granted != nil || answer.Decisions != nil {
			typ := chat.AgentInputRequest{}.Type()
			if answer.Decisions != nil {
				typ = chat.AgentApprovalRequest{}.Type()
			} else if answer.Granted != nil {
				typ = chat.AgentPermissionRequest{}.Type()
			}
			s.Until(chat.SessionID(id), typ, 1)
			st, err := s.Sessions.State(ctx, chat.Trusted, chat.SessionID(id))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Sessions.Answer(ctx, chat.Trusted, chat.SessionID(id), st.Prompts[0].RequestID, answer); err != nil {
				t.Fatal(err)
			}
		}
		s.Until(chat.SessionID(id), chat.TurnCompleted{}.Type(), 1)
	}
	for i, c := range []struct {
		say    string
		answer chat.Answer
	}{
		{say: "hello"},
		{say: "/echo wörd by wörd"},
		{say: "/think about it"},
		{say: `/tool search {"q":"a  b"}`},
		{say: "/toolfail fetch"},
		{say: "/usage 10 20"},
		{say: "/fail no more paper"},
		{say: "/ask text", answer: chat.Answer{Text: "Ann"}},
		{say: "/ask radio", answer: chat.Answer{Text: "sms"}},
		{say: "/ask dropdown", answer: chat.Answer{Text: "push"}},
		{say: "/ask checkbox", answer: chat.Answer{Values: []string{"email", "push"}}},
		{say: "/ask binary_choice", answer: chat.Answer{Text: "cancel"}},
		{say: "/ask oauth_consent", answer: chat.Answer{Text: "ok"}},
		{say: "/ask notification"},
		{say: "/ask radio timeout=0.3"},
		{say: "/permission mail calendar", answer: chat.Answer{Granted: &[]string{"mail"}, Duration: "once"}},
		{say: "/plan 3 0"},
		{say: "/artifact table"},
	} {
		id := fmt.Sprint("s", i)
		ask(near, "demo", "direct-"+id, c.say, c.answer)
		ask(far, "far", id, c.say, c.answer)
		got := strings.Replace(far.summary(chat.SessionID(id)), "the agent reports an error: ", "", 1) // whose error it is
		if want := near.summary(chat.SessionID("direct-" + id)); got != want {
			t.Errorf("%s: the log has\n%s\nwant\n%s", c.say, got, want)
		}
	}
	// An approval is asked in both sessions, and decided once.
	ask(far, "far", "approval", `/approve deploy {"a":1}`, chat.Answer{Decisions: []chat.Decision{{Approve: false, Reason: "not today"}}})
	if got := far.summary("approval"); !strings.Contains(got, "approve deploy\ndecided false not today") || !strings.Contains(got, `"Denied: not today" final=true`) {
		t.Errorf("the log has\n%s", got)
	}
}

// TestPagesToolsReachAnotherServer: a page talks to an agent at another Parley server, which calls a tool of the page.
func TestPagesToolsReachAnotherServer(t *testing.T) {
	other := newTestServer(t, setup{})
	a, err := httpagent.New(httpagent.Options{Protocol: httpagent.AGUI, URL: other.HTTP.URL + "/ag-ui/demo"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	s := newTestServer(t, setup{agents: map[string]agentType{"far": a}})
	tools := func(body string) string {
		return strings.NewReplacer(`"tools":[]`, `"tools":[{"name":"look","description":"Looks.","parameters":{}}]`, `"state":{}`, `"state":{"page":1}`,
			`"context":[]`, `"context":[{"description":"Mood","value":"good"}]`).Replace(body)
	}
	end := last(s.stream("/ag-ui/far", tools(body("th", "r1", `u1 /tool look {"at":"sky"}`))))
	if end.Type != "RUN_FINISHED" || end.Outcome == nil || len(end.Outcome.Pending) != 1 {
		t.Fatalf("the run ended with %s", end.json)
	}
	call := end.Outcome.Pending[0]
	end = last(s.stream("/ag-ui/far", tools(body("th", "r2", `u1 /tool look {"at":"sky"}`, fmt.Sprintf(`{"id":"a1","role":"assistant","toolCalls":[{"id":%q,"type":"function","function":{"name":"look","arguments":"{}"}}]}`, call),
		fmt.Sprintf(`{"id":"x1","role":"tool","toolCallId":%q,"content":"blue"}`, call)))))
	if end.Type != "RUN_FINISHED" || end.Outcome.Type != "success" {
		t.Fatalf("the run ended with %s", end.json)
	}
	if got := s.summary("th"); !strings.Contains(got, `text "look gave \"blue\"" final=true`) {
		t.Errorf("the log has\n%s", got)
	}
	m := other.Events("th.far", chat.UserMessage{}.Type())[0].Body.(chat.UserMessage)
	if state := aguiwire.Own[stored](m.Context).State; string(state) != `{"page":1}` || m.System() != "Mood: good" || len(m.ClientTools()) != 2 {
		t.Errorf("the other server got %s", m.Context)
	}
}

// TestStopReachesAnotherServer: a stop ends the turn at the other Parley server too: while it writes, while it waits for an answer,
// and after a restart of the server that called it.
func TestStopReachesAnotherServer(t *testing.T) {
	other := newTestServer(t, setup{})
	dir := t.TempDir()
	start := func() *testServer {
		a, err := httpagent.New(httpagent.Options{Protocol: httpagent.AGUI, URL: other.HTTP.URL + "/ag-ui/demo"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Close)
		return newTestServer(t, setup{dir: dir, agents: map[string]agentType{"far/away": a}})
	}
	s := start()
	for thread, say := range map[string]string{"writes": "u1 /stream 100000 100", "asks": "u1 /ask radio", "restarted": "u1 /ask radio"} {
		res := s.open("/ag-ui/far%2Faway", body(thread, "r1", say))
		if _, err := readFrames(res.Reader, 5); err != nil { // the text has begun, or the run has ended with the question
			t.Fatal(err)
		}
		res.Close()
		if thread == "restarted" {
			s.Close()
			s = start()
		}
		if _, text, _ := s.Call("POST", "/api/copilotkit/agent/far%2Faway/stop/"+thread, `{}`); strings.TrimSpace(text) != `{"stopped":true}` {
			t.Errorf("%s: %s", thread, text)
		}
		there := chat.SessionID(thread + ".far/away")
		if there.Validate() != nil { // the other server has chosen an id
			page, err := other.Sessions.List(t.Context(), chat.Trusted, core.Filter{Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			there = page.Sessions[0].ID
		}
		for _, one := range []struct {
			*testServer
			id chat.SessionID
		}{{s, chat.SessionID(thread)}, {other, there}} {
			one.Until(one.id, chat.TurnCompleted{}.Type(), 1)
			end := one.Events(one.id, chat.TurnCompleted{}.Type())
			if len(end) != 1 || end[0].Body.(chat.TurnCompleted).Outcome != chat.Stopped {
				t.Errorf("%s: the turn in %s has not ended as stopped: %v", thread, one.id, end)
			}
		}
	}
}

// laterAgent is an agent that is made when its server has an address.
type laterAgent struct{ agentType }

// TestAgentOfTheSameServer: an agent of the kind ag-ui may be one of the server that calls it. The messages that it gets have the ids of
// events of the session that calls, which have other numbers in its own one.
func TestAgentOfTheSameServer(t *testing.T) {
	far := &laterAgent{}
	s := newTestServer(t, setup{agents: map[string]agentType{"far": far}})
	a, err := httpagent.New(httpagent.Options{Protocol: httpagent.AGUI, URL: s.HTTP.URL + "/ag-ui/demo", NoAsk: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	far.agentType = a
	owner, err := s.Auth.Caller(httptest.NewRequest("GET", "/", nil)) // the agent's requests come from the same user
	if err != nil {
		t.Fatal(err)
	}
	say := []string{"hello", `/tool search {"q":1}`, "/think about it", "/plan 3 0", "/echo a", `/tool search {"q":2}`, "/echo b", "/usage 1 2", "/echo c", "/echo d"}
	for id, agent := range map[chat.SessionID]string{"s": "far", "direct": "demo"} {
		if _, _, err := s.Sessions.Create(t.Context(), owner, chat.NewSession{ID: id, Agent: agent}); err != nil {
			t.Fatal(err)
		}
		for i, text := range say {
			if _, err := s.Sessions.Append(t.Context(), chat.Trusted, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: text})}); err != nil {
				t.Fatal(err)
			}
			s.Until(id, chat.TurnCompleted{}.Type(), i+1)
		}
	}
	if got, want := s.summary("s"), s.summary("direct"); got != want {
		t.Errorf("the log has\n%s\nwant\n%s", got, want)
	}
}

// TestAgentsInACircle: agents that call one another in a circle stop, and the person is told why. A request that came around too often
// stores nothing.
func TestAgentsInACircle(t *testing.T) {
	one, two := &laterAgent{}, &laterAgent{}
	s := newTestServer(t, setup{agents: map[string]agentType{"one": one, "two": two}})
	for a, next := range map[*laterAgent]string{one: "two", two: "one"} {
		h, err := httpagent.New(httpagent.Options{Protocol: httpagent.AGUI, URL: s.HTTP.URL + "/ag-ui/" + next})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(h.Close)
		a.agentType = h
	}
	end := last(s.stream("/ag-ui/one", body("th", "r1", "u1 hello")))
	if end.Type != "RUN_ERROR" || !strings.Contains(end.Message, "in a circle") || strings.Count(end.Message, "reports an error") > 1 {
		t.Errorf("the run ended with %s", end.json)
	}
	page, err := s.Sessions.List(t.Context(), chat.Trusted, core.Filter{Limit: 100})
	if err != nil || len(page.Sessions) != 9 { // the page's and eight others
		t.Errorf("there are %d sessions, %v", len(page.Sessions), err)
	}
	for value, says := range map[string]string{"9": "in a circle", "x": "is a number", "-1": "is a number"} {
		if why := s.refused(http.StatusBadRequest, "/ag-ui/demo", body("th2", "r1", "u1 hello"), "Parley-Calls", value); !strings.Contains(why, says) {
			t.Errorf("with %s: %s", value, why)
		}
	}
}
