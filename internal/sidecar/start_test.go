package sidecar

import (
	"fmt"
	"slices"
	"testing"

	"github.com/parley-hq/parley/internal/sidecar/sidecartest"
)

// Events of a new agent process are new, also if they equal those of the old one.
func TestTheAgentRestarts(t *testing.T) {
	for _, posts := range []bool{true, false} {
		t.Run(fmt.Sprint("posts its start ", posts), func(t *testing.T) {
			t.Parallel()
			w := newServer(t)
			a := w.agent(sidecartest.Options{})
			r := w.attach(a, nil)
			for i := 1; i <= 3; i++ {
				if posts {
					if code, v := r.post("/event", `{"type":"session.started","payload":{"agent_id":"helper"}}`); code != 200 {
						t.Fatal(v)
					}
				}
				a.Say("agent.text", map[string]any{"text": "Hello."})
				a.Say("agent.text", map[string]any{"text": "I am back."})
				w.until("it is stored", func() bool { return len(w.texts("agent.text", "text")) == 2*i })
				before := r.s.stream.refused.Load()
				a.Kill()
				if posts {
					r.stop() // the whole pod
				} else {
					w.until("the sidecar misses it", func() bool { return r.s.stream.refused.Load() > before })
				}
				if err := a.Boot(); err != nil {
					t.Fatal(err)
				}
				if posts {
					r = w.attach(a, nil)
				}
			}
		})
	}
}

// The agent restarts and posts its start before its stream is read again: events of the old
// process are not taken for events of the new one.
func TestTheAgentPostsItsStartEarly(t *testing.T) {
	t.Parallel()
	w := newServer(t)
	a := w.agent(sidecartest.Options{})
	r := w.attach(a, nil)
	start := func() {
		t.Helper()
		if code, v := r.post("/event", `{"type":"session.started","payload":{"agent_id":"helper"}}`); code != 200 {
			t.Fatal(v)
		}
	}
	start()
	a.Say("agent.text", map[string]any{"text": "one"})
	w.until("it is stored", func() bool { return len(w.texts("agent.text", "text")) == 1 })
	r.stop()
	r = w.attach(a, nil) // the agent repeats its words to it
	a.Say("agent.text", map[string]any{"text": "two"})
	w.until("it is stored", func() bool { return len(w.texts("agent.text", "text")) == 2 })
	before := r.s.stream.refused.Load()
	a.Kill()
	w.until("the sidecar misses it", func() bool { return r.s.stream.refused.Load() > before })
	start()
	if err := a.Boot(); err != nil {
		t.Fatal(err)
	}
	a.Say("agent.text", map[string]any{"text": "one"}) // the new process greets as the old one did
	a.Say("agent.text", map[string]any{"text": "three"})
	w.until("it is stored", func() bool { return len(w.texts("agent.text", "text")) >= 4 })
	if got := w.texts("agent.text", "text"); !slices.Equal(got, []string{"one", "two", "one", "three"}) {
		t.Error(got)
	}
	if n := len(w.texts(startedType, "agent_id")); n != 2 {
		t.Errorf("it started %d times", n)
	}
}

// The agent posts its start after its first events: they belong to the same process, also
// for the next sidecar.
func TestTheAgentPostsItsStartLate(t *testing.T) {
	t.Parallel()
	w := newServer(t)
	a := w.agent(sidecartest.Options{})
	r := w.attach(a, nil)
	a.Say("agent.text", map[string]any{"text": "one"})
	w.until("it is stored", func() bool { return len(w.texts("agent.text", "text")) == 1 })
	if code, v := r.post("/event", `{"type":"session.started","payload":{"agent_id":"helper"}}`); code != 200 {
		t.Fatal(v)
	}
	r.stop()
	w.attach(a, nil)
	a.Say("agent.text", map[string]any{"text": "two"})
	w.until("it is stored", func() bool { return slices.Contains(w.texts("agent.text", "text"), "two") })
	if got := w.texts("agent.text", "text"); !slices.Equal(got, []string{"one", "two"}) {
		t.Error(got)
	}
}

// An agent that got no answer posts its start again, to the next sidecar. It is recognised by
// its key, or because it repeats the stored events.
func TestTheAgentPostsItsStartTwice(t *testing.T) {
	for _, key := range []string{"first", ""} {
		for _, words := range [][]string{nil, {"one", "one", "more"}} {
			t.Run(fmt.Sprintf("key %q words %d", key, len(words)), func(t *testing.T) {
				t.Parallel()
				w := newServer(t)
				a := w.agent(sidecartest.Options{})
				r := w.attach(a, nil)
				start := func() {
					t.Helper()
					if code, v := r.post("/event", fmt.Sprintf(`{"type":"session.started","payload":{"agent_id":"helper"},"client_id":%q}`, key)); code != 200 {
						t.Fatal(v)
					}
				}
				start()
				for _, text := range words {
					a.Say("agent.text", map[string]any{"text": text})
				}
				w.until("it is stored", func() bool { return len(w.texts("agent.text", "text")) == len(words) })
				for _, text := range []string{"two", "three"} {
					r.stop()
					r = w.attach(a, nil)
					start()
					a.Say("agent.text", map[string]any{"text": text})
					words = append(words, text)
					w.until("it is stored", func() bool { return slices.Contains(w.texts("agent.text", "text"), text) })
				}
				if got := w.texts("agent.text", "text"); !slices.Equal(got, words) {
					t.Error(got)
				}
				if n := len(w.texts(startedType, "agent_id")); n != 1 {
					t.Errorf("it started %d times", n)
				}
			})
		}
	}
}

// A message that is sent while the agent is not running is delivered to the next process,
// and its echo is not stored, whenever the process posts its start.
func TestInputWhileTheAgentStarts(t *testing.T) {
	for _, posts := range []bool{true, false} {
		t.Run(fmt.Sprint("posts its start ", posts), func(t *testing.T) {
			t.Parallel()
			w := newServer(t)
			a := w.agent(sidecartest.Options{})
			r := w.attach(a, nil)
			a.Say("agent.text", map[string]any{"text": "ready"})
			w.until("it is stored", func() bool { return len(w.texts("agent.text", "text")) == 1 })
			for i := 1; i <= 4; i++ {
				before := r.s.stream.refused.Load()
				a.Kill()
				w.until("the sidecar misses it", func() bool { return r.s.stream.refused.Load() > before })
				w.tell("are you there?")
				if err := a.Boot(); err != nil {
					t.Fatal(err)
				}
				if posts {
					if code, v := r.post("/event", `{"type":"session.started","payload":{"agent_id":"helper"}}`); code != 200 {
						t.Fatal(v)
					}
				}
				w.until("it is told", func() bool { return len(w.texts(deliveredType, "sequence")) == i })
				a.Say("agent.text", map[string]any{"text": "ready"})
				w.until("it answers", func() bool { return len(w.texts("agent.text", "text")) == 1+i })
				if got := w.texts("user.message", "text"); len(got) != i {
					t.Fatalf("%d: %q", i, got)
				}
			}
			if h, _ := a.Received(); len(h) != 4 {
				t.Errorf("it received %v", h)
			}
		})
	}
}
