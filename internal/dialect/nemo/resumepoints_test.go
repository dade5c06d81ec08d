package nemo

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

// openPoints opens the desk of a folder, as a server does that starts there. One that
// was opened before on it has then been killed.
func openPoints(dir string, now *time.Time) *resumePoints {
	return newResumePoints(openPointFile(dir, func() time.Time { return *now }, slog.New(slog.DiscardHandler)))
}

func positionAt(seq chat.Seq) position { return position{Cursor: chat.Cursor{Seq: seq}, Base: 1} }

// A place outlives one kill after the other, also when nothing was noted between
// them, and is claimed once each time.
func TestPlaceOutlivesKills(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	d := openPoints(dir, &now)
	tab := &subscription{}
	d.add("k", tab)
	d.save(tab, positionAt(5))
	for i := range 3 {
		d = openPoints(dir, &now)
		if got, ok := d.resume(t.Context(), "k", &subscription{}); !ok || !got.equal(positionAt(5)) {
			t.Fatalf("after kill %d: %v, %t", i+1, got, ok)
		}
		if got, ok := d.resume(t.Context(), "other", &subscription{}); ok {
			t.Fatalf("after kill %d another conversation has %v", i+1, got)
		}
	}
	if got, ok := d.resume(t.Context(), "k", &subscription{}); ok {
		t.Errorf("a second client gets %v", got)
	}
}

// Who begins with a message of its own has turned a page: a tab that comes after it
// does not get what was said before, now or after a restart.
func TestMessageForgetsPlaces(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	d := openPoints(dir, &now)
	gone := &subscription{}
	d.add("k", gone)
	d.depart(gone, positionAt(3), connectionLost)
	speaks := &subscription{}
	d.addSender("k", speaks)
	if got, ok := d.resume(t.Context(), "k", &subscription{}); ok {
		t.Errorf("a new tab gets %v", got)
	}
	d.depart(speaks, positionAt(9), connectionLost)
	d = openPoints(dir, &now)
	if got, ok := d.resume(t.Context(), "k", &subscription{}); !ok || !got.equal(positionAt(9)) {
		t.Errorf("after a restart: %v, %t", got, ok)
	}
}

// A client that comes back after a long time, alone, goes on where it stopped.
func TestComesBackMuchLater(t *testing.T) {
	now := time.Now()
	d := openPoints("", &now)
	tab := &subscription{}
	d.add("k", tab)
	d.depart(tab, positionAt(5), connectionLost)
	now = now.Add(2 * reconnectWindow)
	if got, ok := d.resume(t.Context(), "k", &subscription{}); !ok || !got.equal(positionAt(5)) {
		t.Errorf("got %v, %t", got, ok)
	}
}

// The desk remembers a bounded number of conversations, all that are followed among
// them, and of each a bounded number of places.
func TestDeskIsBounded(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	d := openPoints("", &now)
	const followed = 100
	for i := range followed {
		d.add(fmt.Sprint("followed", i), &subscription{})
	}
	visit := func(d *resumePoints, key string) {
		tab := &subscription{}
		d.add(key, tab)
		d.depart(tab, positionAt(5), connectionLost)
	}
	for i := range maxConversations {
		visit(d, fmt.Sprint("k", i))
	}
	if n := len(d.byKey); n > maxConversations {
		t.Errorf("%d conversations are remembered", n)
	}
	for i := range followed {
		if d.byKey[fmt.Sprint("followed", i)] == nil {
			t.Errorf("number %d is followed and forgotten", i)
		}
	}
	d = openPoints(dir, &now)
	for range 3 * maxDeparted {
		visit(d, "k")
	}
	for name, d := range map[string]*resumePoints{"at once": d, "after a restart": openPoints(dir, &now)} {
		if n := len(d.byKey["k"].departed); n != maxDeparted {
			t.Errorf("%s: %d places of one conversation", name, n)
		}
	}
}
