package agui

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/servertest"
)

// counting answers with the number of the answer and the messages of the conversation.
func counting() agent.Agent {
	n := 0
	return agent.Func(func(ctx context.Context, t *agent.Turn) error {
		n++
		facts, _, err := t.Read(ctx, chat.Range{Limit: 1000})
		if err != nil {
			return err
		}
		said := []string{}
		for _, f := range facts {
			e, err := f.Event()
			if err != nil {
				return err
			}
			if b, ok := e.Body.(chat.UserMessage); ok {
				said = append(said, b.PlainText())
			}
		}
		w := t.Stream(true)
		if err := w.Write(ctx, strings.Join(said, ", ")+" #"+strconv.Itoa(n)); err != nil {
			return err
		}
		return w.Close(ctx)
	})
}

// answer is an assistant message of a page.
func answer(text string) string {
	b, _ := json.Marshal(map[string]string{"id": "a-" + text, "role": "assistant", "content": text})
	return string(b)
}

func (s *testServer) threads() (ids []string) {
	s.t.Helper()
	_, text, _ := s.Call("GET", "/api/copilotkit/threads", "", s.header(nil)...)
	var list struct{ Threads []struct{ ID string } }
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		s.t.Fatal(text)
	}
	for _, one := range list.Threads {
		ids = append(ids, one.ID)
	}
	return ids
}

// A run with a new id for a message that was answered is a new answer in a fork, which takes the place of the session in the thread.
func TestMessageIsAnsweredAgain(t *testing.T) {
	for name, c := range map[string]struct{ path, header string }{
		"TanStack": {"/ag-ui/count", "X-Run-Id"}, "CopilotKit": {"/api/copilotkit/agent/count/run", "X-Nothing"}, "HttpAgent": {"/ag-ui/count?branch=1", "X-Nothing"},
	} {
		s := newTestServer(t, setup{agents: map[string]agentType{"count": counting()}})
		send := func(run string, messages ...string) string {
			return said(s.stream(c.path, body("th", run, messages...), c.header, run))
		}
		send("r1", "u1 one")
		send("r2", "u1 one", answer("x"), "u2 two")
		if got := send("r3", "u1 one", answer("x"), "u2 two"); got != "one, two #3" {
			t.Errorf("%s: the last answer again: %q", name, got)
		}
		if got := send("r3", "u1 one", answer("x"), "u2 two"); got != "one, two #3" {
			t.Errorf("%s: the same run again: %q", name, got)
		}
		if got := send("r4", "u1 one"); got != "one #4" {
			t.Errorf("%s: the first answer again: %q", name, got)
		}
		if got := send("r5", "u1 one", answer("x"), "u3 three"); got != "one, three #5" {
			t.Errorf("%s: the next message: %q", name, got)
		}
		whole := s.stream("/ag-ui/count?connect=1", body("th", "c"))
		if got := said(whole); got != "one #4one, three #5" {
			t.Errorf("%s: connect gives %q", name, got)
		}
		if got := s.threads(); len(got) != 1 || got[0] != "th" {
			t.Errorf("%s: threads %q", name, got)
		}
		if n := s.count("th", chat.UserMessage{}); n != 2 {
			t.Errorf("%s: the first session has %d messages", name, n)
		}
		s.Close()
	}
}

// A plain client that lost its connection sends the same as a page that wants another answer.
func TestClientThatLostItsConnectionGetsTheAnswer(t *testing.T) {
	hold := make(chan struct{})
	slow := agent.Func(func(ctx context.Context, t *agent.Turn) error {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
		return echoAgent(ctx, t)
	})
	s := newTestServer(t, setup{agents: map[string]agentType{"slow": slow}})
	res := s.open("/ag-ui/slow", body("th", "r1", "u1 hello"))
	if _, err := readFrames(res.Reader, 1); err != nil {
		t.Fatal(err)
	}
	res.Close()
	close(hold)
	s.Until("th", chat.TurnCompleted{}.Type(), 1)
	frames := s.stream("/ag-ui/slow", body("th", "r2", "u1 hello"))
	if frames[0].RunID != "r1" || said(frames) != "hello" || s.count("th", chat.TurnStarted{}) != 1 {
		t.Errorf("got the run %s, %q", frames[0].RunID, said(frames))
	}
}

