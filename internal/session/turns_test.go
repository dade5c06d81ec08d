package session

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

func TestMessageDuringATurnIsQueued(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "a")
	b := w.say(id, "b")
	w.say(id, "c")
	// A queued message can be withdrawn once; a message whose turn runs cannot.
	w.append(ann, id, chat.UserMessageWithdrawn{Sequence: b.Seq})
	for _, seq := range []chat.Seq{b.Seq, 2, 99} {
		_, err := w.Append(ctx, ann, id, []chat.Draft{chat.NewDraft(chat.UserMessageWithdrawn{Sequence: seq})})
		w.wantCode(err, chat.Conflict)
	}
	w.end(w.turn(id), chat.Done)
	w.restart()
	w.end(w.turn(id), chat.Done)
	w.wantStory(id, "session.started", "user.message a", "turn.started for 2", "user.message b", "user.message c",
		"user.message_withdrawn", "turn.completed done", "turn.started for 5", "turn.completed done")
	if s := w.state(id).Session.Status; s != chat.Idle {
		t.Fatalf("the session is %s", s)
	}
}

func TestMessageDuringATurnSteersIt(t *testing.T) {
	w := newTestStore(t, Options{MaxQueue: 3})
	id := w.begin("s", chat.NewSession{Policy: chat.Steer})
	w.say(id, "a")
	ref := w.turn(id)
	w.say(id, "b")
	w.say(id, "c")
	taken, err := w.TakeSteered(ctx, ref)
	if err != nil || len(taken) != 2 {
		t.Fatal(taken, err)
	}
	if taken, err = w.TakeSteered(ctx, ref); err != nil || taken != nil {
		t.Fatal("taken twice", taken, err)
	}
	w.say(id, "d") // is never taken, so it starts the next turn
	w.say(id, "e")
	w.say(id, "f")
	_, err = w.Append(ctx, ann, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "g"})})
	w.wantCode(err, chat.SlowDown)
	w.end(ref, chat.Done)
	_, err = w.TakeSteered(ctx, ref)
	w.wantCode(err, chat.Conflict)
	w.wantStory(id, "session.started", "user.message a", "turn.started for 2", "user.message b", "user.message c", "turn.input [4 5]",
		"user.message d", "user.message e", "user.message f", "turn.completed done", "turn.started for 7")
}

func TestMessageDuringATurnInterruptsIt(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{Policy: chat.Interrupt})
	w.say(id, "a")
	ref := w.turn(id)
	w.show(ref, "b1", 0, "so f")
	w.say(id, "b")
	w.say(id, "c") // is stopping already
	w.end(ref, chat.Stopped)
	w.wantStory(id, "session.started", "user.message a", "turn.started for 2", "user.message b", "turn.stop_requested",
		"user.message c", "agent.text so f (partial)", "turn.completed stopped", "turn.started for 4")

	// A message can request an interrupt with any policy.
	id = w.begin("q", chat.NewSession{Policy: chat.Steer})
	w.say(id, "a")
	d := chat.NewDraft(chat.UserMessage{Text: "b"})
	d.Interrupt = true
	if _, err := w.Append(ctx, ann, id, []chat.Draft{d}); err != nil {
		t.Fatal(err)
	}
	w.end(w.turn(id), chat.Stopped)
	w.wantStory(id, "session.started", "user.message a", "turn.started for 2", "user.message b", "turn.stop_requested",
		"turn.completed stopped", "turn.started for 4")
}

func TestStopEndsTheTurn(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	res, err := w.Stop(ctx, ann, id, "", "")
	if err != nil || res.Stopped {
		t.Fatal("nothing runs", res, err)
	}
	w.say(id, "a")
	ref := w.turn(id)
	w.append(bot, id, chat.AgentToolCall{CallID: "c1", Tool: "t"})
	w.ask(id, chat.AgentInputRequest{InputType: chat.InputText, Text: "?"})
	for range 2 {
		if res, err = w.Stop(ctx, ann, id, "", "enough"); err != nil || !res.Stopped || res.TurnID != ref.Turn {
			t.Fatal(res, err)
		}
	}
	w.end(ref, chat.Stopped)
	w.wantCode(w.EndTurn(ctx, ref, chat.Stopped, ""), chat.Conflict)
	w.wantStory(id, "session.started", "user.message a", "turn.started for 2", "agent.tool_call", "agent.input_request",
		"turn.stop_requested", "agent.tool_error unknown_outcome", "prompt.closed withdrawn", "turn.completed stopped")
	_, err = w.Stop(ctx, ann, id, "", strings.Repeat("x", 1001))
	w.wantCode(err, chat.TooLarge)
}

