package session

import (
	"testing"

	"github.com/parley-hq/parley/chat"
)

// A session with the setting is completed in the commit that ends its last turn.
func TestSessionIsCompletedAfterItsLastTurn(t *testing.T) {
	for _, c := range []struct {
		outcome chat.Outcome
		cause   string
		want    string
		status  chat.Status
	}{
		{chat.Done, "", "session.completed", chat.Completed},
		{chat.Stopped, "", "session.completed", chat.Completed},
		{chat.Failed, "no model", "session.failed", chat.FailedState},
	} {
		t.Run(string(c.outcome), func(t *testing.T) {
			w := newTestStore(t, Options{})
			id := w.begin("s", chat.NewSession{Settings: chat.Settings{CompleteAfterTurn: true}})
			w.say(id, "a")
			first := w.turn(id)
			w.say(id, "b") // is queued
			if err := w.EndTurn(ctx, first, chat.Done, ""); err != nil {
				t.Fatal(err)
			}
			if sess, err := w.Get(ctx, ann, id); err != nil || sess.Status != chat.Running {
				t.Fatalf("a message waits: %v %v", sess.Status, err)
			}
			commits := w.log.commits.Load()
			if err := w.EndTurn(ctx, w.turn(id), c.outcome, c.cause); err != nil {
				t.Fatal(err)
			}
			if n := w.log.commits.Load() - commits; n != 1 {
				t.Errorf("%d commits", n)
			}
			events := w.events(id)
			last := events[len(events)-1]
			if last.Type != c.want {
				t.Errorf("the last event is %s", last.Type)
			}
			if b, ok := last.Body.(chat.SessionFailed); ok && b.ErrorMessage != c.cause {
				t.Errorf("it failed with %q", b.ErrorMessage)
			}
			if b, ok := last.Body.(chat.SessionCompleted); ok && (b.Outcome == chat.SessionCancelled) != (c.outcome == chat.Stopped) {
				t.Errorf("outcome %q", b.Outcome)
			}
			if sess, err := w.Get(ctx, ann, id); err != nil || sess.Status != c.status {
				t.Errorf("status %v %v", sess.Status, err)
			}

			// An update does not complete it again; a message reopens it.
			title := "x"
			if _, err := w.Update(ctx, ann, id, chat.SessionUpdated{Title: &title}); err != nil {
				t.Fatal(err)
			}
			w.say(id, "c")
			if err := w.EndTurn(ctx, w.turn(id), chat.Done, ""); err != nil {
				t.Fatal(err)
			}
			events = w.events(id)
			if n := len(events); events[n-1].Type != "session.completed" || events[n-2].Type != "turn.completed" {
				t.Errorf("it ended with %s, %s", events[n-2].Type, events[n-1].Type)
			}
		})
	}
}

// A session is not completed while workstreams run.
func TestSessionIsNotCompletedWhileAWorkstreamRuns(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{Settings: chat.Settings{CompleteAfterTurn: true}})
	w.say(id, "a")
	ref := w.turn(id)
	if _, err := w.Launch(ctx, ann, id, chat.Launch{ID: "w1", Instruction: "look"}); err != nil {
		t.Fatal(err)
	}
	if err := w.EndTurn(ctx, ref, chat.Done, ""); err != nil {
		t.Fatal(err)
	}
	if sess, err := w.Get(ctx, ann, id); err != nil || sess.Status == chat.Completed {
		t.Fatalf("%v %v", sess.Status, err)
	}
}

// The end of a turn has the acknowledgement of the first stop; the result of a later stop
// reports that its own acknowledgement is not used.
func TestStopReportsWhetherTheTurnAcknowledgesIt(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "a")
	for _, c := range []struct {
		ack  string
		acks bool
	}{{"one", true}, {"two", false}, {"one", true}} {
		if res, err := w.StopAs(ctx, ann, id, "", "enough", c.ack); err != nil || res.Acks != c.acks || res.TurnID == "" {
			t.Errorf("%s: %+v %v", c.ack, res, err)
		}
	}
	if err := w.EndTurn(ctx, w.turn(id), chat.Stopped, ""); err != nil {
		t.Fatal(err)
	}
	if res, err := w.StopAs(ctx, ann, id, "", "enough", "three"); err != nil || res.Acks || res.Stopped {
		t.Errorf("nothing runs: %+v %v", res, err)
	}
}
