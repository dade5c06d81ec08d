package letta

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// wordsOf is the text of a talkingAgent.
func wordsOf(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "word%d ", i)
	}
	return b.String()
}

// watchCounter reports each call of Watch.
type watchCounter struct {
	sessions
	begins chan struct{}
}

func (s watchCounter) Watch(ctx context.Context, c chat.Caller, id chat.SessionID, from core.Start, enc core.Encoding) iter.Seq2[core.Batch, error] {
	s.begins <- struct{}{}
	return s.sessions.Watch(ctx, c, id, from, enc)
}

// All readers of a run get the whole text, in rising positions.
func TestReadersOfOneRunGetTheSameText(t *testing.T) {
	t.Parallel()
	const words = 6000
	proceed := make(chan struct{})
	begins := make(chan struct{}, 100)
	w := newTestServer(t, setup{
		agents: map[string]agent.Agent{"talker": talkingAgent{words, proceed}},
		change: func(o *Options) { o.Sessions = watchCounter{o.Sessions, begins} },
	})
	a := w.agent(`{"model":"parley/talker"}`)
	first := w.open("/v1/agents/"+a+"/messages", message("go", `,"streaming":true,"stream_tokens":true`))
	ping, _ := first.next()
	readers := []*reader{first}
	for range 7 {
		readers = append(readers, w.open("/v1/runs/"+ping.Run+"/stream", "{}"))
	}
	for range readers {
		<-begins
	}
	type seen struct {
		frames []frame
		done   bool
	}
	all := make(chan seen, len(readers))
	for _, r := range readers {
		go func() { f := r.rest(); all <- seen{f, r.done} }()
	}
	proceed <- struct{}{}
	for range readers {
		s := <-all
		if text := textOf(s.frames); text != wordsOf(words) || !s.done {
			t.Fatalf("done %v, %d bytes of %d", s.done, len(text), len(wordsOf(words)))
		}
		if !slices.IsSortedFunc(s.frames, func(x, y frame) int { return int(x.Seq - y.Seq) }) {
			t.Error("positions do not rise")
		}
	}
}

// A reader that disconnects does not change the stream of another one.
func TestReadersDoNotDependOnEachOther(t *testing.T) {
	t.Parallel()
	proceed := make(chan struct{})
	w := newTestServer(t, setup{agents: map[string]agent.Agent{"script": scriptedAgent{proceed}}})
	a := w.agent(`{"model":"parley/script"}`)
	first := w.open("/v1/agents/"+a+"/messages", message("go", `,"streaming":true,"stream_tokens":true`))
	ping, _ := first.next()
	second := w.open("/v1/runs/"+ping.Run+"/stream", "{}")
	if _, ok := second.next(); !ok {
		t.Fatal("no ping")
	}
	proceed <- struct{}{}
	if m, ok := first.next(); !ok || m.Thought == "" {
		t.Fatalf("%+v", m)
	}
	first.drop()
	go func() {
		for range 11 {
			proceed <- struct{}{}
		}
	}()
	rest := second.rest()
	if text := textOf(rest); !strings.Contains(text, "ünïcóde.") || !second.done {
		t.Errorf("done %v: %s", second.done, text)
	}
}

// interruptedStart runs a function between the two reads with which a stream begins.
type interruptedStart struct {
	sessions
	happen func()
}

func (s *interruptedStart) State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error) {
	st, err := s.sessions.State(ctx, c, id)
	if f := s.happen; f != nil {
		s.happen = nil
		f()
	}
	return st, err
}

// A stream that is resumed while a block ends shows its text once.
func TestResumeWhileABlockEnds(t *testing.T) {
	t.Parallel()
	proceed := make(chan struct{})
	start := &interruptedStart{}
	w := newTestServer(t, setup{
		agents: map[string]agent.Agent{"script": scriptedAgent{proceed}},
		change: func(o *Options) { start.sessions, o.Sessions = o.Sessions, start },
	})
	a := w.agent(`{"model":"parley/script"}`)
	first := w.open("/v1/agents/"+a+"/messages", message("go", `,"streaming":true,"stream_tokens":true`))
	var had []frame
	for given := 0; textOf(had) != "I "; {
		m, ok := first.next()
		if !ok {
			t.Fatalf("%+v", had)
		}
		if had = append(had, m); given < 4 { // three thoughts and a word
			proceed <- struct{}{}
			given++
		}
	}
	var rest []frame
	start.happen = func() {
		for range 8 {
			proceed <- struct{}{}
		}
		rest = first.rest()
	}
	at := had[len(had)-1]
	again := w.open("/v1/runs/"+at.Run+"/stream", fmt.Sprintf(`{"starting_after":%d}`, at.Seq)).rest()
	if got, want := assemble(append(slices.Clone(had), again...)), assemble(append(had, rest...)); rest == nil || got != want {
		t.Errorf("has\n%swant\n%s", got, want)
	}
}