// A stop that waited for the owner of its session does not stop a turn that has begun meanwhile.
func TestStopThatWaitedIsNotForALaterTurn(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "a")
	for _, all := range []bool{true, false} {
		early := &call{Session: id, Caller: ann, All: all, waited: time.Hour}
		if res, err := w.stopHere(ctx, early); err != nil || res.Stopped {
			t.Error("a stop that was requested before the turn:", res, err)
		}
	}
	if res, err := w.StopLate(ctx, ann, id, "", "", "", time.Hour); err != nil || res.Stopped {
		t.Error("a stop that waited before the call:", res, err)
	}
	if res, err := w.StopLate(ctx, ann, id, "", "", "t-earlier", 0); err != nil || res.Stopped {
		t.Error("a stop of an earlier turn:", res, err)
	}
	if res, err := w.stopHere(ctx, &call{Session: id, Caller: ann, waited: lateStop}); err != nil || !res.Stopped {
		t.Error(res, err)
	}
}

// A stop that was sent on by another node is meant for the turn that ran there.
func TestStopIsForTheTurnThatTheClientHasSeen(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "a")
	running := w.turn(id)
	for _, all := range []bool{true, false} {
		if res, err := w.stopHere(ctx, &call{Session: id, Caller: ann, All: all, Seen: "t-earlier"}); err != nil || res.Stopped {
			t.Error("a stop of an earlier turn:", res, err)
		}
	}
	if res, err := w.stopHere(ctx, &call{Session: id, Caller: ann, Seen: running.Turn}); err != nil || !res.Stopped {
		t.Error(res, err)
	}
}

// An agent that this server does not run learns of a stop from the event.
func TestStopOfAnAgentThatTheServerDoesNotRun(t *testing.T) {
	w := newTestStore(t, Options{})
	if _, _, err := w.Create(ctx, ann, chat.NewSession{ID: "s", Agent: chat.NoAgent}); err != nil {
		t.Fatal(err)
	}
	w.say("s", "a")
	if res, err := w.Stop(ctx, ann, "s", "", "enough"); err != nil || !res.Stopped || res.TurnID != "" {
		t.Fatal(res, err)
	}
	w.say("s", "b")
	w.wantStory("s", "session.started", "user.message a", "turn.stop_requested", "user.message b")
}

// Events, previews and ends of an older attempt or an ended turn are refused.
func TestOlderAttemptsAreRefused(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "a")
	old := w.turn(id)
	next, ok, err := w.ResumeTurn(ctx, old, "test", false)
	if err != nil || !ok || next.Attempt != 2 {
		t.Fatal(next, ok, err)
	}
	refused := func(ref chat.TurnRef) {
		t.Helper()
		_, err := w.Append(ctx, bot, id, draft(ref, chat.AgentStatus{Message: "x"}))
		w.wantCode(err, chat.Conflict)
		w.wantCode(w.Preview(ctx, bot, id, piece(ref, "b", 0, "x")), chat.Conflict)
		w.wantCode(w.EndTurn(ctx, ref, chat.Done, ""), chat.Conflict)
		_, err = w.TakeSteered(ctx, ref)
		w.wantCode(err, chat.Conflict)
		_, _, err = w.ResumeTurn(ctx, ref, "", true)
		w.wantCode(err, chat.Conflict)
	}
	refused(old)
	d := draft(next, chat.AgentStatus{Message: "x"})
	d[0].Workstream = "elsewhere"
	_, err = w.Append(ctx, bot, id, d)
	w.wantCode(err, chat.Invalid)
	w.show(next, "b", 0, "x")
	w.end(next, chat.Done)
	refused(next)
	// A retry of a draft that was stored before the end is not refused.
	w.say(id, "b")
	ref := w.turn(id)
	d = draft(ref, chat.AgentStatus{Message: "x"})
	d[0].ClientID = "k"
	first, err := w.Append(ctx, bot, id, d)
	if err != nil {
		t.Fatal(err)
	}
	w.end(ref, chat.Done)
	d = draft(ref, chat.AgentStatus{Message: "x"})
	d[0].ClientID = "k"
	if again, err := w.Append(ctx, bot, id, d); err != nil || again[0].Seq != first[0].Seq {
		t.Fatal(again, err)
	}
}

