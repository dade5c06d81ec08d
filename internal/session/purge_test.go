package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// TestEraseReturnsNoReceiptWhileACopyIsLeft: while a copy is left, Erase returns unavailable, and
// no file of the store contains the text. A later call, also in the next process, returns
// the receipt to the owner and to no other caller.
func TestEraseReturnsNoReceiptWhileACopyIsLeft(t *testing.T) {
	var left error
	var told []chat.SessionID
	w := newTestStore(t, Options{Observers: []Observer{{
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

// TestRunFinishesErasures: Run finishes the erasures of the last process and calls the
// observers that keep copies.
func TestRunFinishesErasures(t *testing.T) {
	left := errors.New("NATS is away")
	told := make(chan chat.SessionID, 1)
	w := newTestStore(t, Options{Observers: []Observer{{Purge: func(context.Context, chat.SessionID) error { return left }}}})
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

// TestEraseContinuesAfterItsContextEnds: an erasure continues after its caller's context has ended.
func TestEraseContinuesAfterItsContextEnds(t *testing.T) {
	reached, free := make(chan struct{}, 2), make(chan struct{})
	w := newTestStore(t, Options{Observers: []Observer{{Purge: func(context.Context, chat.SessionID) error {
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
		_, err := w.Erase(ctx, ann, id) // waits for the running job
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

// An erasure that cannot remove old files yet has already erased the session: readers get
// an error, and observers are called.
func TestSessionIsErasedWhileOldFilesRemain(t *testing.T) {
	told := chat.SessionID("")
	w := newTestStore(t, Options{Observers: []Observer{{Erased: func(id chat.SessionID) { told = id }}}})
	id := w.begin("s")
	w.Sessions = New(&sticky{w.log}, w.hub, w.opt)
	ended := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		for _, err := range w.Watch(t.Context(), ann, id, core.Start{}, nil) {
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

// sticky is a journal that cannot remove its old files.
type sticky struct{ *spy }

func (j *sticky) FinishErase(context.Context, core.Erasure) error {
	return chat.Errorf(chat.Unavailable, "a file is still in use")
}
