package hub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
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

// Many readers that keep up have no goroutines between the batches. One that does not take a batch at once delays no other.
func TestManyReadersAreServedWithoutGoroutines(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.message("one")
		ctx, cancel := context.WithCancel(t.Context())
		stuck, release := make(chan struct{}), make(chan struct{})
		free := sync.OnceFunc(func() { close(release) })
		defer free()
		slow := &blockedSink{recordingSink: recordingSink{t: t}, stuck: stuck, release: release}
		sinks := make([]*tryingSink, 2*paceFrom)
		for i := range sinks {
			sinks[i] = &tryingSink{recordingSink: recordingSink{t: t}, takes: func() bool { return true }}
			go h.Follow(ctx, "s", at(0), nil, sinks[i])
			if i == servedTogether/2 {
				go h.Follow(ctx, "s", at(0), nil, slow)
			}
		}
		synctest.Wait()
		want := "1"
		for i := range 5 {
			w.publish(w.message("more"))
			time.Sleep(paceMost)
			synctest.Wait()
			want += fmt.Sprint(" ", i+2)
			for j, n := range sinks {
				if n.got() != want {
					t.Fatalf("reader %d got %s, want %s", j, n.got(), want)
				}
			}
			if i == 0 {
				<-stuck
			}
			if k := goroutinesIn("hub.(*reader).loop"); k != 1 {
				t.Fatalf("%d readers have goroutines after event %d, want the one that is behind", k, i+2)
			}
		}
		free()
		synctest.Wait()
		if slow.got() != want {
			t.Errorf("the slow reader got %s, want %s", slow.got(), want)
		}
		cancel()
		synctest.Wait()
		for j, n := range sinks {
			if n.ended() != 1 {
				t.Errorf("reader %d ended %d times", j, n.ended())
			}
		}
	})
}

// blockedSink is a recordingSink that takes nothing at once. The second batch waits for release.
type blockedSink struct {
	recordingSink
	stuck, release chan struct{}
	once           sync.Once
}

func (*blockedSink) TryTake(Batch) bool { return false }

func (s *blockedSink) Take(b Batch, err error) bool {
	if s.got() != "" {
		s.once.Do(func() { close(s.stuck) })
		<-s.release
	}
	return s.recordingSink.Take(b, err)
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
