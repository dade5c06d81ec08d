package sidecar

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/sidecar/sidecartest"
)

// numbers are count texts, each once.
func numbers(from, to int) (want []string) {
	for i := from; i < to; i++ {
		want = append(want, fmt.Sprintf("n%d", i))
	}
	return want
}

func say(a *sidecartest.Agent, from, to int) {
	for _, text := range numbers(from, to) {
		a.Say("agent.text", map[string]any{"text": text})
	}
}

func (w *testServer) agentEvent(to int) {
	w.t.Helper()
	want := numbers(0, to)
	w.until(fmt.Sprintf("%d texts are stored", to), func() bool { return len(w.texts("agent.text", "text")) >= to })
	if got := w.texts("agent.text", "text"); !slices.Equal(got, want) {
		w.t.Fatalf("stored are %v", got)
	}
}

func TestAConversation(t *testing.T) {
	t.Parallel()
	w := newServer(t)
	a := w.agent(sidecartest.Options{})
	a.Say("user.message", map[string]any{"text": "the prompt it was started with"})
	r := w.attach(a, nil)
	if code, v := r.post("/event", `{"type":"session.started","payload":{"agent_id":"helper"}}`); code != 200 || v["sequence"] == nil {
		t.Fatal(code, v)
	}
	say(a, 0, 3)
	w.agentEvent(3)
	w.tell("hello")
	w.tell("again")
	w.tell("again")
	w.until("the agent received all", func() bool { h, _ := a.Received(); return len(h) == 3 })
	received, _ := a.Received()
	if received[0]["text"] != "hello" || received[2]["text"] != "again" || received[1]["sequence"] == received[2]["sequence"] {
		t.Fatal(received)
	}
	say(a, 3, 5)
	w.agentEvent(5)
	// The echoes of the agent are no second facts; the prompt it was started
	// with is one.
	if got := w.texts("user.message", "text"); !slices.Equal(got, []string{"the prompt it was started with", "hello", "again", "again"}) {
		t.Fatal(got)
	}
	// Presence becomes a keepalive; so does a message.
	before, _ := a.Signals()
	root := w.root()
	w.until("presence becomes a keepalive", func() bool {
		if err := root.Publish(x1.Subject(me, x1.Presence), []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		now, _ := a.Signals()
		return now > before
	})
	for _, e := range []string{
		`{"type":"agent.status","payload":{"status":"working","detail":"hard"}}`,
		`{"type":"agent.artifact","payload":{"artifact_type":"table","title":"T","content":"a,b"}}`,
		`{"type":"agent.share","payload":{"share_id":"sh1","title":"Report","share_type":"html","path":"report.html"}}`,
	} {
		if code, v := r.post("/event", e); code != 200 {
			t.Fatal(code, v)
		}
	}
	if code, v := r.post("/event", `{"type":"user.message","payload":{"text":"forged"}}`); code != 400 {
		t.Fatal("an agent cannot speak for people", code, v)
	}
	if code, v := r.post("/event", `nonsense`); code != 400 {
		t.Fatal(code, v)
	}
	r.stop()
	types := w.types()
	for _, want := range []string{"x1.session.started", "agent.status", "agent.artifact", "agent.share", x1.AttachedType, x1.DetachedType} {
		if !slices.Contains(types, want) {
			t.Errorf("%s is not stored: %v", want, types)
		}
	}
	for i, e := range w.log() {
		if e.Seq != chat.Seq(i+1) {
			t.Fatalf("place %d has number %d", i+1, e.Seq)
		}
	}
}

// A permission request names its call, its decision is one event, and the agent gets it.
func TestPermission(t *testing.T) {
	t.Parallel()
	w := newServer(t)
	a := w.agent(sidecartest.Options{})
	r := w.attach(a, nil)
	code, v := r.post("/event", `{"type":"agent.permission_request","payload":{"scopes":["deploy"],"justification":"to ship","requested_tool":"deploy","requested_args":{"b":1,"a":2}}}`)
	if code != 200 || v["request_id"] == nil {
		t.Fatal(code, v)
	}
	if got := w.texts("agent.permission_request", "requested_args"); len(got) != 1 || got[0] != "map[a:2 b:1]" {
		t.Fatal(got)
	}
	granted := []string{"deploy"}
	who := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "carol"}, Scopes: []chat.Scope{chat.ScopeAdmin}}
	if _, err := w.Sessions.Answer(t.Context(), who, me, v["request_id"].(string), chat.Answer{Granted: &granted}); err != nil {
		t.Fatal(err)
	}
	w.until("the agent is woken", func() bool { h, _ := a.Received(); return len(h) == 1 })
	received, _ := a.Received()
	if received[0]["text"] != "Permission granted: deploy" || received[0]["sender_id"] != "carol" || received[0]["permission_request_id"] != v["request_id"] {
		t.Fatal(received)
	}
	say(a, 0, 1)
	w.agentEvent(1)
	if got := w.texts("user.message", "text"); len(got) != 0 {
		t.Fatalf("the wake is no fact of its own: %v", got)
	}
}

