package nemo

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/session"
)

// counter is an agent that counts to a number, in words; it waits before the word
// that follows each gate.
type counter struct {
	to    int
	gates map[int]chan struct{}
}

func (c counter) Answer(ctx context.Context, t *agent.Turn) error {
	s := t.Stream(true)
	for i := range c.to {
		if gate := c.gates[i]; gate != nil {
			select {
			case <-gate:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		word := fmt.Sprintf("tok%d", i+1)
		if i > 0 {
			word = " " + word
		}
		if err := s.Write(ctx, word); err != nil {
			return err
		}
	}
	return s.Close(ctx)
}

// openSecondTab begins a turn of 40 words in one tab, dials another one while the turn waits at its sixth word, and reads the turn
// to its end in both.
func openSecondTab(one *client, gate chan struct{}, dial func() *client) (two *client) {
	one.t.Helper()
	one.say("c1", "m1", "go")
	got := one.readWords(5)
	first := make(chan []frame)
	go func() { first <- one.readRest(got) }() // reads on, so that it answers pings
	two = dial()
	second := two.readWords(5)
	close(gate)
	if got := textOf(two.readRest(second)); got != words1toN(40) {
		one.t.Errorf("second tab: %q", got)
	}
	if got := textOf(<-first); got != words1toN(40) {
		one.t.Errorf("first tab: %q", got)
	}
	return two
}

// Both tabs see everything; the second one from the start of the running turn.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newServer(t, setup{agents: map[string]agent.Agent{"demo": counter{40, map[int]chan struct{}{5: gate}}}})
	one := w.dial("?session=s1&conversation_id=c1")
	two := openSecondTab(one, gate, func() *client { return w.dial("?session=s1&conversation_id=c1") })
	two.say("c1", "m2", "again")
	for i, c := range []*client{one, two} {
		if got := textOf(c.readTurn()); got != words1toN(40) {
			t.Errorf("tab %d: %q", i+1, got)
		}
	}
}

// Another tab sends the first message.
func TestTabConnectsBeforeConversationStarts(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	one, two := w.dial("?conversation_id=c1"), w.dial("?conversation_id=c1")
	one.sync()
	two.sync()
	one.say("c1", "m1", "hi")
	first := make(chan string, 1)
	go func() {
		first <- textOf(one.readTurn())
		one.readUntilClosed()
	}()
	if got := textOf(two.readTurn()); got != "You said: hi" {
		t.Errorf("second tab: %q", got)
	}
	if got := <-first; got != "You said: hi" {
		t.Errorf("first tab: %q", got)
	}
}

// The first answer is complete before the waiting tab is woken, and another tab that does not respond has departed.
func TestWaitingTabGetsConversationFromStart(t *testing.T) {
	t.Parallel()
	look := &lookout{}
	w := newServer(t, look.setup(setup{}))
	w.dialect.opt.Gone = time.Millisecond
	waits := w.dial("?conversation_id=c1")
	<-look.missed
	w.startConversation(local, "c1", "first")
	w.happened("c1", "turn.completed")
	late := w.dial("")
	late.say("c1", "m2", "second")
	if got := textOf(late.readTurn()); got != "You said: second" {
		t.Errorf("the tab that came late: %q", got)
	}
	for _, want := range []string{"You said: first", "You said: second"} {
		if got := textOf(waits.readTurn()); got != want {
			t.Errorf("the tab that waited: %q, want %q", got, want)
		}
	}
}

// lookout signals when a session is looked up, and when it is not found. A lookup waits
// for leave, if there is such a channel.
type lookout struct {
	*session.Sessions
	looks, missed chan struct{}
	leave         chan struct{}
}

func (l *lookout) setup(s setup) setup {
	l.looks, l.missed = make(chan struct{}, 1), make(chan struct{}, 1)
	s.change = func(o *Options) {
		l.Sessions = o.Sessions.(*session.Sessions)
		o.Sessions = l
	}
	return s
}

func (l *lookout) Own(ctx context.Context, c chat.Caller, foreign string) (chat.Session, error) {
	tell(l.looks)
	if l.leave != nil {
		<-l.leave
	}
	s, err := l.Sessions.Own(ctx, c, foreign)
	if chat.CodeOf(err) == chat.NotFound {
		tell(l.missed)
	}
	return s, err
}

func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// startConversation starts a conversation past the dialect, as if it came by another server.
func (w *testServer) startConversation(c chat.Caller, id chat.SessionID, text string) {
	w.t.Helper()
	if _, _, err := w.Sessions.Create(w.t.Context(), c, chat.NewSession{ID: id}); err != nil {
		w.t.Fatal(err)
	}
	message := chat.NewDraft(chat.UserMessage{Text: text}).As("m1")
	message.Via = via
	if _, err := w.Sessions.Append(w.t.Context(), c, id, []chat.Draft{message}); err != nil {
		w.t.Fatal(err)
	}
}

var local = chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "local"}, Scopes: []chat.Scope{chat.ScopeUser}}

