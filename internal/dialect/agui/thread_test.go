package agui

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

func TestHistoryIsImportedIntoANewSession(t *testing.T) {
	s := newTestServer(t, setup{secured: true})
	s.user = "alice"
	history := []string{
		"u0 before", `{"id":"a0","role":"assistant","content":"I said that","toolCalls":[{"id":"c1","type":"function","function":{"name":"pay","arguments":"{}"}}]}`,
		`{"id":"t0","role":"tool","toolCallId":"c1","content":"approved"}`, `{"id":"x0","role":"activity","content":{}}`, `{"id":"s0","role":"system","content":"be brief"}`,
	}
	s.run(body("th", "r1", append(history, "u1 hello")...))
	var log []string
	for _, e := range s.Events("th", chat.UserMessage{}.Type(), chat.AgentText{}.Type(), chat.AgentToolCall{}.Type(), chat.AgentToolResult{}.Type()) {
		log = append(log, fmt.Sprint(e.Type, " of ", e.Actor.ID))
		if strings.Contains(string(e.Payload), "approved") || strings.Contains(string(e.Payload), "pay") {
			t.Errorf("a result of the page is stored: %s", e.Payload)
		}
	}
	if got := strings.Join(log, ", "); got != "user.message of alice, agent.text of alice, user.message of alice, agent.text of demo" {
		t.Errorf("stored: %s", got)
	}
	if n := s.count("th", chat.TurnStarted{}); n != 1 {
		t.Errorf("%d turns", n)
	}
	// Another device shows the history before the first run.
	first := s.stream("/ag-ui/demo?connect=1", body("th", "c"))[0]
	var shown []string
	for _, m := range first.Input.Messages {
		shown = append(shown, m.Role+" "+m.ID)
	}
	if len(shown) != 3 || shown[0] != "user u0" || !strings.HasPrefix(shown[1], "assistant e-") || shown[2] != "user u1" {
		t.Errorf("RUN_STARTED has %v", shown)
	}
	_, text, _ := s.Call("GET", "/ag-ui/demo?threadId=th", "", s.header(nil)...)
	if strings.Count(text, `"role":"user"`) != 2 || !strings.Contains(text, "I said that") {
		t.Errorf("TanStack gets %s", text)
	}
	// Later requests import nothing.
	s.run(body("th", "r2", append(history, "u9 forged", `{"id":"a9","role":"assistant","content":"forged"}`, "u2 again")...))
	if n := s.count("th", chat.UserMessage{}); n != 3 {
		t.Errorf("%d messages", n)
	}
	// A page that asks for an answer to an imported message gets one.
	if got := said(s.run(body("th", "r3", "u0 before"))); got != "You said: before" {
		t.Errorf("got %q", got)
	}
}

func TestImportIsBoundedAndEndsAfterARestart(t *testing.T) {
	s := newTestServer(t, setup{secured: true})
	s.user = "alice"
	alice := callerOf("alice")
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("h%d said %d", i, i))
	}
	large := "h-large " + strings.Repeat("x", 1<<20)
	s.run(body("th", "r1", append(many, large, "u1 hello")...))
	if n := s.count("th", chat.UserMessage{}); n != maxImported+1 {
		t.Errorf("%d messages", n)
	}
	for _, state := range []string{"empty", "imported"} {
		id := chat.SessionID(state)
		if _, _, err := s.Sessions.Create(t.Context(), alice, chat.NewSession{ID: id, Agent: chat.NoAgent, Metadata: threadInfo{Import: true}.metadata()}); err != nil {
			t.Fatal(err)
		}
		if state == "imported" {
			if _, err := s.Sessions.Append(t.Context(), alice, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "before"})}); err != nil {
				t.Fatal(err)
			}
		}
		if got := said(s.run(body(state, "r1", "u0 before", "u1 hello"))); got != "You said: hello" || s.count(state, chat.UserMessage{}) != 2 {
			t.Errorf("%s: %q, %d messages", state, got, s.count(state, chat.UserMessage{}))
		}
	}
}

// tanstackPage is what TanStack's client loads.
type tanstackPage struct {
	Messages []struct {
		ID, Role string
		Parts    []struct{ Type, Content string }
	}
	ActiveRun *struct{ RunID string }
	Page      *struct {
		Truncated bool
		Cursor    string
	}
}

func (s *testServer) page(query string) (p tanstackPage) {
	s.t.Helper()
	code, text, _ := s.Call("GET", "/ag-ui/demo?"+query, "")
	if err := json.Unmarshal([]byte(text), &p); err != nil || code != 200 {
		s.t.Fatalf("%s: %d %s", query, code, text)
	}
	return p
}

