package session

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-hq/parley/chat"
)

// timed runs f with a store whose clock the test controls, while Run applies deadlines.
func timed(t *testing.T, f func(t *testing.T, w *clocked)) {
	synctest.Test(t, func(t *testing.T) {
		w := &clocked{testStore: startTestStore(t, Options{})}
		defer w.close()
		w.run()
		defer func() { w.stop() }()
		f(t, w)
	})
}

type clocked struct {
	*testStore
	stop func()
}

func (w *clocked) run() {
	run, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(run) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Fatal(err)
		}
	}
}

// reboot closes the server, advances the clock, and opens it again.
func (w *clocked) reboot(away time.Duration) {
	w.stop()
	w.close()
	time.Sleep(away)
	w.start()
	w.run()
}

// pass advances the clock and waits until the passed deadlines are applied.
func (w *clocked) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// launch also advances the clock a little, because the positions of events at the same
// time are a few microseconds apart.
func (w *clocked) launch(id chat.SessionID, l chat.Launch) chat.WorkstreamStatus {
	w.t.Helper()
	s := w.testStore.launch(id, l)
	time.Sleep(time.Millisecond)
	return s
}

// finish answers on a line until no message is queued there.
func (w *testStore) finish(id chat.SessionID, line string) {
	w.t.Helper()
	for w.state(id).Line(line).Turn != nil {
		w.end(w.turnOf(id, line), chat.Done)
	}
}

func (w *testStore) launch(id chat.SessionID, l chat.Launch) chat.WorkstreamStatus {
	w.t.Helper()
	if l.Instruction == "" {
		l.Instruction = "work"
	}
	s, err := w.Launch(ctx, ann, id, l)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// turnOf returns the running turn of a line.
func (w *testStore) turnOf(id chat.SessionID, line string) chat.TurnRef {
	w.t.Helper()
	t := w.state(id).Line(line).Turn
	if t == nil {
		w.t.Fatalf("no turn runs on %q; the log says\n%s", line, w.saga(id))
	}
	return chat.TurnRef{Session: id, Turn: t.ID, Attempt: t.Attempt}
}

// saga returns a short form of the log, with lines and workstream events.
func (w *testStore) saga(id chat.SessionID) string {
	w.t.Helper()
	var out []string
	for _, e := range w.events(id)[1:] {
		text := strings.TrimPrefix(e.Type, "workstream.")
		switch b := e.Body.(type) {
		case chat.WorkstreamLaunched:
			text += " " + b.ID
		case chat.WorkstreamProgress:
			text += strings.TrimRight(" "+b.ID+" "+b.Phase+" "+b.Tool+" "+b.Summary, " ")
		case chat.WorkstreamWarning:
			text += fmt.Sprintf(" %s %g", b.ID, b.Share)
		case chat.WorkstreamSteered:
			text += " " + b.ID + " " + b.Command
		case chat.WorkstreamMessage:
			text += " " + b.ID + " " + b.Text
		case chat.WorkstreamCanceling:
			text += " " + b.ID
		case chat.WorkstreamCompleted:
			text += " " + b.ID + " " + b.Summary
		case chat.WorkstreamFailed:
			text += " " + b.ID + " " + b.Error
		case chat.WorkstreamTimeout:
			text += " " + b.ID + " " + b.Summary
		case chat.WorkstreamCanceled:
			text += " " + b.ID
		case chat.TurnStarted:
			text += fmt.Sprintf(" for %d", b.Trigger)
		case chat.TurnCompleted:
			text += " " + string(b.Outcome)
		case chat.TurnInput:
			text += fmt.Sprint(" ", b.Sequences)
		case chat.AgentText:
			text += " " + b.Text
		case chat.UserMessage:
			text += " " + b.Text
		}
		out = append(out, strings.TrimRight(fmt.Sprintf("%d %s| %s", e.Seq, e.Workstream, text), " "))
	}
	return strings.Join(out, "\n")
}

func (w *testStore) wantSaga(id chat.SessionID, lines ...string) {
	w.t.Helper()
	if got, want := w.saga(id), strings.Join(lines, "\n"); got != want {
		w.t.Fatalf("the log says\n%s\n\nand not\n%s", got, want)
	}
}

// has returns the number of events of a type.
func (w *testStore) has(id chat.SessionID, typ string) int {
	n := 0
	for _, e := range w.events(id) {
		if e.Type == typ {
			n++
		}
	}
	return n
}

func (w *testStore) status(id chat.SessionID, name string) chat.WorkstreamStatus {
	w.t.Helper()
	s, err := w.Workstream(ctx, ann, id, name)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}
