package nemo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// A socket that drops in mid-answer and comes back gets the rest, not doubled,
// and its end.
func TestDropInMidAnswer(t *testing.T) {
	t.Parallel()
	for _, after := range []int{1, 2, 7, 23} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setup{})
			c := w.dial("?session=s1&conversation_id=c1")
			c.say("c1", "m1", "/stream 60 150")
			var got []frame
			for range after {
				got = append(got, c.next())
			}
			c.drop()
			back := w.dial("?session=s1&conversation_id=c1")
			got = append(got, back.turn()...)
			if text(got) != words1toN(60) {
				t.Errorf("got %q", text(got))
			}
			for _, f := range got {
				if f.Type == typeResponse && f.Parent != "m1" {
					t.Errorf("parent of %s", f.raw)
				}
			}
		})
	}
}

// Dropped many times in one answer, and once after its end.
func TestDropAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "/stream 80 200")
	var got []frame
	for range 8 {
		for range 5 {
			got = append(got, c.next())
		}
		c.drop()
		c = w.dial("?conversation_id=c1")
	}
	got = append(got, c.turn()...)
	if text(got) != words1toN(80) {
		t.Errorf("got %q", text(got))
	}
	c.drop()
	c = w.dial("?conversation_id=c1")
	c.say("c1", "m2", "hi")
	if rest := c.turn(); text(rest) != "You said: hi" {
		t.Errorf("after a complete answer: %q", text(rest))
	}
}

// An answer that ended while the client was away is still delivered.
func TestEndedWhileAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "/stream 20 200")
	got := []frame{c.next()}
	c.drop()
	w.ended("c1", 1)
	back := w.dial("?conversation_id=c1")
	got = append(got, back.turn()...)
	if text(got) != words1toN(20) {
		t.Errorf("got %q", text(got))
	}
}

// ended waits until n turns of a session have ended.
func (w *world) ended(id chat.SessionID, n int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	for batch, err := range w.sessions.Watch(ctx, chat.Trusted, id, chat.Start{Cursor: &chat.Cursor{}}, nil) {
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range batch.Entries {
			if e.Label.Type == "turn.completed" {
				if n--; n == 0 {
					return
				}
			}
		}
	}
	w.t.Fatal("the turn did not end in time")
}

// A server restart in mid-turn loses nothing and repeats nothing.
func TestRestartInMidTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "/stream 60 100")
	var got []frame
	for range 9 {
		got = append(got, c.next())
	}
	w2 := w.restartReading(c, &got)
	back := w2.dial("?conversation_id=c1")
	got = append(got, back.turn()...)
	if text(got) != words1toN(60) {
		t.Errorf("got %q", text(got))
	}
}

// restartReading restarts while the client reads on to the end of its connection.
func (w *world) restartReading(c *client, got *[]frame) *world {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			f, err := c.tryNext(10 * time.Second)
			if err != nil {
				return
			}
			*got = append(*got, f)
		}
	}()
	w2 := w.restart()
	<-done
	return w2
}

// A prompt that was open over a restart can be answered after it.
func TestPromptOverRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "/ask radio")
	c.prompt()
	w = w.restart()
	back := w.dial("?conversation_id=c1")
	p := back.prompt()
	if p.Parent != "m1" {
		t.Errorf("parent of %s", p.raw)
	}
	back.answer("c1", "a1", p.Parent, "sms")
	if got := text(back.turn()); got != "You answered: sms" {
		t.Errorf("got %q", got)
	}
}

// A pending prompt is sent again with the remaining time.
func TestPromptAgainWithRemainingTime(t *testing.T) {
	t.Parallel()
	var shift atomic.Int64
	w := newWorld(t, setup{now: func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }})
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "/ask text timeout=100")
	p := c.prompt()
	if p.Content.Timeout == nil || *p.Content.Timeout != 100 {
		t.Fatalf("first: %s", p.raw)
	}
	c.drop()
	shift.Store(int64(30 * time.Second))
	again := w.dial("?conversation_id=c1").prompt()
	if again.Content.Timeout == nil || *again.Content.Timeout != 70 {
		t.Errorf("again: %s", again.raw)
	}
	if again.ID == p.ID {
		t.Error("the frame that shows the prompt again has the same id; the UI would not start its countdown anew")
	}
}

