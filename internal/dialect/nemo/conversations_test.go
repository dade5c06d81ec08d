package nemo

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

func TestSeveralConversationsOnOneSocket(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("")
	const n = 4
	for i := range n {
		c.say(fmt.Sprintf("c%d", i), fmt.Sprintf("m%d", i), "/stream 30 100")
	}
	texts, ends := map[string]string{}, 0
	for ends < n {
		f := c.next()
		switch {
		case isTrace(f):
			ends++
		case f.Type == typeResponse && f.Content.Text != nil:
			texts[f.Conversation] += *f.Content.Text
			if f.Parent != "m"+strings.TrimPrefix(f.Conversation, "c") {
				t.Errorf("parent of %s", f.raw)
			}
		}
	}
	for i := range n {
		if got := texts[fmt.Sprintf("c%d", i)]; got != words1toN(30) {
			t.Errorf("c%d: %q", i, got)
		}
	}
}

// No frame of the old answer comes after the new message, and the old answer gets no end.
func TestNewMessageSupersedesAnswer(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "/stream 100000 100")
	c.next()
	c.say("c1", "m2", "/sleep 30")
	c.say("c1", "m3", "hi")
	frames := c.readTurn()
	begun := false
	for _, f := range frames {
		if f.Parent == "m3" {
			begun = true
		} else if begun {
			t.Errorf("late frame of an old answer: %s", f.raw)
		}
		if isEnd(f) && f.Parent != "m3" {
			t.Errorf("end of an old answer: %s", f.raw)
		}
	}
	if !strings.HasSuffix(textOf(frames), "You said: hi") {
		t.Errorf("got %q", textOf(frames))
	}
}

// A turn of another dialect is shown, and a NeMo message waits for it.
func TestOtherDialectsAreNotInterrupted(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newServer(t, setup{agents: map[string]agent.Agent{"demo": counter{30, map[int]chan struct{}{5: gate}}}})
	me := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "local"}, Scopes: []chat.Scope{chat.ScopeAdmin}}
	if _, _, err := w.Sessions.Create(t.Context(), me, chat.NewSession{ID: "c1"}); err != nil {
		t.Fatal(err)
	}
	events, err := w.Sessions.Append(t.Context(), me, "c1", []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "go"})})
	if err != nil {
		t.Fatal(err)
	}
	c := w.dial("?conversation_id=c1")
	first := c.readWords(5)
	c.say("c1", "m2", "again")
	w.Until("c1", "user.message", 2)
	close(gate)
	first = c.readRest(first)
	if got := textOf(first); got != words1toN(30) {
		t.Errorf("the other dialect's answer: %q", got)
	}
	if f := first[0]; f.Parent != eventUUID(events[0].ID) {
		t.Errorf("parent of %s, want the user event's id", f.raw)
	}
	if got := textOf(c.readTurn()); got != words1toN(30) {
		t.Errorf("got %q", got)
	}
}

// A client that connects during a turn of another dialect gets all of it; turns of other dialects that ended before are
// not shown.
func TestTurnsOfOtherDialects(t *testing.T) {
	t.Parallel()
	other := func(w *testServer, text string) {
		t.Helper()
		if _, err := w.Sessions.Append(t.Context(), local, "c1", []chat.Draft{chat.NewDraft(chat.UserMessage{Text: text})}); err != nil {
			t.Fatal(err)
		}
	}
	w := newServer(t, setup{agents: greeter})
	if _, _, err := w.Sessions.Create(t.Context(), local, chat.NewSession{ID: "c1"}); err != nil {
		t.Fatal(err)
	}
	other(w, "go")
	w.happened("c1", "agent.input_request")
	if got := textOf(w.dial("?conversation_id=c1").until(isPrompt)); got != "Hello." {
		t.Errorf("in the middle: %q", got)
	}

	w = newServer(t, setup{})
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "hi")
	c.readTurn()
	c.drop()
	w.waitDeparted(1)
	other(w, "/tool calc {}")
	w.waitTurns("c1", 2)
	back := w.dial("?conversation_id=c1")
	back.say("c1", "m2", "hi")
	for _, f := range back.until(func(f frame) bool { return isEnd(f) && f.Parent == "m2" }) {
		if f.Type == typeResponse && f.Parent != "m1" && f.Parent != "m2" {
			t.Errorf("what was over comes again: %s", f.raw)
		}
	}
}

