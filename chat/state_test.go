package chat

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func (s *script) state() *State {
	st := new(State)
	for _, e := range s.events() {
		st.Apply(&e)
	}
	return st
}

func TestStateFollowsATurn(t *testing.T) {
	s := newScript(t)
	want := func(what string, status Status, queue []Seq, runs bool) *State {
		t.Helper()
		st := s.state()
		l := st.Line("")
		if st.Session.Status != status || !slices.Equal(l.Queue, queue) || (l.Turn != nil) != runs || st.Busy() != (runs || len(queue) > 0) {
			t.Fatalf("%s: status %s, queue %v, turn %+v", what, st.Session.Status, l.Queue, l.Turn)
		}
		if st.Last != s.seq || st.Session.Last != s.seq || st.LastAt != s.at || st.Session.UpdatedAt != s.at {
			t.Fatalf("%s: at %d", what, st.Last)
		}
		return st
	}
	st := want("begun", Idle, nil, false)
	if st.Session.Agent != "demo" || st.Session.Title != "A test" || st.Session.Owner != mira || st.Session.Workspace != DefaultWorkspace || st.Session.Policy != Queue {
		t.Fatalf("%+v", st.Session)
	}
	s.ask(mira, "one")
	want("asked", Idle, []Seq{2}, false)
	id := s.turn("", 2)
	st = want("started", Running, nil, true)
	if turn, line := st.TurnOf(id); turn == nil || line != "" || turn.Trigger != 2 || turn.Attempt != 1 || turn.Seq != 3 {
		t.Fatalf("%+v", turn)
	}
	s.ask(jon, "two")
	s.on("", AgentToolCall{CallID: "c1", Tool: "a", Repeatable: true})
	s.on("", AgentToolCall{CallID: "c2", Tool: "b"})
	s.on("", AgentToolResult{CallID: "c1"})
	s.on("", AgentUsage{Usage: Usage{InputTokens: 3, ReasoningTokens: 1}})
	st = want("working", Running, []Seq{4}, true)
	if c := st.Line("").Turn.Calls; len(c) != 1 || c[0].CallID != "c2" || c[0].Seq != 6 {
		t.Fatalf("open calls %+v", c)
	}
	s.on("", AgentToolError{CallID: "c2", Error: "e"})
	s.server("", TurnResumed{TurnID: id, Attempt: 2})
	s.on("", AgentUsage{Usage: Usage{InputTokens: 1}})
	st = want("resumed", Running, []Seq{4}, true)
	if turn := st.Line("").Turn; len(turn.Calls) != 0 || turn.Attempt != 2 || turn.Usage != (Usage{InputTokens: 4, ReasoningTokens: 1}) {
		t.Fatalf("%+v", turn)
	}
	s.server("", TurnStopRequested{TurnID: id, By: mira})
	if st = want("stopping", Running, []Seq{4}, true); !st.Line("").Turn.Stopping {
		t.Fatal("not stopping")
	}
	s.done("", Stopped, "")
	st = want("stopped", Idle, []Seq{4}, false)
	if st.Usage.InputTokens != 4 {
		t.Fatal(st.Usage)
	}
	s.say(jon, UserMessageWithdrawn{Sequence: 4})
	want("withdrawn", Idle, nil, false)
}

func TestStateFollowsSteering(t *testing.T) {
	s := newScript(t)
	s.say(mira, SessionUpdated{Policy: new(Steer)})
	s.answering("go")
	a, b, c := s.ask(mira, "a"), s.ask(mira, "b"), s.ask(mira, "c")
	if l := s.state().Line(""); !slices.Equal(l.Turn.Steered, []Seq{a, b, c}) || len(l.Queue) != 0 {
		t.Fatalf("%+v %+v", l, l.Turn)
	}
	s.server("", TurnInput{Sequences: []Seq{a}})
	s.say(mira, UserMessageWithdrawn{Sequence: b})
	if l := s.state().Line(""); !slices.Equal(l.Turn.Steered, []Seq{c}) {
		t.Fatalf("%+v", l.Turn)
	}
	s.server("", TurnStopRequested{TurnID: s.turns[""], By: mira})
	d := s.ask(mira, "d") // an ending turn takes no more messages
	s.done("", Stopped, "")
	if l := s.state().Line(""); l.Turn != nil || !slices.Equal(l.Queue, []Seq{c, d}) {
		t.Fatalf("%+v", l)
	}
}

