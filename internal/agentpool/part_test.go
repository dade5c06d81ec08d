package agentpool_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// Parts of a turn run at the same time, have their own numbers, and find their
// stored events after a kill at any write.
func TestPartsContinueAfterAKill(t *testing.T) {
	for writes := int64(3); ; writes++ {
		p := newServer(t, agent.Func(func(ctx context.Context, turn *agent.Turn) error {
			var wg sync.WaitGroup
			errs := make([]error, 2)
			for i, name := range []string{"a", "b"} {
				wg.Go(func() { errs[i] = strand(ctx, turn.Part(name), name) })
			}
			wg.Wait()
			for _, err := range errs {
				if err != nil {
					return err
				}
			}
			return turn.Say(ctx, "done")
		}))
		p.start(writes)
		p.begin(chat.NewSession{})
		p.run()
		p.say("go")
		ended := func(evs []chat.Event) bool {
			return len(evs) > 0 && evs[len(evs)-1].Type == "turn.completed"
		}
		alive := p.awaitOrDeath("the end", ended)
		if !alive {
			p.restart(0)
			p.await("the end", ended)
		}
		story := p.logText("s")
		for _, name := range []string{"a", "b"} {
			for _, want := range []string{"first of " + name, "second of " + name, "shown by " + name} {
				if strings.Count(story, want) != 1 {
					t.Fatalf("killed after %d writes: %q is not there once in\n%s", writes, want, story)
				}
			}
		}
		p.kill()
		if alive {
			return
		}
	}
}

// strand stores two events in one commit, and a block that was shown.
func strand(ctx context.Context, part *agent.Turn, name string) error {
	w := part.Part("w").Stream(false)
	for _, piece := range []string{"shown ", "by ", name} {
		if err := w.Write(ctx, piece); err != nil {
			return err
		}
	}
	block, err := w.Finish(ctx)
	if err != nil {
		return err
	}
	events, err := part.AppendAll(ctx, block, chat.AgentStatus{Message: "first of " + name}, chat.AgentStatus{Message: "second of " + name})
	if err == nil && len(events) != 3 {
		return chat.Errorf(chat.Internal, "%d events were kept", len(events))
	}
	return err
}

// A new writer of an open block continues it when the text is the same, and leaves
// it as it is when the text differs, at every attempt.
func TestNewWriterContinuesTheSameText(t *testing.T) {
	p := newServer(t, agent.Func(func(ctx context.Context, turn *agent.Turn) error {
		part := turn.Part("m")
		w := part.Stream(true)
		for _, text := range []string{"one tw", "one two th", "other", "else"} {
			if err := w.Write(ctx, text); err != nil {
				return err
			}
			w.Restart()
		}
		if err := w.Write(ctx, "else at last"); err != nil {
			return err
		}
		body, err := w.Finish(ctx)
		if err != nil {
			return err
		}
		_, err = part.AppendAll(ctx, body)
		return err
	}))
	p.start(0)
	p.begin(chat.NewSession{})
	p.run()
	p.say("go")
	p.awaitEnd(chat.Done)
	var texts []string
	p.mu.Lock()
	for _, e := range p.events {
		if b, ok := e.Body.(chat.AgentText); ok {
			if b.Partial {
				b.Text += "…"
			}
			texts = append(texts, b.Text)
		}
	}
	p.mu.Unlock()
	if got := strings.Join(texts, " | "); got != "one two th… | other… | else at last" {
		t.Error(got)
	}
}