// A prompt first raised after the reconnect can be answered.
func TestPromptAfterReconnect(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newWorld(t, setup{agents: map[string]agent.Agent{"demo": answerFunc(func(ctx context.Context, turn *agent.Turn) error {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
		a, err := turn.Ask(ctx, chat.AgentInputRequest{InputType: chat.InputText, Text: "Name?"})
		if err != nil {
			return err
		}
		return turn.Say(ctx, "Hello "+a.Text)
	})}})
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "go")
	w.running("c1")
	c.drop()
	back := w.dial("?conversation_id=c1")
	close(gate)
	p := back.prompt()
	back.answer("c1", "a1", p.Parent, "Ada")
	if got := text(back.turn()); got != "Hello Ada" {
		t.Errorf("got %q", got)
	}
}

type answerFunc func(ctx context.Context, t *agent.Turn) error

func (f answerFunc) Answer(ctx context.Context, t *agent.Turn) error { return f(ctx, t) }

// running waits until a turn of the session runs.
func (w *world) running(id chat.SessionID) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if _, err := w.sessions.Get(ctx, chat.Trusted, id); err == nil {
			break
		}
	}
	for batch := range w.sessions.Watch(ctx, chat.Trusted, id, chat.Start{Cursor: &chat.Cursor{}}, nil) {
		for _, e := range batch.Entries {
			if e.Label.Type == "turn.started" {
				return
			}
		}
	}
	w.t.Fatal("no turn began in time")
}

// Several conversations run at once on one socket.
func TestSeveralConversationsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
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

// Two tabs on one conversation both see everything; the second one from the
// start of the running turn.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	one := w.dial("?session=s1&conversation_id=c1")
	one.say("c1", "m1", "/stream 40 100")
	got := []frame{one.next(), one.next(), one.next()}
	first := make(chan []frame)
	go func() { first <- append(got, one.turn()...) }() // reads on, so that it answers pings
	two := w.dial("?session=s1&conversation_id=c1")
	if got := text(two.turn()); got != words1toN(40) {
		t.Errorf("second tab: %q", got)
	}
	if got := text(<-first); got != words1toN(40) {
		t.Errorf("first tab: %q", got)
	}
	two.say("c1", "m2", "hi")
	for i, c := range []*client{one, two} {
		if got := text(c.turn()); got != "You said: hi" {
			t.Errorf("tab %d: %q", i+1, got)
		}
	}
}

// An old connection that does not answer is ended, and the new one goes on where
// it stopped.
func TestDeadConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{change: func(o *Options) { o.Gone = 100 * time.Millisecond }})
	old := w.dial("?conversation_id=c1")
	old.say("c1", "m1", "/stream 50 100")
	var got []frame
	for range 10 {
		got = append(got, old.next())
	}
	// From here on the old client reads nothing and answers nothing.
	back := w.dial("?conversation_id=c1")
	got = append(got, back.turn()...)
	if text(got) != words1toN(50) {
		t.Errorf("got %q", text(got))
	}
}