func TestEditedMessageBeginsAFork(t *testing.T) {
	s := newTestServer(t, setup{agents: map[string]agentType{"count": counting()}})
	send := func(path, run string, messages ...string) string {
		return said(s.stream(path, body("th", run, messages...)))
	}
	send("/ag-ui/count", "r1", "u1 one")
	send("/ag-ui/count", "r2", "u1 one", answer("x"), "u2 two")
	if got := send("/ag-ui/count", "r3", "u1 one", answer("x"), "u2 deux"); got != "one, deux #3" {
		t.Errorf("the same id: %q", got)
	}
	// A page that lacks messages may only be behind.
	if got := send("/ag-ui/count", "r4", "u1 one", answer("x"), "u3 three"); got != "one, deux, three #4" {
		t.Errorf("a page that is behind: %q", got)
	}
	if got := send("/ag-ui/count?branch=1", "r5", "u1 one", answer("x"), "u4 four"); got != "one, four #5" {
		t.Errorf("a branch: %q", got)
	}
	// The page goes back to the branch before.
	if got := send("/ag-ui/count?branch=1", "r6", "u1 one", answer("x"), "u2 deux", answer("y"), "u3 three", answer("z"), "u5 five"); got != "one, deux, three, five #6" {
		t.Errorf("back in the first branch: %q", got)
	}
	if got := send("/ag-ui/count?branch=1", "r7", "u1 one", answer("x"), "u4 four", answer("y"), "u6 six"); got != "one, four, six #7" {
		t.Errorf("back in the second branch: %q", got)
	}
	if got := send("/ag-ui/count?branch=1", "r8", "u7 seven"); got != "seven #8" {
		t.Errorf("the first message is edited: %q", got)
	}
	props := strings.Replace(body("th", "r9", "u8 eight"), `"forwardedProps":{}`, `"forwardedProps":{"parley":{"branch":true}}`, 1)
	if got := said(s.stream("/api/copilotkit/agent/count/run", props)); got != "eight #9" {
		t.Errorf("CopilotKit's properties: %q", got)
	}
}

// A reader of a session that a fork has replaced in its thread still resumes there.
func TestResumeAfterAFork(t *testing.T) {
	s := newTestServer(t, setup{agents: map[string]agentType{"count": counting()}})
	first := s.stream("/ag-ui/count", body("th", "r1", "u1 one"))
	s.stream("/ag-ui/count", body("th", "r2", "u1 another"))
	wantFrames(t, "the replaced run", s.stream("/ag-ui/count", body("th", "r1", "u1 one"), "Last-Event-ID", first[1].id), first[2:])
}

func TestEditStopsTheRunningTurn(t *testing.T) {
	s := newTestServer(t, setup{})
	res := s.open("/ag-ui/demo", body("th", "r1", "u1 /sleep 600"))
	defer res.Close()
	if _, err := readFrames(res.Reader, 1); err != nil {
		t.Fatal(err)
	}
	if got := said(s.run(body("th", "r2", "u1 hello"))); got != "You said: hello" {
		t.Errorf("got %q", got)
	}
	rest, err := readFrames(res.Reader, -1)
	if err != nil || last(rest).Outcome == nil || last(rest).Outcome.Type != "cancelled" {
		t.Errorf("the first run: %s, %v", last(rest).json, err)
	}
}

func callerOf(name string) chat.Caller {
	u := servertest.User(name)
	return chat.Caller{Actor: u.Actor, Scopes: u.Scopes}
}

// Two people may use the same ids in a session that they share.
func TestIDOfAnotherPersonIsNotEdited(t *testing.T) {
	s := newTestServer(t, setup{secured: true})
	s.user = "alice"
	s.run(body("th", "r1", "u1 I am alice"))
	ctx := t.Context()
	alice, bob := callerOf("alice"), callerOf("bob")
	members := []chat.Member{{Actor: bob.Actor, Role: chat.Answerer}}
	if _, err := s.Sessions.Update(ctx, alice, "th", chat.SessionUpdated{Members: &members}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sessions.Accept(ctx, bob, "th"); err != nil {
		t.Fatal(err)
	}
	s.user = "bob"
	if text := s.refused(409, "/ag-ui/demo", body("th", "r2", "u1 I am bob")); !strings.Contains(text, "u1") {
		t.Error(text)
	}
	// Bob's own branch does not change Alice's thread.
	s.run(body("th", "r3", "u2 I am bob"))
	if got := said(s.run(body("th", "r4", "u2 I am Bob"))); got != "You said: I am Bob" {
		t.Errorf("got %q", got)
	}
	s.user = "alice"
	if got := said(s.stream("/ag-ui/demo?connect=1", body("th", "c"))); got != "You said: I am aliceYou said: I am bob" {
		t.Errorf("alice has %q", got)
	}
}

// A page knows messages of other clients by the ids that their events have in the session which was copied.
func TestMessageOfAnotherClientIsKnownInAFork(t *testing.T) {
	s := newTestServer(t, setup{})
	s.run(body("th", "r1", "u1 hello"))
	if _, err := s.Sessions.Append(t.Context(), chat.Trusted, "th", []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "from the console"})}); err != nil {
		t.Fatal(err)
	}
	s.Until("th", chat.TurnCompleted{}.Type(), 2)
	id := string(s.Events("th", chat.UserMessage{}.Type())[1].ID)
	for i, text := range []string{"three", "trois", "drei"} { // two forks
		if got := said(s.run(body("th", fmt.Sprint("r3-", i), "u3 "+text))); got != "You said: "+text {
			t.Fatal(got)
		}
	}
	again := s.run(body("th", "r4", id+" from the console"))
	if got := said(again); got != "You said: from the console" {
		t.Errorf("%q", got)
	}
	var ids []string
	for _, f := range s.stream("/ag-ui/demo?connect=1", body("th", "c")) {
		if f.Type == "RUN_STARTED" {
			ids = append(ids, f.Input.Messages[0].ID)
		}
	}
	if len(ids) != 3 {
		t.Errorf("the thread has the messages %q", ids)
	}
}
