package session

import (
	"fmt"
	"slices"
	"testing"

	"github.com/parley-hq/parley/chat"
)

func TestResultOfAWorkstreamStartsATurnOfItsParent(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	s := w.launch(id, chat.Launch{ID: "w1", Name: "One", Instruction: "count", ClientID: "k"})
	if s.LaunchID == "" || s.State != chat.WorkRunning || s.Phase != chat.PhasePlanning || s.Turn == "" || s.DeadlineSeconds != 300 || s.Agent != "demo" {
		t.Fatalf("%+v", s)
	}
	// A repeated launch returns the same workstream; another launch with its id fails.
	if again := w.launch(id, chat.Launch{ID: "w1", Name: "One", Instruction: "count", ClientID: "k"}); again.LaunchID != s.LaunchID {
		t.Fatalf("%+v", again)
	}
	_, err := w.Launch(ctx, ann, id, chat.Launch{ID: "w1", Instruction: "another"})
	w.wantCode(err, chat.Conflict)
	if d := chat.Public(err).Details; d["launch_id"] != s.LaunchID || d["state"] != chat.WorkRunning {
		t.Fatal(d)
	}
	// It is found by its id and by its launch id.
	if w.status(id, s.LaunchID).ID != "w1" || w.status(id, "w1").LaunchID != s.LaunchID {
		t.Fatal("not found")
	}
	ref := w.turnOf(id, "w1")
	for _, b := range []chat.Body{chat.AgentToolCall{CallID: "c", Tool: "grep"}, chat.AgentToolResult{CallID: "c", Tool: "grep"}, chat.AgentText{Text: "Seven."}} {
		if _, err := w.Append(ctx, bot, id, draft(ref, b)); err != nil {
			t.Fatal(err)
		}
	}
	w.restart()
	w.end(ref, chat.Done)
	w.wantSaga(id,
		"2 | launched w1", "3 w1| turn.started for 2",
		"4 w1| agent.tool_call", "5 | progress w1 executing_tool grep", "6 w1| agent.tool_result",
		"7 w1| agent.text Seven.", "8 | progress w1 synthesizing",
		"9 w1| turn.completed done", "10 | completed w1 Seven.", "11 | turn.started for 10")
	if s := w.status(id, "w1"); s.State != chat.WorkCompleted || s.Summary != "Seven." || s.Phase != chat.PhaseDone || s.Iteration != 1 || s.DurationMS < 0 || s.EndedAt == 0 {
		t.Fatalf("%+v", s)
	}
}

// Crashes are not counted while a turn waits for workstreams; afterwards they are.
func TestCrashesAreNotCountedWhileWorkstreamsAreAwaited(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "go")
	main := w.turn(id)
	w.launch(id, chat.Launch{ID: "a", Turn: main.Turn, Attempt: 1})
	crash := func() (ok bool) {
		t.Helper()
		var err error
		var next chat.TurnRef
		if next, ok, err = w.ResumeTurn(ctx, main, "crash", true); err != nil {
			t.Fatal(err)
		}
		if ok {
			main = next
		}
		return ok
	}
	for i := range 2 * maxCrashes {
		if !crash() {
			t.Fatalf("given up after %d crashes, with work to wait for", i+1)
		}
	}
	w.end(w.turnOf(id, "a"), chat.Done)
	for i := range maxCrashes - 1 {
		if !crash() {
			t.Fatalf("given up after %d crashes", i+1)
		}
	}
	if crash() {
		t.Fatal("it crashes for ever")
	}
}

// Crashes are not counted while a workstream is paused.
func TestCrashesAreNotCountedWhilePaused(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.launch(id, chat.Launch{ID: "a"})
	steer := func(command string) {
		t.Helper()
		if _, err := w.SteerWorkstream(ctx, ann, id, "a", chat.Steering{Command: command}); err != nil {
			t.Fatal(err)
		}
	}
	crash := func() bool {
		t.Helper()
		_, ok, err := w.ResumeTurn(ctx, w.turnOf(id, "a"), "crash", true)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	steer(chat.SteerPause)
	for i := range 2 * maxCrashes {
		if !crash() {
			t.Fatalf("given up after %d crashes, though it is paused", i+1)
		}
	}
	steer(chat.SteerResume)
	for i := range maxCrashes - 1 {
		if !crash() {
			t.Fatalf("given up after %d crashes", i+1)
		}
	}
	if crash() {
		t.Fatal("it crashes for ever")
	}
}

func TestRunningTurnReceivesResults(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "go")
	main := w.turn(id)
	for _, name := range []string{"a", "b", "c"} {
		w.launch(id, chat.Launch{ID: name, Turn: main.Turn, Attempt: 1})
	}
	w.end(w.turnOf(id, "a"), chat.Done)
	w.end(w.turnOf(id, "b"), chat.Failed)
	news, err := w.TakeEventsOf(ctx, main, []string{"a"})
	if err != nil || len(news) != 1 {
		t.Fatal(news, err)
	}
	if news, err = w.TakeEvents(ctx, main); err != nil || len(news) != 1 {
		t.Fatal(news, err)
	}
	w.end(w.turnOf(id, "c"), chat.Done) // is never taken, so it starts a turn
	w.end(main, chat.Done)
	st := w.state(id)
	if tr := st.Line("").Turn; tr == nil || len(tr.Woken) != 0 {
		t.Fatal(w.saga(id))
	}
	w.end(w.turn(id), chat.Done)
	if st := w.state(id); st.Busy() || st.Session.Status != chat.Idle {
		t.Fatal(w.saga(id))
	}
}

