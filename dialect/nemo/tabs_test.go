package nemo

import (
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

// Two tabs on one conversation both see everything; the second one from the
// start of the running turn.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	one := w.dial("?session=s1&conversation_id=c1")
	one.say("c1", "m1", "/stream 40 100")
	got := one.words(3)
	first := make(chan []frame)
	go func() { first <- one.rest(got) }() // reads on, so that it answers pings
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

// A tab that was there before the conversation began sees what another begins it
// with, however short that is.
func TestTabThatWasThereFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	one, two := w.dial("?conversation_id=c1"), w.dial("?conversation_id=c1")
	one.heard()
	two.heard() // it looked, and found nothing
	one.say("c1", "m1", "hi")
	for i, c := range []*client{one, two} {
		if got := text(c.turn()); got != "You said: hi" {
			t.Errorf("tab %d: %q", i+1, got)
		}
	}
}

// One of two tabs drops and comes back, while the other lives: it goes on where
// it stopped.
func TestOneOfTwoTabsDrops(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	one := w.dial("?conversation_id=c1")
	one.say("c1", "m1", "/stream 80 100")
	had := one.words(1)
	first := make(chan []frame)
	go func() { first <- one.rest(had) }() // reads on, so that it answers pings
	two := w.dial("?conversation_id=c1")
	got := two.words(12)
	two.drop()
	got = w.dial("?conversation_id=c1").rest(got)
	if text(got) != words1toN(80) {
		t.Errorf("the tab that dropped: %q", text(got))
	}
	if got := text(<-first); got != words1toN(80) {
		t.Errorf("the other tab: %q", got)
	}
}

// Two tabs come back after a kill. Nobody can tell which is which, so both go on
// where the one stood that had less.
func TestTwoTabsAfterKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	one := w.dial("?conversation_id=c1")
	one.say("c1", "m1", "/tool calc {}")
	one.turn()
	one.say("c1", "m2", "/ask text")
	one.prompt()
	one.heard()
	reads := make(chan struct{})
	go func() { // it answers pings while the other comes
		defer close(reads)
		for _, err := one.tryNext(30 * time.Second); err == nil; _, err = one.tryNext(30 * time.Second) {
		}
	}()
	two := w.dial("?conversation_id=c1")
	two.prompt()
	two.heard()
	w = w.kill()
	<-reads
	for _, name := range []string{"first", "second"} {
		back := w.dial("?conversation_id=c1")
		back.prompt()
		if len(back.seen) != 1 {
			t.Errorf("the %s tab gets\n%s", name, back.log())
		}
		go func() {
			for _, err := back.tryNext(30 * time.Second); err == nil; _, err = back.tryNext(30 * time.Second) {
			}
		}()
	}
}

func TestClaim(t *testing.T) {
	now := time.Now()
	at := func(seq chat.Seq, bytes int) place {
		return place{Cursor: chat.Cursor{Seq: seq, Blocks: []chat.Mark{{Block: "b", Bytes: bytes}}}}
	}
	for _, c := range []struct {
		name string
		live int
		left []leftover
		want []place // what those get who come back, one after the other
	}{
		{name: "nobody left"},
		{name: "one, long ago", left: []leftover{{place: at(3, 0), when: now.Add(-time.Hour)}}, want: []place{at(3, 0)}},
		{name: "long ago, but others live", live: 1, left: []leftover{{place: at(3, 0), when: now.Add(-time.Hour)}}},
		{name: "broke a moment ago, others live", live: 1, left: []leftover{{place: at(3, 0), when: now.Add(-50 * time.Second), how: cutOff}}, want: []place{at(3, 0)}},
		{name: "parted too long ago for a reload, others live", live: 1, left: []leftover{{place: at(3, 0), when: now.Add(-50 * time.Second), how: parted}}},
		{name: "parted a moment ago, others live", live: 1, left: []leftover{{place: at(3, 0), when: now.Add(-5 * time.Second), how: parted}}, want: []place{at(3, 0)}},
		{
			name: "three at once", left: []leftover{{place: at(3, 9), when: now}, {place: at(3, 5), when: now}, {place: at(4, 0), when: now}},
			want: []place{at(3, 5), at(3, 5), at(3, 5)},
		},
		{
			name: "one long before the other", left: []leftover{{place: at(2, 9), when: now.Add(-time.Minute)}, {place: at(3, 5), when: now}},
			want: []place{at(3, 5), at(2, 9)},
		},
	} {
		h := &home{left: c.left}
		for range c.live {
			h.live = append(h.live, nil)
		}
		for i := 0; ; i++ {
			l, ok := h.claim(now)
			if !ok || i == len(c.want) {
				if ok || i < len(c.want) {
					t.Errorf("%s: %d come back, ok=%t", c.name, i, ok)
				}
				break
			}
			if !l.same(c.want[i]) {
				t.Errorf("%s: number %d gets %v, want %v", c.name, i, l.place, c.want[i])
			}
		}
	}
}
