package model_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/model"
	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/modeltest"
)

const loopSteps = 10

// loopScript uses a tool ten times, then says so. What it does is a function of
// the conversation.
func loopScript(r modeltest.Request) modeltest.Reply {
	n := len(r.Results())
	if n == loopSteps {
		return modeltest.Reply{Text: "All ten steps are done.", Output: 1}
	}
	name := "once"
	if n%2 == 1 {
		name = "often"
	}
	return modeltest.Reply{Thinking: fmt.Sprintf("Now for number %d.", n), Text: fmt.Sprintf("Step %d is next.", n), Output: 1,
		Calls: []modeltest.Call{{ID: "same", Name: name, Args: fmt.Sprintf(`{"n":%d}`, n)}}}
}

// A process that is killed at any write goes on at the next start: each tool has
// run once, those that may be repeated at most once more, and the answer is the
// same.
func TestKilledAnywhere(t *testing.T) {
	kills := 0
	for writes := int64(4); ; writes += 2 {
		var c counter
		w := newServer(t, model.Options{Tools: []tool.Tool{c.tool("once", false), c.tool("often", true)}}, loopScript)
		w.stop()
		w.start(writes)
		w.say("s-1", "go")
		killed := false
		select {
		case <-w.journal.Killed:
			killed = true
		case <-w.finished("s-1"):
		}
		if killed {
			kills++
			w.stop()
			w.start(0)
		}
		if end := w.ended("s-1", 1); end.Outcome != chat.Done {
			t.Fatalf("killed after %d writes: %+v\n%s", writes, end, w.text("s-1"))
		}
		text := w.text("s-1")
		for n := range loopSteps {
			once, often := c.runs[fmt.Sprintf(`once{"n":%d}`, n)], c.runs[fmt.Sprintf(`often{"n":%d}`, n)]
			if n%2 == 0 && once > 1 || n%2 == 0 && once == 0 && !strings.Contains(text, "unknown_outcome") || n%2 == 1 && (often < 1 || often > 2) {
				t.Fatalf("killed after %d writes: step %d ran %d and %d times\n%s", writes, n, once, often, text)
			}
			if strings.Count(text, fmt.Sprintf(`text "Step %d is next."`, n)) != 1 || strings.Count(text, fmt.Sprintf(`thinking "Now for number %d."`, n)) != 1 {
				t.Fatalf("killed after %d writes: step %d was not said once\n%s", writes, n, text)
			}
		}
		if strings.Count(text, `text "All ten steps are done." final`) != 1 || strings.Contains(text, "partial") {
			t.Fatalf("killed after %d writes\n%s", writes, text)
		}
		w.stop()
		if !killed {
			break
		}
	}
	if kills < 20 {
		t.Errorf("only %d kills", kills)
	}
}

// finished is closed when the first turn has ended.
func (w *testServer) finished(id chat.SessionID) <-chan struct{} {
	done := make(chan struct{})
	killed := w.journal.Killed
	go func() {
		defer close(done)
		for {
			w.mu.Lock()
			moved := w.moved
			w.mu.Unlock()
			if strings.Contains(w.text(id), "turn done") {
				return
			}
			select {
			case <-moved:
			case <-killed:
				return
			}
		}
	}()
	return done
}
