package session

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-hq/parley/chat"
)

func TestWorkstreamEndsAtItsDeadline(t *testing.T) {
	timed(t, func(t *testing.T, w *clocked) {
		id := w.begin("s")
		w.launch(id, chat.Launch{ID: "w1", DeadlineSeconds: 100})
		ref := w.turnOf(id, "w1")
		w.show(ref, "b1", 0, "so far")
		w.pass(74 * time.Second)
		w.wantSaga(id, "2 | launched w1", "3 w1| turn.started for 2")
		w.pass(time.Second)
		w.wantSaga(id, "2 | launched w1", "3 w1| turn.started for 2", "4 | warning w1 0.75", "5 | turn.started for 4")
		w.end(w.turn(id), chat.Done)
		// A restart loses no deadline event and repeats none.
		w.reboot(2 * time.Second)
		w.pass(3 * time.Second)
		if taken, err := w.TakeEvents(ctx, ref); err != nil || !slices.Equal(taken, []chat.Seq{7}) {
			t.Fatal(taken, err)
		}
		w.pass(10 * time.Second)
		w.end(w.turn(id), chat.Done)
		if s := w.status(id, "w1"); s.Share != 0.9 || s.Warned != 0.9 || !s.WrappingUp || s.ElapsedMS/100 != 900 {
			t.Fatalf("%+v", s)
		}
		w.pass(10 * time.Second)
		w.wantSaga(id, "2 | launched w1", "3 w1| turn.started for 2",
			"4 | warning w1 0.75", "5 | turn.started for 4", "6 | turn.completed done",
			"7 | steered w1 wrap_up", "8 w1| turn.input [7]",
			"9 | warning w1 0.9", "10 | turn.started for 9", "11 | turn.completed done",
			"12 w1| agent.text so far", "13 w1| turn.completed stopped", "14 | timeout w1 so far", "15 | turn.started for 14")
		// The agent ignored all warnings; its drafts are refused now.
		_, err := w.Append(ctx, bot, id, draft(ref, chat.AgentText{Text: "late"}))
		w.wantCode(err, chat.Conflict)
		w.pass(time.Hour)
		if n := w.has(id, "workstream.timeout"); n != 1 {
			t.Fatalf("it ran out of time %d times", n)
		}
	})
}

func TestDeadlinesPassWhileTheServerIsDown(t *testing.T) {
	timed(t, func(t *testing.T, w *clocked) {
		id := w.begin("s")
		w.launch(id, chat.Launch{ID: "late", DeadlineSeconds: 100})
		w.launch(id, chat.Launch{ID: "over", DeadlineSeconds: 30})
		w.reboot(92 * time.Second)
		synctest.Wait()
		w.wantSaga(id, "2 | launched late", "3 late| turn.started for 2", "4 | launched over", "5 over| turn.started for 4",
			"6 | warning late 0.9", "7 | turn.started for 6", "8 | steered late wrap_up",
			"9 over| turn.completed stopped", "10 | timeout over")
		w.pass(8 * time.Second)
		if s := w.status(id, "late"); s.State != chat.WorkTimeout {
			t.Fatalf("%+v", s)
		}
	})
}

// After the clock was set back, the timer fires too early; the deadline is still applied at
// its time.
func TestEarlyTimerAppliesNoDeadline(t *testing.T) {
	timed(t, func(t *testing.T, w *clocked) {
		id := w.begin("s")
		w.launch(id, chat.Launch{ID: "w1", DeadlineSeconds: 30})
		w.dueTimes.set(id, 1)
		w.wakeRun()
		w.pass(29 * time.Second)
		if s := w.status(id, "w1"); s.State != chat.WorkRunning || s.Warned != 0.9 {
			t.Fatalf("%+v", s)
		}
		w.pass(time.Second)
		if s := w.status(id, "w1"); s.State != chat.WorkTimeout {
			t.Fatalf("%+v", s)
		}
	})
}

func TestPausingDoesNotStopTheDeadline(t *testing.T) {
	timed(t, func(t *testing.T, w *clocked) {
		id := w.begin("s")
		w.launch(id, chat.Launch{ID: "w1", DeadlineSeconds: 30})
		if s, err := w.SteerWorkstream(ctx, ann, id, "w1", chat.Steering{Command: chat.SteerPause}); err != nil || !s.Paused {
			t.Fatal(s, err)
		}
		w.pass(30 * time.Second)
		if s := w.status(id, "w1"); s.State != chat.WorkTimeout || s.Paused {
			t.Fatalf("%+v", s)
		}
	})
}

