package letta

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
)

// scriptedAgent writes thoughts, texts and tool calls. Before each piece of text it receives from proceed, unless that is nil.
type scriptedAgent struct{ proceed chan struct{} }

func (s scriptedAgent) Answer(ctx context.Context, t *agent.Turn) error {
	write := func(w *agent.Writer, pieces ...string) error {
		for _, p := range pieces {
			if s.proceed != nil {
				select {
				case <-s.proceed:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			if err := w.Write(ctx, p); err != nil {
				return err
			}
		}
		return w.Close(ctx)
	}
	echo := func(context.Context) (json.RawMessage, error) { return json.RawMessage(`{"ok":true}`), nil }
	steps := []func() error{
		func() error { return write(t.Think(), "Let ", "me ", "see. ") },
		func() error { return t.Status(ctx, "working", "") },
		func() error { return write(t.Stream(false), "I ", "look ", "it ", "up — ") },
		func() error { return write(t.Stream(false), "now. ") },
		func() error {
			_, err := t.Call(ctx, "search", json.RawMessage(`{"q":"x"}`), agent.CallOptions{}, echo)
			return err
		},
		func() error {
			return t.Usage(ctx, chat.AgentUsage{Model: "m", Usage: chat.Usage{InputTokens: 5, OutputTokens: 2}})
		},
		func() error {
			_, err := t.Append(ctx, chat.AgentThinking{Redacted: "opaque"})
			return err
		},
		func() error { return t.Say(ctx, "Said at once. ") },
		func() error {
			_, err := t.Call(ctx, "read", json.RawMessage(`{}`), agent.CallOptions{}, echo)
			return err
		},
		func() error { return write(t.Stream(true), "It ", "is ", "ünï", "códe.") },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// assemble joins frames as a client does: the kind and text of each part of a message, in order, and the end.
func assemble(frames []frame) string {
	var order []string
	text := map[string]string{}
	for _, m := range frames {
		key := m.Type + " " + m.ID[max(0, len(m.ID)-8):] + " " + m.OTID[max(0, len(m.OTID)-8):] + " " + m.Call.ID + m.Return
		if _, ok := text[key]; !ok {
			order = append(order, key)
		}
		s, _ := m.Content.(string)
		text[key] += s + m.Thought + m.Stop
	}
	var b strings.Builder
	for _, key := range order {
		fmt.Fprintf(&b, "%s: %s\n", key, text[key])
	}
	return b.String()
}

// A stream that is cut after any frame is completed by the stream after that frame's position, live or late.
func TestStreamIsResumedAfterEveryFrame(t *testing.T) {
	for _, tokens := range []string{"false", "true"} {
		t.Run("tokens="+tokens, func(t *testing.T) {
			t.Parallel()
			proceed := make(chan struct{})
			w := newTestServer(t, setup{agents: map[string]agent.Agent{"script": scriptedAgent{proceed}}})
			a := w.agent(`{"model":"parley/script"}`)
			r := w.open("/v1/agents/"+a+"/messages", message("go", `,"streaming":true,"stream_tokens":`+tokens))
			first, _ := r.next()
			run := first.Run
			var live []frame
			done := make(chan struct{})
			go func() {
				defer close(done)
				live = r.rest()
			}()
			resume := func(after int64) []frame {
				return w.open("/v1/runs/"+run+"/stream", fmt.Sprintf(`{"starting_after":%d,"include_pings":false}`, after)).rest()
			}
			// Readers that join while it is written, from the beginning.
			late := make(chan []frame, 20)
			readers := 0
			for range 12 {
				proceed <- struct{}{}
				readers++
				go func() { late <- resume(0) }()
			}
			<-done
			want := assemble(live)
			for range readers {
				if got := assemble(<-late); got != want {
					t.Errorf("a late reader has\n%swant\n%s", got, want)
				}
			}
			if !r.done || !strings.Contains(want, "I look it up — now. ") || !strings.Contains(want, "ünïcóde.") {
				t.Fatalf("done %v\n%s", r.done, want)
			}
			last := first.Seq
			for i, m := range live {
				if m.Seq <= last {
					t.Errorf("frame %d (%s) has position %d after %d", i, m.Type, m.Seq, last)
				}
				last = m.Seq
			}
			for cut := range live {
				got := append(append([]frame{}, live[:cut+1]...), resume(live[cut].Seq)...)
				if p := assemble(got); p != want {
					t.Errorf("cut after frame %d:\n%swant\n%s", cut, p, want)
				}
			}
			// What a reader of a finished run gets can be cut too.
			whole := resume(0)
			if p := assemble(whole); p != want {
				t.Errorf("replayed:\n%swant\n%s", p, want)
			}
			for cut := range whole {
				got := append(append([]frame{}, whole[:cut+1]...), resume(whole[cut].Seq)...)
				if p := assemble(got); p != want {
					t.Errorf("replayed and cut after frame %d:\n%swant\n%s", cut, p, want)
				}
			}
		})
	}
}

// The parts of a message have the same ids in streams and in lists.
func TestStreamsAndListsHaveTheSameIDs(t *testing.T) {
	w := newTestServer(t, setup{agents: map[string]agent.Agent{"script": scriptedAgent{}}})
	a := w.agent(`{"model":"parley/script"}`)
	frames := w.open("/v1/agents/"+a+"/messages", message("go", `,"streaming":true,"stream_tokens":true`)).rest()
	listed := get[[]frame](w, "GET", "/v1/runs/"+frames[0].Run+"/messages", "")
	type name struct{ id, otid, kind, step string }
	names := func(list []frame) (out []name) {
		for _, m := range list {
			n := name{m.ID, m.OTID, m.Type, m.Step}
			if m.ID != "" && m.Type != stream.KindUser && (len(out) == 0 || out[len(out)-1] != n) {
				out = append(out, n)
			}
		}
		return out
	}
	if got, want := fmt.Sprint(names(frames)), fmt.Sprint(names(listed)); got != want {
		t.Errorf("streamed\n%s\nlisted\n%s", got, want)
	}
	whole := w.say(a, "go")
	var says []string
	for _, m := range whole.Messages {
		says = append(says, m.Type)
	}
	want := "reasoning_message assistant_message tool_call_message tool_return_message hidden_reasoning_message assistant_message tool_call_message tool_return_message assistant_message"
	if got := strings.Join(says, " "); got != want {
		t.Errorf("whole messages: %s\nwant %s", got, want)
	}
}

// A message that is sent while the agent writes has its own id.
func TestMessageDuringATextHasItsOwnID(t *testing.T) {
	proceed := make(chan struct{})
	w := newTestServer(t, setup{agents: map[string]agent.Agent{"script": scriptedAgent{proceed}}})
	a := w.agent(`{"model":"parley/script","metadata":{"parley.busy":"queue"}}`)
	r := w.open("/v1/agents/"+a+"/messages", message("go", `,"streaming":true,"stream_tokens":true`))
	if _, ok := r.next(); !ok {
		t.Fatal("no ping")
	}
	// It is in the log before the agent has said anything.
	queued := w.open("/v1/agents/"+a+"/messages", message("and then?", `,"streaming":true`))
	if m, _ := queued.next(); m.Type != stream.KindPing {
		t.Fatalf("%+v", m)
	}
	go func() {
		for range 24 {
			proceed <- struct{}{}
		}
	}()
	frames := r.rest()
	queued.rest()
	listed := get[[]frame](w, "GET", "/v1/agents/"+a+"/messages?order=asc", "")
	seen := map[string]int{}
	for _, m := range listed {
		seen[m.ID+m.OTID]++
	}
	for k, n := range seen {
		if n > 1 {
			t.Errorf("%s is there %d times", k, n)
		}
	}
	for _, m := range frames {
		if m.ID != "" && seen[m.ID+m.OTID] == 0 {
			t.Errorf("%s %s %s was streamed and is not in the list", m.Type, m.ID, m.OTID)
		}
	}
}
