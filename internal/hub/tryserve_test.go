package hub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-hq/parley/chat"
)

// tryingSink is a recordingSink that takes some batches at once.
type tryingSink struct {
	recordingSink
	takes func() bool
	tried int // batches that were taken at once
}

func (s *tryingSink) TryTake(b Batch) bool {
	if !s.takes() {
		return false
	}
	s.Take(b, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried++
	return true
}

// A reader that keeps up is served by the publisher and has no goroutine.
func TestPublisherServesAReaderThatKeepsUp(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.message("one")
		ctx, cancel := context.WithCancel(t.Context())
		n := &tryingSink{recordingSink: recordingSink{t: t}, takes: func() bool { return true }}
		go h.Follow(ctx, "s", at(0), nil, n)
		synctest.Wait()
		for i := range 100 {
			w.publish(w.message("more"))
			if want := fmt.Sprint(i + 2); !strings.HasSuffix(n.got(), " "+want) {
				t.Fatalf("event %s is not delivered when Publish returns: %s", want, n.got())
			}
		}
		if k := goroutinesIn("hub.(*reader).loop"); k > 0 || n.tried != 100 {
			t.Errorf("%d goroutines, %d batches were taken at once", k, n.tried)
		}
		cancel()
		synctest.Wait()
		if n.done != 1 {
			t.Errorf("ended %d times", n.done)
		}
	})
}

// Whether a sink takes a batch at once or not, the reader gets everything once and in order, and ends once.
func TestReaderIsServedInOrderByPublishersAndGoroutines(t *testing.T) {
	_, h, w := setup(Options{})
	w.message("one")
	ctx, cancel := context.WithCancel(t.Context())
	n := &tryingSink{recordingSink: recordingSink{t: t}, takes: func() bool { return rand.IntN(3) > 0 }}
	go h.Follow(ctx, "s", at(0), nil, n)
	var want strings.Builder
	want.WriteString("1")
	for i := range 3000 {
		w.publish(w.message("more"))
		fmt.Fprintf(&want, " %d", i+2)
	}
	for end := time.Now().Add(30 * time.Second); n.got() != want.String(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("stuck after %d of 3001", len(n.text))
		}
	}
	go cancel()
	w.publish(w.message("last"))
	for end := time.Now().Add(30 * time.Second); n.ended() == 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("it does not end")
		}
	}
}

// A reader that may no longer read gets the error instead of the batch.
func TestPublisherChecksAccessOfAReader(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.message("one")
		n := &tryingSink{recordingSink: recordingSink{t: t}, takes: func() bool { return true }}
		var refused error
		from := at(0)
		from.Guard = func() error {
			err := refused
			refused = nil
			return err
		}
		go h.Follow(t.Context(), "s", from, nil, n)
		synctest.Wait()
		refused = chat.Errorf(chat.Denied, "no longer")
		w.publish(w.message("two"))
		synctest.Wait()
		if n.got() != "1" || n.done != 1 || chat.CodeOf(n.err) != chat.Denied {
			t.Errorf("got %s, ended %d times with %v", n.got(), n.done, n.err)
		}
	})
}
