package hub

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-hq/parley/chat"
)

// notes is a sink that writes down what it gets.
type recordingSink struct {
	mu    sync.Mutex
	text  []string
	err   error
	done  int
	stop  int // after so many events; 0 for never
	inner sync.Mutex
	t     *testing.T
}

func (n *recordingSink) Take(b Batch, err error) bool {
	if !n.inner.TryLock() {
		n.t.Error("two calls at once")
		return false
	}
	defer n.inner.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.done > 0 {
		n.t.Error("something came after the end")
	}
	n.err = err
	for _, e := range b.Entries {
		n.text = append(n.text, fmt.Sprint(e.Fact.Seq))
	}
	return n.stop == 0 || len(n.text) < n.stop
}

func (n *recordingSink) Done() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.done++
}

func (n *recordingSink) got() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.text, " ")
}

// goroutinesIn counts the goroutines of a function.
func goroutinesIn(name string) int {
	buf := make([]byte, 1<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), name)
}

// A reader that is followed has no goroutine while nothing happens, and misses
// nothing for it.
func TestFollowedReadersWaitWithoutAGoroutine(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.message("one")
		ctx, cancel := context.WithCancel(t.Context())
		all := make([]*recordingSink, 50)
		for i := range all {
			all[i] = &recordingSink{t: t}
			go h.Follow(ctx, "s", at(0), nil, all[i])
		}
		want := "1"
		for round := range 5 {
			synctest.Wait()
			if round%2 == 1 {
				time.Sleep(keepGoroutine) // the bubble's clock: at the moment when they let go
			} else {
				time.Sleep(2 * keepGoroutine)
				synctest.Wait()
				if n := goroutinesIn("hub.(*reader).wait"); n > 0 {
					t.Errorf("round %d: %d readers keep a goroutine", round, n)
				}
			}
			w.publish(w.message("more"))
			w.publish(w.message("and more"))
			want += fmt.Sprintf(" %d %d", 2*round+2, 2*round+3)
			synctest.Wait()
			for _, n := range all {
				if n.got() != want {
					t.Fatalf("round %d: got %s, want %s", round, n.got(), want)
				}
			}
		}
		time.Sleep(2 * keepGoroutine)
		cancel()
		synctest.Wait()
		for _, n := range all {
			if n.done != 1 || n.err != nil {
				t.Fatalf("ended %d times, with %v", n.done, n.err)
			}
		}
		h.mu.Lock()
		if topic := h.topics["s"]; topic != nil && len(topic.rs) > 0 {
			t.Errorf("%d readers are left", len(topic.rs))
		}
		h.mu.Unlock()
	})
}

// However a followed reader ends, waiting alone or not, it ends once.
func TestFollowedReadersEnd(t *testing.T) {
	for _, wait := range []time.Duration{0, keepGoroutine / 2, keepGoroutine, 2 * keepGoroutine} {
		for name, end := range map[string]func(h *Hub, w *writer, cancel func()){
			"context": func(_ *Hub, _ *writer, cancel func()) { cancel() },
			"close":   func(h *Hub, _ *writer, _ func()) { h.Close(nil) },
			"sink":    func(_ *Hub, w *writer, _ func()) { w.publish(w.message("two")) },
			"at once": func(_ *Hub, w *writer, cancel func()) { go cancel(); w.publish(w.message("two")) },
		} {
			t.Run(fmt.Sprint(name, " after ", wait), func(t *testing.T) {
				withFakeClock(t, func(t *testing.T) {
					_, h, w := setup(Options{})
					w.message("one")
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					n := &recordingSink{t: t, stop: 2}
					go h.Follow(ctx, "s", at(0), nil, n)
					synctest.Wait()
					time.Sleep(wait)
					end(h, w, cancel)
					synctest.Wait()
					if n.done != 1 {
						t.Errorf("ended %d times", n.done)
					}
					if closed := name == "close"; closed != (chat.CodeOf(n.err) == chat.Unavailable) {
						t.Errorf("ended with %v", n.err)
					}
				})
			})
		}
	}
}

// Signals that cross a reader's letting go are not lost: many rounds at the very
// moment, on real time.
func TestWakeUpsAreNotLostWhileDetaching(t *testing.T) {
	_, h, w := setup(Options{})
	w.message("one")
	ctx, cancel := context.WithCancel(t.Context())
	n := &recordingSink{t: t}
	r, err := h.begin(ctx, "s", &Start{Cursor: &chat.Cursor{}, Idle: time.Microsecond}, nil)
	r.follower = &follower{ctx: ctx, sink: n}
	go r.serve(err)
	var want strings.Builder
	want.WriteString("1")
	for i := range 2000 {
		w.publish(w.message("more"))
		fmt.Fprintf(&want, " %d", i+2)
	}
	deadline := time.Now().Add(30 * time.Second)
	for n.got() != want.String() {
		if time.Now().After(deadline) {
			t.Fatalf("stuck after %d of %d", len(n.text), 2001)
		}
		runtime.Gosched()
	}
	cancel()
	for n.ended() == 0 {
		if time.Now().After(deadline) {
			t.Fatal("it does not end")
		}
		runtime.Gosched()
	}
}

func (n *recordingSink) ended() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.done
}