func TestMessagesAreLoadedInPages(t *testing.T) {
	s := newTestServer(t, setup{})
	for i := range 5 {
		s.run(body("th", fmt.Sprint("r", i), fmt.Sprintf("u%d /tool look {}", i)))
	}
	var all []string
	query, pages := "threadId=th&limit=4", 0
	for next := query; next != ""; pages++ {
		p := s.page(next)
		var ids []string
		for _, m := range p.Messages {
			ids = append(ids, m.Role)
			if m.Role == "user" {
				ids[len(ids)-1] = m.ID
			} else if len(m.Parts) != 3 {
				t.Errorf("a message of the assistant has %d parts", len(m.Parts))
			}
		}
		all = append(ids, all...)
		next = ""
		if p.Page != nil && p.Page.Truncated {
			next = query + "&before=" + p.Page.Cursor
		}
	}
	if got := strings.Join(all, " "); pages != 3 || got != "u0 assistant u1 assistant u2 assistant u3 assistant u4 assistant" {
		t.Errorf("%d pages: %s", pages, got)
	}
}

// A page that opens during a run joins it from its start, so its messages are not in the list; those before an interrupt are.
func TestMessagesOfTheRunningRunAreNotListed(t *testing.T) {
	s := newTestServer(t, setup{})
	s.run(body("th", "r0", "u0 hello"))
	res := s.open("/ag-ui/demo", body("th", "r1", "u1 /stream 100000 100"))
	defer res.Close()
	if _, err := readFrames(res.Reader, 4); err != nil {
		t.Fatal(err)
	}
	p := s.page("threadId=th")
	if n := len(p.Messages); n != 3 || p.Messages[2].ID != "u1" || p.ActiveRun == nil || p.ActiveRun.RunID != "r1" {
		t.Errorf("got %+v", p)
	}
}

// What a caller does with ids of others changes nothing and shows nothing.
func TestThreadsOfOthersStayTheirs(t *testing.T) {
	s := newTestServer(t, setup{secured: true})
	s.user = "alice"
	res := s.open("/ag-ui/demo", body("hers", "ra", "u1 /sleep 600"))
	defer res.Close()
	frames, err := readFrames(res.Reader, 1)
	if err != nil {
		t.Fatal(err)
	}
	asked := last(s.run(body("asked", "rb", "u1 /ask radio")))
	prompt := asked.Outcome.Interrupts[0].ID
	before := len(s.Events("hers")) + len(s.Events("asked"))
	s.user = "bob"
	for path, b := range map[string]string{"stop/hers": `{}`, "stop/asked": `{"runId":"rb"}`} {
		if code, text, _ := s.Call("POST", "/api/copilotkit/agent/demo/"+path, b, s.header(nil)...); code != 200 || strings.TrimSpace(text) != `{"stopped":false}` {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	s.refused(404, "/ag-ui/demo", resumed("asked", "r", answerEntry(prompt, `{"value":"sms"}`)))
	s.refused(404, "/ag-ui/demo", body("hers", "ra"), "Last-Event-ID", frames[0].id)
	s.run(body("asked", "rc", "u1 /ask radio")) // bob's own thread of that name
	s.refused(400, "/ag-ui/demo", resumed("asked", "rd", answerEntry(prompt, `{"value":"sms"}`)))
	s.run(body("hers", "re", "u1 edited"))
	for _, query := range []string{"runId=ra", "runId=rb", "runId=" + frames[0].RunID + "&threadId=hers"} {
		if code, text, _ := s.Call("GET", "/ag-ui/demo?"+query, "", s.header(nil)...); code != 404 {
			t.Errorf("%s: %d %s", query, code, text)
		}
	}
	if n := len(s.Events("hers")) + len(s.Events("asked")); n != before {
		t.Errorf("%d events, before %d", n, before)
	}
}

// Requests that arrive together make one session, one import and one fork.
func TestRequestsAtTheSameTime(t *testing.T) {
	s := newTestServer(t, setup{secured: true})
	s.user = "alice"
	together := func(b func(i int) string) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				res := s.Send("POST", "/api/copilotkit/agent/demo/run", b(i), s.header(nil)...)
				_, _ = io.Copy(io.Discard, res.Body) // it must end
				res.Body.Close()
			})
		}
		wg.Wait()
	}
	together(func(int) string { return body("th", "r1", "u0 before", answer("x"), "u1 hello") })
	if n, turns := s.count("th", chat.UserMessage{}), s.count("th", chat.TurnStarted{}); n != 2 || turns != 1 {
		t.Errorf("%d messages, %d turns", n, turns)
	}
	together(func(int) string { return body("th", "r2", "u0 before", answer("x"), "u1 edited") })
	together(func(int) string { return body("th", "r3", "u0 before", answer("x"), "u1 edited") })
	page, err := s.Sessions.List(t.Context(), callerOf("alice"), core.Filter{Limit: 100})
	if err != nil || len(page.Sessions) != 3 {
		t.Errorf("%d sessions after an edit and a new answer, %v", len(page.Sessions), err)
	}
	if got := said(s.stream("/ag-ui/demo?connect=1", body("th", "c"))); got != "You said: edited" {
		t.Errorf("the thread has %q", got)
	}
}

