package chat_test

import (
	"encoding/json"
	"testing"

	"github.com/parley-hq/parley/chat"
)

func TestClientToolsAreReadFromTheContext(t *testing.T) {
	for context, want := range map[string]int{
		"":                      0,
		"{}":                    0,
		`{"client_tools":null}`: 0,
		`{"client_tools":5}`:    0,
		`{"client_tools":[{"name":"a","parameters":{"type":"object"}},{"name":""},{"description":"x"},{"name":"b"}]}`: 2,
	} {
		m := chat.UserMessage{Text: "x", Context: json.RawMessage(context)}
		if got := m.ClientTools(); len(got) != want {
			t.Errorf("%s: %v", context, got)
		}
	}
}

// A result is accepted for a tool that the answerer runs, and for no other.
func TestOnlyClientToolsAreAnsweredWithResults(t *testing.T) {
	theirs, ours := chat.ApprovalCall{CallID: "c", Tool: "t", Client: true}, chat.ApprovalCall{CallID: "c", Tool: "t"}
	for _, c := range []struct {
		call chat.ApprovalCall
		d    chat.Decision
		ok   bool
	}{
		{theirs, chat.Decision{CallID: "c", Approve: true, Result: []byte(`1`)}, true},
		{theirs, chat.Decision{CallID: "c", Approve: true, Error: "it broke"}, true},
		{theirs, chat.Decision{CallID: "c", Reason: "no"}, true},
		{theirs, chat.Decision{CallID: "c", Approve: true}, false},
		{theirs, chat.Decision{CallID: "c", Result: []byte(`1`)}, false},
		{theirs, chat.Decision{CallID: "c", Error: "it broke"}, false},
		{theirs, chat.Decision{CallID: "c", Approve: true, Error: "it broke", Result: []byte(`1`)}, false},
		{ours, chat.Decision{CallID: "c", Approve: true}, true},
		{ours, chat.Decision{CallID: "c", Approve: true, Result: []byte(`1`)}, false},
		{ours, chat.Decision{CallID: "c", Approve: true, Error: "it broke"}, false},
	} {
		p := chat.Prompt{RequestID: "p", Approval: &chat.AgentApprovalRequest{Calls: []chat.ApprovalCall{c.call}}}
		_, err := p.Accept(chat.UserApprovalResponse{RequestID: "p", Decisions: []chat.Decision{c.d}})
		if (err == nil) != c.ok || err != nil && chat.CodeOf(err) != chat.Invalid {
			t.Errorf("%+v, %+v: %v", c.call, c.d, err)
		}
	}
}
