// Tests of messages, workstreams, stops and erasures across dialects.

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/internal/dialecttest"
)

// TestEveryDialectShowsTheSameMessages: a message sent in one dialect appears in all
// others once, with the same text and in the same order, under the same session id.
func TestEveryDialectShowsTheSameMessages(t *testing.T) {
	t.Parallel()
	sendInEveryDialect(t, startShared(t, t.TempDir()))
}

// sendInEveryDialect is the scenario of TestEveryDialectShowsTheSameMessages.
func sendInEveryDialect(t *testing.T, s *sharedSession) {
	s.nemo = s.connectNemo(t)
	stream, wire := s.followVertesia(t), s.followX1(t)
	native, ctx := s.followNative(t)
	var want, answers []string
	// Each dialect sends twice, with different dialects before it.
	order := append(slices.Clone(dialects), "x1", "aisdk", "agui", "letta", "vertesia", "nemo", "native")
	for i, d := range order {
		text := fmt.Sprintf("%d from %s: “ä”\n\"two\" lines", i, d)
		s.sendMessage(d, text)
		want, answers = append(want, line("user", text), line("agent", "You said: "+text)), append(answers, "You said: "+text)
		for n := range i + 1 {
			n++
			if _, err := native.until(ctx, nth("turn.completed", n)); err != nil {
				t.Fatal(err)
			}
		}
		// The next message waits for this answer: a second message of NeMo's client
		// would interrupt the turn.
		s.nemo.until(t, 0, func(nemoFrame) bool { return len(s.nemo.answers()) == len(answers) })
	}
	native.mu.Lock()
	events := slices.Clone(native.events)
	native.mu.Unlock()
	compare(t, "native", messagesIn(events), want)
	compare(t, "nemo", s.nemo.answers(), answers)
	stream.until(t, 0, func(vertesiaMessage) bool {
		messages, _ := stream.all()
		return len(messagesInVertesia(messages)) >= len(want)
	})
	messages, _ := stream.all()
	compare(t, "vertesia's stream", messagesInVertesia(messages), want)
	compare(t, "vertesia's history", messagesInVertesia(s.vertesiaHistory()), want)
	compare(t, "letta", s.lettaList(), want)
	compare(t, "agui", s.aguiList(), want)
	compare(t, "aisdk", s.aisdkList(), want)
	waitFor(t, func() bool { return len(wire.list()) >= len(events) }, "x1 lacks events")
	compare(t, "x1's events", messagesIn(wire.list()), want)
	waitFor(t, func() bool { return len(s.archive()) >= len(events) }, "the archive lacks events")
	compare(t, "x1's archive", messagesIn(s.archive()), want)
	wire.fill(t, s)
	compare(t, "x1's history", messagesIn(wire.list()), want)

	// Every dialect shows the same id.
	for path, key := range map[string]string{"/api/v1/agents/shared": "id", "/v1/conversations/shared": "id", "/parley/v1/sessions/shared": "session_id"} {
		if got := field(t, s.get(path), key); got != "shared" {
			t.Errorf("%s calls it %q", path, got)
		}
	}
	s.nemo.mu.Lock()
	defer s.nemo.mu.Unlock()
	for _, f := range s.nemo.frames {
		if f.Conversation != "shared" {
			t.Errorf("nemo calls it %q", f.Conversation)
		}
	}
}

func compare(t *testing.T, where string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s has\n%q, not\n%q", where, got, want)
	}
}

