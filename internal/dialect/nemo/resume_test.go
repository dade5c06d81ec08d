package nemo

import (
	"context"
	"fmt"
	"io"
	"iter"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/gobwas/ws"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/session"
)

// A client that reconnects in mid-answer gets the rest without repetition, and the end.
func TestResumeInMidAnswer(t *testing.T) {
	t.Parallel()
	for _, after := range []int{1, 2, 7, 23} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			w := newServer(t, setup{})
			c := w.dial("?session=s1&conversation_id=c1")
			c.say("c1", "m1", "/stream 60 150")
			got := c.readWords(after)
			c.drop()
			got = w.dial("?session=s1&conversation_id=c1").readRest(got)
			if textOf(got) != words1toN(60) {
				t.Errorf("got %q", textOf(got))
			}
			for _, f := range got {
				if f.Type == typeResponse && f.Parent != "m1" {
					t.Errorf("parent of %s", f.raw)
				}
			}
		})
	}
}

// Many disconnects in one answer, and one after its end.
func TestResumeManyTimes(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "/stream 80 200")
	var got []frame
	for drops := 0; drops < 8 && !answerEnded(got); drops++ {
		got = append(got, c.readWords(5)...)
		c.drop()
		c = w.dial("?conversation_id=c1")
	}
	got = c.readRest(got)
	if textOf(got) != words1toN(80) {
		t.Errorf("got %q", textOf(got))
	}
	c.drop()
	c = w.dial("?conversation_id=c1")
	c.say("c1", "m2", "hi")
	if rest := c.readTurn(); textOf(rest) != "You said: hi" {
		t.Errorf("after a complete answer: %q", textOf(rest))
	}
}

// The client still gets the answer.
func TestAnswerEndsWhileDisconnected(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "/stream 20 200")
	got := []frame{c.next()}
	c.drop()
	w.waitTurns("c1", 1)
	back := w.dial("?conversation_id=c1")
	got = append(got, back.readTurn()...)
	if textOf(got) != words1toN(20) {
		t.Errorf("got %q", textOf(got))
	}
}

// A restart in mid-turn loses nothing and repeats nothing.
func TestRestartInMidTurn(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "/stream 60 100")
	got := c.readWords(9)
	w2 := w.restartReading(c, &got)
	got = w2.dial("?conversation_id=c1").readRest(got)
	if textOf(got) != words1toN(60) {
		t.Errorf("got %q", textOf(got))
	}
}

// An old connection that does not answer is closed, and the new one continues where it stopped.
func TestStaleConnectionIsClosed(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	old := w.dial("?conversation_id=c1")
	old.say("c1", "m1", "/stream 50 100")
	got := old.readWords(10)
	// From here on the old client reads nothing and answers nothing.
	got = w.dial("?conversation_id=c1").readRest(got)
	if textOf(got) != words1toN(50) {
		t.Errorf("got %q", textOf(got))
	}
}

// An answer to an earlier ping does not prove that the client is still there: it may have been sent just before the end.
func TestStaleConnectionWithLatePong(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	old, early, _, err := ws.Dial(t.Context(), "ws"+strings.TrimPrefix(w.HTTP.URL, "http")+"/websocket?conversation_id=c1")
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	in := io.Reader(old)
	if early != nil { // frames that came with the answer to the handshake
		in = early
	}
	if err := old.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	send := func(f ws.Frame) {
		t.Helper()
		if err := ws.WriteFrame(old, ws.MaskFrame(f)); err != nil {
			t.Fatal(err)
		}
	}
	next := func(fits func(ws.Frame) bool) ws.Frame {
		t.Helper()
		for {
			f, err := ws.ReadFrame(in)
			if err != nil {
				t.Fatal(err)
			}
			if fits(f) {
				return f
			}
		}
	}
	isPing := func(f ws.Frame) bool { return f.Header.OpCode == ws.OpPing }

	send(ws.NewPongFrame(next(isPing).Payload))
	send(ws.NewTextFrame([]byte(userMessage("c1", "m1", "chat_stream", "/ask text timeout=60"))))
	next(func(f ws.Frame) bool { return strings.Contains(string(f.Payload), "input_type") })
	behindPrompt := next(isPing)
	back := w.dial("?conversation_id=c1")
	next(isPing) // of the check
	send(ws.NewPongFrame(behindPrompt.Payload))
	if f := next(func(f ws.Frame) bool { return f.Header.OpCode == ws.OpClose }); !strings.Contains(string(f.Payload), errReplaced.Reason) {
		t.Errorf("the old connection was closed with %q", f.Payload)
	}
	p := back.prompt()
	back.answer("c1", "m2", p.Parent, "Ada")
	back.readTurn()
}

