package nemo

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

// openDesk opens the desk of a folder, as a server does that starts there. One that
// was opened before on it has then been killed.
func openDesk(dir string, now *time.Time) *desk {
	return newDesk(openMarks(dir, func() time.Time { return *now }, slog.New(slog.DiscardHandler)))
}

func placeAt(seq chat.Seq) place { return place{Cursor: chat.Cursor{Seq: seq}, Base: 1} }

// A place outlives one kill after the other, also when nothing was noted between
// them, and is claimed once each time.
func TestPlaceOutlivesKills(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	d := openDesk(dir, &now)
	tab := &thread{}
	d.arrive("k", tab)
	d.note(tab, placeAt(5))
	for i := range 3 {
		d = openDesk(dir, &now)
		if got, ok := d.rejoin(t.Context(), "k", &thread{}); !ok || !got.same(placeAt(5)) {
			t.Fatalf("after kill %d: %v, %t", i+1, got, ok)
		}
		if got, ok := d.rejoin(t.Context(), "other", &thread{}); ok {
			t.Fatalf("after kill %d another conversation has %v", i+1, got)
		}
	}
	if got, ok := d.rejoin(t.Context(), "k", &thread{}); ok {
		t.Errorf("a second client gets %v", got)
	}
}

// Who begins with a message of its own has turned a page: a tab that comes after it
// does not get what was said before, now or after a restart.
func TestMessageForgetsPlaces(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	d := openDesk(dir, &now)
	gone := &thread{}
	d.arrive("k", gone)
	d.leave(gone, placeAt(3), cutOff)
	speaks := &thread{}
	d.join("k", speaks)
	if got, ok := d.rejoin(t.Context(), "k", &thread{}); ok {
		t.Errorf("a new tab gets %v", got)
	}
	d.leave(speaks, placeAt(9), cutOff)
	d = openDesk(dir, &now)
	if got, ok := d.rejoin(t.Context(), "k", &thread{}); !ok || !got.same(placeAt(9)) {
		t.Errorf("after a restart: %v, %t", got, ok)
	}
}

// A client that comes back after a long time, alone, goes on where it stopped.
func TestComesBackMuchLater(t *testing.T) {
	now := time.Now()
	d := openDesk("", &now)
	tab := &thread{}
	d.arrive("k", tab)
	d.leave(tab, placeAt(5), cutOff)
	now = now.Add(2 * returning)
	if got, ok := d.rejoin(t.Context(), "k", &thread{}); !ok || !got.same(placeAt(5)) {
		t.Errorf("got %v, %t", got, ok)
	}
}

// The desk remembers a bounded number of conversations, all that are followed among
// them, and of each a bounded number of places.
func TestDeskIsBounded(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	d := openDesk("", &now)
	const followed = 100
	for i := range followed {
		d.arrive(fmt.Sprint("followed", i), &thread{})
	}
	visit := func(d *desk, key string) {
		tab := &thread{}
		d.arrive(key, tab)
		d.leave(tab, placeAt(5), cutOff)
	}
	for i := range maxHomes {
		visit(d, fmt.Sprint("k", i))
	}
	if n := len(d.homes); n > maxHomes {
		t.Errorf("%d conversations are remembered", n)
	}
	for i := range followed {
		if d.homes[fmt.Sprint("followed", i)] == nil {
			t.Errorf("number %d is followed and forgotten", i)
		}
	}
	d = openDesk(dir, &now)
	for range 3 * maxPlaces {
		visit(d, "k")
	}
	for name, d := range map[string]*desk{"at once": d, "after a restart": openDesk(dir, &now)} {
		if n := len(d.homes["k"].left); n != maxPlaces {
			t.Errorf("%s: %d places of one conversation", name, n)
		}
	}
}
