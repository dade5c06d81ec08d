package letta

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// launchingAgent launches a workstream in the middle of a text and ends the text when the workstream has ended.
type launchingAgent struct{ ended chan struct{} }

func (b launchingAgent) Answer(ctx context.Context, t *agent.Turn) error {
	s := t.Stream(false)
	if err := s.Write(ctx, "I look, "); err != nil {
		return err
	}
	if _, err := t.Launch(ctx, chat.Launch{ID: "w1", Name: "Mine", Instruction: "/echo gold", Agent: "demo"}); err != nil {
		return err
	}
	select {
	case <-b.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := s.Write(ctx, "and wait. "); err != nil {
		return err
	}
	if err := s.Close(ctx); err != nil {
		return err
	}
	if _, err := t.Await(ctx, "w1"); err != nil {
		return err
	}
	return t.Say(ctx, "There is gold.")
}

// A stream shows the launch and the end of workstreams with the ids of the list. The agent's text keeps its id.
func TestWorkstreamsAreSystemMessages(t *testing.T) {
	for _, tokens := range []string{"false", "true"} {
		t.Run("tokens="+tokens, func(t *testing.T) {
			ended := make(chan struct{})
			w := newTestServer(t, setup{agents: map[string]agent.Agent{"boss": launchingAgent{ended}}})
			a := w.agent(`{"model":"parley/boss"}`)
			r := w.open("/v1/agents/"+a+"/messages", message("go", `,"streaming":true,"stream_tokens":`+tokens))
			first, _ := r.next()
			for batch, err := range w.Sessions.Watch(t.Context(), owner, chat.SessionID(a), core.Start{Cursor: &chat.Cursor{}}, nil) {
				if err != nil {
					t.Fatal(err)
				}
				found := false
				for i := range batch.Entries {
					found = found || batch.Entries[i].Label.Type == chat.WorkstreamCompleted{}.Type()
				}
				if found {
					break
				}
			}
			close(ended)
			live := r.rest()

			var says []string // what a client has put together, in the order of the list
			text, last := map[string]string{}, first.Seq
			for _, m := range live {
				key := m.Type + " " + m.ID + " " + m.OTID
				if m.Run != first.Run {
					t.Errorf("%s is of run %q", key, m.Run)
				}
				if m.Seq <= last {
					t.Errorf("%s has position %d after %d", key, m.Seq, last)
				}
				last = m.Seq
				s, _ := m.Content.(string)
				text[key] += s
			}
			listed := get[[]frame](w, "GET", "/v1/agents/"+a+"/messages?order=asc", "")
			for _, m := range listed[1:] {
				key := m.Type + " " + m.ID + " " + m.OTID
				if text[key] != m.Content {
					t.Errorf("%s: %q was streamed and %q is listed", key, text[key], m.Content)
				}
				says = append(says, m.Type+": "+m.Content.(string))
			}
			want := "system_message: Workstream w1 (Mine) was launched: /echo gold\n" +
				"system_message: Workstream w1 completed. gold\n" +
				"assistant_message: I look, and wait. \n" +
				"assistant_message: There is gold."
			if got := strings.Join(says, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if of := get[[]frame](w, "GET", "/v1/runs/"+first.Run+"/messages", ""); len(of) != len(listed) {
				t.Errorf("the run has %d of %d messages", len(of), len(listed))
			}
			all := assemble(live)
			for cut := range live {
				rest := w.open("/v1/runs/"+first.Run+"/stream", fmt.Sprintf(`{"starting_after":%d,"include_pings":false}`, live[cut].Seq)).rest()
				if p := assemble(append(append([]frame{}, live[:cut+1]...), rest...)); p != all {
					t.Errorf("cut after frame %d:\n%swant\n%s", cut, p, all)
				}
			}
		})
	}
}
