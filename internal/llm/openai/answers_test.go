package openai

import (
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/internal/convert"
	"github.com/parley-hq/parley/internal/llm/llmtest"
)

func TestChatAnswers(t *testing.T) {
	name := convert.ToolNames(llmtest.Dotted.Tools, maxName, "").Of("a.b")
	a, err := FromChat(llmtest.From[sdk.ChatCompletion](t, `{"model":"m-2026","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"hi","reasoning_content":"hm",
		"tool_calls":[{"id":"c1","type":"function","function":{"name":"`+name+`","arguments":"{\"x\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{\"y\":\"cut"}}]}}],
		"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}}`), llmtest.Dotted)
	if err != nil {
		t.Fatal(err)
	}
	whole := `{"role":"assistant","model":"m","content":[{"type":"reasoning","is_native":true,"reasoning":"hm"},{"type":"text","text":"hi"}],` + llmtest.CutCalls + `}`
	llmtest.Check(t, a, llm.StopCalls, whole)
	if a.Usage != (chat.Usage{InputTokens: 10, OutputTokens: 5, CacheReadTokens: 4, ReasoningTokens: 2}) {
		t.Errorf("usage %+v", a.Usage)
	}

	s := ChatStream{Meta: llmtest.Dotted}
	a, deltas := llmtest.Streamed(t, `
		{"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"h"}}]}
		{"choices":[{"index":0,"delta":{"reasoning_content":"m"}}]}
		{"choices":[{"index":0,"delta":{"content":"h"}}]}
		{"choices":[{"index":0,"delta":{"content":"i"}}]}
		{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"`+name+`","arguments":""}},{"index":1,"id":"c2","function":{"name":"g","arguments":"{\"y\""}}]}}]}
		{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}]}}]}
		{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"other","function":{"arguments":":\"cut"}}]},"finish_reason":"tool_calls"}]}
		{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`, s.Add, s.Answer)
	llmtest.Check(t, a, llm.StopCalls, whole)
	if want := `thinking(h)thinking(m)text(h)text(i)call(c1)call(c2{"y")call(c1{"x":1})call(c2:"cut)`; deltas != want {
		t.Errorf("deltas %s", deltas)
	}
	if a.Usage.InputTokens != 10 {
		t.Errorf("usage %+v", a.Usage)
	}

	// A model of OpenAI that reasons shows nothing of it, but it did.
	a, err = FromChat(llmtest.From[sdk.ChatCompletion](t, `{"choices":[{"finish_reason":"length","message":{"content":"x"}}]}`), llm.Meta{Model: "gpt-5-mini"})
	if err != nil {
		t.Fatal(err)
	}
	llmtest.Check(t, a, llm.StopLength, `{"role":"assistant","model":"gpt-5-mini","content":[{"type":"omitted_reasoning"},{"type":"text","text":"x"}]}`)

	// All of it in the reasoning: that is the answer.
	d := ChatStream{Meta: llm.Meta{Model: "deepseek"}}
	a, _ = llmtest.Streamed(t, `{"choices":[{"index":0,"delta":{"reasoning_content":"42"},"finish_reason":"stop"}]}`, d.Add, d.Answer)
	llmtest.Check(t, a, llm.StopEnd, `{"role":"assistant","model":"deepseek","content":[{"type":"text","text":"42"}]}`)

	for _, empty := range []string{`{"choices":[]}`, `{"choices":[{"finish_reason":"stop","message":{"content":null}}]}`} {
		if _, err := FromChat(llmtest.From[sdk.ChatCompletion](t, empty), llm.Meta{Model: "gpt-5"}); chat.CodeOf(err) != chat.Unavailable {
			t.Errorf("%s: %v", empty, err)
		}
	}
}

func TestResponsesAnswers(t *testing.T) {
	name := convert.ToolNames(llmtest.Dotted.Tools, maxName, "").Of("a.b")
	output := `[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"one"},{"type":"summary_text","text":"two"}],"encrypted_content":"enc"},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"first"},{"type":"output_text","text":"second"}]},
		{"type":"function_call","id":"fc_1","call_id":"c1","name":"` + name + `","arguments":"{\"x\":1}"},
		{"type":"function_call","id":"fc_2","call_id":"c2","name":"g","arguments":"{\"y\":\"cut\"}"}]`
	output = strings.ReplaceAll(strings.ReplaceAll(output, "\n", ""), "\t", "")
	done := `{"model":"x","status":"completed","output":` + output + `,"usage":{"input_tokens":9,"output_tokens":3,"total_tokens":12,"input_tokens_details":{"cached_tokens":1},"output_tokens_details":{"reasoning_tokens":2}}}`
	want := `{"role":"assistant","model":"m","content":[{"type":"summarized_reasoning","id":"rs_1","summary":[{"index":0,"text":"one"},{"index":1,"text":"two"}],"encrypted_content":"enc"},
		{"type":"text","text":"first"},{"type":"text","text":"second"}],` + llmtest.TwoCalls + `}`
	a, err := FromResponse(llmtest.From[responses.Response](t, done), llmtest.Dotted)
	if err != nil {
		t.Fatal(err)
	}
	llmtest.Check(t, a, llm.StopCalls, want)
	if a.Usage != (chat.Usage{InputTokens: 9, OutputTokens: 3, CacheReadTokens: 1, ReasoningTokens: 2}) {
		t.Errorf("usage %+v", a.Usage)
	}

	s := ResponsesStream{Meta: llmtest.Dotted}
	a, deltas := llmtest.Streamed(t, `
		{"type":"response.created","response":{"status":"in_progress"}}
		{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":0}
		{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"one"}
		{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":1}
		{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":1,"delta":"two"}
		{"type":"response.output_text.delta","output_index":1,"delta":"first"}
		{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","call_id":"c1","name":"`+name+`"}}
		{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"x\":1}"}
		{"type":"response.completed","response":`+done+`}`, s.Add, s.Answer)
	llmtest.Check(t, a, llm.StopCalls, want)
	if wantDeltas := "thinking(one)thinking(\n\n)thinking(two)text(first)call(c1)call(c1{\"x\":1})"; deltas != wantDeltas {
		t.Errorf("deltas %s", deltas)
	}

	// Cut off: what was finished counts.
	s = ResponsesStream{Meta: llmtest.Dotted}
	a, _ = llmtest.Streamed(t, `{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"half"}]}}`, s.Add, s.Answer)
	llmtest.Check(t, a, llm.StopFailure, `{"role":"assistant","model":"m","content":[{"type":"text","text":"half"}]}`)

	// A place that cannot be is no reason to fall over.
	s = ResponsesStream{}
	s.Add(*llmtest.From[responses.ResponseStreamEventUnion](t, `{"type":"response.output_item.done","output_index":-1,"item":{"type":"message"}}`))

	s = ResponsesStream{}
	s.Add(*llmtest.From[responses.ResponseStreamEventUnion](t, `{"type":"error","code":"rate_limit","message":"slow down"}`))
	if _, err := s.Answer(); chat.CodeOf(err) != chat.Unavailable || !strings.Contains(err.Error(), "slow down") {
		t.Errorf("error event: %v", err)
	}
	a, err = FromResponse(llmtest.From[responses.Response](t, `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","content":[{"type":"output_text","text":"x"}]}]}`), llm.Meta{})
	if err != nil || a.Stop != llm.StopLength {
		t.Errorf("%v %v", a.Stop, err)
	}
}