// It gets the conversation from its start, also what is complete by then.
func TestTabConnectsWhileConversationStarts(t *testing.T) {
	t.Parallel()
	look := &lookout{leave: make(chan struct{})}
	w := newServer(t, look.setup(setup{}))
	c := w.dial("?conversation_id=c1")
	<-look.looks
	w.startConversation(local, "c1", "first")
	w.happened("c1", "turn.completed")
	close(look.leave)
	if got := textOf(c.readTurn()); got != "You said: first" {
		t.Errorf("got %q", got)
	}
}

// A tab that waits for a conversation has nothing of it, so it must not continue where another tab stopped.
func TestWaitingTabTakesOverNoPosition(t *testing.T) {
	t.Parallel()
	look := &lookout{}
	w := newServer(t, look.setup(setup{agents: greeter}))
	waits := w.dial("?conversation_id=c1")
	<-look.missed
	w.startConversation(local, "c1", "go")
	leaves := w.dial("?conversation_id=c1")
	if got := textOf(leaves.until(isPrompt)); got != "Hello." {
		t.Errorf("a tab that comes in the middle of a turn: %q", got)
	}
	leaves.sync()
	leaves.drop()
	w.waitDeparted(1)
	w.dialect.points.started(local, "c1")
	if got := textOf(waits.until(isPrompt)); got != "Hello." {
		t.Errorf("the tab that waited: %q", got)
	}
}

// greeter says something, and then asks.
var greeter = map[string]agent.Agent{"demo": answerFunc(func(ctx context.Context, turn *agent.Turn) error {
	if err := turn.Say(ctx, "Hello."); err != nil {
		return err
	}
	_, err := turn.Ask(ctx, chat.AgentInputRequest{InputType: chat.InputText, Text: "Name?"})
	return err
})}

// A power cut lost the end of the log: the client gets the running turn.
func TestResumePointAfterEndOfLog(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{agents: greeter})
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "go")
	c.prompt()
	c.drop()
	w.waitDeparted(1)
	w.dialect.points.mu.Lock()
	for _, h := range w.dialect.points.byKey {
		h.departed[0].at.Cursor.Seq = 1000
	}
	w.dialect.points.mu.Unlock()
	if got := textOf(w.dial("?conversation_id=c1").until(isPrompt)); got != "Hello." {
		t.Errorf("got %q", got)
	}
}

// waitDeparted waits until so many clients have departed.
func (w *testServer) waitDeparted(n int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	for have := 0; have < n; runtime.Gosched() {
		if ctx.Err() != nil {
			w.t.Fatalf("%d clients have departed, want %d", have, n)
		}
		have = 0
		w.dialect.points.mu.Lock()
		for _, h := range w.dialect.points.byKey {
			for _, g := range h.departed {
				have += g.count
			}
		}
		w.dialect.points.mu.Unlock()
	}
}

// It continues where it stopped while the other tab stays connected.
func TestOneOfTwoTabsReconnects(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newServer(t, setup{agents: map[string]agent.Agent{"demo": counter{80, map[int]chan struct{}{20: gate}}}})
	one := w.dial("?conversation_id=c1")
	one.say("c1", "m1", "go")
	had := one.readWords(1)
	first := make(chan []frame)
	go func() { first <- one.readRest(had) }() // reads on, so that it answers pings
	two := w.dial("?conversation_id=c1")
	got := two.readWords(12)
	two.drop()
	close(gate)
	got = w.dial("?conversation_id=c1").readRest(got)
	if textOf(got) != words1toN(80) {
		t.Errorf("the tab that dropped: %q", textOf(got))
	}
	if got := textOf(<-first); got != words1toN(80) {
		t.Errorf("the other tab: %q", got)
	}
}

// Tabs cannot be told apart, so both continue from the lower position.
func TestTwoTabsAfterKill(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	one := w.dial("?conversation_id=c1")
	one.say("c1", "m1", "/tool calc {}")
	one.readTurn()
	one.say("c1", "m2", "/ask text")
	one.prompt()
	one.sync()
	reads := make(chan struct{})
	go func() { // it answers pings while the other comes
		defer close(reads)
		one.readUntilClosed()
	}()
	two := w.dial("?conversation_id=c1")
	two.prompt()
	two.sync()
	w = w.kill()
	<-reads
	for _, name := range []string{"first", "second"} {
		back := w.dial("?conversation_id=c1")
		back.prompt()
		if len(back.seen) != 1 {
			t.Errorf("the %s tab gets\n%s", name, back.log())
		}
		go back.readUntilClosed()
	}
}