func TestIdleInteractiveWorkstreamStopsItsClock(t *testing.T) {
	timed(t, func(t *testing.T, w *clocked) {
		id := w.begin("s")
		w.launch(id, chat.Launch{ID: "expert", Interactive: true, DeadlineSeconds: 40})
		ref := w.turnOf(id, "expert")
		w.pass(10 * time.Second)
		if _, err := w.Append(ctx, bot, id, draft(ref, chat.AgentText{Text: "Hm."})); err != nil {
			t.Fatal(err)
		}
		w.end(ref, chat.Done)
		w.end(w.turn(id), chat.Done) // it has received the answer
		s := w.status(id, "expert")
		if !s.Waiting || s.State != chat.WorkRunning || s.Summary != "Hm." || s.Phase != chat.PhaseDone || s.Deadline != 0 {
			t.Fatalf("%+v", s)
		}
		w.pass(time.Hour)
		w.reboot(time.Hour)
		w.pass(time.Hour)
		if s := w.status(id, "expert"); s.ElapsedMS/100 != 100 || !s.Waiting {
			t.Fatalf("it does not rest: %+v", s)
		}
		// A follow-up message from its parent, then one from a person.
		if _, err := w.MessageWorkstream(ctx, ann, id, "expert", chat.Steering{Text: "And now?"}); err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Second)
		w.end(w.turnOf(id, "expert"), chat.Done)
		w.end(w.turn(id), chat.Done)
		d := chat.NewDraft(chat.UserMessage{Text: "I too"})
		d.Workstream = "expert"
		if _, err := w.Append(ctx, ann, id, []chat.Draft{d}); err != nil {
			t.Fatal(err)
		}
		w.pass(9 * time.Second)
		if s := w.status(id, "expert"); s.ElapsedMS/100 != 290 || s.Warned != 0 {
			t.Fatalf("%+v", s)
		}
		w.pass(time.Second + time.Millisecond) // 30 of 40 s
		if s := w.status(id, "expert"); s.Warned != 0.75 {
			t.Fatalf("%+v", s)
		}
		w.pass(10 * time.Second)
		if s := w.status(id, "expert"); s.State != chat.WorkTimeout {
			t.Fatalf("%+v", s)
		}
		_, err := w.MessageWorkstream(ctx, ann, id, "expert", chat.Steering{Text: "Still there?"})
		w.wantCode(err, chat.Conflict)
	})
}

func TestCanceledWorkstreamHasAGracePeriod(t *testing.T) {
	timed(t, func(t *testing.T, w *clocked) {
		id := w.begin("s")
		for _, name := range []string{"good", "deaf"} {
			w.launch(id, chat.Launch{ID: name})
			if s, err := w.TerminateWorkstream(ctx, ann, id, name, chat.Steering{Text: "enough"}); err != nil || s.State != chat.WorkCanceling {
				t.Fatal(s, err)
			}
		}
		// A second request changes nothing.
		if _, err := w.TerminateWorkstream(ctx, bot, id, "good", chat.Steering{Text: "again"}); err != nil {
			t.Fatal(err)
		}
		tr := w.state(id).Line("deaf").Turn
		if !tr.Stopping || tr.StopBy == 0 {
			t.Fatalf("%+v", tr)
		}
		// A workstream that ends within the grace period may add a last text.
		if _, err := w.Append(ctx, bot, id, draft(w.turnOf(id, "good"), chat.AgentText{Text: "Saved."})); err != nil {
			t.Fatal(err)
		}
		w.end(w.turnOf(id, "good"), chat.Stopped)
		w.reboot(20 * time.Second)
		w.pass(39 * time.Second)
		if s := w.status(id, "deaf"); s.State != chat.WorkCanceling || w.status(id, "good").State != chat.WorkCanceled {
			t.Fatalf("%+v", s)
		}
		w.pass(time.Second)
		if s := w.status(id, "deaf"); s.State != chat.WorkCanceled || s.Reason != "enough" || s.Turn != "" {
			t.Fatalf("%+v", s)
		}
		if _, err := w.TerminateWorkstream(ctx, ann, id, "deaf", chat.Steering{}); err != nil {
			t.Fatal("terminating what has ended is no error:", err)
		}
		if w.state(id).Busy() {
			t.Fatal("a cancel that was asked for wakes nobody")
		}
	})
}

