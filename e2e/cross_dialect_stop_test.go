// Tests of a turn that is read and stopped in all dialects at the same time.

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialecttest"
)

// TestOneTurnIsReadInEveryDialectAtOnce: readers of all dialects see the same text of one turn while it is written.
func TestOneTurnIsReadInEveryDialectAtOnce(t *testing.T) {
	t.Parallel()
	readInEveryDialect(t, startShared(t, t.TempDir()))
}

// readInEveryDialect is the scenario of TestOneTurnIsReadInEveryDialectAtOnce.
func readInEveryDialect(t *testing.T, s *sharedSession) {
	s.nemo = s.connectNemo(t)
	stream, wire := s.followVertesia(t), s.followX1(t)
	native, ctx := s.followNative(t)
	pages := []*pageStream{s.openPage(t, call{method: "POST", path: "/api/chat", body: aisdkSend("shared", "/stream 600 40")})}
	native.pieces(ctx, t, 3)
	pages = append(pages, s.joinPages(t)...)
	letta := s.joinLetta(t)
	for _, p := range pages {
		p.pieces(t, 5)
	}
	s.nemo.until(t, 0, func(f nemoFrame) bool { return f.Type == "system_response_message" && f.Status == "in_progress" })
	stream.until(t, 0, func(m vertesiaMessage) bool { return m.Type == dialecttest.VertesiaChunk })
	if n := count(native, "turn.completed"); n != 0 {
		t.Fatal("the turn was over before all readers had a part of it")
	}
	e, err := native.until(ctx, ofType("agent.text"))
	if err != nil {
		t.Fatal(err)
	}
	want := e.Body.(chat.AgentText).Text
	if !strings.HasSuffix(want, "tok599 tok600") {
		t.Fatalf("the text is %q", want)
	}
	for _, p := range pages {
		last, err := p.end(t)
		if got, n := p.words(); got != want || n < 50 || err != nil {
			t.Errorf("%s has %d pieces, %q, and ends with %s, %v", p.name, n, clip(got), last.Raw, err)
		}
		if strings.Contains(p.name, "/api/chat") && (last.Type != "finish" || last.Reason != "stop" || !p.done) {
			t.Errorf("%s ends with %s", p.name, last.Raw)
		}
		if !strings.Contains(p.name, "/api/chat") && (last.Type != "RUN_FINISHED" || last.Outcome.Type != "success") {
			t.Errorf("%s ends with %s", p.name, last.Raw)
		}
	}
	<-letta.done
	if got := letta.text.String(); got != want || letta.stop != "end_turn" {
		t.Errorf("letta's run ends as %s with %q", letta.stop, clip(got))
	}
	s.nemo.until(t, 0, func(f nemoFrame) bool { return f.Type == "system_response_message" && f.Status == "complete" })
	compare(t, "nemo", s.nemo.answers(), []string{want})
	stream.until(t, 0, func(m vertesiaMessage) bool { return m.Type == dialecttest.VertesiaAnswer && m.Text == want })
	waitFor(t, func() bool { return slices.Contains(messagesIn(wire.list()), line("agent", want)) }, "x1 lacks the text")
	wire.mu.Lock()
	defer wire.mu.Unlock()
	if wire.deltas < 50 {
		t.Errorf("x1 published %d previews", wire.deltas)
	}
}

// joinPages opens a page of the AI SDK and one of AG-UI in the running turn.
func (s *sharedSession) joinPages(t *testing.T) []*pageStream {
	t.Helper()
	return []*pageStream{
		s.openPage(t, call{path: "/api/chat/shared/stream"}),
		s.openPage(t, call{method: "POST", path: "/api/copilotkit/agent/default/connect", body: aguiRun("shared", `[]`, `[]`)}),
	}
}

// stops has the stop request of each dialect.
var stops = map[string]func(*sharedSession){
	"native":   func(s *sharedSession) { s.post("/parley/v1/sessions/shared/stop", `{}`) },
	"vertesia": func(s *sharedSession) { s.post("/api/v1/agents/shared/signal/Stop", `{"message":"enough"}`) },
	"letta":    func(s *sharedSession) { s.post("/v1/conversations/shared/cancel", `{}`) },
	"agui":     func(s *sharedSession) { s.post("/api/copilotkit/agent/default/stop/shared", `{}`) },
	"aisdk":    func(s *sharedSession) { s.post("/api/chat/shared/stop", "") },
	"x1": func(s *sharedSession) {
		if r := s.input("turn.stop_requested", `{"reason":"enough"}`); r.Error != nil {
			s.t.Errorf("x1: %+v", r.Error)
		}
	},
	// NeMo has no stop request: the next message replaces the running turn.
	"nemo": func(s *sharedSession) { s.nemo.sendMessage(s.t, "shared", "instead") },
}

