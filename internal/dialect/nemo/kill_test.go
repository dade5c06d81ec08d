package nemo

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

// After a kill the client continues after what it acknowledged: nothing is lost, and only unacknowledged frames come
// twice.
func TestKillInMidTurn(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "/stream 100 40")
	got := c.readWords(8)
	c.ignorePings.Store(true)
	more := append(c.sync(), c.readWords(1)...) // arrives, and is not acknowledged
	w = w.kill()
	rest := textOf(w.dial("?conversation_id=c1").readTurn())
	if textOf(got)+rest != words1toN(100) {
		t.Errorf("%q was acknowledged, %q was not, and %.60q comes after the kill", textOf(got), textOf(more), rest)
	}
}

// Nothing comes twice.
func TestKillAfterEverythingWasAcknowledged(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("?conversation_id=c1")
	c.say("c1", "m1", "/tool calc {}")
	c.readTurn()
	c.say("c1", "m2", "/ask text")
	first := c.prompt()
	c.sync()
	w = w.kill()
	back := w.dial("?conversation_id=c1")
	again := back.prompt()
	if len(back.seen) != 1 || again.Parent != first.Parent {
		t.Errorf("after the kill:\n%s", back.log())
	}
	back.answer("c1", "a", again.Parent, "Ada")
	if got := textOf(back.readTurn()); got != "You answered: Ada" {
		t.Errorf("got %q", got)
	}
}

// The client gets the answer again, although it is complete.
func TestKillBeforeAnythingWasAcknowledged(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("?conversation_id=c1")
	c.sync() // the server has read the first pong
	c.ignorePings.Store(true)
	c.say("c1", "m1", "hi")
	c.readTurn()
	w = w.kill()
	if got := textOf(w.dial("?conversation_id=c1").readTurn()); got != "You said: hi" {
		t.Errorf("after the kill: %q", got)
	}
}

// The client's message has replaced an answer whose end comes later. That end is not taken for the end of the client's answer.
func TestKillAfterAnAnswerWasReplaced(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	w := newServer(t, setup{agents: untilReleased(release)})
	w.dial("").say("c1", "m1", "one")
	w.running("c1")
	c := w.dial("?session=other")
	c.sync()
	c.ignorePings.Store(true)
	c.say("c1", "m2", "two")
	knows(t, w.dialect, "the client", func(p *resumePoint) bool {
		return len(p.live) == 1 && p.live[0].s.browserID == "other" && p.live[0].saved.Base != 0
	})
	close(release)
	c.until(isEnd)
	w = w.kill()
	if got := textOf(w.dial("?session=other&conversation_id=c1").until(isEnd)); got != "answer to two" {
		t.Errorf("after the kill: %q", got)
	}
}

// The pong of another ping acknowledges nothing of the conversation.
func TestPongOfAnotherPing(t *testing.T) {
	w := newServer(t, setup{})
	at := func(seq chat.Seq) position { return position{Base: seq} }
	sub := &subscription{s: &socket{d: w.dialect}, point: &resumePoint{}, delivery: delivery{unanswered: []sentPing{{ping: 1, at: at(1)}, {ping: 3, at: at(3)}, {ping: 5, at: at(5)}}}}
	for _, c := range []struct {
		pong uint64
		want chat.Seq
	}{{2, 0}, {3, 3}, {1, 3}, {9, 3}, {5, 5}} {
		if sub.pong(c.pong); sub.acknowledged.Base != c.want {
			t.Errorf("after pong %d, %d has arrived, want %d", c.pong, sub.acknowledged.Base, c.want)
		}
	}
}

// What was sent while too many pings had no answer has none of its own: it is not acknowledged when they are answered.
func TestFramesWithoutAPing(t *testing.T) {
	w := newServer(t, setup{})
	const last = 600
	sub := &subscription{s: &socket{d: w.dialect}, point: &resumePoint{}, fold: newFold("c1", chat.Cursor{Seq: last})}
	for seq := range chat.Seq(last) {
		sub.appendPing(nil, positionAt(seq+1))
	}
	sub.pong(maxPings)
	if err := sub.flush(t.Context(), nil); err != nil || sub.acknowledged.Cursor.Seq != maxPings {
		t.Errorf("after %d pongs, %d has arrived (%v)", maxPings, sub.acknowledged.Cursor.Seq, err)
	}
	sub.appendPing(nil, positionAt(last))
	sub.pong(maxPings + 1)
	if sub.flush(t.Context(), nil); sub.acknowledged.Cursor.Seq != last {
		t.Errorf("after the last pong, %d has arrived", sub.acknowledged.Cursor.Seq)
	}
}

// Where a gateway drops pings, what was sent counts as acknowledged.
func TestKillWithoutPongs(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{change: func(o *Options) { o.FirstPong = 10 * time.Millisecond }})
	c := w.dial("?conversation_id=c1")
	c.ignorePings.Store(true)
	c.sync()
	ignored := func() bool {
		w.dialect.points.mu.Lock()
		defer w.dialect.points.mu.Unlock()
		for _, waits := range w.dialect.points.waitingForStart {
			return waits[0].s.ignoresPings()
		}
		return false
	}
	for end := time.Now().Add(30 * time.Second); !ignored(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("the server still waits for a pong")
		}
	}
	c.say("c1", "m1", "/tool calc {}")
	c.readTurn()
	c.say("c1", "m2", "/ask text")
	c.prompt()
	c.sync()
	w = w.kill()
	back := w.dial("?conversation_id=c1")
	back.prompt()
	if len(back.seen) != 1 {
		t.Errorf("after the kill:\n%s", back.log())
	}
}

// The client may have seen nothing, so it gets everything again, also if this process was stopped for a while.
func TestDisconnectBeforeFirstPong(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		var later atomic.Int64
		w := newServer(t, setup{now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
		c := w.dial("?conversation_id=c1")
		c.ignorePings.Store(true)
		c.sync() // the first ping is out
		later.Store(int64(time.Minute))
		c.say("c1", "m1", "hi")
		c.readTurn()
		if killed {
			w = w.kill()
		} else {
			c.drop()
			w.waitDeparted(1)
		}
		if got := textOf(w.dial("?conversation_id=c1").readTurn()); got != "You said: hi" {
			t.Errorf("killed %t: %q", killed, got)
		}
	}
}

// A notification that waits for the answer to a prompt is shown although the connection drops meanwhile.
func TestHeldNotificationSurvivesDisconnect(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		w := newServer(t, setup{})
		c := w.dial("?conversation_id=c1")
		c.say("c1", "m1", "/ask text")
		p := c.prompt()
		notice := chat.NewDraft(chat.AgentInputRequest{RequestID: "n-1", InputType: chat.InputNotification, Text: "By the way"})
		if _, err := w.Sessions.Append(t.Context(), chat.Trusted, "c1", []chat.Draft{notice, chat.NewDraft(chat.AgentStatus{Message: "waits"})}); err != nil {
			t.Fatal(err)
		}
		c.until(func(f frame) bool { return f.Content.Name == "Status" }) // it is past the notification
		c.sync()
		if killed {
			w = w.kill()
		} else {
			c.drop()
		}
		back := w.dial("?conversation_id=c1")
		back.answer("c1", "a", p.Parent, "Ada")
		back.until(func(f frame) bool { return f.Content.InputType == "notification" && *f.Content.Text == "By the way" })
	}
}
