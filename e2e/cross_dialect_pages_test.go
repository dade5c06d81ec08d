// Tests of pages of the AI SDK and of AG-UI in sessions that other dialects use.

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// openQuestion reads the open prompt as a page that opens the session does.
func (s *sharedSession) openQuestion(t *testing.T, dialect, kind string) question {
	t.Helper()
	pages := s.joinPages(t)
	q := question{kind: kind}
	id := ""
	if dialect == "agui" {
		last, err := pages[1].end(t)
		if err != nil || last.Outcome.Type != "interrupt" || len(last.Outcome.Interrupts) != 1 {
			t.Fatalf("agui: %v %s", err, last.Raw)
		}
		id = last.Outcome.Interrupts[0].ID
	} else {
		last, err := pages[0].end(t)
		if err != nil || last.Type != "finish" || last.Reason != "tool-calls" || !pages[0].done {
			t.Fatalf("aisdk: %v %s", err, last.Raw)
		}
		q.turn = field(t, pages[0].frames[0].Raw, "messageId")
		id = pages[0].find(func(f pageFrame) bool { return f.Type == "tool-input-available" }).Call
		if f := pages[0].find(func(f pageFrame) bool { return f.Type == "tool-approval-request" }); f != nil {
			id = field(t, f.Raw, "approvalId")
		}
	}
	q.request, q.call, _ = strings.Cut(id, "/")
	return q
}

// TestAskerContinuesAfterAnAnswerElsewhere: a prompt of a turn that one client started is answered by a client of another
// dialect, which learned of it in its own dialect. Both have the rest of the turn, and the asker goes on in its own dialect.
func TestAskerContinuesAfterAnAnswerElsewhere(t *testing.T) {
	t.Parallel()
	s := startShared(t, t.TempDir())
	s.nemo = s.connectNemo(t)
	native, ctx := s.followNative(t)
	turns := 0
	for _, pair := range [][2]string{{"nemo", "agui"}, {"agui", "nemo"}, {"nemo", "aisdk"}, {"aisdk", "nemo"}, {"agui", "aisdk"}, {"aisdk", "agui"}} {
		for _, want := range questions[:2] {
			asker, answerer := pair[0], pair[1]
			what := fmt.Sprintf("%s asked in %s, answered in %s", want.kind, asker, answerer)
			from := s.nemo.count()
			s.sendMessage(asker, want.ask) // a page's response ends with the prompt
			parent := s.nemo.until(t, from, func(f nemoFrame) bool { return f.Type == "system_interaction_message" }).Parent
			if answerer == "nemo" {
				s.answer("nemo", question{kind: want.kind, parent: parent}, false)
			} else {
				c, _ := answerCall(answerer, s.openQuestion(t, answerer, want.kind), true)
				p := s.openPage(t, c)
				if last, err := p.end(t); err != nil || p.status != 200 || !strings.HasSuffix(pageText(p), want.answer) {
					t.Errorf("%s: the rest of the turn is %d %q, %s %v", what, p.status, pageText(p), last.Raw, err)
				}
			}
			turns++
			e, err := native.until(ctx, nth("turn.completed", turns))
			if err != nil {
				t.Fatal(what, err)
			}
			q := questionOf(t, lastOf(t, native, want.event), want.kind)
			switch asker {
			case "nemo":
				s.nemo.until(t, from, func(f nemoFrame) bool { return f.Type == "system_response_message" && f.Status == "complete" })
				if all := s.nemo.answers(); all[len(all)-1] != want.answer {
					t.Errorf("%s: nemo has %q", what, all[len(all)-1])
				}
			case "agui", "aisdk":
				// The page answers too, later and the same: it gets the rest of the turn as if it had been first.
				c, _ := answerCall(asker, q, true)
				p := s.openPage(t, c)
				if last, err := p.end(t); err != nil || p.status != 200 || !strings.HasSuffix(pageText(p), want.answer) {
					t.Errorf("%s: the asker gets %d %q, %s %v", what, p.status, pageText(p), last.Raw, err)
				}
				if p.find(func(f pageFrame) bool { return f.Name == "parley.answered" }) != nil {
					t.Errorf("%s: the asker is told of another answer, but it is the same", what)
				}
			}
			next := "and now " + what
			s.sendMessage(asker, next)
			turns++
			if _, err := native.until(ctx, nth("turn.completed", turns)); err != nil {
				t.Fatal(what, err)
			}
			if got := s.lettaList(); got[len(got)-1] != line("agent", "You said: "+next) {
				t.Errorf("%s: after turn %s the asker gets %q", what, e.Turn, got[len(got)-1])
			}
			s.nemo.until(t, 0, func(nemoFrame) bool { return slices.Contains(s.nemo.answers(), "You said: "+next) })
		}
	}
}

// lastOf returns the newest event of a type.
func lastOf(t testing.TB, r *reader, typ string) chat.Event {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range slices.Backward(r.events) {
		if e.Type == typ {
			return e
		}
	}
	t.Fatalf("there is no %s", typ)
	return chat.Event{}
}

// pageText is the text of a response that has ended.
func pageText(p *pageStream) string {
	text, _ := p.words()
	return text
}

