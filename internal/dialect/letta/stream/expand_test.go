package stream

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/internal/llm"
)

const id = "message-123e4567-e89b-42d3-a456-426614174fff"

func call(name, args string) llm.ToolCall {
	return llm.ToolCall{ID: "call-" + name, Name: name, Arguments: args}
}

// line is an item in one line: kind, the end of its otid, what it says.
func line(it Item) string {
	says := it.text
	for _, c := range it.calls {
		says += c.Name + " "
	}
	for i := range it.returns {
		says += returnText(&it.returns[i]) + " "
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s%s", it.Kind, it.otid[len(it.otid)-3:], says, map[bool]string{true: "/" + it.signature}[it.signature != ""]))
}

func lines(items []Item) string {
	var out []string
	for _, it := range items {
		out = append(out, line(it))
	}
	return strings.Join(out, "\n")
}

func TestExpand(t *testing.T) {
	reasoning := func(text, signature string) llm.Part {
		return &llm.Reasoning{Native: true, Text: text, Signature: signature}
	}
	said := func(text string) llm.Part { return &llm.Text{Text: text} }
	for _, c := range []struct {
		name      string
		m         llm.Message
		summaries bool
		want      string
	}{
		{"all there is", llm.Message{Role: llm.Assistant, Content: []llm.Part{
			reasoning("R1", "S"), reasoning("R2", ""), said("hello "), said("world"), &llm.RedactedReasoning{Data: "D"}, &llm.OmittedReasoning{},
		}, ToolCalls: []llm.ToolCall{call("a", "{}"), call("b", "{}"), call("c", "{}")}}, false, `
reasoning_message f80 R1R2/S
assistant_message f81 hello world
hidden_reasoning_message f82 D
hidden_reasoning_message f83
tool_call_message f84 a b c`},
		{"a summary of reasoning", llm.Message{Role: llm.Assistant, Content: []llm.Part{
			&llm.SummarizedReasoning{ID: "r", Summary: []llm.SummaryText{{Text: "one"}, {Text: "two"}}, Encrypted: "E"}, &llm.SummarizedReasoning{ID: "s"}, said("x"),
		}}, false, "reasoning_message f80 one\n\ntwo/E\nassistant_message f81 x"},
		{"a call among the content is not shown twice", llm.Message{Role: llm.Assistant, Content: []llm.Part{
			&llm.CallPart{ID: "call-a", Name: "a", Input: json.RawMessage("{}")}}, ToolCalls: []llm.ToolCall{call("a", "{}")}}, false, "tool_call_message f80 a"},
		{"a person", llm.Message{Role: llm.User, OTID: "otid-abc", Content: llm.Texts("hi")}, false, "user_message abc hi"},
		{"a person without an otid", llm.Message{Role: llm.User, Content: llm.Texts("hi")}, false, "user_message fff hi"},
		{"a text that is JSON", llm.Message{Role: llm.User, OTID: "abc", Content: llm.Texts(`{"type":"user_message","message":"hi"}`)}, false, `user_message abc {"type":"user_message","message":"hi"}`},
		{"system", llm.Message{Role: llm.System, OTID: "abc", Content: llm.Texts("be kind")}, false, "system_message abc be kind"},
		{"a summary is a person's unless asked for", llm.Message{Role: llm.Summary, OTID: "abc", Content: llm.Texts(`{"type":"system_alert","message":"past"}`)}, false,
			`user_message abc {"type":"system_alert","message":"past"}`},
		{"a summary", llm.Message{Role: llm.Summary, OTID: "abc", Content: llm.Texts(`{"type":"system_alert","message":"past"}`)}, true, "summary_message abc past"},
		{"tools", llm.Message{Role: llm.Tool, ToolReturns: []llm.ToolReturn{
			{ToolCallID: "a", Status: llm.Success, Text: llm.PackResult(true, json.RawMessage(`{"n": 1}`), time.Time{})}, {ToolCallID: "b", Status: llm.Success, Text: "plain"},
		}}, false, `tool_return_message f80 {"n":1} plain`},
		{"a request", llm.Message{Role: llm.Approval, OTID: id, Content: []llm.Part{reasoning("why", "")}, ToolCalls: []llm.ToolCall{call("rm", "{}")}}, false,
			"reasoning_message f80 why\napproval_request_message fff rm"},
		{"an answer", llm.Message{Role: llm.Approval, OTID: "abc", Approvals: []llm.Verdict{&llm.ToolApproval{ToolCallID: "a", Approve: true}}}, false, "approval_response_message abc"},
	} {
		c.m.ID = id
		if got := lines(Expand(&c.m, c.summaries)); got != strings.TrimPrefix(c.want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestOTID(t *testing.T) {
	for n, want := range map[int]string{0: "123e4567-e89b-42d3-a456-426614174f80", 2: "123e4567-e89b-42d3-a456-426614174f82", -1: id} {
		if got := otidOf(id, n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