func TestOneTurnReceivesManyResults(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "go")
	main := w.turn(id)
	for i := range 100 {
		w.launch(id, chat.Launch{ID: fmt.Sprintf("w%d", i)})
	}
	for i := range 100 {
		w.end(w.turnOf(id, fmt.Sprintf("w%d", i)), chat.Done)
	}
	w.end(main, chat.Done)
	next := w.turn(id)
	news, err := w.TakeEvents(ctx, next)
	if err != nil || len(news) != 99 {
		t.Fatal(len(news), err)
	}
	w.end(next, chat.Done)
	if w.state(id).Busy() {
		t.Fatal("there is still something to do")
	}
}

func TestEverySteeringCommand(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.launch(id, chat.Launch{ID: "w1"})
	ref := w.turnOf(id, "w1")
	for i, command := range []string{chat.SteerAdd, chat.SteerPriority, chat.SteerConstraint, chat.SteerPause, chat.SteerResume} {
		// Two callers at the same time: both are stored, in one order.
		for _, c := range []chat.Caller{ann, {Actor: bob.Actor, Scopes: []chat.Scope{chat.ScopeAdmin}}} {
			if _, err := w.SteerWorkstream(ctx, c, id, "w1", chat.Steering{Command: command, Text: "x", ClientID: fmt.Sprint("k", i)}); err != nil {
				t.Fatal(command, err)
			}
		}
	}
	// A repeated command is stored once.
	if _, err := w.SteerWorkstream(ctx, ann, id, "w1", chat.Steering{Command: chat.SteerAdd, Text: "x", ClientID: "k0"}); err != nil {
		t.Fatal(err)
	}
	_, err := w.SteerWorkstream(ctx, ann, id, "w1", chat.Steering{Command: chat.SteerAdd, Text: "other", ClientID: "k0"})
	w.wantCode(err, chat.Conflict)
	_, err = w.SteerWorkstream(ctx, ann, id, "nobody", chat.Steering{Command: chat.SteerAdd, Text: "x"})
	w.wantCode(err, chat.NotFound)
	_, err = w.SteerWorkstream(ctx, bob, id, "w1", chat.Steering{Command: chat.SteerAdd, Text: "x"})
	w.wantCode(err, chat.NotFound) // not his session
	taken, err := w.TakeEvents(ctx, ref)
	if err != nil || len(taken) != 10 || !slices.IsSorted(taken) {
		t.Fatal(taken, err)
	}
	// Directives that were not taken start no turn.
	if _, err := w.SteerWorkstream(ctx, ann, id, "w1", chat.Steering{Command: chat.SteerAdd, Text: "late"}); err != nil {
		t.Fatal(err)
	}
	w.end(ref, chat.Done)
	if s := w.status(id, "w1"); s.State != chat.WorkCompleted {
		t.Fatalf("%+v", s)
	}
}

func TestStopEndsOneLineOrAll(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "go")
	for _, name := range []string{"a", "b"} {
		w.launch(id, chat.Launch{ID: name})
	}
	w.launch(id, chat.Launch{ID: "talk", Interactive: true})
	w.launch(id, chat.Launch{ID: "b1", Parent: "b"})
	// Stop ends the turn of the main line; the workstreams continue.
	if res, err := w.Stop(ctx, ann, id, "", ""); err != nil || !res.Stopped {
		t.Fatal(res, err)
	}
	w.end(w.turn(id), chat.Stopped)
	if s := w.status(id, "a"); s.State != chat.WorkRunning {
		t.Fatalf("%+v", s)
	}
	// A stop cancels a workstream; of an interactive one it only ends the turn.
	for _, name := range []string{"a", "talk"} {
		if res, err := w.Stop(ctx, ann, id, name, "no"); err != nil || !res.Stopped {
			t.Fatal(res, err)
		}
		w.end(w.turnOf(id, name), chat.Stopped)
	}
	if a, talk := w.status(id, "a"), w.status(id, "talk"); a.State != chat.WorkCanceled || talk.State != chat.WorkRunning || !talk.Waiting {
		t.Fatalf("%+v %+v", a, talk)
	}
	if res, err := w.Stop(ctx, ann, id, "a", ""); err != nil || res.Stopped {
		t.Fatal(res, err)
	}
	// StopAll stops all workstreams and their descendants.
	if res, err := w.StopAll(ctx, ann, id, "enough"); err != nil || !res.Stopped {
		t.Fatal(res, err)
	}
	if s := w.status(id, "talk"); s.State != chat.WorkCanceled {
		t.Fatalf("%+v", s)
	}
	w.end(w.turnOf(id, "b"), chat.Stopped)
	w.end(w.turnOf(id, "b1"), chat.Stopped)
	for _, name := range []string{"b", "b1"} {
		if s := w.status(id, name); s.State != chat.WorkCanceled {
			t.Fatalf("%+v", s)
		}
	}
	if st := w.state(id); st.Busy() {
		t.Fatal(w.saga(id))
	}
}