func TestResumeIsBoundToIdentity(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{secured: true})
	alice := w.dial("?conversation_id=c1", "Authorization", "Bearer "+servertest.TokenOf("alice"))
	alice.say("c1", "m1", "/ask text")
	alice.prompt()
	alice.drop()
	bob := w.dial("?conversation_id=c1", "Authorization", "Bearer "+servertest.TokenOf("bob"))
	bob.say("c1", "m1", "hi") // a conversation of his own
	frames := bob.readTurn()
	if textOf(frames) != "You said: hi" {
		t.Errorf("bob got %s", bob.log())
	}
	for _, f := range frames {
		if f.Type == typePrompt {
			t.Errorf("bob sees alice's prompt: %s", f.raw)
		}
	}
	back := w.dial("?conversation_id=c1&access_token=" + servertest.TokenOf("alice"))
	p := back.prompt()
	back.answer("c1", "a", p.Parent, "Alice")
	if got := textOf(back.readTurn()); got != "You answered: Alice" {
		t.Errorf("alice got %q", got)
	}
}

func TestResumeIsBoundToBrowser(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newServer(t, setup{agents: map[string]agent.Agent{"demo": counter{40, map[int]chan struct{}{5: gate}}}})
	c := w.dial("?session=s1&conversation_id=c1")
	c.say("c1", "m1", "go")
	got := c.readWords(3)
	c.drop()
	other := w.dial("?session=s2&conversation_id=c1")
	had := other.readWords(5)
	close(gate)
	if all := textOf(other.readRest(had)); all != words1toN(40) {
		t.Errorf("another browser: %q", all)
	}
	back := w.dial("?session=s1&conversation_id=c1")
	if got = back.readRest(got); textOf(got) != words1toN(40) {
		t.Errorf("the first one: %q", textOf(got))
	}
}

func TestResumeAfterAuthMessage(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{secured: true})
	c := w.dial("?conversation_id=c1", "Authorization", "Bearer "+servertest.TokenOf("alice"))
	c.say("c1", "m1", "/ask text")
	c.prompt()
	c.drop()
	back := w.dial("?conversation_id=c1")
	back.send(fmt.Sprintf(`{"type":"auth_message","payload":{"method":"jwt","token":%q}}`, servertest.TokenOf("alice")))
	p := back.prompt()
	back.answer("c1", "a", p.Parent, "Ada")
	if got := textOf(back.readTurn()); got != "You answered: Ada" {
		t.Errorf("got %q", got)
	}
}

// waitTurns waits until n turns of a session have ended.
func (w *testServer) waitTurns(id chat.SessionID, n int) {
	w.t.Helper()
	w.Until(id, "turn.completed", n)
}

// restartReading restarts while the client reads on to the end of its connection.
func (w *testServer) restartReading(c *client, got *[]frame) *testServer {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			f, err := c.tryNext(30 * time.Second)
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

// slow holds up the first look at a session, once.
type slow struct {
	*session.Sessions
	armed   atomic.Bool
	entered chan struct{}
	leave   chan struct{}
}

func (s *slow) State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error) {
	if s.armed.CompareAndSwap(true, false) {
		close(s.entered)
		<-s.leave
	}
	return s.Sessions.State(ctx, c, id)
}

// A second tab that sends a message before its subscription starts gets the answer, also when it is complete by then.
func TestAnswerBeforeSubscriptionStarts(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		s := &slow{entered: make(chan struct{}), leave: make(chan struct{})}
		w := newServer(t, setup{change: func(o *Options) {
			s.Sessions = o.Sessions.(*session.Sessions)
			o.Sessions = s
		}})
		a := w.dial("?conversation_id=c1")
		a.say("c1", "m1", "hi")
		a.readTurn()
		s.armed.Store(true)
		answers := make(chan struct{})
		go func() { // the first tab lives: it answers pings
			defer close(answers)
			for _, err := a.tryNext(30 * time.Second); err == nil; _, err = a.tryNext(30 * time.Second) {
			}
		}()
		b := w.dial("?conversation_id=c1")
		<-s.entered // it looks where to begin
		if late {
			close(s.leave)
		}
		b.say("c1", "m2", "hello")
		w.waitTurns("c1", 2)
		if !late {
			close(s.leave)
		}
		if got := textOf(b.readTurn()); got != "You said: hello" {
			t.Errorf("got %q", got)
		}
		a.drop()
		<-answers
	}
}