func TestTurnFailsAfterCrashesWithoutProgress(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "a")
	ref := w.turn(id)
	var ok bool
	var err error
	crash := func(more bool) {
		t.Helper()
		next, went, e := w.ResumeTurn(ctx, ref, "crash", true)
		if ok, err = went, e; err != nil || ok != more {
			t.Fatal(ok, err)
		}
		if ok {
			ref = next
		}
	}
	crash(true)
	crash(true)
	if _, err := w.Append(ctx, bot, id, draft(ref, chat.AgentStatus{Message: "progress"})); err != nil {
		t.Fatal(err)
	}
	w.restart()
	crash(true)
	p := w.ask(id, chat.AgentInputRequest{InputType: chat.InputText, Text: "?"})
	for range 10 { // crashes are not counted while the turn waits for a person
		crash(true)
	}
	if _, err := w.Answer(ctx, ann, id, p, chat.Answer{Text: "x"}); err != nil {
		t.Fatal(err)
	}
	for i := range 10 { // a preview counts as progress
		w.show(ref, "b", 2*i, "xy")
		if i%3 == 0 {
			w.restart()
		}
		crash(true)
	}
	crash(true)
	crash(false)
	if st := w.state(id); st.Line("").Turn != nil {
		t.Fatal("the turn was not given up")
	}
}

func TestMessageReopensAnEndedSession(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "a")
	ref := w.turn(id)
	w.say(id, "b") // is queued when the session ends
	p := w.ask(id, chat.AgentInputRequest{InputType: chat.InputText, Text: "?"})
	if _, err := w.Append(ctx, bot, id, draft(ref, chat.SessionCompleted{})); err != nil {
		t.Fatal(err)
	}
	if s := w.state(id).Session; s.Status != chat.Completed || s.OpenPrompts != 0 {
		t.Fatal(s.Status, s.OpenPrompts)
	}
	_, err := w.Answer(ctx, ann, id, p, chat.Answer{Text: "x"})
	w.wantCode(err, chat.Conflict)
	w.end(ref, chat.Done)
	if s := w.state(id).Session.Status; s != chat.Running {
		t.Fatalf("a turn runs and the session is %s", s)
	}
	w.end(w.turn(id), chat.Done)
	w.append(bot, id, chat.SessionFailed{ErrorMessage: "no"})
	w.restart()
	if s := w.state(id).Session; s.Status != chat.FailedState || s.Error != "no" {
		t.Fatal(s)
	}
	w.say(id, "c")
	if s := w.state(id).Session; s.Status != chat.Running || s.Error != "" {
		t.Fatal(s)
	}
	d := chat.NewDraft(chat.SessionCompleted{})
	d.Workstream = "w1"
	_, err = w.Append(ctx, bot, id, []chat.Draft{d})
	w.wantCode(err, chat.Invalid)
}

func TestTurnWithTheLargestBlockCanEnd(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "a")
	ref := w.turn(id)
	// Text that is six times as long in JSON: pieces are refused before the event that
	// stores the block would be too large.
	const part = 8 << 10
	at, wild := 0, strings.Repeat("\x01", part)
	for {
		err := w.Preview(ctx, bot, id, piece(ref, "b", at, wild))
		if err != nil {
			w.wantCode(err, chat.TooLarge)
			break
		}
		at += part
	}
	if at < 100<<10 {
		t.Fatalf("only %d bytes were taken", at)
	}
	w.restart()
	if err := w.EndTurn(ctx, ref, chat.Failed, strings.Repeat("why ", 1<<20)); err != nil {
		t.Fatal(err)
	}
	evs := w.events(id)
	if b := evs[3].Body.(chat.AgentText); len(b.Text) != at || !b.Partial {
		t.Fatalf("%d bytes of %d were kept", len(b.Text), at)
	}
}

// TestLastTextAndEndInOneCommit: the last text and the end of the turn are decided in one
// commit, and the block is stored once.
func TestLastTextAndEndInOneCommit(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "a")
	ref := w.turn(id)
	w.show(ref, "b", 0, "Hel")
	r := w.acquire(id)
	defer r.release()
	hold, held := make(chan struct{}), make(chan struct{})
	go func() {
		_ = r.do(ctx, &request{look: func(*chat.State) error { close(held); <-hold; return nil }})
	}()
	<-held
	wait, err := w.AppendLater(ctx, bot, id, draft(ref, chat.AgentText{Block: "b", Text: "Hello"}))
	if err != nil {
		t.Fatal(err)
	}
	said, ended := make(chan error, 1), make(chan error, 1)
	go func() { _, err := wait(); said <- err }()
	go func() { ended <- w.EndTurn(ctx, ref, chat.Done, "") }()
	for {
		r.mu.Lock()
		n := len(r.queue)
		r.mu.Unlock()
		if n == 2 {
			break
		}
		runtime.Gosched()
	}
	before := w.log.commits.Load()
	close(hold)
	if err := <-said; err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if n := w.log.commits.Load() - before; n != 1 {
		t.Fatalf("%d commits", n)
	}
	w.wantStory(id, "session.started", "user.message a", "turn.started for 2", "agent.text Hello", "turn.completed done")
}