// Each event is stored once and in order, in any order of restarts.
func TestRestarts(t *testing.T) {
	for name, again := range map[string]func(w *testServer, a *sidecartest.Agent, r *running) *running{
		"the stream is cut": func(_ *testServer, a *sidecartest.Agent, r *running) *running { a.Cut(); return r },
		"the sidecar":       func(w *testServer, a *sidecartest.Agent, r *running) *running { r.stop(); return w.attach(a, nil) },
		"the server":        func(w *testServer, _ *sidecartest.Agent, r *running) *running { w.stop(); w.start(); return r },
	} {
		for _, opt := range []sidecartest.Options{{}, {IDs: true, Chunk: 3}} {
			t.Run(fmt.Sprint(name, opt.IDs), func(t *testing.T) {
				t.Parallel()
				w := newServer(t)
				a := w.agent(opt)
				r := w.attach(a, nil)
				for i := range 4 {
					say(a, 10*i, 10*i+5)
					a.Say("agent.status", map[string]any{"message": "the same each time"})
					if i%2 == 0 {
						w.agentEvent(10*i + 5)
					}
					w.tell("same words")
					r = again(w, a, r)
					say(a, 10*i+5, 10*i+10)
					w.agentEvent(10*i + 10)
				}
				w.until("all was delivered", func() bool { h, _ := a.Received(); return len(h) >= 4 })
				w.until("all is written down", func() bool { return len(w.texts(deliveredType, "sequence")) == 4 })
				if got := w.texts("agent.status", "message"); len(got) != 4 {
					t.Errorf("stored are %d states", len(got))
				}
				if got := w.texts("user.message", "text"); len(got) != 4 {
					t.Errorf("stored are %v", got)
				}
				if h, _ := a.Received(); len(h) != 4 {
					t.Errorf("the agent received %v", h)
				}
			})
		}
	}
}

// An agent sent more events than it can repeat while no sidecar was connected: those that it
// repeats are stored once, and a note tells of the gap.
func TestAnOverflowedReplayBufferLeavesANote(t *testing.T) {
	t.Parallel()
	w := newServer(t)
	a := w.agent(sidecartest.Options{Memory: 20})
	short := func(o *Options) { o.Replay = 20 }
	r := w.attach(a, short)
	say(a, 0, 15)
	w.agentEvent(15)
	r.stop()
	say(a, 15, 30) // it repeats 10 to 29
	r = w.attach(a, short)
	w.agentEvent(30)
	r.stop()
	say(a, 30, 60) // it repeats 40 to 59
	w.attach(a, short)
	w.until("what there is is stored", func() bool { return len(w.texts("agent.text", "text")) >= 50 })
	if got := w.texts("agent.text", "text"); !slices.Equal(got, append(numbers(0, 30), numbers(40, 60)...)) {
		t.Fatal(got)
	}
	if got := w.texts("agent.status", "message"); len(got) != 1 || !strings.Contains(got[0], "missing") {
		t.Fatal(got)
	}
}

