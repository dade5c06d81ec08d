package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// TestNoReceiptBeforeCopiesAreGone: as long as a copy is left the answer is
// unavailable, and the text is in no file of the store. Asked again, also by the
// next process, the owner gets the receipt; nobody else does.
func TestNoReceiptBeforeCopiesAreGone(t *testing.T) {
	var left error
	var told []chat.SessionID
	w := newWorld(t, Options{Observers: []Observer{{
		Purge:  func(context.Context, chat.SessionID) error { return left },
		Erased: func(id chat.SessionID) { told = append(told, id) },
	}}})
	id := w.begin("s")
	w.say(id, "hello")
	left = chat.Errorf(chat.Unavailable, "NATS is away")
	for range 2 {
		_, err := w.Erase(ctx, ann, id)
		w.wantCode(err, chat.Unavailable)
		if e := chat.Public(err); e.Reason != chat.EraseUnfinished || !strings.Contains(e.Msg, "NATS is away") {
			t.Fatal(e)
		}
		_, err = w.Get(ctx, ann, id)
		w.wantCode(err, chat.Gone)
		_, err = w.Erase(ctx, bob, id)
		w.wantCode(err, chat.Gone)
		w.restart()
	}
	left = nil
	receipt, err := w.Erase(ctx, ann, id)
	if err != nil || receipt.Session != id || receipt.Events == 0 || receipt.Bytes == 0 {
		t.Fatal(receipt, err)
	}
	_, err = w.Erase(ctx, ann, id)
	w.wantCode(err, chat.Gone)
	if !slices.Equal(told, []chat.SessionID{id}) {
		t.Fatal(told)
	}
}

// TestRunFinishesErasures: what the last process did not finish is finished, and
// those who keep copies are told of it.
func TestRunFinishesErasures(t *testing.T) {
	left := errors.New("NATS is away")
	told := make(chan chat.SessionID, 1)
	w := newWorld(t, Options{Observers: []Observer{{Purge: func(context.Context, chat.SessionID) error { return left }}}})
	id := w.begin("s")
	_, err := w.Erase(ctx, ann, id)
	w.wantCode(err, chat.Unavailable)
	w.opt.Observers = []Observer{{Erased: func(id chat.SessionID) { told <- id }}}
	w.restart()
	run, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(run) }()
	if got := <-told; got != id {
		t.Fatal(got)
	}
	for pending := true; pending; {
		if _, pending, err = w.log.Erasure(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// TestAnAbandonedEraseGoesOn: the caller goes away in the middle.
func TestAnAbandonedEraseGoesOn(t *testing.T) {
	reached, free := make(chan struct{}, 2), make(chan struct{})
	w := newWorld(t, Options{Observers: []Observer{{Purge: func(context.Context, chat.SessionID) error {
		reached <- struct{}{}
		<-free
		return nil
	}}}})
	id := w.begin("s")
	gone, leave := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := w.Erase(gone, ann, id)
		ended <- err
	}()
	<-reached
	leave()
	w.wantCode(<-ended, chat.Unavailable)
	again := make(chan error, 1)
	go func() {
		_, err := w.Erase(ctx, ann, id) // joins the one under way
		again <- err
	}()
	close(free)
	if err := <-again; err != nil && chat.CodeOf(err) != chat.Gone {
		t.Fatal(err)
	}
	if _, pending, err := w.log.Erasure(ctx, id); pending || err != nil {
		t.Fatal("it was not finished", err)
	}
}

// An erasure that has to wait for old files has erased the session all the same:
// who watches it, or keeps copies, hears of it.
func TestErasedButForOldFiles(t *testing.T) {
	told := chat.SessionID("")
	w := newWorld(t, Options{Observers: []Observer{{Erased: func(id chat.SessionID) { told = id }}}})
	id := w.begin("s")
	w.Sessions = New(&sticky{w.log}, w.hub, w.opt)
	ended := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		for _, err := range w.Watch(t.Context(), ann, id, chat.Start{}, nil) {
			if err != nil {
				ended <- err
				return
			}
			select {
			case <-begun:
			default:
				close(begun)
			}
		}
		ended <- nil
	}()
	<-begun
	_, err := w.Erase(ctx, ann, id)
	w.wantCode(err, chat.Unavailable)
	if told != id {
		t.Fatalf("%q is told to be erased", told)
	}
	w.wantCode(<-ended, chat.Gone)
}

// sticky is a journal that cannot get rid of its old files.
type sticky struct{ *spy }

func (j *sticky) FinishErase(context.Context, chat.Erasure) error {
	return chat.Errorf(chat.Unavailable, "a file is still in use")
}
