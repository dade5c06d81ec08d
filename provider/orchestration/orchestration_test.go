package orchestration

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/hub"
	"github.com/parley-hq/parley/journal"
	"github.com/parley-hq/parley/provider"
	"github.com/parley-hq/parley/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a store with an orchestration that may not run.
type world struct {
	t        *testing.T
	sessions *session.Sessions
	o        *Orchestration
	allowed  map[string]bool // agents
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, allowed: map[string]bool{}}
	j, err := journal.Open(t.TempDir(), journal.Options{Sync: journal.SyncNever, MinFree: -1, MinFreePercent: -1})
	if err != nil {
		t.Fatal(err)
	}
	h := hub.New(j, hub.Options{})
	w.sessions = session.New(j, h, session.Options{DefaultAgent: "none", Committed: func(evs []chat.Event) { w.o.Committed(evs) }})
	w.o = New(Options{Sessions: w.sessions, Allow: func(_ context.Context, _ string, _ chat.SessionID, agent, _ string) (string, error) {
		if !w.allowed[agent] {
			return "", chat.Errorf(chat.Denied, "nobody has granted that")
		}
		return "g1", nil
	}})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = j.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		h.Close(nil)
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, id := range []chat.SessionID{"boss", "stranger"} {
		if _, _, err := w.sessions.Create(t.Context(), chat.Trusted, chat.NewSession{ID: id, Agent: chat.NoAgent}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) ask(as chat.SessionID, op, body string) (map[string]any, string) {
	w.t.Helper()
	got, err := w.o.Provider().Ops[op](w.t.Context(), provider.Call{Op: op, Session: as}, json.RawMessage(body))
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

func (w *world) messages(id chat.SessionID) (out []string) {
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
	w := newWorld(t)
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

// A parent is woken once for what happens to a child, also when that happened
// while nobody could tell it.
func TestWakes(t *testing.T) {
	w := newWorld(t)
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
