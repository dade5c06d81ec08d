package agui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/httpagent"
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
