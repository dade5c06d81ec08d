package agentpool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/session"
)

// A tool that is not repeatable is not run again after a kill between call and
// result.
func TestUnrepeatableToolIsNotRunAgain(t *testing.T) {
	var runs atomic.Int64
	p := newServer(t, nil)
	p.agents["test"] = agent.Func(func(ctx context.Context, t *agent.Turn) error {
		for range 2 {
			_, err := t.Call(ctx, "pay", nil, agent.CallOptions{}, func(ctx context.Context) (json.RawMessage, error) {
				if runs.Add(1) == 1 {
					p.journal.KillAfter(0) // the lights go out
				}
				return json.RawMessage("1"), nil
			})
			if err != nil && !errors.Is(err, agent.ErrUnknownOutcome) {
				return err
			}
			if err := t.Status(ctx, "next", ""); err != nil {
				return err
			}
		}
		// Once more from the beginning: the outcome stays what it was.
		if t.Ref().Attempt == 2 {
			p.journal.KillAfter(0)
		}
		return t.Say(ctx, "done")
	})
	p.startTurn()
	for range 2 {
		<-p.journal.Killed
		p.restart(0)
	}
	p.awaitEnd(chat.Done)
	p.wantLog("user hi", "turn.started", "calls pay", "tool error "+agent.ErrUnknownOutcome.Error()+" unknown_outcome", "status next",
		"calls pay", "got 1", "status next", "says done", "ended done")
	if runs.Load() != 2 {
		t.Fatalf("the tool ran %d times", runs.Load())
	}
}

func TestStopKeepsTheResultOfATool(t *testing.T) {
	p := newServer(t, nil)
	p.agents["test"] = agent.Func(func(ctx context.Context, t *agent.Turn) error {
		_, err := t.Call(ctx, "pay", nil, agent.CallOptions{}, func(ctx context.Context) (json.RawMessage, error) {
			if _, err := p.Stop(ctx, ann, "s", "", ""); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return json.RawMessage("1"), nil // it took effect all the same
		})
		return err
	})
	p.startTurn()
	p.awaitEnd(chat.Stopped)
	p.wantLog("user hi", "turn.started", "calls pay", "turn.stop_requested", "got 1", "ended stopped")
}

// killedWithAnOpenPrompt returns a server that was killed while its agent waited for an answer. The agent repeats the answer.
func killedWithAnOpenPrompt(t *testing.T) (p *testServer, request string) {
	t.Helper()
	p = newServer(t, agent.Func(func(ctx context.Context, t *agent.Turn) error {
		a, err := t.Ask(ctx, chat.AgentInputRequest{InputType: chat.InputText, Text: "?"})
		if err != nil {
			return err
		}
		return t.Say(ctx, "You said "+a.Text)
	}))
	p.startTurn()
	request = p.awaitType("agent.input_request").Body.(chat.AgentInputRequest).RequestID
	p.kill()
	return p, request
}

func TestAnsweredOrStoppedWhileDown(t *testing.T) {
	for _, what := range []string{"answered", "stopped"} {
		t.Run(what, func(t *testing.T) {
			p, request := killedWithAnOpenPrompt(t)
			p.start(0) // no runner yet
			var err error
			if what == "answered" {
				_, err = p.Answer(ctx, ann, "s", request, chat.Answer{Text: "so."})
			} else {
				_, err = p.Stop(ctx, ann, "s", "", "")
			}
			if err != nil {
				t.Fatal(err)
			}
			p.run()
			if what == "answered" {
				p.awaitEnd(chat.Done)
				p.wantLog("user hi", "turn.started", "agent.input_request", "answer so.", "says You said so.", "ended done")
			} else {
				p.awaitEnd(chat.Stopped)
			}
		})
	}
}

// A turn that cannot be resumed because the disk is full is resumed when there is
// space, not only at the next start.
func TestTurnIsResumedWhenTheDiskHasSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, request := killedWithAnOpenPrompt(t)
		p.start(0)
		p.journal.Full.Store(true)
		p.run()
		synctest.Wait() // it was tried and refused
		p.journal.Full.Store(false)
		if _, err := p.Answer(ctx, ann, "s", request, chat.Answer{Text: "so."}); err != nil {
			t.Fatal(err)
		}
		p.awaitEnd(chat.Done)
		p.wantLog("user hi", "turn.started", "agent.input_request", "answer so.", "says You said so.", "ended done")
		p.kill()
	})
}

