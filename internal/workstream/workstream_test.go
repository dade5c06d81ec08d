package workstream

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/parley-hq/parley/chat"
)

const second = chat.At(1_000_000)

const begin = 1000 * second

func running(seconds float64) *chat.Workstream {
	return &chat.Workstream{
		WorkstreamLaunched: chat.WorkstreamLaunched{ID: "w", LaunchID: "l-1", DeadlineSeconds: seconds}, State: chat.WorkRunning, LaunchedAt: begin,
	}
}

func types(bodies []chat.Body) string {
	var out []string
	for _, b := range bodies {
		name := strings.TrimPrefix(b.Type(), "workstream.")
		switch b := b.(type) {
		case chat.WorkstreamWarning:
			name += map[float64]string{0.75: " 75", 0.9: " 90"}[b.Share]
		case chat.WorkstreamSteered:
			name += " " + b.Command
		}
		out = append(out, name)
	}
	return strings.Join(out, ", ")
}

func TestDueEvents(t *testing.T) {
	tests := []struct {
		name   string
		at     float64 // share of the deadline
		change func(w *chat.Workstream)
		want   string
	}{
		{"at its launch", 0, nil, ""},
		{"just before the first warning", 0.7499, nil, ""},
		{"the first warning", 0.75, nil, "warning 75"},
		{"warned already", 0.79, func(w *chat.Workstream) { w.Warned = 0.75 }, ""},
		{"to wrap up", 0.80, func(w *chat.Workstream) { w.Warned = 0.75 }, "steered wrap_up"},
		{"already sent", 0.85, func(w *chat.Workstream) { w.Warned, w.WrappingUp = 0.75, true }, ""},
		{"the last warning", 0.90, func(w *chat.Workstream) { w.Warned, w.WrappingUp = 0.75, true }, "warning 90"},
		{"everything was sent", 0.95, func(w *chat.Workstream) { w.Warned, w.WrappingUp = 0.9, true }, ""},
		{"the deadline", 1, func(w *chat.Workstream) { w.Warned, w.WrappingUp = 0.9, true }, "timeout"},
		{"overdue, before the last warning", 0.85, nil, "warning 75, steered wrap_up"},
		{"overdue, only the last warning", 0.95, nil, "warning 90, steered wrap_up"},
		{"overdue, past the deadline", 7, nil, "timeout"},
		{"a pause does not stop the clock", 1, func(w *chat.Workstream) { w.Paused = true }, "timeout"},
		{"it is ending", 0.95, func(w *chat.Workstream) { w.State, w.CancelBy = chat.WorkCanceling, begin+1000*second }, ""},
		{"it did not end in its grace", 0.95, func(w *chat.Workstream) { w.State, w.CancelBy = chat.WorkCanceling, begin+94*second }, "canceled"},
		{"its deadline passes while it is ending", 1, func(w *chat.Workstream) { w.State, w.CancelBy = chat.WorkCanceling, begin+1000*second }, "canceled"},
		{"it has ended", 2, func(w *chat.Workstream) { w.State, w.EndedAt = chat.WorkCompleted, begin+second }, ""},
		{"interactive and idle", 9, func(w *chat.Workstream) { w.Interactive, w.Worked = true, 1000 }, ""},
		{"interactive, worked before", 0.5, func(w *chat.Workstream) { w.Interactive, w.Since, w.Worked = true, begin, 30_000 }, "warning 75, steered wrap_up"},
		{"interactive, used up", 0.5, func(w *chat.Workstream) { w.Interactive, w.Since, w.Worked = true, begin, 50_000 }, "timeout"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := running(100)
			if test.change != nil {
				test.change(w)
			}
			now := begin + chat.At(test.at*100*float64(second))
			if got := types(Due(w, now)); got != test.want {
				t.Fatalf("due is %q, not %q", got, test.want)
			}
			if next := nextDue(w); test.want != "" && (next == 0 || next > now) || test.want == "" && next != 0 && next <= now {
				t.Fatalf("the next event is due at %d, now is %d, and due is %q", next, now, test.want)
			}
		})
	}
}