// TestEveryDialectShowsWorkstreams: workstreams that are started in one dialect are
// shown in the dialects that have messages for them, and only the end of the main
// line makes the session idle.
func TestEveryDialectShowsWorkstreams(t *testing.T) {
	t.Parallel()
	s := startShared(t, t.TempDir())
	s.nemo = s.connectNemo(t)
	stream := s.followVertesia(t)
	native, ctx := s.followNative(t)
	s.sendMessage("x1", "/work 4 3")
	for _, name := range []string{"w1", "w2", "w3", "w4"} {
		stream.until(t, 0, func(m vertesiaMessage) bool { return m.Line == name })
	}
	var active struct {
		Running   []json.RawMessage `json:"running"`
		Completed []json.RawMessage `json:"completed"`
	}
	raw := s.get("/api/v1/agents/shared/query/ActiveWorkstreams")
	if err := json.Unmarshal([]byte(raw), &active); err != nil || len(active.Running)+len(active.Completed) != 4 {
		t.Errorf("ActiveWorkstreams: %v %s", err, raw)
	}
	if _, err := native.until(ctx, mainDone); err != nil {
		t.Fatal(err)
	}
	seen := countEvents(native)
	for i := range 4 {
		name, title := fmt.Sprintf("w%d", i+1), fmt.Sprintf("Part %d", i+1)
		if seen["workstream.launched "+name] != 1 || seen["workstream.completed "+name] != 1 {
			t.Errorf("native: %s was launched %d and completed %d times", name, seen["workstream.launched "+name], seen["workstream.completed "+name])
		}
		start := s.nemo.until(t, 0, func(f nemoFrame) bool { return f.Content.Name == "Function Start: "+title })
		s.nemo.until(t, 0, func(f nemoFrame) bool { return f.Content.Name == "Function Complete: "+title })
		if start.Conversation != "shared" {
			t.Errorf("nemo: %+v", start)
		}
		stream.until(t, 0, func(m vertesiaMessage) bool { return m.Line == name && m.Type == dialecttest.VertesiaComplete })
	}
	stream.until(t, 0, func(m vertesiaMessage) bool {
		return m.Type == dialecttest.VertesiaIdle && (m.Line == "" || m.Line == "main")
	})
	s.nemo.until(t, 0, func(f nemoFrame) bool { return f.Type == "system_response_message" && f.Status == "complete" })
	messages, _ := stream.all()
	for _, m := range messages {
		if (m.Line == "" || m.Line == "main") && m.Type == dialecttest.VertesiaComplete {
			t.Errorf("the run was reported complete: %+v", m)
		}
	}
	if raw := s.get("/api/v1/agents/shared/query/ActiveWorkstreams"); json.Unmarshal([]byte(raw), &active) != nil || len(active.Running) != 0 {
		t.Errorf("ActiveWorkstreams at the end: %s", raw)
	}
	if got := field(t, s.get("/parley/v1/sessions/shared"), "status"); got != "idle" {
		t.Errorf("the session is %s", got)
	}
	answers := s.nemo.answers()
	letta := s.lettaList()
	if len(answers) != 1 || len(letta) != 2 || letta[1] != line("agent", answers[0]) {
		t.Errorf("nemo: %q\nletta: %q", answers, letta)
	}
}

func shown(r *reader) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown
}

// TestErasedSessionIsGoneInEveryDialect: every dialect answers with its own error for
// an erased session, and none shows the text.
func TestErasedSessionIsGoneInEveryDialect(t *testing.T) {
	t.Parallel()
	s := startShared(t, t.TempDir())
	s.nemo = s.connectNemo(t)
	s.sendMessage("nemo", "forget me")
	s.nemo.until(t, 0, func(nemoFrame) bool { return len(s.nemo.answers()) == 1 })
	run := field(t, s.get("/v1/conversations/shared/messages"), "0.run_id")
	waitFor(t, func() bool { return len(s.archive()) >= 5 }, "the archive lacks events")
	s.must(call{method: "DELETE", path: "/parley/v1/sessions/shared"})
	for _, c := range []call{
		{path: "/parley/v1/sessions/shared"}, {path: "/parley/v1/sessions/shared/stream"}, {path: "/api/v1/agents/shared"}, {path: "/api/v1/agents/shared/updates"},
		{path: "/api/v1/agents/shared/stream"}, {path: "/api/v1/workflows/runs/shared/shared/updates"}, {method: "POST", path: "/api/v1/agents/shared/signal/UserInput", body: `{"message":"x"}`},
		{path: "/v1/conversations/shared"}, {path: "/v1/conversations/shared/messages"}, {path: "/v1/runs/" + run},
		{method: "POST", path: "/v1/conversations/shared/messages", body: `{"messages":[{"role":"user","content":"x"}]}`},
		{method: "POST", path: "/chat", body: `{"messages":[{"role":"user","content":"x"}]}`, header: map[string]string{"Conversation-Id": "shared"}},
		{method: "POST", path: "/parley/v1/sessions/shared/credentials", body: `{}`},
		{method: "POST", path: "/api/chat", body: aisdkSend("shared", "x")}, {path: "/api/chat/shared/stream"}, {path: "/api/chat/shared/messages"}, {method: "POST", path: "/api/chat/shared/stop"},
		{method: "POST", path: "/ag-ui/default", body: aguiSend("shared", "x")}, {method: "POST", path: "/api/copilotkit/agent/default/connect", body: aguiRun("shared", `[]`, `[]`)},
		{path: "/api/copilotkit/threads/shared/messages"}, {path: "/ag-ui/default?threadId=shared"}, {method: "POST", path: "/api/copilotkit/agent/default/stop/shared", body: `{}`},
	} {
		code, body, _ := s.do(c)
		if code != 410 && !(code == 404 && strings.HasPrefix(c.path, "/v1/runs/")) {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, body)
		}
		if strings.Contains(body, "forget") {
			t.Errorf("%s shows %s", c.path, body)
		}
	}
	if r := s.input("user.message", `{"text":"x"}`); r.Error == nil || r.Error.Code != 410 {
		t.Errorf("x1: %+v", r)
	}
	from := s.nemo.count()
	s.nemo.sendMessage(t, "shared", "still there?")
	if f := s.nemo.until(t, from, func(f nemoFrame) bool { return f.Type == "error_message" }); !strings.Contains(f.Content.Details, "erased") {
		t.Errorf("nemo: %+v", f.Content)
	}
	waitFor(t, func() bool {
		for _, e := range s.archive() {
			if strings.Contains(string(e.Payload), "forget") {
				return false
			}
		}
		return true
	}, "the archive still has the text")
}