// TestShutdownBreaksPageStreams: a server that shuts down in the middle of a text breaks the responses of pages off, because
// they take a proper end for success. After the restart the pages resume after the last frame that they have.
func TestShutdownBreaksPageStreams(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := startShared(t, data, "--grace", "200ms")
	pages := []*pageStream{s.openPage(t, call{method: "POST", path: "/api/chat", body: aisdkSend("shared", "/stream 600 50")})}
	pages[0].pieces(t, 3)
	pages = append(pages, s.joinPages(t)...)
	for _, p := range pages {
		p.pieces(t, 5)
	}
	if code := s.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, p := range pages {
		// The error is an unexpected end, or a chunk that cannot be read.
		if last, err := p.end(t); err == nil || p.done || last.Type == "finish" || last.Type == "RUN_FINISHED" || last.Type == "RUN_ERROR" {
			t.Errorf("%s ends with %v after %s", p.name, err, last.Raw)
		}
	}
	s.process = serveAt(t, s.addr, data, "--nats", s.bus)
	aisdk, agui := pages[0], pages[2]
	rest := []*pageStream{
		s.openPage(t, call{path: fmt.Sprintf("/api/chat/%s/stream?startIndex=%d", aisdk.header.Get("X-Workflow-Run-Id"), len(aisdk.frames))}),
		s.openPage(t, call{method: "POST", path: "/ag-ui/default", body: aguiRun("shared", `[]`, `[]`), header: map[string]string{"Last-Event-ID": agui.frames[len(agui.frames)-1].ID}}),
	}
	var want []string
	for i := range 600 {
		want = append(want, fmt.Sprint("tok", i+1))
	}
	for i, before := range []*pageStream{aisdk, agui} {
		last, err := rest[i].end(t)
		if got := pageText(before) + pageText(rest[i]); got != strings.Join(want, " ") || err != nil || last.Type != "finish" && last.Type != "RUN_FINISHED" {
			t.Errorf("%s: %d bytes, %v after %s", rest[i].name, len(got), err, last.Raw)
		}
	}
}

// TestInspectorShowsEventsInEveryDialect: the console offers every dialect that has a form of its own, and each of them shows
// every event of a session, also of types that it leaves out.
func TestInspectorShowsEventsInEveryDialect(t *testing.T) {
	t.Parallel()
	s := startShared(t, t.TempDir())
	native, ctx := s.followNative(t)
	s.sendMessage("aisdk", "hello inspector")
	s.sendMessage("agui", `/approve deploy {"x":1}`)
	e, err := native.until(ctx, ofType("agent.approval_request"))
	if err != nil {
		t.Fatal(err)
	}
	s.answer("agui", questionOf(t, e, "approve"), false)
	s.sendMessage("native", "/work 2 1")
	s.post("/parley/v1/sessions/shared/events", `{"type":"custom.thing","payload":{"a":1}}`)
	if _, err := native.until(ctx, nth("turn.completed", 3)); err != nil {
		t.Fatal(err)
	}
	var about struct{ Dialects []string }
	if err := json.Unmarshal([]byte(s.get("/console.json")), &about); err != nil {
		t.Fatal(err)
	}
	for _, d := range dialects {
		if d != "native" && d != "x1" && !slices.Contains(about.Dialects, d) {
			t.Errorf("the console offers %v, not %s", about.Dialects, d)
		}
	}
	native.mu.Lock()
	events := slices.Clone(native.events)
	native.mu.Unlock()
	words := map[string]map[string]string{
		"agent.text":             {"agui": `"TEXT_MESSAGE_CONTENT"`, "aisdk": `"text-delta"`},
		"agent.approval_request": {"agui": `"interrupts"`, "aisdk": `"tool-approval-request"`},
		"agent.tool_result":      {"agui": `"TOOL_CALL_RESULT"`, "aisdk": `"tool-output-available"`},
		"workstream.launched":    {"agui": `"SUBAGENT_STARTED"`, "aisdk": `"data-workstream"`},
		"turn.started":           {"agui": `"RUN_STARTED"`, "aisdk": `"start"`},
		"turn.completed":         {"agui": `"RUN_FINISHED"`, "aisdk": `"finish"`},
	}
	seen := map[string]bool{}
	for _, e := range events {
		for _, d := range append([]string{"native"}, about.Dialects...) {
			got := s.get(fmt.Sprintf("/parley/v1/sessions/shared/events/%d?as=%s", e.Seq, d))
			if !json.Valid([]byte(got)) {
				t.Errorf("event %d, %s, in %s: %s", e.Seq, e.Type, d, got)
			}
			if word := words[e.Type][d]; word != "" && e.Workstream == "" {
				if seen[d+e.Type] = true; !strings.Contains(got, word) {
					t.Errorf("%s in %s lacks %s: %s", e.Type, d, word, got)
				}
			}
		}
	}
	for typ, in := range words {
		for d := range in {
			if !seen[d+typ] {
				t.Errorf("there was no %s to show in %s", typ, d)
			}
		}
	}
	if code, body, _ := s.do(call{path: "/parley/v1/sessions/shared/events/1?as=latin"}); code != 400 {
		t.Errorf("an unknown dialect: %d %s", code, body)
	}
}
