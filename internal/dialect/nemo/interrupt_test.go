package nemo

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/session"
)

// hasty lets something happen between the look at a session and the message
// that is written after it, once.
type hasty struct {
	*session.Sessions
	armed atomic.Bool
	first func(ctx context.Context)
}

func (h *hasty) Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error) {
	if h.armed.CompareAndSwap(true, false) {
		h.first(ctx)
	}
	return h.Sessions.Append(ctx, c, id, drafts)
}

func newHasty(t *testing.T) (*testServer, *hasty) {
	h := &hasty{}
	w := newServer(t, setup{change: func(o *Options) {
		h.Sessions = o.Sessions.(*session.Sessions)
		o.Sessions = h
	}})
	return w, h
}

// stops are the turns with a stop request.
func (w *testServer) stops(id chat.SessionID) []chat.TurnID {
	w.t.Helper()
	facts, _, err := w.Sessions.Read(w.t.Context(), chat.Trusted, id, chat.Range{Types: []string{"turn.stop_requested"}})
	if err != nil {
		w.t.Fatal(err)
	}
	var list []chat.TurnID
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			w.t.Fatal(err)
		}
		list = append(list, e.Body.(chat.TurnStopRequested).TurnID)
	}
	return list
}

// untilReleased is an agent whose answer to "one" does not end before it is released, also when it is stopped.
func untilReleased(release chan struct{}) map[string]agent.Agent {
	return map[string]agent.Agent{"demo": answerFunc(func(ctx context.Context, turn *agent.Turn) error {
		if turn.Text() == "one" {
			<-release
		}
		return turn.Say(ctx, "answer to "+turn.Text())
	})}
}

// A message that waits and is sent again changes nothing, and is answered once.
func TestRepeatedMessageThatWaits(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	w := newServer(t, setup{agents: untilReleased(release)})
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "one")
	w.running("c1")
	for range 2 {
		c.say("c1", "m2", "two")
	}
	c.sync()
	if withdrawn := w.Events("c1", "user.message_withdrawn"); len(withdrawn) != 0 {
		t.Errorf("withdrawn was %+v", withdrawn[0].Body)
	}
	close(release)
	got := c.until(func(f frame) bool { return f.Parent == "m2" && isEnd(f) })
	if got = append(got, c.sync()...); textOf(got) != "answer to two" {
		t.Errorf("got %q", textOf(got))
	}
	if stored := w.Events("c1", "user.message"); len(stored) != 2 {
		t.Errorf("%d messages are stored", len(stored))
	}
}

// A turn of another dialect that starts at the last moment is not interrupted.
func TestInterruptsOnlyNeMoTurns(t *testing.T) {
	t.Parallel()
	w, h := newHasty(t)
	c := w.dial("")
	c.say("c1", "m1", "/stream 100000 50")
	w.running("c1")
	var theirs chat.Event
	h.first = func(ctx context.Context) {
		if _, err := w.Sessions.Stop(ctx, chat.Trusted, "c1", "", "enough"); err != nil {
			t.Error(err)
		}
		w.waitTurns("c1", 1)
		events, err := w.Sessions.Append(ctx, chat.Trusted, "c1", []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "/stream 60 100"})})
		if err != nil {
			t.Error(err)
			return
		}
		theirs = events[0]
	}
	h.armed.Store(true)
	c.say("c1", "m2", "hi")
	c.until(func(f frame) bool { return f.Parent == "m2" && isEnd(f) })
	if got := w.stops("c1"); len(got) != 1 {
		t.Errorf("stopped were %v, want only the first", got)
	}
	rep, err := w.dialect.report(t.Context(), chat.Trusted, chat.Session{ID: "c1"}, theirs.Seq)
	if err != nil || rep.answer.end == nil || rep.answer.end.outcome != chat.Done {
		t.Errorf("the other's turn: %+v (%v)", rep.answer.end, err)
	}
}

// A turn that another tab starts at the last moment is interrupted.
func TestInterruptsTurnThatJustStarted(t *testing.T) {
	t.Parallel()
	w, h := newHasty(t)
	c := w.dial("")
	c.say("c1", "m1", "hi")
	c.readTurn()
	h.first = func(ctx context.Context) {
		draft := chat.NewDraft(chat.UserMessage{Text: "/stream 100000 50"}).As("m2")
		draft.Via = via
		if _, err := w.Sessions.Append(ctx, chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "local"}}, "c1", []chat.Draft{draft}); err != nil {
			t.Error(err)
		}
	}
	h.armed.Store(true)
	c.say("c1", "m3", "stop that")
	frames := c.until(func(f frame) bool { return f.Parent == "m3" && isEnd(f) })
	if got := w.stops("c1"); len(got) != 1 {
		t.Errorf("stopped were %v, want the second turn", got)
	}
	var mine []frame
	for _, f := range frames {
		if f.Parent == "m3" {
			mine = append(mine, f)
		}
	}
	if got := textOf(mine); got != "You said: stop that" {
		t.Errorf("got %q", got)
	}
}

// A turn that no message started belongs to the message before it.
func TestStartedByNeMo(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	me := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "local"}, Scopes: []chat.Scope{chat.ScopeAdmin}}
	if _, _, err := w.Sessions.Create(t.Context(), me, chat.NewSession{ID: "c1", Agent: chat.NoAgent}); err != nil {
		t.Fatal(err)
	}
	message := func(by string) chat.Draft {
		d := chat.NewDraft(chat.UserMessage{Text: "x"})
		d.Via = by
		return d
	}
	news := chat.NewDraft(chat.AgentStatus{Message: "work has ended"})
	events, err := w.Sessions.Append(t.Context(), me, "c1", []chat.Draft{news, message(via), news, message(""), news, message(via)})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true, true, false, false, true} {
		if got, err := w.dialect.startedByNeMo(t.Context(), me, "c1", events[i].Seq); got != want || err != nil {
			t.Errorf("event %d: %t, want %t (%v)", i, got, want, err)
		}
	}
}