// Shown text is kept, also when every attempt of the agent writes another text.
func TestShownTextIsKeptAfterACrash(t *testing.T) {
	p := newServer(t, nil)
	p.opt.Clean = true                                             // the process is to blame, not the turn
	words := []string{"one", "", "two", "two and a half", "three"} // "": dies when the old block is closed
	p.agents["test"] = agent.Func(func(ctx context.Context, t *agent.Turn) error {
		attempt := t.Ref().Attempt
		w := t.Stream(true)
		if words[attempt-1] == "" {
			for _, b := range t.Open() {
				if err := t.Abandon(ctx, b); err != nil {
					return err
				}
			}
		}
		if err := w.Write(ctx, words[attempt-1]); err != nil {
			return err
		}
		if attempt < len(words) {
			p.journal.KillAfter(0)
		}
		return w.Close(ctx)
	})
	p.startTurn()
	for range len(words) - 1 {
		<-p.journal.Killed
		p.restart(0)
	}
	p.awaitEnd(chat.Done)
	p.wantLog("user hi", "turn.started", "said in part one", "said in part two and a half", "says three", "ended done")
	// Less than was shown, nothing at all included.
	for _, less := range []string{"on", ""} {
		p := newServer(t, nil)
		p.agents["test"] = agent.Func(func(ctx context.Context, t *agent.Turn) error {
			w := t.Stream(true)
			if t.Ref().Attempt > 1 {
				if open := t.Open(); len(open) != 1 || open[0].Text != "one" {
					return errors.New("the open block is not offered")
				}
				if err := w.Write(ctx, less); err != nil {
					return err
				}
				return w.Close(ctx)
			}
			if err := w.Write(ctx, "one"); err != nil {
				return err
			}
			p.journal.KillAfter(0)
			return w.Close(ctx)
		})
		p.startTurn()
		<-p.journal.Killed
		p.restart(0)
		p.awaitEnd(chat.Done)
		p.wantLog("user hi", "turn.started", "said in part one", "says "+less, "ended done")
	}
}

func TestCrashLoopEnds(t *testing.T) {
	var tries atomic.Int64
	p := newServer(t, nil)
	p.agents["test"] = agent.Func(func(ctx context.Context, t *agent.Turn) error {
		tries.Add(1)
		p.journal.KillAfter(0)
		return t.Say(ctx, "never stored")
	})
	p.startTurn()
	for range 2 {
		<-p.journal.Killed
		p.restart(0)
	}
	<-p.journal.Killed
	p.restart(0)
	end := p.awaitEnd(chat.Failed)
	if tries.Load() != 3 || !strings.Contains(end.Error, "given up after 3 attempts") {
		t.Fatal(tries.Load(), end.Error)
	}
}

func TestShutdownKeepsTurnsForTheNextStart(t *testing.T) {
	entered := make(chan struct{}, 10)
	p := newServer(t, agent.Func(func(ctx context.Context, t *agent.Turn) error {
		if t.Text() == "ask" {
			_, err := t.Ask(ctx, chat.AgentInputRequest{InputType: chat.InputText, Text: "?"})
			return err
		}
		entered <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}))
	p.startTurn()
	<-entered
	p.opt.Clean = true
	for range 5 { // more crashes than a turn may have
		p.shutdown()
		p.start(0)
		p.run()
		<-entered
	}
	p.say("ask")
	if _, err := p.Stop(ctx, ann, "s", "", ""); err != nil {
		t.Fatal(err)
	}
	p.awaitType("agent.input_request")
	// No grace is wasted on a turn that waits for a person.
	p.shutdown()
	p.opt.Grace = time.Hour
	p.start(0)
	p.run()
	p.await("the second attempt", func(evs []chat.Event) bool { return evs[len(evs)-1].Type == "turn.resumed" })
	waits := make(chan struct{})
	go func() { p.shutdown(); close(waits) }()
	select {
	case <-waits:
	case <-time.After(60 * time.Second):
		t.Fatal("the shutdown waits for an answer")
	}
	p.start(0)
	st, err := p.State(ctx, ann, "s")
	if err != nil || st.Line("").Turn == nil || len(st.Prompts) != 1 {
		t.Fatal("the turn was not left as it was", err)
	}
	p.opt.Grace = time.Millisecond
}