// gated holds up calls until their gate is closed; nil gates nothing.
type gated struct {
	*session.Sessions
	append, watch atomic.Pointer[gate]
}

type gate struct{ entered, open chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}, 1), make(chan struct{})} }

func (g *gate) pass() {
	if g != nil {
		tell(g.entered)
		<-g.open
	}
}

func (g *gated) Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error) {
	g.append.Load().pass()
	return g.Sessions.Append(ctx, c, id, drafts)
}

func (g *gated) Watch(ctx context.Context, c chat.Caller, id chat.SessionID, from core.Start, enc core.Encoding) iter.Seq2[core.Batch, error] {
	g.watch.Load().pass()
	return g.Sessions.Watch(ctx, c, id, from, enc)
}

// A repeated message is not answered twice: its answer is complete, and the subscription is about to send it.
func TestRepeatedMessageWhoseAnswerIsOnItsWay(t *testing.T) {
	t.Parallel()
	g := &gated{}
	w := newServer(t, setup{change: func(o *Options) {
		g.Sessions = o.Sessions.(*session.Sessions)
		o.Sessions = g
	}})
	if _, _, err := w.Sessions.Create(t.Context(), local, chat.NewSession{ID: "c1"}); err != nil {
		t.Fatal(err)
	}
	c := w.dial("?conversation_id=c1")
	knows(t, w.dialect, "the client", func(p *resumePoint) bool { return len(p.live) == 1 && p.live[0].saved.Base != 0 })
	c.drop()
	w.waitDeparted(1)
	other := w.dial("?conversation_id=c1&session=other")
	other.say("c1", "m1", "hi")
	other.readTurn()
	watch := newGate()
	g.watch.Store(watch)
	c = w.dial("?conversation_id=c1")
	<-watch.entered // the client continues before the message
	c.say("c1", "m1", "hi")
	got := c.sync()
	close(watch.open)
	got = append(c.readRest(got), c.sync()...)
	if textOf(got) != "You said: hi" {
		t.Errorf("got %q", textOf(got))
	}
	c.say("c1", "m1", "hi") // now it asks for the answer once more
	if got := textOf(c.readTurn()); got != "You said: hi" {
		t.Errorf("after the answer: %q", got)
	}
}

// waitForNoStart waits until no client waits for a conversation to start.
func (w *testServer) waitForNoStart() {
	w.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); runtime.Gosched() {
		w.dialect.points.mu.Lock()
		n := len(w.dialect.points.waitingForStart)
		w.dialect.points.mu.Unlock()
		if n == 0 {
			return
		}
	}
	w.t.Fatal("a client still waits for its conversation to start")
}

// What a client sends right before it leaves is stored, in order.
func TestMessagesOfAClientThatLeaves(t *testing.T) {
	t.Parallel()
	g := &gated{}
	w := newServer(t, setup{change: func(o *Options) {
		g.Sessions = o.Sessions.(*session.Sessions)
		o.Sessions = g
	}})
	block := newGate()
	g.append.Store(block)
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "one")
	<-block.entered
	c.say("c1", "m2", "two")
	c.say("c1", "m3", "three")
	_ = c.conn.Close(websocket.StatusNormalClosure, "")
	w.waitForNoStart()
	g.append.Store(nil)
	close(block.open)
	w.Until("c1", "user.message", 3)
	for i, e := range w.Events("c1", "user.message") {
		if want := []string{"one", "two", "three"}[i]; e.Body.(chat.UserMessage).Text != want {
			t.Errorf("message %d is %q", i+1, e.Body.(chat.UserMessage).Text)
		}
	}
	w.waitDeparted(1)
	c = w.dial("?conversation_id=c1")
	if got := textOf(c.until(func(f frame) bool { return f.Parent == "m3" && isEnd(f) })); !strings.HasSuffix(got, "You said: three") {
		t.Errorf("when it is back: %q", got)
	}
}

// The client does not answer the close frame and gets what it has not read.
func TestRestartWhileClientDoesNotRead(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newServer(t, setup{agents: map[string]agent.Agent{"demo": counter{40, map[int]chan struct{}{3: gate}}}})
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "go")
	got := c.readWords(3)
	got = append(got, c.sync()...) // the server has read its pongs
	close(gate)
	w.waitTurns("c1", 1)
	w = w.restart()
	c.drop()
	if got = w.dial("?conversation_id=c1").readRest(got); textOf(got) != words1toN(40) {
		t.Errorf("got %q", textOf(got))
	}
}
