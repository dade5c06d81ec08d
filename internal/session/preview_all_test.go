package session

import (
	"fmt"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

func TestPreviewAllShowsPiecesOfSeveralSessionsInOrder(t *testing.T) {
	w := newTestStore(t, Options{})
	var refs []chat.TurnRef
	for i := range 3 {
		id := w.begin(chat.SessionID(fmt.Sprint("s", i)))
		w.say(id, "a")
		refs = append(refs, w.turn(id))
	}
	of := func(s, offset int, text string) core.SessionPieces {
		return core.SessionPieces{Session: refs[s].Session, Pieces: piece(refs[s], "b", offset, text)}
	}
	all := []core.SessionPieces{of(0, 0, "one"), of(1, 0, "two"), of(0, 3, " more"), of(2, 5, "gap"), {Session: "unknown", Pieces: piece(refs[0], "b", 0, "x")}, of(0, 0, "one more, the rest")}
	if n := w.PreviewAll(ctx, bot, all); n != len(all) {
		t.Fatalf("%d of %d were handled", n, len(all))
	}
	for i, want := range []chat.Code{"", "", "", chat.Invalid, chat.NotFound, ""} {
		if err := all[i].Err; err == nil && want != "" || err != nil && chat.CodeOf(err) != want {
			t.Errorf("piece %d: %v", i, err)
		}
	}
	for i, want := range []string{"one more, the rest", "two", ""} {
		if b, _ := blockOf(w.hub, refs[i].Session, "b"); b.Text != want {
			t.Errorf("session %d: the block is %q", i, b.Text)
		}
	}
	w.restart()
	if b, _ := blockOf(w.hub, refs[0].Session, "b"); b.Text != "one more, the rest" {
		t.Errorf("after a restart the block is %q", b.Text)
	}
}

// A piece for a session that handles another request stays with the caller, which queues it: it neither waits nor overtakes.
func TestPreviewAllStopsBeforeABusySession(t *testing.T) {
	w := newTestStore(t, Options{})
	id, other := w.begin("s"), w.begin("other")
	w.say(id, "a")
	w.say(other, "a")
	ref, otherRef := w.turn(id), w.turn(other)
	r := w.acquire(id)
	defer r.release()
	if !r.tryLead() {
		t.Fatal("the session is busy")
	}
	all := []core.SessionPieces{{Session: other, Pieces: piece(otherRef, "b", 0, "x")}, {Session: id, Pieces: piece(ref, "b", 0, "x")}}
	if n := w.PreviewAll(ctx, bot, all); n != 1 || all[0].Err != nil {
		t.Fatal(n, all[0].Err)
	}
	wait, err := w.PreviewLater(ctx, bot, id, all[1].Pieces)
	if err != nil {
		t.Fatal(err)
	}
	r.yield()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if b, _ := blockOf(w.hub, id, "b"); b.Text != "x" {
		t.Fatalf("the block is %q", b.Text)
	}
	if n := w.PreviewAll(ctx, bot, []core.SessionPieces{{Session: id, Pieces: piece(ref, "b", 1, "y")}}); n != 1 {
		t.Fatal("the session stays busy")
	}
}

// On a nearly full disk a piece is counted once, also if its session is busy, and one that is refused leaves its session free.
func TestPiecesAreCountedOnceOnANearlyFullDisk(t *testing.T) {
	scarce := false
	w := newTestStore(t, Options{Quotas: Quotas{Shares: 1}, Scarce: func() (int64, bool) { return pieceCost + 8, scarce }})
	id := w.begin("s")
	w.say(id, "a")
	ref := w.turn(id)
	scarce = true
	r := w.acquire(id)
	defer r.release()
	if !r.tryLead() {
		t.Fatal("the session is busy")
	}
	all := []core.SessionPieces{{Session: id, Pieces: piece(ref, "b", 0, "12345678")}}
	if n := w.PreviewAll(ctx, bot, all); n != 0 {
		t.Fatal("the session is not busy")
	}
	wait, err := w.PreviewLater(ctx, bot, id, all[0].Pieces)
	if err != nil {
		t.Fatal(err)
	}
	r.yield()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	next := []core.SessionPieces{{Session: id, Pieces: piece(ref, "b", 8, "9")}}
	if n := w.PreviewAll(ctx, bot, next); n != 1 || next[0].Err == nil {
		t.Fatal("the share of the caller has no end")
	}
	scarce = false
	if n := w.PreviewAll(ctx, bot, next); n != 1 || next[0].Err != nil {
		t.Fatal(n, next[0].Err)
	}
}