// However late due events are collected, each is returned at most once and in order, and the workstream ends.
func TestEveryWorkstreamEndsAtItsDeadline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := running(float64(rapid.IntRange(30, 1800).Draw(t, "deadline")))
		var events []string
		for range 20 {
			next := nextDue(w)
			if next == 0 {
				break
			}
			now := next + chat.At(rapid.Int64Range(0, 600_000_000).Draw(t, "late"))
			due := Due(w, now)
			if len(due) == 0 {
				t.Fatalf("nothing is due at %d, the time that Next returned", next)
			}
			events = append(events, types(due))
			for _, body := range due {
				switch b := body.(type) {
				case chat.WorkstreamWarning:
					if b.Share <= w.Warned {
						t.Fatalf("warned of %g after %g", b.Share, w.Warned)
					}
					w.Warned = b.Share
				case chat.WorkstreamSteered:
					if w.WrappingUp {
						t.Fatal("two directives to wrap up")
					}
					w.WrappingUp = true
				case chat.WorkstreamTimeout:
					w.State, w.EndedAt = chat.WorkTimeout, now
				}
			}
		}
		if w.State != chat.WorkTimeout {
			t.Fatalf("it never ended: %v", events)
		}
	})
}

func TestClockStopsAtTheEndAndWhileIdle(t *testing.T) {
	w := running(100)
	if d := elapsed(w, begin+25*second); d != 25*time.Second || Share(w, begin+25*second) != 0.25 || deadlineAt(w) != begin+100*second {
		t.Fatal(d, Share(w, begin+25*second), deadlineAt(w))
	}
	if Share(w, begin+500*second) != 1 {
		t.Fatal("more than all of the time has passed")
	}
	w.State, w.EndedAt = chat.WorkCompleted, begin+40*second
	if d := elapsed(w, begin+500*second); d != 40*time.Second || deadlineAt(w) != 0 {
		t.Fatal("the clock runs after the end", d)
	}
	w = running(100)
	w.Interactive, w.Worked = true, 20_000
	if d := elapsed(w, begin+500*second); d != 20*time.Second || deadlineAt(w) != 0 {
		t.Fatal("the clock of an idle one runs", d)
	}
	w.Since = begin + 500*second
	if d := elapsed(w, begin+510*second); d != 30*time.Second || deadlineAt(w) != begin+580*second {
		t.Fatal(d, deadlineAt(w))
	}
}

func TestLaunchIsChecked(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	tests := []struct {
		name string
		l    chat.Launch
		want chat.Code
	}{
		{"the least", chat.Launch{ID: "a_1", Instruction: "do"}, ""},
		{"no id", chat.Launch{Instruction: "do"}, chat.Invalid},
		{"the main line's id", chat.Launch{ID: "main", Instruction: "do"}, chat.Invalid},
		{"a reserved id", chat.Launch{ID: "all", Instruction: "do"}, chat.Invalid},
		{"an id with a slash", chat.Launch{ID: "a/b", Instruction: "do"}, chat.Invalid},
		{"no instruction", chat.Launch{ID: "a"}, chat.Invalid},
		{"a long instruction", chat.Launch{ID: "a", Instruction: long}, chat.TooLarge},
		{"the shortest deadline", chat.Launch{ID: "a", Instruction: "do", DeadlineSeconds: 30}, ""},
		{"the longest deadline", chat.Launch{ID: "a", Instruction: "do", DeadlineSeconds: 1800}, ""},
		{"a deadline that is too short", chat.Launch{ID: "a", Instruction: "do", DeadlineSeconds: 29.9}, chat.Invalid},
		{"a deadline that is too long", chat.Launch{ID: "a", Instruction: "do", DeadlineSeconds: 1801}, chat.Invalid},
		{"a deadline in the past", chat.Launch{ID: "a", Instruction: "do", DeadlineSeconds: -1}, chat.Invalid},
		{"no agent", chat.Launch{ID: "a", Instruction: "do", Agent: chat.NoAgent}, chat.Invalid},
		{"a context that is not an object", chat.Launch{ID: "a", Instruction: "do", Context: json.RawMessage(`[1]`)}, chat.Invalid},
		{"a tool without a name", chat.Launch{ID: "a", Instruction: "do", AllowedTools: []string{""}}, chat.Invalid},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b, err := Launched(test.l)
			if chat.CodeOf(err) != test.want {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if err == nil && test.l.DeadlineSeconds == 0 && b.DeadlineSeconds != 300 {
				t.Fatalf("the deadline is %g", b.DeadlineSeconds)
			}
		})
	}
}