func TestOnlyTheServerWritesStates(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.launch(id, chat.Launch{ID: "w1"})
	for _, b := range []chat.Body{chat.WorkstreamLaunched{ID: "w2"}, chat.WorkstreamCompleted{ID: "w1"}, chat.WorkstreamSteered{ID: "w1", Command: chat.SteerWrapUp}} {
		_, err := w.Append(ctx, bot, id, []chat.Draft{chat.NewDraft(b)})
		w.wantCode(err, chat.Denied)
	}
	// Only the main line can end the session; that also ends its workstreams.
	d := chat.NewDraft(chat.SessionCompleted{})
	d.Workstream = "w1"
	_, err := w.Append(ctx, bot, id, []chat.Draft{d})
	w.wantCode(err, chat.Invalid)
	w.append(bot, id, chat.SessionCompleted{})
	w.end(w.turnOf(id, "w1"), chat.Stopped)
	if st := w.state(id); st.Session.Status != chat.Completed || st.Workstream("w1").State != chat.WorkCanceled {
		t.Fatal(w.saga(id))
	}
}

func TestAgentOfAWorkstreamMayWorkInIt(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{Agent: chat.NoAgent})
	_, err := w.Launch(ctx, ann, id, chat.Launch{ID: "w1", Instruction: "work"})
	w.wantCode(err, chat.Invalid) // no agent
	helper := chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: "helper"}, Scopes: []chat.Scope{chat.ScopeAgent}}
	_, err = w.Get(ctx, helper, id)
	w.wantCode(err, chat.NotFound)
	w.launch(id, chat.Launch{ID: "w1", Agent: "helper"})
	if _, err := w.Append(ctx, helper, id, draft(w.turnOf(id, "w1"), chat.AgentText{Text: "Mine."})); err != nil {
		t.Fatal("an agent may work in the line that it was launched for:", err)
	}
	w.end(w.turnOf(id, "w1"), chat.Done)
	if st := w.state(id); st.Busy() || st.Workstream("w1").Summary != "Mine." {
		t.Fatal(w.saga(id))
	}
}

func TestQueuedMessageContinuesAWorkstream(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.launch(id, chat.Launch{ID: "w1"})
	d := chat.NewDraft(chat.UserMessage{Text: "and this"})
	d.Workstream = "w1"
	if _, err := w.Append(ctx, ann, id, []chat.Draft{d}); err != nil {
		t.Fatal(err)
	}
	w.end(w.turnOf(id, "w1"), chat.Done)
	w.end(w.turnOf(id, "w1"), chat.Done)
	w.wantSaga(id, "2 | launched w1", "3 w1| turn.started for 2", "4 w1| user.message and this",
		"5 w1| turn.completed done", "6 w1| turn.started for 4", "7 w1| turn.completed done", "8 | completed w1", "9 | turn.started for 8")
	_, err := w.Append(ctx, ann, id, []chat.Draft{d})
	w.wantCode(err, chat.Conflict)
}

func TestParentReceivesEveryAnswerOfAnInteractiveWorkstream(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{Agent: chat.NoAgent})
	w.launch(id, chat.Launch{ID: "w1", Interactive: true, Agent: "demo"})
	answer := func(text string) {
		ref := w.turnOf(id, "w1")
		if _, err := w.Append(ctx, bot, id, draft(ref, chat.AgentText{Text: text})); err != nil {
			t.Fatal(err)
		}
		w.end(ref, chat.Done)
	}
	if _, err := w.MessageWorkstream(ctx, ann, id, "w1", chat.Steering{Text: "and?"}); err != nil {
		t.Fatal(err)
	}
	answer("One.") // while the next message is queued
	if s := w.status(id, "w1"); s.Waiting || s.Phase != chat.PhasePlanning || s.Turn == "" {
		t.Fatalf("%+v", s)
	}
	answer("Two.")
	w.wantSaga(id, "2 | launched w1", "3 w1| turn.started for 2", "4 | message w1 and?",
		"5 w1| agent.text One.", "6 | progress w1 synthesizing", "7 w1| turn.completed done", "8 | progress w1 done  One.", "9 w1| turn.started for 4",
		"10 w1| agent.text Two.", "11 | progress w1 synthesizing", "12 w1| turn.completed done", "13 | progress w1 done  Two.")
	if s := w.status(id, "w1"); !s.Waiting || s.Summary != "Two." {
		t.Fatalf("%+v", s)
	}
}