// Repetitions are recognised also if the agent's buffer is smaller than configured.
func TestAReplayBufferSmallerThanConfigured(t *testing.T) {
	t.Parallel()
	w := newServer(t)
	a := w.agent(sidecartest.Options{Memory: 10})
	r := w.attach(a, nil)
	say(a, 0, 10)
	w.agentEvent(10)
	for i := 1; i <= 3; i++ {
		say(a, 10*i, 10*i+5)
		w.agentEvent(10*i + 5)
		r.stop()
		say(a, 10*i+5, 10*i+10)
		r = w.attach(a, nil)
		w.agentEvent(10*i + 10)
	}
	if got := w.texts("agent.status", "message"); len(got) != 0 {
		t.Error(got)
	}
}

func TestAnInputThatTheAgentRefusesIsSetAside(t *testing.T) {
	t.Parallel()
	w := newServer(t)
	a := w.agent(sidecartest.Options{})
	w.attach(a, nil)
	a.Refuse(2)
	w.tell("testTimeout")
	w.until("the third attempt succeeds", func() bool { h, _ := a.Received(); return len(h) == 1 })
	a.Refuse(3)
	w.tell("in vain")
	w.tell("after it")
	w.until("the next one is delivered", func() bool { h, _ := a.Received(); return len(h) == 2 })
	w.until("it is set aside", func() bool { return len(w.texts(undeliveredType, "sequence")) == 1 })
	if got := w.texts("agent.error", "message"); len(got) != 1 || !strings.Contains(got[0], "set aside") {
		t.Fatal(got)
	}
	received, _ := a.Received()
	if received[0]["text"] != "testTimeout" || received[1]["text"] != "after it" {
		t.Fatal(received)
	}
}

// Messages from before the first sidecar are delivered, unless they were answered.
func TestWaitingInputsAreDelivered(t *testing.T) {
	t.Parallel()
	w := newServer(t)
	c := chat.Trusted
	if _, _, err := w.Sessions.Create(t.Context(), c, chat.NewSession{ID: me, Agent: chat.NoAgent}); err != nil {
		t.Fatal(err)
	}
	w.tell("answered")
	if _, err := w.Sessions.Append(t.Context(), c, me, []chat.Draft{chat.NewDraft(chat.AgentText{Text: "Yes."})}); err != nil {
		t.Fatal(err)
	}
	w.tell("not answered")
	a := w.agent(sidecartest.Options{})
	w.attach(a, nil)
	w.until("it is delivered", func() bool { return len(w.texts(deliveredType, "sequence")) == 1 })
	if h, _ := a.Received(); len(h) != 1 || h[0]["text"] != "not answered" {
		t.Fatal(h)
	}
}

// The session ends with its agent, and then the sidecar does.
func TestTheSidecarEndsWithItsAgent(t *testing.T) {
	t.Parallel()
	w := newServer(t)
	a := w.agent(sidecartest.Options{})
	r := w.attach(a, nil)
	a.Say("agent.text", map[string]any{"text": "Done."})
	a.Say("session.completed", map[string]any{})
	w.until("it is completed", func() bool { return slices.Contains(w.types(), "session.completed") })
	a.Kill()
	r.end("")
	if err := a.Boot(); err != nil {
		t.Fatal(err)
	}
}

func TestTheSidecarGivesUpOnAnUnreachableAgent(t *testing.T) {
	t.Parallel()
	w := newServer(t)
	a := w.agent(sidecartest.Options{})
	r := w.attach(a, func(o *Options) { o.Wait = 50 * time.Millisecond })
	a.Say("agent.text", map[string]any{"text": "Here."})
	w.until("it spoke", func() bool { return len(w.texts("agent.text", "text")) == 1 })
	a.Kill()
	r.end("is it running?")
	if err := a.Boot(); err != nil {
		t.Fatal(err)
	}
	if got := w.texts("agent.error", "message"); len(got) != 1 {
		t.Fatal(got)
	}
}