// Its answer is sent again when it is complete. The same id with another text is another message.
func TestRepeatedMessageIsStoredOnce(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "hi")
	c.readTurn()
	c.say("c1", "m1", "hi")
	if got := textOf(c.readTurn()); got != "You said: hi" {
		t.Errorf("again: %q", got)
	}
	c.say("c1", "m1", "something else")
	frames := c.readTurn()
	if got := textOf(frames); got != "You said: something else" || frames[0].Parent != "m1" {
		t.Errorf("a used id: %q %s", got, frames[0].raw)
	}
	for range 2 { // the placeholder is no key
		c.say("c1", "default", "hi")
		if got := textOf(c.readTurn()); got != "You said: hi" {
			t.Errorf("default: %q", got)
		}
	}
	me := chat.Trusted
	facts, _, err := w.Sessions.Read(t.Context(), me, "c1", chat.Range{Types: []string{"user.message"}})
	if err != nil || len(facts) != 4 {
		t.Errorf("%d messages in the log, want 4 (%v)", len(facts), err)
	}
}

// Dropped conversations are followed again when they are used.
func TestSubscriptionsOfASocketAreBounded(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("")
	for round := range 2 {
		for i := range maxSubscriptions + 8 {
			c.say(fmt.Sprintf("c%d", i), fmt.Sprintf("m%d", round), "hi")
			if got := textOf(c.readTurn()); got != "You said: hi" {
				t.Fatalf("c%d: %q", i, got)
			}
		}
	}
	w.dialect.points.mu.Lock()
	defer w.dialect.points.mu.Unlock()
	if n, waiting := len(w.dialect.points.byKey), len(w.dialect.points.waitingForStart); n != maxSubscriptions+8 || waiting != 0 {
		t.Errorf("%d resume points, %d conversations are waited for", n, waiting)
	}
}

// A client that was shown the beginning of another dialect's turn gets its rest and its end, also when the turn has ended before the
// client is back.
func TestRestOfATurnOfAnotherDialectThatHasEnded(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{agents: map[string]agent.Agent{"demo": answerFunc(func(ctx context.Context, turn *agent.Turn) error {
		if err := turn.Say(ctx, "Hello."); err != nil {
			return err
		}
		if _, err := turn.Ask(ctx, chat.AgentInputRequest{InputType: chat.InputText, Text: "Name?"}); err != nil {
			return err
		}
		return turn.Say(ctx, "Goodbye.")
	})}})
	if _, _, err := w.Sessions.Create(t.Context(), local, chat.NewSession{ID: "c1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Sessions.Append(t.Context(), local, "c1", []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "go"})}); err != nil {
		t.Fatal(err)
	}
	c := w.dial("?conversation_id=c1")
	c.until(isPrompt)
	c.drop()
	w.waitDeparted(1)
	st, err := w.Sessions.State(t.Context(), local, "c1")
	if err != nil || len(st.Prompts) != 1 {
		t.Fatal(st, err)
	}
	if _, err := w.Sessions.Answer(t.Context(), local, "c1", st.Prompts[0].RequestID, chat.Answer{Text: "Ann"}); err != nil {
		t.Fatal(err)
	}
	w.waitTurns("c1", 1)
	if got := textOf(w.dial("?conversation_id=c1").until(isEnd)); !strings.Contains(got, "Goodbye.") || strings.Contains(got, "Hello.") {
		t.Errorf("the rest is %q", got)
	}
}
