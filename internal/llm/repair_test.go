package llm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func dump(ms []Message) []byte {
	b, err := json.Marshal(ms)
	if err != nil {
		panic(err)
	}
	return b
}

func TestRepairExamples(t *testing.T) {
	short := func(ms []Message) string {
		var out []string
		for i := range ms {
			s := string(ms[i].Role)
			for _, c := range ms[i].ToolCalls {
				s += " " + c.ID
			}
			for _, r := range ms[i].ToolReturns {
				s += fmt.Sprintf(" %s=%s", r.ToolCallID, clip(r.Text))
			}
			out = append(out, s)
		}
		return strings.Join(out, "; ")
	}
	call := func(role Role, ids ...string) Message {
		m := Message{Role: role, Content: Texts("t")}
		for _, id := range ids {
			m.ToolCalls = append(m.ToolCalls, ToolCall{ID: id, Name: "f", Arguments: "{}"})
		}
		return m
	}
	tool := func(pairs ...string) Message {
		m := Message{Role: Tool}
		for _, p := range pairs {
			id, text, _ := strings.Cut(p, "=")
			m.ToolReturns = append(m.ToolReturns, ToolReturn{ToolCallID: id, Status: Success, Text: text})
		}
		return m
	}
	user := Message{Role: User, Content: Texts("u")}
	deny := Message{Role: Approval, Approvals: []Verdict{&ToolApproval{ToolCallID: "c0", Reason: "no"}}}
	allow := Message{Role: Approval, Approvals: []Verdict{&ToolApproval{ToolCallID: "c0", Approve: true}}}
	ran := Message{Role: Approval, Approvals: []Verdict{&ToolReturn{ToolCallID: "c0", Status: Success, Text: "mine"}}}
	summary := Message{Role: Summary, Content: Texts("s")}
	const lost = "Error: this tool call has no result; it was cut off and may …"
	for _, c := range []struct {
		name string
		in   []Message
		want string
	}{
		{"a request is joined with the assistant message before it", []Message{user, call(Assistant, "c0"), call(Approval, "c1", "c0"), allow, tool("c0=a", "c1=b", "c1=again")}, "user; assistant c0 c1; tool c0=a c1=b"},
		{"a request alone", []Message{call(Approval, "c0")}, ""},
		{"an open request at the end is omitted with the calls of its step", []Message{user, call(Assistant, "c1"), call(Approval, "c0")}, "user"},
		{"a text before an open request is kept", []Message{user, call(Assistant), call(Approval, "c0")}, "user; assistant"},
		{"a request before a summary is omitted", []Message{user, call(Approval, "c0"), summary, allow, user}, "user; summary; user"},
		{"a call without a result", []Message{user, call(Assistant, "c0"), user}, "user; assistant c0; tool c0=" + lost + "; user"},
		{"a result without a call", []Message{user, tool("c9=x"), user}, "user; user"},
		{"a late result is moved behind its call", []Message{user, call(Assistant, "c0", "c1"), tool("c0=a"), user, tool("c1=b")}, "user; assistant c0 c1; tool c0=a c1=b; user"},
		{"a denial is a result", []Message{user, call(Approval, "c0"), deny, user}, "user; assistant c0; tool c0=" + clip(denial("no")) + "; user"},
		{"a client's result is a result", []Message{user, call(Approval, "c0"), ran, user}, "user; assistant c0; tool c0=mine; user"},
		{"a result in the log replaces the client's", []Message{user, call(Approval, "c0"), ran, tool("c0=theirs")}, "user; assistant c0; tool c0=theirs"},
		{"a repeated id is made unique", []Message{user, call(Assistant, "c0"), tool("c0=a"), call(Assistant, "c0"), tool("c0=b")}, "user; assistant c0; tool c0=a; assistant c0_2; tool c0_2=b"},
		{"a repeated call without a result is omitted", []Message{user, call(Approval, "c0"), allow, call(Assistant, "c0"), tool("c0=a")}, "user; assistant c0; tool c0=a; assistant"},
	} {
		before := dump(c.in)
		if got := short(Repair(c.in)); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.name, got, c.want)
		}
		if string(before) != string(dump(c.in)) {
			t.Errorf("%s: changed what it was given", c.name)
		}
	}
}

// The part that marks where a call is stays with the call when the approval request
// is joined with its assistant message; a second repair changes nothing.
func TestRepairKeepsThePlaceOfACall(t *testing.T) {
	part := &CallPart{ID: "c1", Name: "f", Input: json.RawMessage("{}"), Signature: "s"}
	once := Repair([]Message{
		{Role: Assistant, Content: []Part{part}},
		{Role: Approval, Content: []Part{}, ToolCalls: []ToolCall{{ID: "c1", Name: "f", Arguments: "{}"}}},
		{Role: User, Content: Texts("q")},
	})
	if len(once) != 3 || len(once[0].Content) != 1 || len(once[0].ToolCalls) != 1 {
		t.Errorf("%s", dump(once))
	}
	if twice := Repair(once); string(dump(once)) != string(dump(twice)) {
		t.Errorf("again\n%s\n%s", dump(once), dump(twice))
	}
}