func TestStateFollowsPrompts(t *testing.T) {
	s := newScript(t)
	s.answering("go")
	s.on("", AgentInputRequest{RequestID: "q1", InputType: InputText, Text: "?"})
	s.on("", AgentInputRequest{RequestID: "note", InputType: InputNotification, Text: "!"})
	s.on("", AgentApprovalRequest{RequestID: "q2", Calls: []ApprovalCall{{CallID: "c1", Tool: "rm"}, {CallID: "c2", Tool: "cp"}}})
	s.on("", AgentPermissionRequest{RequestID: "q3", Scopes: []string{"a", "b"}})
	st := s.state()
	if st.Session.Status != Waiting || st.Session.OpenPrompts != 3 || st.Prompt("q2") == nil || st.Prompt("note") != nil {
		t.Fatalf("%+v", st.Session)
	}
	s.say(mira, UserApprovalResponse{RequestID: "q2", Decisions: []Decision{{CallID: "c1", Approve: true, Remember: "session"}, {CallID: "c2", Remember: "session"}}})
	s.say(mira, UserPermissionResponse{RequestID: "q3", Granted: []string{"a"}, Denied: []string{"b"}, Duration: "session"})
	st = s.state()
	if !slices.Equal(st.Approved, []string{"rm"}) || !slices.Equal(st.Granted, []string{"a"}) || st.Session.OpenPrompts != 1 || st.Session.Status != Waiting {
		t.Fatalf("approved %v, granted %v, %+v", st.Approved, st.Granted, st.Session)
	}
	s.server("", PromptClosed{RequestID: "q1", Reason: Expired})
	if st = s.state(); st.Session.Status != Running || len(st.Prompts) != 0 {
		t.Fatalf("%+v", st.Session)
	}
	s.on("", AgentPermissionRequest{RequestID: "q4", Scopes: []string{"c"}})
	s.say(mira, UserPermissionResponse{RequestID: "q4", Granted: []string{"c"}})
	if st = s.state(); !slices.Equal(st.Granted, []string{"a"}) {
		t.Fatalf("granted once is remembered: %v", st.Granted)
	}
}

func TestStateFollowsWorkstreams(t *testing.T) {
	s := newScript(t)
	s.answering("go")
	s.on("", WorkstreamLaunched{ID: "w1", Task: "t", Name: "One"})
	s.turn("w1", s.seq)
	s.on("w1", WorkstreamLaunched{ID: "w2", Task: "child"})
	s.server("w1", WorkstreamProgress{ID: "w2", Phase: "planning", Iteration: 3, Message: "m", Share: 0.5})
	s.server("w1", WorkstreamProgress{ID: "w2", Iteration: 1})
	s.say(mira, WorkstreamSteered{ID: "w2", Command: "pause_requested"})
	s.say(mira, WorkstreamSteered{ID: "w2", Command: "add_instruction", Text: "x"})
	st := s.state()
	if w := st.Workstream("w2"); w.Parent != "w1" || w.Phase != "planning" || w.Iteration != 3 || w.Message != "m" || !w.Paused || w.State != "running" {
		t.Fatalf("%+v", w)
	}
	if st.Session.Status != Running || len(st.Lines) != 3 { // w2 has its launch queued
		t.Fatalf("%+v", st.Lines)
	}
	s.say(mira, WorkstreamSteered{ID: "w2", Command: "resume_requested"})
	s.server("w1", WorkstreamWarning{ID: "w2", Share: 0.9})
	s.server("w1", WorkstreamCanceling{ID: "w2"})
	if w := s.state().Workstream("w2"); w.Paused || w.Warned != 0.9 || w.State != "canceling" || w.EndedAt != 0 {
		t.Fatalf("%+v", w)
	}
	s.server("w1", WorkstreamCanceled{ID: "w2"})
	s.done("w1", Done, "")
	s.server("", WorkstreamCompleted{ID: "w1", Summary: "sum"})
	s.done("", Done, "")
	st = s.state()
	if w := st.Workstream("w1"); w.State != "completed" || w.Phase != "done" || w.Summary != "sum" || w.EndedAt == 0 {
		t.Fatalf("%+v", w)
	}
	// The turn did not take the result, so it is queued for the next one.
	if st.Workstream("w2").State != "canceled" || st.Workstream("w9") != nil || !st.Busy() || st.Line("").Next() == 0 {
		t.Fatalf("%+v", st)
	}
	s.turn("", st.Line("").Next())
	s.done("", Done, "")
	if st = s.state(); st.Busy() || st.Session.Status != Idle {
		t.Fatalf("%+v", st)
	}
	if _, kept := st.Lines["w1"]; kept {
		t.Error("the line of an ended workstream is kept")
	}
}

func TestStateFollowsTheSession(t *testing.T) {
	s := newScript(t)
	s.say(mira, SessionUpdated{Title: new("T2"), Agent: new("other"), Metadata: raw(`{"a":1}`), Summary: new("S"), Members: &[]Member{{Actor: jon, Role: Answerer}}})
	st := s.state()
	if v := st.Session; v.Title != "T2" || v.Agent != "other" || string(v.Metadata) != `{"a":1}` || v.Summary != "S" || v.RoleOf(jon) != Answerer || v.RoleOf(mira) != Owner || v.RoleOf(demo) != "" {
		t.Fatalf("%+v", v)
	}
	s.say(mira, SessionUpdated{Title: new("")})
	if v := s.state().Session; v.Title != "" || v.Summary != "S" || len(v.Members) != 1 {
		t.Fatalf("%+v", v)
	}
	s.say(demo, SessionFailed{ErrorMessage: "boom"})
	if v := s.state().Session; v.Status != FailedState || v.Error != "boom" {
		t.Fatalf("%+v", v)
	}
	s.say(demo, SessionStarted{Agent: "evil", Title: "evil"}) // a second session.started is ignored
	if v := s.state().Session; v.Agent != "other" || v.Status != FailedState || v.CreatedAt != s.events()[0].At {
		t.Fatalf("%+v", v)
	}
	s.ask(mira, "again")
	if v := s.state().Session; v.Status != Idle || v.Error != "" {
		t.Fatalf("%+v", v)
	}
	s.say(mira, SessionUpdated{Agent: new(NoAgent)})
	s.ask(mira, "to nobody")
	if l := s.state().Line(""); len(l.Queue) != 1 {
		t.Fatalf("%+v", l)
	}
	s.say(mira, SessionCompleted{})
	if v := s.state().Session; v.Status != Completed {
		t.Fatalf("%+v", v)
	}
}

