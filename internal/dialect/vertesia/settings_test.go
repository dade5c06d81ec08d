package vertesia

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// The approval mode of a run holds from its start and can be changed.
func TestApprovalMode(t *testing.T) {
	w := newServer(t, setup{})
	begin := func(more string) (string, *stream) {
		var run struct{ ID, ToolApprovalMode string }
		w.ok("POST", "/api/v1/agents", `{"interaction":"demo","data":{"task":"/approve deploy {}"},"interactive":true`+more+`}`, &run)
		return run.ID, w.stream(run.ID, "")
	}
	released := func(m compactMessage) bool {
		return strings.Contains(string(m.D), `"approval_decision":"auto_approved"`)
	}

	id, s := begin(`,"tool_approval_mode":"full_control"`)
	s.until(is(Idle))
	free := 0
	for _, m := range s.seen {
		if m.T == RequestInput || m.T == Question && m.M != "/approve deploy {}" {
			t.Errorf("somebody is asked: %+v", m)
		}
		if released(m) {
			free++
		}
	}
	if free != 1 {
		t.Errorf("it is said %d times that nobody is asked", free)
	}
	// Change back to ask.
	w.signal(id, "ToolApprovalModeChanged", `{"mode":"ask"}`)
	w.signal(id, "UserInput", `{"message":"/approve again {}"}`)
	s.until(is(RequestInput))
	w.signal(id, "UserInput", `{"message":"deny"}`)
	s.until(func(m compactMessage) bool { return m.T == Answer && strings.Contains(m.M, "Denied") })

	// auto_review approves only tools with a low risk; this one has none.
	id, s = begin(`,"tool_approval_mode":"auto_review"`)
	s.until(is(RequestInput))
	if st := w.state(id); len(st.Prompts) != 1 {
		t.Errorf("%d questions are open", len(st.Prompts))
	}
	if code, got, _ := w.Call("POST", "/api/v1/agents", `{"interaction":"demo","data":{"task":"x"},"tool_approval_mode":"whatever"}`); code != 400 || !strings.Contains(got, "auto_review") {
		t.Errorf("%d %s", code, got)
	}
}

// The agent gets the settings of the start and of signals.
func TestRunSettings(t *testing.T) {
	w := newServer(t, setup{})
	var run struct {
		ID   string
		Mode string `json:"tool_approval_mode"`
	}
	w.ok("POST", "/api/v1/agents", `{"interaction":"demo","data":{"task":"hi"},"interactive":true,"tool_approval_mode":"auto_review",
		"config":{"model":"m1","model_options":{"effort":"low"}},"tool_names":["calc","+draw"],"excluded_tools":["draw"],"disabled_mcp_collections":["crm"]}`, &run)
	same := func(want chat.Settings) {
		t.Helper()
		if got := w.state(run.ID).Session.Settings; !got.Same(&want) {
			t.Errorf("settings are %+v, want %+v", got, want)
		}
	}
	want := chat.Settings{Approvals: chat.ApproveReview, Model: "m1", Effort: "low", Tools: []string{"calc", "+draw", "-draw"}, Without: []string{"crm"}}
	same(want)
	w.signal(run.ID, "ModelConfigChanged", `{"model":"m2","effort":null}`)
	want.Model, want.Effort = "m2", ""
	same(want)
	w.signal(run.ID, "ModelConfigChanged", `{"effort":"high"}`)
	want.Effort = "high"
	same(want)
	w.signal(run.ID, "McpConfigChanged", `{}`)
	same(want)
	w.signal(run.ID, "McpConfigChanged", `{"disabled_mcp_collections":[]}`)
	want.Without = nil
	same(want)
	w.ok("POST", "/api/v1/agents/"+run.ID+"/status", `{"tool_approval_mode":"ask","model":"m3"}`, &run)
	want.Approvals, want.Model = chat.ApproveAsk, "m3"
	same(want)
	if run.Mode != "ask" {
		t.Errorf("the run says its mode is %q", run.Mode)
	}
	// Tools of a disabled server are not available.
	var tools struct{ Tools []Tool }
	for _, without := range []string{`["crm"]`, `[]`} {
		var free struct{ ID string }
		w.ok("POST", "/api/v1/agents", `{"interaction":"demo","data":{"task":"hi"},"interactive":true}`, &free)
		w.signal(free.ID, "McpConfigChanged", `{"disabled_mcp_collections":`+without+`}`)
		w.ok("GET", "/api/v1/agents/"+free.ID+"/query/AvailableTools", "", &tools)
		if has := slices.ContainsFunc(tools.Tools, func(t Tool) bool { return t.Name == "crm__find" }); has != (without == "[]") || len(tools.Tools) < 2 {
			t.Errorf("without %s there are %+v", without, tools.Tools)
		}
	}
	w.ok("GET", "/api/v1/agents/"+run.ID+"/query/AvailableTools", "", &tools)
	if len(tools.Tools) != 1 || tools.Tools[0] != (Tool{Name: "calc", Description: "adds"}) {
		t.Errorf("available are %+v", tools.Tools)
	}
	if st := w.state(run.ID); st.Compact != 0 {
		t.Error("it is to be summarised without a word")
	}
	w.signal(run.ID, "TriggerCheckpoint", `{"reason":"manual"}`)
	if st := w.state(run.ID); st.Compact != st.Last {
		t.Errorf("%d is to be summarised, the last is %d", st.Compact, st.Last)
	}
	// A fork does not inherit approvals.
	w.signal(run.ID, "ToolApprovalModeChanged", `{"mode":"full_control"}`)
	var fork struct{ ID string }
	w.ok("POST", "/api/v1/agents/"+run.ID+"/fork", "", &fork)
	if s := w.state(fork.ID).Session.Settings; s.Approvals != "" || s.Model != "m3" {
		t.Errorf("the fork has %+v", s)
	}
}

// state is the state of a run.
func (w *testServer) state(id string) *chat.State {
	w.t.Helper()
	st, err := w.Sessions.State(w.t.Context(), chat.Trusted, chat.SessionID(id))
	if err != nil {
		w.t.Fatal(err)
	}
	return st
}

// Two nodes of a cluster have a dialect each, with its own locks.
func TestChangesAtTwoNodesAreBothKept(t *testing.T) {
	w := newServer(t, setup{})
	var run struct{ ID string }
	w.ok("POST", "/api/v1/agents", `{"interaction":"demo","data":{"task":"hello"},"interactive":true}`, &run)
	nodes := []*Dialect{w.dialect, New(w.dialect.opt)}
	const each = 25
	var wg sync.WaitGroup
	for i, d := range nodes {
		wg.Go(func() {
			for n := range each {
				if err := d.change(t.Context(), chat.Trusted, chat.SessionID(run.ID), map[string]any{fmt.Sprintf("key-%d-%d", i, n): n}, nil); err != nil {
					t.Errorf("node %d, change %d: %v", i, n, err)
				}
			}
		})
	}
	wg.Wait()
	sess, err := w.Sessions.Get(t.Context(), chat.Trusted, chat.SessionID(run.ID))
	if err != nil {
		t.Fatal(err)
	}
	m := metaOf(&sess)
	for i := range nodes {
		for n := range each {
			if key := fmt.Sprintf("key-%d-%d", i, n); string(m[key]) != fmt.Sprint(n) {
				t.Errorf("%s is %q", key, m[key])
			}
		}
	}
}
