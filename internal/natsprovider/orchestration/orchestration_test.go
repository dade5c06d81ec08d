package orchestration

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/natsprovider"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a server with an orchestration; run starts its wakes.
type fixture struct {
	t        *testing.T
	sessions *session.Sessions
	o        *Orchestration
	allowed  map[string]bool // agents
}

func newFixture(t *testing.T) *fixture {
	w := &fixture{t: t, allowed: map[string]bool{}}
	s := servertest.Open(t, servertest.Options{})
	w.sessions = s.Sessions
	w.o = New(Options{Sessions: w.sessions, Allow: func(_ context.Context, _ string, _ chat.SessionID, agent, _ string) (string, error) {
		if !w.allowed[agent] {
			return "", chat.Errorf(chat.Denied, "nobody has granted that")
		}
		return "g1", nil
	}})
	w.sessions.Observe(session.Observer{Committed: w.o.Committed})
	s.Serve(nil)
	for _, id := range []chat.SessionID{"boss", "stranger"} {
		if _, _, err := w.sessions.Create(t.Context(), chat.Trusted, chat.NewSession{ID: id, Agent: chat.NoAgent}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *fixture) ask(as chat.SessionID, op, body string) (map[string]any, string) {
	w.t.Helper()
	got, err := w.o.Provider().Ops[op](w.t.Context(), natsprovider.Call{Op: op, Session: as}, json.RawMessage(body))
	if err != nil {
		return nil, string(chat.CodeOf(err))
	}
	b, err := json.Marshal(got)
	if err != nil {
		w.t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil {
		w.t.Fatal(err)
	}
	return v, string(b)
}

func (w *fixture) messages(id chat.SessionID) (out []string) {
	w.t.Helper()
	facts, _, err := w.sessions.Read(w.t.Context(), chat.Trusted, id, chat.Range{Types: []string{"user.message"}})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, e.Body.(chat.UserMessage).Text)
	}
	return out
}

func TestChildren(t *testing.T) {
	w := newFixture(t)
	spawn := `{"agent":"none","prompt":"do it","tool_use_id":"c1"}`
	for name, c := range map[string]struct {
		as         chat.SessionID
		body, want string
	}{
		"no grant":   {"boss", spawn, "denied"},
		"no session": {"", spawn, "denied"},
		"no call":    {"boss", `{"agent":"none","prompt":"x"}`, "invalid"},
	} {
		if _, got := w.ask(c.as, "spawn", c.body); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	w.allowed["none"] = true
	v, text := w.ask("boss", "spawn", spawn)
	again, _ := w.ask("boss", "spawn", spawn)
	if v == nil || again["session_id"] != v["session_id"] || again["created"] != false {
		t.Fatal(text, again)
	}
	// The same call has the same child, also when what surrounds it has changed.
	w.allowed["none"] = false
	members := []chat.Member{{Actor: chat.Actor{Kind: chat.User, ID: "bob"}, Role: chat.Viewer}}
	if _, err := w.sessions.Update(t.Context(), chat.Trusted, "boss", chat.SessionUpdated{Members: &members}); err != nil {
		t.Fatal(err)
	}
	again, text = w.ask("boss", "spawn", `{"agent":"none","prompt":"do it","tool_use_id":"c1","title":"Another"}`)
	if again["session_id"] != v["session_id"] || again["created"] != false || again["grant_id"] != v["grant_id"] {
		t.Fatal(text)
	}
	if _, got := w.ask("boss", "spawn", `{"agent":"none","prompt":"do something else","tool_use_id":"c1"}`); got != "conflict" {
		t.Error(got)
	}
	w.allowed["none"] = true
	child := chat.SessionID(v["session_id"].(string))
	if got := w.messages(child); len(got) != 1 || got[0] != "do it" {
		t.Fatal(got)
	}
	if _, got := w.ask(child, "spawn", spawn); got != "denied" {
		t.Fatal("depth is one", got)
	}
	about := `{"session_id":"` + string(child) + `","text":"more","message_id":"m"}`
	for _, op := range []string{"message", "cancel", "events"} {
		if _, got := w.ask("stranger", op, about); got != "not_found" {
			t.Errorf("%s of another one's child: %s", op, got)
		}
	}
	for range 2 { // the same message
		if _, got := w.ask("boss", "message", about); !strings.Contains(got, "true") {
			t.Fatal(got)
		}
	}
	if got := w.messages(child); len(got) != 2 {
		t.Fatal(got)
	}
	if _, got := w.ask("boss", "events", about); !strings.Contains(got, "do it") {
		t.Fatal(got)
	}
	if _, got := w.ask("boss", "cancel", about); !strings.Contains(got, `"stopped":true`) {
		t.Fatal(got)
	}
	if _, got := w.ask("boss", "list", ``); !strings.Contains(got, `"status":"completed"`) {
		t.Fatal(got)
	}
	if got := w.messages("boss"); len(got) != 0 {
		t.Fatalf("it did that itself: %v", got)
	}
}

// A parent is woken once for each end of a child, also for those that happened while Run did
// not run.
func TestWakes(t *testing.T) {
	w := newFixture(t)
	w.allowed["none"] = true
	v, _ := w.ask("boss", "spawn", `{"agent":"none","prompt":"do it","tool_use_id":"c1"}`)
	child := chat.SessionID(v["session_id"].(string))
	agent := chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: "x"}, Scopes: []chat.Scope{chat.ScopeAdmin}}
	for _, d := range []chat.Draft{
		{Type: "agent.message_to_caller", Payload: json.RawMessage(`{"text":"I need you"}`)},
		chat.NewDraft(chat.SessionFailed{ErrorMessage: "no luck"}),
	} {
		if _, err := w.sessions.Append(t.Context(), agent, child, []chat.Draft{d}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // a process that starts looks back, each time
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.o.Run(ctx) }()
		for end := time.Now().Add(time.Minute); len(w.messages("boss")) < 2; {
			if time.Now().After(end) {
				t.Fatal("it was not woken")
			}
			<-time.After(time.Millisecond)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	got := w.messages("boss")
	if len(got) != 2 || got[0] != "I need you" || !strings.Contains(got[1], "has failed: no luck") {
		t.Fatal(got)
	}
}

// A child whose agent is one of the server's own never ends its session: the
// parent is woken by the answers that it asked for, and by no others.
func TestAParentGetsTheAnswer(t *testing.T) {
	w := newFixture(t)
	w.allowed["demo"] = true
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.o.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	woken := func(n int) []string {
		t.Helper()
		for end := time.Now().Add(time.Minute); len(w.messages("boss")) < n; {
			if time.Now().After(end) {
				t.Fatalf("it was told %q", w.messages("boss"))
			}
			<-time.After(time.Millisecond)
		}
		return w.messages("boss")
	}
	v, text := w.ask("boss", "spawn", `{"agent":"demo","prompt":"/echo done it","tool_use_id":"c1"}`)
	if v == nil {
		t.Fatal(text)
	}
	child := v["session_id"].(string)
	if got := woken(1); got[0] != "Session "+child+" (demo) has answered: done it" {
		t.Fatal(got)
	}
	person := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "alice"}, Scopes: []chat.Scope{chat.ScopeAdmin}}
	w.say(person, chat.SessionID(child), `{"text":"/echo between us","from_session_id":"boss","source":"orchestrator"}`)
	if _, text := w.ask("boss", "message", `{"session_id":"`+child+`","text":"/fail no luck"}`); !strings.Contains(text, "true") {
		t.Fatal(text)
	}
	if got := woken(2); len(got) != 2 || got[1] != "Session "+child+" (demo) has failed: no luck" {
		t.Fatal(got)
	}
}
