package llm

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/parley-hq/parley/chat"
)

// Speaking returns the id that the message gets in the log, whatever events come in
// between; no id is returned for two messages.
func TestSpeakingTellsTheName(t *testing.T) {
	s := newScript()
	s.user("q")
	f := NewFold(Options{})
	apply := func() {
		for i := range s.events {
			if s.events[i].Seq > f.at {
				f.Apply(&s.events[i])
			}
		}
	}
	begin := func(want int) {
		t.Helper()
		apply()
		id, step := f.Speaking(s.turn(""))
		s.user("in between") // waits until the turn ends
		s.agent(chat.AgentStatus{Message: "busy"})
		s.add(chat.Draft{Body: chat.WorkstreamLaunched{ID: fmt.Sprint("w", want), Task: "dig"}}, mira, "")
		s.add(chat.Draft{Body: chat.WorkstreamCompleted{ID: fmt.Sprint("w", want), Summary: "gold"}}, chat.System, "")
		apply()
		if again, _ := f.Speaking(s.turn("")); again != id {
			t.Errorf("the name changed from %s to %s", id, again)
		}
		s.agent(chat.AgentText{Text: "said"})
		apply()
		ms := f.Messages()
		if m := ms[len(ms)-1]; len(ms) != want || m.ID != id || m.StepID != step {
			t.Errorf("%d messages, the last is %s (%s); told were %s (%s)", len(ms), m.ID, m.StepID, id, step)
		}
	}
	begin(4)
	s.agent(chat.AgentToolCall{CallID: "c1", Tool: "f"})
	s.agent(chat.AgentToolResult{CallID: "c1", Tool: "f"})
	begin(8)
	s.agent(chat.AgentApprovalRequest{RequestID: "r1", Calls: []chat.ApprovalCall{{CallID: "c2", Tool: "f"}}})
	begin(12)
	s.done()
	apply()
	seen := map[string]bool{}
	for _, m := range append(f.Messages(), f.Waiting()...) {
		if seen[m.ID] {
			t.Errorf("%s is there twice", m.ID)
		}
		seen[m.ID] = true
	}
}

// No two messages of a session have the same id.
func TestIDsAreUnique(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := randomLog(rt, 60)
		seen := map[string]bool{}
		for _, m := range foldAll(s.events, Options{}) {
			if seen[m.ID] {
				rt.Fatalf("%s is there twice", m.ID)
			}
			seen[m.ID] = true
		}
	})
}

// The sender's fields of a message are in the message.
func TestSaid(t *testing.T) {
	for context, want := range map[string]Message{
		`{"letta":{"role":"system","name":"Ada","group_id":"g","batch_item_id":"b","more":1}}`: {Role: System, Name: "Ada", GroupID: "g", BatchItemID: "b"},
		`{"letta":"other words"}`:        {Role: User, Name: "Mira"},
		`{"page":{"letta":1}}`:           {Role: User, Name: "Mira"},
		`{"letta":{"role":"assistant"}}`: {Role: User, Name: "Mira"},
	} {
		s := newScript()
		s.add(chat.Draft{Body: chat.UserMessage{Text: "x", Context: json.RawMessage(context)}}, mira, "")
		m := foldAll(s.events, Options{})[0]
		if m.Role != want.Role || m.Name != want.Name || m.GroupID != want.GroupID || m.BatchItemID != want.BatchItemID {
			t.Errorf("%s: %s", context, m.AppendJSON(nil))
		}
	}
}
