package session

import (
	"slices"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// The settings of a session approve an agent's request in the same commit.
func TestSettingsApproveInTheSameCommit(t *testing.T) {
	w := newTestStore(t, Options{})
	w.begin("s", chat.NewSession{Agent: "demo"})
	if _, err := w.Update(ctx, ann, "s", chat.SessionUpdated{Settings: &chat.Settings{Approvals: chat.ApproveAll}}); err != nil {
		t.Fatal(err)
	}
	w.say("s", "go")
	w.launch("s", chat.Launch{ID: "child"})
	ask := func(line, call string, always bool) {
		t.Helper()
		draft := chat.NewDraft(chat.AgentApprovalRequest{Calls: []chat.ApprovalCall{{CallID: call, Tool: "deploy", Always: always}}})
		draft.Workstream = line
		draft.Turn = w.turnOf("s", line).Turn
		if _, err := w.Append(ctx, bot, "s", []chat.Draft{draft}); err != nil {
			t.Fatal(err)
		}
	}
	ask("", "c1", false)
	ask("child", "c2", false)
	st := w.state("s")
	if len(st.Prompts) != 0 || st.Workstreams[0].Phase == chat.PhaseBlocked {
		t.Errorf("%d questions are open, the child is %s", len(st.Prompts), st.Workstreams[0].Phase)
	}
	ask("child", "c3", true)
	if st := w.state("s"); len(st.Prompts) != 1 || st.Workstreams[0].Phase != chat.PhaseBlocked {
		t.Errorf("%d questions are open, the child is %s", len(st.Prompts), st.Workstreams[0].Phase)
	}
	if _, err := w.Update(ctx, ann, "s", chat.SessionUpdated{Settings: &chat.Settings{Approvals: "whoever"}}); chat.CodeOf(err) != chat.Invalid {
		t.Errorf("approvals that nobody knows: %v", err)
	}
}

// The end of a turn has the acknowledgement of the stop request.
func TestTurnEndHasTheAcknowledgementOfTheStop(t *testing.T) {
	w := newTestStore(t, Options{})
	w.begin("s", chat.NewSession{Agent: "demo"})
	w.say("s", "go")
	if _, err := w.StopAs(ctx, ann, "s", "", "enough", "stop-1"); err != nil {
		t.Fatal(err)
	}
	w.end(w.turnOf("s", ""), chat.Stopped)
	w.say("s", "again")
	w.finish("s", "")
	var acks []string
	for _, e := range w.events("s") {
		if b, ok := e.Body.(chat.TurnCompleted); ok {
			acks = append(acks, b.Ack)
		}
	}
	if !slices.Equal(acks, []string{"stop-1", ""}) {
		t.Errorf("the ends name %q", acks)
	}
}
