package session

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/parley-hq/parley/chat"
)

// TestRandomWorkstreamOperations runs random operations on random workstreams. The state in
// memory is always equal to the fold of the log, no workstream ends twice or works after
// its end, and after enough time all have ended and no message is queued.
func TestRandomWorkstreamOperations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := startTestStore(t, Options{})
		defer w.close()
		w.now.Store(time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC).UnixMicro())
		id := w.begin("s")
		names := []string{""}
		pick := func() string { return rapid.SampledFrom(names).Draw(t, "line") }
		pass := func(d time.Duration) {
			w.now.Add(d.Microseconds())
			w.runDue(ctx)
		}
		endTurn := func(line string, o chat.Outcome) {
			if tr := w.state(id).Line(line).Turn; tr != nil {
				w.end(chat.TurnRef{Session: id, Turn: tr.ID, Attempt: tr.Attempt}, o)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"launch": func(t *rapid.T) {
				l := chat.Launch{
					ID: fmt.Sprintf("w%d", len(names)), Instruction: "work", Parent: pick(), Interactive: rapid.Bool().Draw(t, "interactive"),
					DeadlineSeconds: float64(rapid.IntRange(30, 200).Draw(t, "deadline")),
				}
				if _, err := w.Launch(ctx, ann, id, l); err == nil {
					names = append(names, l.ID)
				} else if c := chat.CodeOf(err); c != chat.Conflict && c != chat.Denied {
					t.Fatal(err)
				}
			},
			"message": func(t *rapid.T) {
				_, err := w.MessageWorkstream(ctx, ann, id, pick(), chat.Steering{Text: "more"})
				expected(t, err)
			},
			"steer": func(t *rapid.T) {
				command := rapid.SampledFrom([]string{chat.SteerAdd, chat.SteerPause, chat.SteerResume}).Draw(t, "command")
				_, err := w.SteerWorkstream(ctx, ann, id, pick(), chat.Steering{Command: command, Text: "x"})
				expected(t, err)
			},
			"say": func(t *rapid.T) {
				d := chat.NewDraft(chat.UserMessage{Text: "hello"})
				d.Workstream = pick()
				_, err := w.Append(ctx, ann, id, []chat.Draft{d})
				expected(t, err)
			},
			"terminate": func(t *rapid.T) {
				_, err := w.TerminateWorkstream(ctx, ann, id, pick(), chat.Steering{})
				expected(t, err)
			},
			"stop": func(t *rapid.T) {
				_, err := w.Stop(ctx, ann, id, pick(), "")
				expected(t, err)
			},
			"take": func(t *rapid.T) {
				if tr := w.state(id).Line(pick()).Turn; tr != nil {
					if _, err := w.TakeEvents(ctx, chat.TurnRef{Session: id, Turn: tr.ID, Attempt: tr.Attempt}); err != nil {
						t.Fatal(err)
					}
				}
			},
			"end": func(t *rapid.T) {
				endTurn(pick(), rapid.SampledFrom([]chat.Outcome{chat.Done, chat.Done, chat.Stopped, chat.Failed}).Draw(t, "outcome"))
			},
			"pass": func(t *rapid.T) { pass(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second) },
			"restart": func(t *rapid.T) {
				w.restart()
				if err := w.scheduleAll(ctx); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) { w.checkWork(t, id) },
		})
		// All workstreams end: deadlines pass, and queued messages are answered.
		for range 100 {
			pass(2000 * time.Second)
			for _, name := range names {
				endTurn(name, chat.Done)
			}
		}
		st := w.state(id)
		for _, s := range st.Workstreams {
			if !s.Ended() && !s.Interactive {
				t.Fatalf("%s is %s for ever\n%s", s.ID, s.State, w.saga(id))
			}
		}
		if st.Busy() {
			t.Fatalf("there is always something to do\n%s", w.saga(id))
		}
	})
}

// expected fails the test on an error that is not about the state of a workstream.
func expected(t *rapid.T, err error) {
	switch chat.CodeOf(err) {
	case "", chat.Conflict, chat.NotFound, chat.Invalid, chat.SlowDown:
	default:
		t.Fatal(err)
	}
}

// checkWork compares the state in memory with the log.
func (w *testStore) checkWork(t *rapid.T, id chat.SessionID) {
	live := w.state(id)
	folded := &chat.State{Number: live.Number}
	ends := map[string]int{}
	for _, e := range w.events(id) {
		// Events about the children may follow on a line after its end.
		if s := folded.Workstream(e.Workstream); s != nil && s.Ended() && !strings.HasPrefix(e.Type, "workstream.") {
			t.Fatalf("%s works after its end: %s\n%s", s.ID, e.Type, w.saga(id))
		}
		folded.Apply(&e)
		switch b := e.Body.(type) {
		case chat.WorkstreamCompleted:
			ends[b.ID]++
		case chat.WorkstreamFailed:
			ends[b.ID]++
		case chat.WorkstreamTimeout:
			ends[b.ID]++
		case chat.WorkstreamCanceled:
			ends[b.ID]++
		}
	}
	a, _ := json.Marshal(live)
	b, _ := json.Marshal(folded)
	if string(a) != string(b) {
		t.Fatalf("in memory\n%s\nin the log\n%s", a, b)
	}
	for _, s := range live.Workstreams {
		if n := ends[s.ID]; n > 1 || s.Ended() != (n == 1) {
			t.Fatalf("%s is %s and ended %d times\n%s", s.ID, s.State, n, w.saga(id))
		}
		if l := live.Line(s.ID); s.Ended() && (l.Turn != nil || l.Next() != 0) {
			t.Fatalf("%s has ended and has something to do\n%s", s.ID, w.saga(id))
		}
	}
}
