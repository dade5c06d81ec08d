package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestCrossingMessages: what is said in one dialect is heard in all others, once,
// in the same words and the same order; the session's id is the same everywhere.
func TestCrossingMessages(t *testing.T) {
	t.Parallel()
	h := openHall(t)
	h.nemo = h.listenNemo(t)
	stream, wire := h.listenVertesia(t), h.listenX1(t)
	native, ctx := h.listenNative(t)
	var want, answers []string
	// Twice around, so that every dialect follows every other.
	order := append(slices.Clone(dialects), "x1", "letta", "vertesia", "nemo", "native")
	for i, d := range order {
		text := fmt.Sprintf("%d from %s: “ä”\n\"two\" lines", i, d)
		h.say(d, text)
		want, answers = append(want, line("user", text), line("agent", "You said: "+text)), append(answers, "You said: "+text)
		for n := range i + 1 {
			n++
			if _, err := native.until(ctx, nth("turn.completed", n)); err != nil {
				t.Fatal(err)
			}
		}
		// The next one speaks when the one before was answered: NeMo's own client
		// would interrupt.
		h.nemo.until(t, 0, func(nemoFrame) bool { return len(h.nemo.answers()) == len(answers) })
	}
	native.mu.Lock()
	events := slices.Clone(native.events)
	native.mu.Unlock()
	compare(t, "native", spokenIn(events), want)
	compare(t, "nemo", h.nemo.answers(), answers)
	stream.until(t, 0, func(vertesiaMessage) bool {
		messages, _ := stream.all()
		return len(spokenInVertesia(messages)) >= len(want)
	})
	messages, _ := stream.all()
	compare(t, "vertesia's stream", spokenInVertesia(messages), want)
	compare(t, "vertesia's history", spokenInVertesia(h.vertesiaHistory()), want)
	compare(t, "letta", h.lettaList(), want)
	waitFor(t, func() bool { return len(wire.list()) >= len(events) }, "x1 lacks events")
	compare(t, "x1's events", spokenIn(wire.list()), want)
	waitFor(t, func() bool { return len(h.archive()) >= len(events) }, "the archive lacks events")
	compare(t, "x1's archive", spokenIn(h.archive()), want)
	wire.fill(t, h)
	compare(t, "x1's history", spokenIn(wire.list()), want)

	// One id for all.
	for path, key := range map[string]string{"/api/v1/agents/hall": "id", "/v1/conversations/hall": "id", "/parley/v1/sessions/hall": "session_id"} {
		if got := field(t, h.get(path), key); got != "hall" {
			t.Errorf("%s calls it %q", path, got)
		}
	}
	h.nemo.mu.Lock()
	defer h.nemo.mu.Unlock()
	for _, f := range h.nemo.frames {
		if f.Conversation != "hall" {
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

// TestCrossingWork: parallel work that is begun in one dialect is seen in those
// that have words for it, and the session ends by its main line alone.
func TestCrossingWork(t *testing.T) {
	t.Parallel()
	h := openHall(t)
	h.nemo = h.listenNemo(t)
	stream := h.listenVertesia(t)
	native, ctx := h.listenNative(t)
	h.say("x1", "/work 4 3")
	for _, name := range []string{"w1", "w2", "w3", "w4"} {
		stream.until(t, 0, func(m vertesiaMessage) bool { return m.Line == name })
	}
	var active struct {
		Running   []json.RawMessage `json:"running"`
		Completed []json.RawMessage `json:"completed"`
	}
	raw := h.get("/api/v1/agents/hall/query/ActiveWorkstreams")
	if err := json.Unmarshal([]byte(raw), &active); err != nil || len(active.Running)+len(active.Completed) != 4 {
		t.Errorf("ActiveWorkstreams: %v %s", err, raw)
	}
	if _, err := native.until(ctx, mainDone); err != nil {
		t.Fatal(err)
	}
	seen := tally(native)
	for i := range 4 {
		name, title := fmt.Sprintf("w%d", i+1), fmt.Sprintf("Part %d", i+1)
		if seen["workstream.launched "+name] != 1 || seen["workstream.completed "+name] != 1 {
			t.Errorf("native: %s was launched %d and completed %d times", name, seen["workstream.launched "+name], seen["workstream.completed "+name])
		}
		start := h.nemo.until(t, 0, func(f nemoFrame) bool { return f.Content.Name == "Function Start: "+title })
		h.nemo.until(t, 0, func(f nemoFrame) bool { return f.Content.Name == "Function Complete: "+title })
		if start.Conversation != "hall" {
			t.Errorf("nemo: %+v", start)
		}
		stream.until(t, 0, func(m vertesiaMessage) bool { return m.Line == name && m.Type == vertesiaComplete })
	}
	stream.until(t, 0, func(m vertesiaMessage) bool { return m.Type == vertesiaIdle && (m.Line == "" || m.Line == "main") })
	h.nemo.until(t, 0, func(f nemoFrame) bool { return f.Type == "system_response_message" && f.Status == "complete" })
	messages, _ := stream.all()
	for _, m := range messages {
		if (m.Line == "" || m.Line == "main") && m.Type == vertesiaComplete {
			t.Errorf("the run is said to be complete: %+v", m)
		}
	}
	if raw := h.get("/api/v1/agents/hall/query/ActiveWorkstreams"); json.Unmarshal([]byte(raw), &active) != nil || len(active.Running) != 0 {
		t.Errorf("ActiveWorkstreams at the end: %s", raw)
	}
	if got := field(t, h.get("/parley/v1/sessions/hall"), "status"); got != "idle" {
		t.Errorf("the session is %s", got)
	}
	answers := h.nemo.answers()
	letta := h.lettaList()
	if len(answers) != 1 || len(letta) != 2 || letta[1] != line("agent", answers[0]) {
		t.Errorf("nemo: %q\nletta: %q", answers, letta)
	}
}

// stops are the ways to stop.
var stops = map[string]func(*hall){
	"native":   func(h *hall) { h.post("/parley/v1/sessions/hall/stop", `{}`) },
	"vertesia": func(h *hall) { h.post("/api/v1/agents/hall/signal/Stop", `{"message":"enough"}`) },
	"letta":    func(h *hall) { h.post("/v1/conversations/hall/cancel", `{}`) },
	// NeMo has no word for it: the next message takes the place of the one before.
	"nemo": func(h *hall) { h.nemo.say(h.t, "hall", "instead") },
}

// TestCrossingStop: a turn can be stopped from each dialect that has a word for
// it, whoever began it, and all are told that it ended.
func TestCrossingStop(t *testing.T) {
	t.Parallel()
	h := openHall(t)
	h.nemo = h.listenNemo(t)
	stream := h.listenVertesia(t)
	native, ctx := h.listenNative(t)
	turns := 0
	for _, stop := range []string{"native", "vertesia", "letta", "nemo"} {
		begin := "x1"
		if stop == "nemo" {
			begin = "nemo" // it interrupts its own only
		}
		turns++
		pieces := shown(native)
		h.say(begin, "/stream 100000 100")
		native.pieces(ctx, t, pieces+5)
		messages, _ := stream.all()
		stops[stop](h)
		e, err := native.until(ctx, nth("turn.completed", turns))
		if err != nil {
			t.Fatal(err)
		}
		if outcome := field(t, string(e.Payload), "outcome"); outcome != "stopped" {
			t.Errorf("%s: the turn ended as %s", stop, outcome)
		}
		stream.until(t, len(messages), func(m vertesiaMessage) bool { return m.Type == vertesiaIdle })
		if stop == "nemo" {
			h.nemo.until(t, 0, func(nemoFrame) bool { return slices.Contains(h.nemo.answers(), "You said: instead") })
		}
	}
	text := h.lettaList()
	if n := len(text); n != 10 || !strings.HasPrefix(text[1], "agent: tok1 tok2 ") || text[n-1] != "agent: You said: instead" {
		t.Errorf("letta: %d %q", n, clip(strings.Join(text, "|")))
	}
}

func shown(r *reader) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown
}

// TestCrossingErase: an erased session is gone in every dialect, in its words.
func TestCrossingErase(t *testing.T) {
	t.Parallel()
	h := openHall(t)
	h.nemo = h.listenNemo(t)
	h.say("nemo", "forget me")
	h.nemo.until(t, 0, func(nemoFrame) bool { return len(h.nemo.answers()) == 1 })
	run := field(t, h.get("/v1/conversations/hall/messages"), "0.run_id")
	waitFor(t, func() bool { return len(h.archive()) >= 5 }, "the archive lacks events")
	h.must(call{method: "DELETE", path: "/parley/v1/sessions/hall"})
	for _, c := range []call{
		{path: "/parley/v1/sessions/hall"}, {path: "/parley/v1/sessions/hall/stream"}, {path: "/api/v1/agents/hall"}, {path: "/api/v1/agents/hall/updates"},
		{path: "/api/v1/agents/hall/stream"}, {path: "/api/v1/workflows/runs/hall/hall/updates"}, {method: "POST", path: "/api/v1/agents/hall/signal/UserInput", body: `{"message":"x"}`},
		{path: "/v1/conversations/hall"}, {path: "/v1/conversations/hall/messages"}, {path: "/v1/runs/" + run},
		{method: "POST", path: "/v1/conversations/hall/messages", body: `{"messages":[{"role":"user","content":"x"}]}`},
		{method: "POST", path: "/chat", body: `{"messages":[{"role":"user","content":"x"}]}`, header: map[string]string{"Conversation-Id": "hall"}},
		{method: "POST", path: "/parley/v1/sessions/hall/credentials", body: `{}`},
	} {
		code, body, _ := h.do(c)
		if code != 410 && !(code == 404 && strings.HasPrefix(c.path, "/v1/runs/")) {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, body)
		}
		if strings.Contains(body, "forget") {
			t.Errorf("%s tells %s", c.path, body)
		}
	}
	if r := h.input("user.message", `{"text":"x"}`); r.Error == nil || r.Error.Code != 410 {
		t.Errorf("x1: %+v", r)
	}
	from := h.nemo.count()
	h.nemo.say(t, "hall", "still there?")
	if f := h.nemo.until(t, from, func(f nemoFrame) bool { return f.Type == "error_message" }); !strings.Contains(f.Content.Details, "erased") {
		t.Errorf("nemo: %+v", f.Content)
	}
	waitFor(t, func() bool {
		for _, e := range h.archive() {
			if strings.Contains(string(e.Payload), "forget") {
				return false
			}
		}
		return true
	}, "the archive keeps it")
}