func TestParentWaitsForItsChildrenAndEndsThem(t *testing.T) {
	timed(t, func(t *testing.T, w *clocked) {
		id := w.begin("s")
		w.launch(id, chat.Launch{ID: "a"})
		w.launch(id, chat.Launch{ID: "b", Parent: "a"})
		w.launch(id, chat.Launch{ID: "c", Parent: "b", DeadlineSeconds: 60})
		_, err := w.Launch(ctx, ann, id, chat.Launch{ID: "d", Parent: "c", Instruction: "too deep"})
		w.wantCode(err, chat.Denied)
		if s := w.status(id, "a"); !slices.Equal(s.Children, []string{"b"}) {
			t.Fatalf("%+v", s)
		}
		// A line whose turn has ended waits for its children and receives their results.
		w.end(w.turnOf(id, "a"), chat.Done)
		w.end(w.turnOf(id, "b"), chat.Done)
		if s := w.status(id, "a"); s.State != chat.WorkRunning || s.Phase != chat.PhaseBlocked || s.Turn != "" {
			t.Fatalf("%+v", s)
		}
		w.reboot(time.Second)
		w.pass(59 * time.Second) // c runs out of time
		w.finish(id, "b")
		w.finish(id, "a")
		for name, state := range map[string]string{"a": chat.WorkCompleted, "b": chat.WorkCompleted, "c": chat.WorkTimeout} {
			if s := w.status(id, name); s.State != state {
				t.Fatalf("%+v\n%s", s, w.saga(id))
			}
		}
		// A child ends with its parent.
		w.launch(id, chat.Launch{ID: "p", DeadlineSeconds: 30})
		w.launch(id, chat.Launch{ID: "q", Parent: "p"})
		w.pass(30 * time.Second)
		if s := w.status(id, "q"); s.State != chat.WorkCanceling {
			t.Fatalf("%+v", s)
		}
		w.pass(60 * time.Second)
		if s := w.status(id, "q"); s.State != chat.WorkCanceled {
			t.Fatalf("%+v", s)
		}
	})
}

func TestPromptOfAWorkstreamEndsWithIt(t *testing.T) {
	timed(t, func(t *testing.T, w *clocked) {
		id := w.begin("s")
		w.launch(id, chat.Launch{ID: "w1", DeadlineSeconds: 30})
		ref := w.turnOf(id, "w1")
		ask := func(request string) {
			if _, err := w.Append(ctx, bot, id, draft(ref, chat.AgentInputRequest{RequestID: request, InputType: chat.InputText, Text: "Name?"})); err != nil {
				t.Fatal(err)
			}
		}
		ask("q1")
		if s := w.status(id, "w1"); s.Phase != chat.PhaseBlocked {
			t.Fatalf("%+v", s)
		}
		if _, err := w.Answer(ctx, ann, id, "q1", chat.Answer{Text: "Ann"}); err != nil {
			t.Fatal(err)
		}
		if s := w.status(id, "w1"); s.Phase != chat.PhasePlanning {
			t.Fatalf("%+v", s)
		}
		ask("q2")
		w.pass(30 * time.Second)
		if n := len(w.state(id).Prompts); n != 0 || w.status(id, "w1").State != chat.WorkTimeout {
			t.Fatal("a question outlives the workstream that asks it")
		}
	})
}

// A line that waits for an interactive child receives an event when the child is stopped,
// because no other event would follow.
func TestParentReceivesTheStopOfAnInteractiveChild(t *testing.T) {
	timed(t, func(t *testing.T, w *clocked) {
		id := w.begin("s")
		w.launch(id, chat.Launch{ID: "a"})
		w.launch(id, chat.Launch{ID: "b", Parent: "a", Interactive: true})
		w.end(w.turnOf(id, "a"), chat.Done)
		if s := w.status(id, "a"); s.Phase != chat.PhaseBlocked || s.Turn != "" {
			t.Fatalf("%+v", s)
		}
		if _, err := w.Stop(ctx, ann, id, "b", "enough"); err != nil {
			t.Fatal(err)
		}
		w.end(w.turnOf(id, "b"), chat.Stopped)
		if s := w.status(id, "b"); !s.Waiting || s.Phase != chat.PhaseDone || s.Summary != "" {
			t.Fatalf("%+v", s)
		}
		w.reboot(time.Second)
		w.finish(id, "a")
		if s := w.status(id, "a"); s.State != chat.WorkCompleted {
			t.Fatalf("%+v\n%s", s, w.saga(id))
		}
		w.finish(id, "") // it has received the event of a
		// It starts no turn on the main line, because a user requested the stop.
		w.launch(id, chat.Launch{ID: "c", Interactive: true})
		if _, err := w.Stop(ctx, ann, id, "c", "enough"); err != nil {
			t.Fatal(err)
		}
		w.end(w.turnOf(id, "c"), chat.Stopped)
		if w.state(id).Busy() {
			t.Fatal(w.saga(id))
		}
		// A child that continues with a queued message is not reported as stopped.
		w.launch(id, chat.Launch{ID: "d", Interactive: true})
		said := chat.NewDraft(chat.UserMessage{Text: "Rather this."})
		said.Workstream, said.Interrupt = "d", true
		if _, err := w.Append(ctx, ann, id, []chat.Draft{said}); err != nil {
			t.Fatal(err)
		}
		w.end(w.turnOf(id, "d"), chat.Stopped)
		if s := w.status(id, "d"); s.Turn == "" || s.Message != "" || s.Phase != chat.PhasePlanning {
			t.Fatalf("%+v", s)
		}
	})
}
