package nemo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/chat"
)

// origin is what a browser sends.
var origin = []string{"Origin", "http://localhost:3000"}

// A page that was unloaded may not have handled what its browser acknowledged last: that is sent again. A page whose
// connection broke has handled it: nothing comes twice.
func TestReloadedPageGetsLastMomentAgain(t *testing.T) {
	t.Parallel()
	// All answers come within the moment that a page takes, however slow the test is.
	moment := time.Now()
	w := newServer(t, setup{change: func(o *Options) { o.Now = func() time.Time { return moment } }})
	whole := words1toN(20_000)
	for i := range 6 {
		name := fmt.Sprint("c", i)
		c := w.dial("?conversation_id="+name, origin...)
		c.say(name, "m1", "/stream 20000 20")
		seen := c.readSome(4) // the browser has answered for it
		leaves := i%2 == 0
		if leaves {
			_ = c.conn.Close(websocket.StatusGoingAway, "") // may be cut by the server's next write
		} else {
			c.drop()
		}
		back := w.dial("?conversation_id="+name, origin...)
		next := *back.next().Content.Text
		switch have := textOf(seen); {
		case leaves && !strings.HasPrefix(whole, next):
			t.Errorf("round %d: after %q comes %q, not all again", i, have, next)
		case !leaves && !strings.HasPrefix(whole, have+next):
			t.Errorf("round %d: %q is followed by %q", i, have, next)
		}
		back.drop()
	}
}

// However fast an agent writes, a browser gets few frames.
func TestBrowserGetsFewFrames(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	c := w.dial("", origin...)
	c.say("c1", "m1", "/stream 2000")
	frames := c.readTurn()
	if got := textOf(frames); got != words1toN(2000) {
		t.Errorf("got %q…", got[:min(100, len(got))])
	}
	begun := time.Now()
	c.say("c1", "m2", "/stream 200 400") // half a second
	n := len(c.readTurn())
	if most := int(time.Since(begun)/browserFrameInterval) + 5; n > most {
		t.Errorf("%d frames, at most %d fit in that time", n, most)
	}
}

func TestPositionBeforeUnload(t *testing.T) {
	now := time.Now()
	at := func(seq chat.Seq) position { return position{Base: seq} }
	for _, c := range []struct {
		name string
		ago  []time.Duration // acknowledgements of positions 1, 2, …; the page started at 99
		want chat.Seq
	}{
		{"nothing was acknowledged", nil, 99},
		{"all of it a moment ago", []time.Duration{300 * time.Millisecond, 0}, 99},
		{"some of it a moment ago", []time.Duration{time.Second, 500 * time.Millisecond, 300 * time.Millisecond, 0}, 2},
		{"all of it long ago", []time.Duration{2 * time.Minute, time.Minute}, 2},
	} {
		d := &delivery{acks: []ack{{at: at(99)}}}
		for i, ago := range c.ago {
			d.noteAck(now.Add(-ago), at(chat.Seq(i+1)))
		}
		if got := d.beforeUnload(now); got.Base != c.want {
			t.Errorf("%s: %d, want %d", c.name, got.Base, c.want)
		}
	}
}
