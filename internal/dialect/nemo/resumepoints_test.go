package nemo

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

// openPoints opens the resume points of a folder. Those opened on it before count as killed.
func openPoints(dir string, now *time.Time) *resumePoints {
	return newResumePoints(dir, nil, func() time.Time { return *now }, slog.New(slog.DiscardHandler))
}

func positionAt(seq chat.Seq) position { return position{Cursor: chat.Cursor{Seq: seq}, Base: 1} }

func TestResumePointSurvivesKills(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	r := openPoints(dir, &now)
	tab := &subscription{}
	r.add("k", tab)
	r.save(tab, positionAt(5))
	for i := range 3 {
		r = openPoints(dir, &now)
		if got, ok := r.resume(t.Context(), "k", &subscription{}); !ok || !got.equal(positionAt(5)) {
			t.Fatalf("after kill %d: %v, %t", i+1, got, ok)
		}
		if got, ok := r.resume(t.Context(), "other", &subscription{}); ok {
			t.Fatalf("after kill %d another conversation has %v", i+1, got)
		}
	}
	if got, ok := r.resume(t.Context(), "k", &subscription{}); ok {
		t.Errorf("a second client gets %v", got)
	}
}

// After a message from a new connection, a tab that connects later does not get what was sent before.
func TestMessageRemovesDepartedPoints(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	r := openPoints(dir, &now)
	departed, sender := &subscription{}, &subscription{}
	r.add("k", departed)
	r.depart(departed, positionAt(3), connectionLost)
	r.addSender("k", sender)
	if got, ok := r.resume(t.Context(), "k", &subscription{}); ok {
		t.Errorf("a new tab gets %v", got)
	}
	r.depart(sender, positionAt(9), connectionLost)
	r = openPoints(dir, &now)
	if got, ok := r.resume(t.Context(), "k", &subscription{}); !ok || !got.equal(positionAt(9)) {
		t.Errorf("after a restart: %v, %t", got, ok)
	}
}

func TestOnlyClientResumesMuchLater(t *testing.T) {
	now := time.Now()
	r := openPoints("", &now)
	tab := &subscription{}
	r.add("k", tab)
	r.depart(tab, positionAt(5), connectionLost)
	now = now.Add(2 * reconnectWindow)
	if got, ok := r.resume(t.Context(), "k", &subscription{}); !ok || !got.equal(positionAt(5)) {
		t.Errorf("got %v, %t", got, ok)
	}
}

func TestResumePointsAreBounded(t *testing.T) {
	now := time.Now()
	r := openPoints("", &now)
	const followed = 100
	for i := range followed {
		r.add(fmt.Sprint("followed", i), &subscription{})
	}
	visit := func(r *resumePoints, key string) {
		tab := &subscription{}
		r.add(key, tab)
		r.depart(tab, positionAt(5), connectionLost)
	}
	for i := range maxConversations {
		visit(r, fmt.Sprint("k", i))
	}
	if n := len(r.byKey); n > maxConversations {
		t.Errorf("%d conversations are remembered", n)
	}
	for i := range followed {
		if r.byKey[fmt.Sprint("followed", i)] == nil {
			t.Errorf("number %d has a connected client and was forgotten", i)
		}
	}
}

func TestDepartedClientsResume(t *testing.T) {
	at := func(seq chat.Seq, bytes int) position {
		return position{Cursor: chat.Cursor{Seq: seq, Blocks: []chat.Mark{{Block: "b", Bytes: bytes}}}, Base: 1}
	}
	type departure struct {
		at    position
		ago   time.Duration
		state clientState
	}
	for _, c := range []struct {
		name     string
		live     int
		departed []departure
		want     []position // of those that return, one after the other
	}{
		{name: "nobody departed"},
		{name: "one, long ago", departed: []departure{{at(3, 0), time.Hour, clientClosed}}, want: []position{at(3, 0)}},
		{name: "long ago, others are connected", live: 1, departed: []departure{{at(3, 0), time.Hour, clientClosed}}},
		{name: "broke a moment ago, others are connected", live: 1, departed: []departure{{at(3, 0), 50 * time.Second, connectionLost}}, want: []position{at(3, 0)}},
		{name: "unloaded too long ago for a reload, others are connected", live: 1, departed: []departure{{at(3, 0), 50 * time.Second, pageUnloaded}}},
		{name: "unloaded a moment ago, others are connected", live: 1, departed: []departure{{at(3, 0), 5 * time.Second, pageUnloaded}}, want: []position{at(3, 0)}},
		{
			name:     "three in one outage",
			departed: []departure{{at(3, 9), 0, connectionLost}, {at(3, 5), 0, connectionLost}, {at(4, 0), 0, connectionLost}},
			want:     []position{at(3, 5), at(3, 5), at(3, 5)},
		},
		{
			name:     "one long before the other",
			departed: []departure{{at(2, 9), 2 * time.Minute, connectionLost}, {at(3, 5), 0, connectionLost}},
			want:     []position{at(3, 5)},
		},
	} {
		now := time.Now()
		r := openPoints("", &now)
		for range c.live {
			tab := &subscription{}
			r.add("k", tab)
			r.save(tab, at(9, 0))
		}
		end := now
		for _, d := range c.departed {
			tab := &subscription{}
			r.add("k", tab)
			now = end.Add(-d.ago)
			r.depart(tab, d.at, d.state)
		}
		now = end
		for i, want := range c.want {
			if got, ok := r.resume(t.Context(), "k", &subscription{}); !ok || !got.equal(want) {
				t.Errorf("%s: number %d gets %v, want %v", c.name, i, got, want)
			}
		}
		if got, ok := r.resume(t.Context(), "k", &subscription{}); ok {
			t.Errorf("%s: another one gets %v", c.name, got)
		}
	}
}

// Many tabs disconnect in one outage: all that return continue from the lowest position, also after a restart.
func TestManyTabsInOneOutage(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	r := openPoints(dir, &now)
	before := &subscription{} // it departed long before them
	r.add("k", before)
	r.depart(before, positionAt(1), connectionLost)
	now = now.Add(2 * reconnectWindow)
	var tabs []*subscription
	for range 12 {
		tab := &subscription{}
		r.add("k", tab)
		tabs = append(tabs, tab)
	}
	for i, tab := range tabs {
		seq := chat.Seq(7)
		if i == 1 {
			seq = 3
		}
		r.depart(tab, positionAt(seq), connectionLost)
	}
	for name, r := range map[string]*resumePoints{"at once": r, "after a restart": openPoints(dir, &now)} {
		for i := range tabs {
			if got, ok := r.resume(t.Context(), "k", &subscription{}); !ok || !got.equal(positionAt(3)) {
				t.Errorf("%s: number %d resumes at %v, %t", name, i, got, ok)
			}
		}
	}
}