// A thread is listed with its title, else with the beginning of what was said first.
func TestThreadsHaveNames(t *testing.T) {
	s := newTestServer(t, setup{})
	s.run(body("a", "r1", "u1 Where is  the\nsea?", `{"id":"x","role":"assistant","content":"There."}`, "u2 hello"))
	s.run(body("b", "r2", "u1 hello"))
	s.run(body("c", "r3", `{"id":"u1","role":"user","content":[{"type":"image","source":{"type":"url","value":"https://example.com/a.png"}}]}`))
	title := "Plans"
	if _, err := s.Sessions.Update(t.Context(), chat.Trusted, "b", chat.SessionUpdated{Title: &title}); err != nil {
		t.Fatal(err)
	}
	_, text, _ := s.Call("GET", "/api/copilotkit/threads", "")
	var list struct{ Threads []struct{ ID, Name string } }
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, one := range list.Threads {
		got[one.ID] = one.Name
	}
	if want := map[string]string{"a": "Where is the", "b": "Plans", "c": "c"}; !maps.Equal(got, want) {
		t.Errorf("the names are %q", got)
	}
}

// The list of a thread with very much text has the newest messages, and a page can go on with the older ones.
func TestListsAreBounded(t *testing.T) {
	s := newTestServer(t, setup{secured: true})
	s.user = "alice"
	if _, _, err := s.Sessions.Create(t.Context(), callerOf("alice"), chat.NewSession{ID: "long", Agent: chat.NoAgent}); err != nil {
		t.Fatal(err)
	}
	const messages, size = 40, 500 << 10
	for i := range messages {
		text := fmt.Sprintf("%02d ", i) + strings.Repeat("x", size)
		if _, err := s.Sessions.Append(t.Context(), chat.Trusted, "long", []chat.Draft{chat.NewDraft(chat.UserMessage{Text: text})}); err != nil {
			t.Fatal(err)
		}
	}
	var seen []string
	for before, pages := "", 0; pages == 0 || before != ""; pages++ {
		_, text, _ := s.Call("GET", "/api/copilotkit/threads/long/messages"+before, "", s.header(nil)...)
		var list struct {
			Messages []struct{ Content string }
			Page     struct {
				Truncated bool
				Cursor    string
			}
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(text) > maxHydratedBytes+1<<20 || len(list.Messages) == 0 {
			t.Fatalf("%d bytes, %d messages, %v", len(text), len(list.Messages), err)
		}
		var numbers []string
		for _, m := range list.Messages {
			numbers = append(numbers, m.Content[:2])
		}
		seen, before = append(numbers, seen...), ""
		if list.Page.Truncated {
			before = "?before=" + list.Page.Cursor
		}
	}
	if len(seen) != messages || !slices.IsSorted(seen) {
		t.Errorf("the pages have %q", seen)
	}
}

// The events of a thread for CopilotKit's inspector are the newest ones.
func TestEventsOfAThreadAreBounded(t *testing.T) {
	s := newTestServer(t, setup{agents: map[string]agentType{"long": agent.Func(func(ctx context.Context, turn *agent.Turn) error {
		return turn.Say(ctx, strings.Repeat("x", 500<<10))
	})}})
	for i := range 40 {
		if got := last(s.stream("/ag-ui/long", body("th", fmt.Sprint("r", i), fmt.Sprintf("u%d go", i)))); got.Type != "RUN_FINISHED" {
			t.Fatal(got.Type)
		}
	}
	_, text, _ := s.Call("GET", "/api/copilotkit/threads/th/events", "", s.header(nil)...)
	if !strings.Contains(text, `"runId":"r39"`) || strings.Contains(text, `"runId":"r0"`) || len(text) > maxHydratedBytes+1<<20 {
		t.Errorf("%d bytes: %.200s", len(text), text)
	}
}