// TestTurnIsStoppedFromEveryDialect: a turn that was started in another dialect can
// be stopped from each dialect, and the readers of every dialect see its end as their
// protocol says it.
func TestTurnIsStoppedFromEveryDialect(t *testing.T) {
	t.Parallel()
	stopInEveryDialect(t, startShared(t, t.TempDir()))
}

// stopInEveryDialect is the scenario of TestTurnIsStoppedFromEveryDialect.
func stopInEveryDialect(t *testing.T, s *sharedSession) {
	s.nemo = s.connectNemo(t)
	stream, wire := s.followVertesia(t), s.followX1(t)
	native, ctx := s.followNative(t)
	// A NeMo message interrupts only NeMo turns.
	begins := map[string]string{"native": "agui", "vertesia": "aisdk", "letta": "x1", "x1": "vertesia", "agui": "aisdk", "aisdk": "agui", "nemo": "nemo"}
	order := append(slices.DeleteFunc(slices.Clone(dialects), func(d string) bool { return d == "nemo" }), "nemo")
	for i, stop := range order {
		begin, pieces := begins[stop], shown(native)
		what := fmt.Sprintf("started in %s, stopped in %s", begin, stop)
		messages, _ := stream.all()
		answers := s.nemo.count()
		pages := []*pageStream{}
		switch begin {
		case "agui":
			pages = append(pages, s.openPage(t, call{method: "POST", path: "/ag-ui/default", body: aguiSend("shared", "/stream 100000 100")}))
		case "aisdk":
			pages = append(pages, s.openPage(t, call{method: "POST", path: "/api/chat", body: aisdkSend("shared", "/stream 100000 100")}))
		default:
			s.sendMessage(begin, "/stream 100000 100")
		}
		native.pieces(ctx, t, pieces+5)
		pages = append(pages, s.joinPages(t)...)
		letta := s.joinLetta(t)
		for _, p := range pages {
			p.pieces(t, 3)
		}
		stops[stop](s)
		e, err := native.until(ctx, nth("turn.completed", i+1))
		if err != nil {
			t.Fatal(what, err)
		}
		if outcome := field(t, string(e.Payload), "outcome"); outcome != "stopped" {
			t.Errorf("%s: the turn ended as %s", what, outcome)
		}
		for _, p := range pages {
			last, err := p.end(t)
			if err != nil || p.find(func(f pageFrame) bool { return f.Type == "error" || f.Type == "RUN_ERROR" }) != nil {
				t.Errorf("%s: %s ends with %v: %s", what, p.name, err, p.types())
			}
			if strings.Contains(p.name, "/api/chat") {
				if p.find(func(f pageFrame) bool { return f.Type == "abort" }) == nil || last.Type != "finish" || last.Reason != "other" || !p.done {
					t.Errorf("%s: %s ends with %s", what, p.name, last.Raw)
				}
			} else if p.find(func(f pageFrame) bool { return f.Type == "RUN_FINISHED" && f.Outcome.Type == "cancelled" }) == nil {
				t.Errorf("%s: %s ends with %s", what, p.name, last.Raw)
			}
		}
		<-letta.done
		if letta.stop != "cancelled" {
			t.Errorf("%s: letta's run ends as %s", what, letta.stop)
		}
		waitFor(t, func() bool {
			return slices.ContainsFunc(wire.list(), func(x chat.Event) bool { return x.Seq == e.Seq && x.Type == "turn.completed" })
		}, what+": x1 lacks the end")
		stream.until(t, len(messages), func(m vertesiaMessage) bool { return m.Type == dialecttest.VertesiaIdle })
		if stop == "nemo" {
			s.nemo.until(t, 0, func(nemoFrame) bool { return slices.Contains(s.nemo.answers(), "You said: instead") })
		} else {
			s.nemo.until(t, answers, func(f nemoFrame) bool { return f.Type == "system_response_message" && f.Status == "complete" })
		}
	}
	text := s.lettaList()
	if n := len(text); n != 2*len(order)+2 || !strings.HasPrefix(text[1], "agent: tok1 tok2 ") || text[n-1] != "agent: You said: instead" {
		t.Errorf("letta: %d %q", n, clip(strings.Join(text, "|")))
	}
}