// Several prompts that are open at once come one after the other.
func TestSeveralPromptsOneWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{agents: map[string]agent.Agent{"demo": answerFunc(func(ctx context.Context, turn *agent.Turn) error {
		return turn.Say(ctx, "done")
	})}})
	ctx, me := t.Context(), chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "local"}, Scopes: []chat.Scope{chat.ScopeAdmin}}
	if _, _, err := w.sessions.Create(ctx, me, chat.NewSession{ID: "c1", Agent: chat.NoAgent}); err != nil {
		t.Fatal(err)
	}
	var drafts []chat.Draft
	for _, q := range []string{"first", "second"} {
		drafts = append(drafts, chat.NewDraft(chat.AgentInputRequest{RequestID: q, InputType: chat.InputText, Text: q}))
	}
	drafts = append(drafts, chat.NewDraft(chat.AgentInputRequest{InputType: chat.InputNotification, Text: "by the way"}))
	if _, err := w.sessions.Append(ctx, me, "c1", drafts[:1]); err != nil {
		t.Fatal(err)
	}
	c := w.dial("?conversation_id=c1")
	read := func() string {
		p := c.next()
		if p.Type != typePrompt || p.Content.Text == nil {
			t.Fatalf("no prompt: %s", p.raw)
		}
		return *p.Content.Text
	}
	if got := read(); got != "first" {
		t.Errorf("first window: %s", got)
	}
	if _, err := w.sessions.Append(ctx, me, "c1", drafts[1:]); err != nil {
		t.Fatal(err)
	}
	c.answer("c1", "a1", "x", "1")
	if got := read(); got != "second" {
		t.Errorf("second window: %s", got)
	}
	c.answer("c1", "a2", "x", "2")
	if got := read(); got != "by the way" {
		t.Errorf("the notification came as %s", got)
	}
	var answers []string
	facts, _, err := w.sessions.Read(ctx, me, "c1", chat.Range{Types: []string{"user.input_response"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range facts {
		e, _ := f.Event()
		b := e.Body.(chat.UserInputResponse)
		answers = append(answers, b.RequestID+"="+b.Text)
	}
	if strings.Join(answers, " ") != "first=1 second=2" {
		t.Errorf("answers %v", answers)
	}
}

// Reconnecting is bound to the same identity.
func TestReconnectIsBoundToIdentity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{secured: true})
	alice := w.dial("?conversation_id=c1", "Authorization", "Bearer "+tokenOf("alice"))
	alice.say("c1", "m1", "/ask text")
	alice.prompt()
	alice.drop()
	bob := w.dial("?conversation_id=c1", "Authorization", "Bearer "+tokenOf("bob"))
	bob.say("c1", "m1", "hi") // a conversation of his own
	frames := bob.turn()
	if text(frames) != "You said: hi" {
		t.Errorf("bob got %s", bob.log())
	}
	for _, f := range frames {
		if f.Type == typePrompt {
			t.Errorf("bob sees alice's prompt: %s", f.raw)
		}
	}
	back := w.dial("?conversation_id=c1&access_token=" + tokenOf("alice"))
	p := back.prompt()
	back.answer("c1", "a", p.Parent, "Alice")
	if got := text(back.turn()); got != "You answered: Alice" {
		t.Errorf("alice got %q", got)
	}
}

// A message overtakes the answer before it: not one frame of the old answer
// comes after the new one has begun, and the old one gets no end.
func TestNewMessageOvertakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "/stream 1000 100")
	c.next()
	c.next()
	c.say("c1", "m2", "/sleep 30")
	c.say("c1", "m3", "hi")
	frames := c.turn()
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
	if !strings.HasSuffix(text(frames), "You said: hi") {
		t.Errorf("got %q", text(frames))
	}
}

// A turn that another dialect began is shown, and a NeMo message waits for it.
func TestOtherDialectsAreNotInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	me := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "local"}, Scopes: []chat.Scope{chat.ScopeAdmin}}
	if _, _, err := w.sessions.Create(t.Context(), me, chat.NewSession{ID: "c1"}); err != nil {
		t.Fatal(err)
	}
	events, err := w.sessions.Append(t.Context(), me, "c1", []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "/stream 30 100"})})
	if err != nil {
		t.Fatal(err)
	}
	c := w.dial("?conversation_id=c1")
	c.next()
	c.say("c1", "m2", "hi")
	first := c.turn()
	if got := text(append([]frame{c.seen[0]}, first...)); got != words1toN(30) {
		t.Errorf("the other dialect's answer: %q", got)
	}
	if f := first[0]; f.Parent != eventUUID(events[0].ID) {
		t.Errorf("parent of %s, want the user event's id", f.raw)
	}
	if got := text(c.turn()); got != "You said: hi" {
		t.Errorf("got %q", got)
	}
}