func TestTurnEndsWhenTheDiskHasSpace(t *testing.T) {
	p := newServer(t, nil)
	failed := make(chan struct{})
	p.agents["test"] = agent.Func(func(ctx context.Context, t *agent.Turn) error {
		if t.Text() != "hi" {
			return nil
		}
		p.journal.Full.Store(true)
		defer close(failed)
		return t.Say(ctx, "no room")
	})
	p.startTurn()
	<-failed
	p.journal.Full.Store(false)
	p.awaitEnd(chat.Failed)
	p.say("again")
	p.await("the next turn", func(evs []chat.Event) bool {
		b, ok := evs[len(evs)-1].Body.(chat.TurnCompleted)
		return ok && b.Outcome == chat.Done
	})
}

func TestErasedTurnsEnd(t *testing.T) {
	entered, ended := make(chan struct{}), make(chan error, 1)
	p := newServer(t, agent.Func(func(ctx context.Context, t *agent.Turn) error {
		close(entered)
		<-ctx.Done()
		ended <- t.Say(context.Background(), "hello?")
		return ctx.Err()
	}))
	p.startTurn()
	<-entered
	if _, err := p.Erase(ctx, ann, "s"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; chat.CodeOf(err) != chat.Gone {
		t.Fatal(err)
	}
}

// A new attempt receives the messages of the earlier one at the same steps.
func TestSteeringAfterACrash(t *testing.T) {
	p := newServer(t, nil)
	step := make(chan struct{})
	p.agents["test"] = agent.Func(func(ctx context.Context, t *agent.Turn) error {
		var received []string
		if t.Text() != "hi" {
			return nil
		}
		for i := range 4 {
			if t.Ref().Attempt == 1 {
				step <- struct{}{} // the test sends a message, or not
				<-step
			}
			msgs, err := t.NewMessages(ctx)
			if err != nil {
				return err
			}
			for _, m := range msgs {
				received = append(received, m.Text)
			}
			if i == 3 && t.Ref().Attempt == 1 {
				p.journal.KillAfter(0)
			}
			if err := t.Status(ctx, strings.Join(received, "+"), ""); err != nil {
				return err
			}
		}
		return t.Say(ctx, strings.Join(received, "+"))
	})
	p.start(0)
	p.run()
	p.begin(chat.NewSession{Policy: chat.Steer})
	p.say("hi")
	for i := range 4 {
		<-step
		if i != 1 {
			p.say(string(rune('a' + i)))
		}
		step <- struct{}{}
	}
	<-p.journal.Killed
	p.kill()
	p.start(0)
	p.say("e") // while the turn does not run: it is received at a later step
	p.run()
	p.awaitEnd(chat.Done)
	if got := p.logText("s"); !strings.HasPrefix(got, strings.Join([]string{"user hi", "turn.started", "user a", "took 1", "status a", "status a",
		"user c", "took 1", "status a+c", "user d", "took 1", "user e", "status a+c+d", "says a+c+d", "ended done"}, "\n")) {
		t.Fatal(got)
	}
}

func TestAgentMayDifferAfterACrash(t *testing.T) {
	p := newServer(t, nil)
	p.agents["test"] = agent.Func(func(ctx context.Context, t *agent.Turn) error {
		if t.Ref().Attempt == 1 {
			if err := t.Status(ctx, "x", ""); err != nil {
				return err
			}
			p.journal.KillAfter(0)
			return t.Say(ctx, "x")
		}
		_, err := t.Ask(ctx, chat.AgentInputRequest{InputType: chat.InputText, Text: "?"})
		return err
	})
	p.startTurn()
	<-p.journal.Killed
	p.restart(0)
	if end := p.awaitEnd(chat.Failed); !strings.Contains(end.Error, "does not repeat its steps") {
		t.Fatal(end.Error)
	}
}

// unwritableSessions refuses the first appends and previews of agents after its counter is set, as a node that is cut off does.
type unwritableSessions struct {
	*session.Sessions
	refuse atomic.Int64
	reason chat.Reason
}

func (s *unwritableSessions) refused() error {
	if s.refuse.Add(-1) < 0 {
		return nil
	}
	return chat.Errorf(chat.Unavailable, "the session cannot be written at the moment").WithReason(s.reason)
}

func (s *unwritableSessions) Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error) {
	if err := s.refused(); err != nil {
		return nil, err
	}
	return s.Sessions.Append(ctx, c, id, drafts)
}

func (s *unwritableSessions) Preview(ctx context.Context, c chat.Caller, id chat.SessionID, pieces []chat.Preview) error {
	if err := s.refused(); err != nil {
		return err
	}
	return s.Sessions.Preview(ctx, c, id, pieces)
}