func TestLaunchLimits(t *testing.T) {
	st := &chat.State{}
	add := func(id, parent, state string) {
		st.Workstreams = append(st.Workstreams, &chat.Workstream{WorkstreamLaunched: chat.WorkstreamLaunched{ID: id}, Parent: parent, State: state})
	}
	add("a", "", chat.WorkRunning)
	add("b", "a", chat.WorkRunning)
	add("c", "b", chat.WorkRunning)
	add("old", "", chat.WorkCompleted)
	for _, test := range []struct {
		parent, id string
		want       chat.Code
	}{
		{"", "new", ""}, {"a", "new", ""}, {"b", "new", ""},
		{"c", "new", chat.Denied}, // too deep
		{"", "a", chat.Conflict}, {"", "old", chat.Conflict},
		{"old", "new", chat.Conflict}, {"gone", "new", chat.NotFound},
	} {
		if err := CheckLaunch(st, test.parent, test.id); chat.CodeOf(err) != test.want {
			t.Errorf("%q below %q: %v", test.id, test.parent, err)
		}
	}
	for i := 0; len(Live(st, "")) < maxRunning-2; i++ {
		add("w"+string(rune('A'+i%26))+string(rune('A'+i/26)), "", chat.WorkRunning)
	}
	if err := CheckLaunch(st, "", "new"); chat.CodeOf(err) != chat.SlowDown {
		t.Error(err)
	}
	for _, w := range st.Workstreams {
		w.State = chat.WorkCompleted
	}
	for i := 0; len(st.Workstreams) < maxTotal; i++ {
		add("x"+time.Duration(i).String(), "", chat.WorkFailed)
	}
	if err := CheckLaunch(st, "", "new"); chat.CodeOf(err) != chat.TooLarge {
		t.Error(err)
	}
}

func TestDirectivesAreChecked(t *testing.T) {
	w := running(100)
	for command, needsText := range map[string]bool{
		chat.SteerAdd: true, chat.SteerPriority: true, chat.SteerConstraint: true, chat.SteerPause: false, chat.SteerResume: false,
	} {
		if _, err := Steered(w, chat.Steering{Command: command, Text: "x"}); err != nil {
			t.Error(command, err)
		}
		if _, err := Steered(w, chat.Steering{Command: command}); (err != nil) != needsText {
			t.Error(command, "without a text", err)
		}
	}
	for _, command := range []string{"", "other", chat.SteerWrapUp} {
		if _, err := Steered(w, chat.Steering{Command: command, Text: "x"}); chat.CodeOf(err) != chat.Invalid {
			t.Error(command, err)
		}
	}
	if _, err := Messaged(w, chat.Steering{}); chat.CodeOf(err) != chat.Invalid {
		t.Error(err)
	}
	for _, state := range []string{chat.WorkCanceling, chat.WorkCompleted, chat.WorkFailed, chat.WorkTimeout, chat.WorkCanceled} {
		w.State = state
		if _, err := Steered(w, chat.Steering{Command: chat.SteerAdd, Text: "x"}); chat.CodeOf(err) != chat.Conflict {
			t.Error(state, err)
		}
		if _, err := Messaged(w, chat.Steering{Text: "x"}); chat.CodeOf(err) != chat.Conflict {
			t.Error(state, err)
		}
	}
}

func TestProgressIsComputedByTheServer(t *testing.T) {
	w := running(100)
	w.Iteration = 4
	p, err := Progressed(w, chat.WorkstreamProgress{ID: "forged", Phase: chat.PhaseTool, Tool: "grep", Share: 0.99, Summary: "forged"}, begin+50*second)
	if err != nil || p.ID != "w" || p.Share != 0.5 || p.Iteration != 4 || p.Summary != "" {
		t.Fatalf("%+v %v", p, err)
	}
	if _, err := Progressed(w, chat.WorkstreamProgress{Phase: "other"}, begin); chat.CodeOf(err) != chat.Invalid {
		t.Fatal(err)
	}
}