// Step payloads stay small: all of a long thought together is at most a few
// times its length, and one payload has a bound.
func TestStepsStaySmall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("")
	thought := strings.Repeat("thinking hard ", 1500)
	c.say("c1", "m1", "/think "+thought)
	sum := 0
	for _, f := range c.turn() {
		if f.Type == typeStep {
			sum += len(f.Content.Payload)
			if len(f.Content.Payload) > maxPayload+200 {
				t.Errorf("a payload of %d bytes", len(f.Content.Payload))
			}
		}
	}
	if sum == 0 || sum > 4*len(thought) {
		t.Errorf("%d bytes of steps for a thought of %d", sum, len(thought))
	}
	params, _ := json.Marshal(map[string]string{"big": strings.Repeat("<x>", 20000)})
	c.say("c1", "m2", "/tool calc "+string(params))
	for _, f := range c.turn() {
		if f.Type == typeStep && len(f.Content.Payload) > 4*maxPayload {
			t.Errorf("a payload of %d bytes", len(f.Content.Payload))
		}
	}
}

// The same message sent again is one message; its answer comes again if it is
// over. A used id with another text is another message.
func TestSameMessageAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("")
	c.say("c1", "m1", "hi")
	c.turn()
	c.say("c1", "m1", "hi")
	if got := text(c.turn()); got != "You said: hi" {
		t.Errorf("again: %q", got)
	}
	c.say("c1", "m1", "something else")
	frames := c.turn()
	if got := text(frames); got != "You said: something else" || frames[0].Parent != "m1" {
		t.Errorf("a used id: %q %s", got, frames[0].raw)
	}
	for range 2 { // the placeholder is no key
		c.say("c1", "default", "hi")
		if got := text(c.turn()); got != "You said: hi" {
			t.Errorf("default: %q", got)
		}
	}
	me := chat.Trusted
	facts, _, err := w.sessions.Read(t.Context(), me, "c1", chat.Range{Types: []string{"user.message"}})
	if err != nil || len(facts) != 4 {
		t.Errorf("%d messages in the log, want 4 (%v)", len(facts), err)
	}
}

// A page that goes away has not seen what its browser answered for last: that is
// sent again, however the connection ends.
func TestPageGoesAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	whole := words1toN(600)
	for i := range 12 {
		name := fmt.Sprint("c", i)
		c := w.dial("?conversation_id="+name, "Origin", "http://localhost:3000")
		c.say(name, "m1", "/stream 600 2000")
		for range 20 {
			c.next()
		}
		unseen := c.next() // the browser has answered for it
		if i%2 == 0 {
			_ = c.conn.Close(websocket.StatusGoingAway, "") // may be cut by the server's next write
		} else {
			c.drop()
		}
		back := w.dial("?conversation_id="+name, "Origin", "http://localhost:3000")
		rest := text(back.turn())
		if !strings.HasSuffix(whole, rest) || !strings.Contains(" "+rest, " "+*unseen.Content.Text) {
			t.Errorf("round %d: %q is lost, the rest begins %q", i, *unseen.Content.Text, rest[:min(60, len(rest))])
		}
		back.drop()
	}
}

// Browsers of one identity are told apart: the place of one is not another's.
func TestBrowsersAreToldApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	c := w.dial("?session=s1&conversation_id=c1")
	c.say("c1", "m1", "/stream 40 100")
	got := []frame{c.next(), c.next(), c.next()}
	c.drop()
	other := w.dial("?session=s2&conversation_id=c1")
	if all := text(other.turn()); all != words1toN(40) {
		t.Errorf("another browser: %q", all)
	}
	back := w.dial("?session=s1&conversation_id=c1")
	if got = append(got, back.turn()...); text(got) != words1toN(40) {
		t.Errorf("the first one: %q", text(got))
	}
}
