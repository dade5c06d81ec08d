package terminal

import (
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// by applies an event of an actor.
func (s *testScreen) by(actor chat.Actor, body chat.Body) chat.Seq {
	s.seq++
	s.Update(frameMsg{Event: &chat.Event{Session: "s-1", Seq: s.seq, At: chat.AtOf(s.now), Actor: actor, Turn: "t-1", Type: body.Type(), Body: body}})
	return s.seq
}

var (
	me   = chat.Actor{Kind: chat.User, ID: "ada"}
	mira = chat.Actor{Kind: chat.User, ID: "mira", Name: "Mira Lang"}
)

// Messages and answers of other people have their names; own ones have none.
func TestScreenNamesOtherPeople(t *testing.T) {
	s := newTestScreen(t)
	s.conversation.me = me
	s.by(me, chat.UserMessage{Text: "from me"})
	s.by(mira, chat.UserMessage{Text: "from her"})
	s.by(chat.Actor{Kind: chat.User, ID: "bob"}, chat.UserMessage{Text: "from him"})
	s.mustShow("\n› from me", "\nMira Lang › from her", "\nbob › from him")
	for i, actor := range []chat.Actor{me, mira} {
		id := string(rune('a' + i))
		s.apply(chat.AgentInputRequest{RequestID: id, InputType: chat.InputText, Text: "Name " + id + "?"})
		s.conversation.answered["a"] = true
		s.by(actor, chat.UserInputResponse{RequestID: id, Text: "Bob"})
	}
	s.mustShow("Name a?  → Bob\n", "Name b?  → Bob (answered by Mira Lang)\n")
}

// A file that was attached to a message in a page is shown in the message only.
func TestScreenShowsFilesOfMessagesOnce(t *testing.T) {
	s := newTestScreen(t)
	s.by(mira, chat.FileUploaded{Path: "files/1697905155/notes.txt", Name: "notes.txt", MediaType: "text/plain", Size: 11})
	s.by(mira, chat.UserMessage{Text: "look", Content: []chat.Part{{Type: "text", Text: "look"}, {Type: "file", Name: "notes.txt", Path: "files/1697905155/notes.txt"}}})
	s.by(mira, chat.FileUploaded{Path: "out/report.csv", MediaType: "text/csv", Size: 12})
	s.mustShow("[file notes.txt]", "◆ file out/report.csv (12 B)")
	if strings.Contains(s.content(), "1697905155") {
		t.Errorf("the file is shown twice:\n%s", s.content())
	}
}

// A message that is sent while the agent answers is below the answer until its turn begins.
func TestScreenShowsQueuedMessagesBelowTheAnswer(t *testing.T) {
	s := newTestScreen(t)
	s.conversation.me = me
	s.by(me, chat.UserMessage{Text: "first"})
	s.apply(chat.TurnStarted{TurnID: "t-1", Trigger: 1, Agent: "demo"})
	s.Update(frameMsg{Preview: &chat.Preview{Block: "b1", Text: "the answer", End: 10, Kind: chat.TextBlock, Turn: "t-1"}})
	s.by(me, chat.UserMessage{Text: "second"})
	s.by(mira, chat.UserMessage{Text: "third"})
	order := func(want ...string) {
		t.Helper()
		got, at := s.content(), 0
		for _, w := range want {
			i := strings.Index(got[at:], w)
			if i < 0 {
				t.Fatalf("%q is not where it should be:\n%s", w, got)
			}
			at += i + len(w)
		}
	}
	order("› first", "the answer▌", "writing", "› second  (queued)", "Mira Lang › third  (queued)", "2 queued · ↑ edits it")
	s.apply(chat.AgentText{Block: "b1", Text: "the answer"})
	s.apply(chat.AgentText{Text: "and more"})
	order("› first", "the answer", "and more", "› second  (queued)")
	s.apply(chat.TurnCompleted{TurnID: "t-1", Outcome: chat.Done})
	s.apply(chat.TurnStarted{TurnID: "t-2", Trigger: 3, Agent: "demo"})
	order("and more", "› second\n", "working", "Mira Lang › third  (queued)")
}

// Up takes the last queued message of the person back, so that it can be edited.
func TestScreenEditsAQueuedMessage(t *testing.T) {
	s := newAnswers(t, chat.AgentStatus{Message: "busy"})
	s.conversation.me = me
	s.by(me, chat.UserMessage{Text: "mine"})
	s.by(mira, chat.UserMessage{Text: "hers"})
	cmd := s.press("<up>")
	if cmd == nil {
		t.Fatal("up does nothing")
	}
	msg, ok := cmd().(withdrawnMsg)
	if got := <-s.got; !ok || !strings.Contains(got, `"user.message_withdrawn"`) || !strings.Contains(got, `"sequence":4`) {
		t.Fatalf("the request is %s", got)
	}
	s.Update(withdrawnMsg{text: msg.text})
	if s.input.Value() != "mine" {
		t.Fatalf("the input is %q", s.input.Value())
	}
}

// A silent agent is shown with what it does, since when, and how to stop it.
func TestScreenShowsWhatASilentAgentDoes(t *testing.T) {
	s := newTestScreen(t)
	asked := s.by(me, chat.UserMessage{Text: "go"})
	s.by(chat.Actor{}, chat.TurnStarted{TurnID: "t-1", Trigger: asked, Agent: "demo"})
	s.mustShow("working · Esc stops")
	s.Update(tickMsg(s.now.Add(7 * time.Second)))
	s.mustShow("working · 7 s · Esc stops")
	s.apply(chat.AgentStatus{Message: "starting tool server files"})
	s.mustShow("starting tool server files · 7 s · Esc stops")
	s.apply(chat.AgentToolCall{CallID: "c1", Tool: "search", Params: json.RawMessage(`{}`)})
	s.apply(chat.AgentToolCall{CallID: "c2", Tool: "fetch", Params: json.RawMessage(`{}`)})
	s.Update(tickMsg(s.now.Add(60 * time.Second)))
	s.mustShow("using search, fetch · 1 min 07 s · Esc stops")
	s.apply(chat.AgentToolResult{CallID: "c1", Tool: "search", Result: json.RawMessage("1")})
	s.apply(chat.AgentToolResult{CallID: "c2", Tool: "fetch", Result: json.RawMessage("1")})
	s.apply(chat.AgentStatus{Message: strings.Repeat("long ", 40)})
	s.mustShow("… · Esc stops")
	s.apply(chat.TurnStopRequested{TurnID: "t-1"})
	s.mustShow("stopping")
	s.apply(chat.TurnCompleted{TurnID: "t-1", Outcome: chat.Stopped})
	if got := s.content(); strings.Contains(got, "Esc stops") {
		t.Fatalf("the turn has ended:\n%s", got)
	}
}
