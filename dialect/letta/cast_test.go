package letta

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/agent"
)

// wordsOf is what a talker says.
func wordsOf(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "word%d ", i)
	}
	return b.String()
}

// Those who follow a run from its beginning get the same bytes, made once, and all
// of them, also when there are too many to be kept.
func TestReadersShareFrames(t *testing.T) {
	t.Parallel()
	for name, words := range map[string]int{"kept": 300, "too many": 6000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leave := make(chan struct{})
			w := newWorld(t, setup{agents: map[string]agent.Agent{"talker": talker{words, leave}}})
			a := w.agent(`{"model":"parley/talker"}`)
			first := w.open("/v1/agents/"+a+"/messages", message("go", `,"streaming":true,"stream_tokens":true`))
			ping, _ := first.next()
			readers := []*reader{first}
			for range 7 {
				r := w.open("/v1/runs/"+ping.Run+"/stream", "{}")
				if m, ok := r.next(); !ok || m.Type != kindPing {
					t.Fatalf("%+v", m)
				}
				readers = append(readers, r)
			}
			type seen struct {
				frames []shownMessage
				done   bool
			}
			all := make(chan seen, len(readers))
			for _, r := range readers {
				go func() { f := r.rest(); all <- seen{f, r.done} }()
			}
			leave <- struct{}{}
			var whole []shownMessage
			for range readers {
				s := <-all
				if whole == nil {
					whole = s.frames
				}
				if text := textOf(s.frames); text != wordsOf(words) || !s.done {
					t.Fatalf("done %v, %d bytes of %d", s.done, len(text), len(wordsOf(words)))
				}
				if !slices.IsSortedFunc(s.frames, func(x, y shownMessage) int { return int(x.Seq - y.Seq) }) {
					t.Error("positions do not rise")
				}
				if name == "kept" && len(s.frames) != len(whole) {
					t.Errorf("%d frames, others have %d", len(s.frames), len(whole))
				}
			}
			w.dialect.mu.Lock()
			defer w.dialect.mu.Unlock()
			if n := len(w.dialect.casts); n != 0 {
				t.Errorf("%d casts are left", n)
			}
		})
	}
}

// A reader that goes away leaves the others their stream.
func TestAReaderThatLeavesHarmsNobody(t *testing.T) {
	t.Parallel()
	leave := make(chan struct{})
	w := newWorld(t, setup{agents: map[string]agent.Agent{"script": script{leave}}})
	a := w.agent(`{"model":"parley/script"}`)
	first := w.open("/v1/agents/"+a+"/messages", message("go", `,"streaming":true,"stream_tokens":true`))
	ping, _ := first.next()
	second := w.open("/v1/runs/"+ping.Run+"/stream", "{}")
	if _, ok := second.next(); !ok {
		t.Fatal("no ping")
	}
	leave <- struct{}{}
	if m, ok := first.next(); !ok || m.Thought == "" {
		t.Fatalf("%+v", m)
	}
	first.drop()
	go func() {
		for range 11 {
			leave <- struct{}{}
		}
	}()
	rest := second.rest()
	if text := textOf(rest); !strings.Contains(text, "ünïcóde.") || !second.done {
		t.Errorf("done %v: %s", second.done, text)
	}
}