// In a cluster a session cannot be written while its node is cut off. The turn goes on when it can, and is no crash.
func TestTurnGoesOnAfterItsSessionCouldNotBeWritten(t *testing.T) {
	for _, reason := range []chat.Reason{chat.NoOwner, chat.OwnerChanged, chat.OutcomeUnknown} {
		for _, write := range []string{"preview", "append"} {
			t.Run(string(reason)+" "+write, func(t *testing.T) {
				t.Parallel()
				s := &unwritableSessions{reason: reason}
				var calls atomic.Int64
				p := newServer(t, agent.Func(func(ctx context.Context, t *agent.Turn) error {
					w := t.Stream(true)
					if err := w.Write(ctx, "one "); err != nil {
						return err
					}
					first := calls.Add(1) == 1
					if first && write == "preview" {
						s.refuse.Store(1)
					}
					if err := w.Write(ctx, "two"); err != nil {
						return fmt.Errorf("wrapped: %w", err)
					}
					if first && write == "append" {
						s.refuse.Store(1)
					}
					return w.Close(ctx)
				}))
				p.start(0)
				s.Sessions = p.Sessions
				p.runner.Attach(s)
				p.run()
				p.begin(chat.NewSession{})
				p.say("hi")
				p.awaitEnd(chat.Done)
				p.wantLog("user hi", "turn.started", "says one two", "ended done")
				if n := calls.Load(); n != 2 {
					t.Errorf("the agent was called %d times", n)
				}
			})
		}
	}
}

// An agent may get the same errors from elsewhere, such as another cluster. They fail its turn; it is not called again.
func TestAnErrorFromElsewhereFailsTheTurn(t *testing.T) {
	for _, reason := range []chat.Reason{chat.NoOwner, chat.OwnerChanged, chat.OutcomeUnknown} {
		elsewhere := chat.Errorf(chat.Unavailable, "the other cluster has no owner").WithReason(reason)
		for name, answer := range map[string]func(context.Context, *agent.Turn) error{
			"returned": func(context.Context, *agent.Turn) error { return elsewhere },
			"the source of a file": func(ctx context.Context, t *agent.Turn) error {
				return t.File(ctx, chat.AgentArtifact{Path: "a.txt", MediaType: "text/plain"}, iotest.ErrReader(elsewhere))
			},
		} {
			t.Run(string(reason)+" "+name, func(t *testing.T) {
				var calls atomic.Int64
				p := newServer(t, agent.Func(func(ctx context.Context, t *agent.Turn) error {
					if calls.Add(1) > 1 {
						return nil
					}
					return answer(ctx, t)
				}))
				p.opt.Store = func(_ context.Context, _ chat.SessionID, _, _ string, body io.Reader, commit func(int64) error) error {
					n, err := io.Copy(io.Discard, body)
					if err != nil {
						return err
					}
					return commit(n)
				}
				p.startTurn()
				p.awaitEnd(chat.Failed)
				if n := calls.Load(); n != 1 {
					t.Errorf("the agent was called %d times", n)
				}
			})
		}
	}
}

// secondAttempt begins an attempt of a turn just before the runner does.
type secondAttempt struct {
	*session.Sessions
	begun atomic.Bool
}

func (s *secondAttempt) ResumeTurn(ctx context.Context, ref chat.TurnRef, reason string, crash bool) (chat.TurnRef, bool, error) {
	if s.begun.CompareAndSwap(false, true) {
		if _, _, err := s.Sessions.ResumeTurn(ctx, ref, "an earlier run", false); err != nil {
			return chat.TurnRef{}, false, err
		}
	}
	return s.Sessions.ResumeTurn(ctx, ref, reason, crash)
}

// An earlier run of a turn that ends just now, because its session was moved away and back, begins an attempt while the turn is being resumed.
// The turn is resumed all the same.
func TestTurnIsResumedAfterAnAttemptOfAnEarlierRun(t *testing.T) {
	p := newServer(t, agent.Func(func(ctx context.Context, t *agent.Turn) error {
		if t.Ref().Attempt == 1 {
			<-ctx.Done()
			return ctx.Err()
		}
		return t.Say(ctx, "done")
	}))
	p.startTurn()
	p.awaitType("turn.started")
	p.kill()
	p.start(0)
	p.runner.Attach(&secondAttempt{Sessions: p.Sessions})
	p.run()
	p.awaitEnd(chat.Done)
	p.wantLog("user hi", "turn.started", "says done", "ended done")
}
