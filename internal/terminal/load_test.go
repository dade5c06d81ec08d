package terminal

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/json"
)

// A screen that opens an existing session content its items and continues with the stream.
func TestScreenContinuesASession(t *testing.T) {
	var tr chat.Transcript
	seq := chat.Seq(0)
	event := func(body chat.Body) *chat.Event {
		seq++
		return &chat.Event{Session: "s-1", Seq: seq, At: chat.AtOf(time.Now()), Actor: chat.Actor{Kind: chat.Agent, ID: "demo"}, Turn: "t-1", Type: body.Type(), Body: body}
	}
	for _, body := range []chat.Body{
		chat.SessionStarted{Agent: "demo"},
		chat.UserMessage{Text: "count"},
		chat.TurnStarted{TurnID: "t-1", Trigger: 2, Agent: "demo"},
		chat.AgentToolCall{CallID: "c1", Tool: "add", Params: json.RawMessage(`{"a":2}`)},
		chat.UserMessage{Text: "and then?"},
		chat.AgentInputRequest{RequestID: "p-1", InputType: chat.InputText, Text: "From where?"},
		chat.UserInputResponse{RequestID: "p-1", Text: "one"},
		chat.AgentInputRequest{RequestID: "p-2", InputType: chat.InputText, Text: "To where?"},
	} {
		tr.Apply(event(body))
	}
	tr.Preview(&chat.Preview{Block: "b1", Text: "one ", Kind: chat.TextBlock, Turn: "t-1"})
	snap := chat.Snapshot{Session: tr.State.Session, State: tr.State.View(), Items: tr.Items, Open: tr.Open, Cursor: chat.Cursor{Seq: seq}, ServerNow: chat.AtOf(time.Now())}
	body, err := json.Marshal(snap)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}))
	defer server.Close()
	cl, err := client.New(client.Options{URL: server.URL, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	s := &testScreen{screen: newScreen(context.Background(), cl, chat.Session{ID: "s-1"}, error.Error), t: t}
	if _, err := s.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.mustShow("› count", "⚙ add", "? From where?  → one\n", "one▌", "and then?  (queued)", "To where?", "waits for you")
	s.Update(frameMsg{Preview: &chat.Preview{Block: "b1", Offset: 4, Text: "two", Kind: chat.TextBlock, Turn: "t-1"}})
	s.Update(frameMsg{Event: event(chat.AgentToolResult{CallID: "c1", Tool: "add", Result: json.RawMessage("4")})})
	s.Update(frameMsg{Event: event(chat.UserInputResponse{RequestID: "p-2", Text: "ten"})})
	s.mustShow(`✓ add {"a":2} → 4`, "one two▌", "? To where?  → ten (answered by demo elsewhere)")
	s.Update(frameMsg{Event: event(chat.AgentText{Block: "b1", Text: "one two three"})})
	s.Update(frameMsg{Event: event(chat.TurnCompleted{TurnID: "t-1", Outcome: chat.Stopped})})
	s.Update(frameMsg{Event: event(chat.TurnStarted{TurnID: "t-2", Trigger: 5, Agent: "demo"})})
	s.mustShow("one two three", "■ stopped", "› and then?")
}

// A screen asks the server for its person, and reports an agent that the server does not have.
func TestScreenKnowsItsPersonAndAgent(t *testing.T) {
	var tr chat.Transcript
	for i, body := range []chat.Body{chat.SessionStarted{Agent: "gone"}, chat.UserMessage{Text: "mine"}, chat.UserMessage{Text: "hers"}, chat.AgentArtifact{ArtifactID: "a", ArtifactType: "table", Path: "t.csv", MediaType: "text/csv", Size: 20}} {
		actor := []chat.Actor{me, me, mira, {Kind: chat.Agent, ID: "gone"}}[i]
		tr.Apply(&chat.Event{Session: "s-1", Seq: chat.Seq(i + 1), At: chat.AtOf(time.Now()), Actor: actor, Type: body.Type(), Body: body})
	}
	answers := map[string]any{
		"/parley/v1/sessions/s-1/snapshot": chat.Snapshot{Session: tr.State.Session, State: tr.State.View(), Items: tr.Items, Cursor: chat.Cursor{Seq: 4}, ServerNow: chat.AtOf(time.Now())},
		"/auth/session":                    client.Identity{Actor: me},
		"/parley/v1/agents":                map[string]any{"agents": []client.Agent{{Name: "demo"}}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/parley/v1/sessions/s-1/artifacts/t.csv" {
			_, _ = w.Write([]byte("day,visits\nMon,120\n"))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answers[r.URL.Path])
	}))
	defer server.Close()
	cl, err := client.New(client.Options{URL: server.URL, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	s := &testScreen{screen: newScreen(context.Background(), cl, chat.Session{ID: "s-1"}, error.Error), t: t}
	if _, err := s.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.mustShow("\n› mine", "\nMira Lang › hers", "this server has no agent gone", "◆ table t.csv")
	s.Update(s.readFiles()())
	s.mustShow("  day │ visits\n", "  Mon │    120\n")
}