// Apply reports a change of the record exactly when more than the last event
// and its time changed.
func TestApplyReportsChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st := new(State)
		for _, e := range randomLog(rt, true).events() {
			before := st.Session
			changed := st.Apply(&e)
			after := st.Session
			before.Last, before.UpdatedAt, after.Last, after.UpdatedAt = 0, 0, 0, 0
			if jsonOf(rt, before) != jsonOf(rt, after) && !changed {
				rt.Fatalf("%s changed the record, and Apply did not report it", e.Type)
			}
		}
	})
}

// A state that was stored and read continues like the original; checkpoints rely on it.
func TestStoredStateContinues(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		events := randomLog(rt, true).events()
		at := rapid.IntRange(0, len(events)).Draw(rt, "checkpoint")
		lived, stored := new(State), new(State)
		for i := range events {
			if i == at {
				if err := json.Unmarshal([]byte(jsonOf(rt, lived)), stored); err != nil {
					rt.Fatal(err)
				}
			}
			lived.Apply(&events[i])
			if i >= at {
				stored.Apply(&events[i])
			}
		}
		if at < len(events) && jsonOf(rt, lived) != jsonOf(rt, stored) {
			rt.Fatalf("\nlived  %s\nstored %s", jsonOf(rt, lived), jsonOf(rt, stored))
		}
		if at < len(events) && jsonOf(rt, lived.View()) != jsonOf(rt, stored.View()) {
			rt.Fatal("the views differ")
		}
	})
}

// Changes of a clone do not change the original or other clones.
func TestClonesAreIndependent(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := randomLog(rt, true).events(), randomLog(rt, true).events()
		at := rapid.IntRange(0, len(a)).Draw(rt, "clone")
		st := new(State)
		for i := range a[:at] {
			st.Apply(&a[i])
		}
		one, two, view := st.Clone(), st.Clone(), st.View()
		before, seen := jsonOf(rt, st), jsonOf(rt, view)
		// Two clones apply different events alternately.
		lone := st.Clone()
		for i := range max(len(a)-at, len(b)) {
			if at+i < len(a) {
				one.Apply(&a[at+i])
				lone.Apply(&a[at+i])
			}
			if i < len(b) {
				two.Apply(&b[i])
			}
		}
		if jsonOf(rt, st) != before || jsonOf(rt, view) != seen {
			rt.Fatalf("the original changed:\n%s\n%s", before, jsonOf(rt, st))
		}
		if jsonOf(rt, one) != jsonOf(rt, lone) {
			rt.Fatalf("a clone changed with another one:\n%s\n%s", jsonOf(rt, one), jsonOf(rt, lone))
		}
	})
}

func TestScopesRolesAndActorsAreCompared(t *testing.T) {
	c := Caller{Scopes: []Scope{ScopeUser}}
	if !c.Has(ScopeUser) || c.Has(ScopeAgent) || !Trusted.Has(ScopeAgent) || c.In() != DefaultWorkspace || (Caller{Workspace: "w"}).In() != "w" {
		t.Error("scopes")
	}
	if !Owner.Includes(Viewer) || Viewer.Includes(Answerer) || Role("").Includes("") || !Answerer.Includes(Answerer) {
		t.Error("roles")
	}
	if mira.Same(jon) || !mira.Same(Actor{Kind: User, ID: "mira"}) || mira.Key() != "user:mira" {
		t.Error("actors")
	}
}

func TestErrorsKeepTheirCodeAndHideTheirCause(t *testing.T) {
	cause := json.Unmarshal([]byte("{"), new(int))
	e := Errorf(Conflict, "no %d", 1)
	w := e.With("a", 1).With("b", 2).Because(cause)
	if len(e.Details) != 0 || len(w.Details) != 2 || e.Err != nil || CodeOf(w) != Conflict || w.Unwrap() != cause {
		t.Errorf("%+v %+v", e, w)
	}
	if CodeOf(nil) != "" || CodeOf(cause) != Internal || Public(cause).Code != Internal || Public(w) != w {
		t.Error("codes")
	}
	if p := Public(cause); p.Msg == cause.Error() {
		t.Error("the cause is shown")
	}
}
